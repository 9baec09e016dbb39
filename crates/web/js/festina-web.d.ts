/** Settings of a channel: those of the browser, and whether messages are repeated. */
export interface ChannelOptions extends Omit<RTCDataChannelInit, "negotiated" | "id"> {
  /**
   * Sends each message again until the server has acknowledged it, at most `times` (5) times, the first time after about a round trip. The server
   * delivers it once, in any order. For small messages (up to about 1,000 bytes) that are sent now and then; sets `ordered`, `maxRetransmits` and
   * `protocol`.
   */
  repeat?: { times?: number };
}

/** What the server has answered to an offer. */
export interface Answer {
  /** Names the peer when ICE restarts. */
  peer?: string;
  answer: string;
}

export interface ConnectOptions {
  /** Where offers are posted, or a function that brings one to the server. The answer is SDP, with the peer's name in a line before it if there is one. */
  offer: string | ((sdp: string) => Promise<Answer>);
  /** Where the offer of an ICE restart is posted, followed by `/` and the peer's name. Without it, a lost network costs the connection. */
  restart?: string | ((sdp: string, peer: string) => Promise<Answer>);
  /** The channels by their labels; at least one. */
  channels: Record<string, ChannelOptions>;
  configuration?: RTCConfiguration;
  /** A second attempt begins beside one that has taken as many milliseconds: 600. */
  hedge?: number;
  /** Attempts end after as many milliseconds: 10,000. */
  patience?: number;
  /** Milliseconds until the next attempt after a failure, which double up to `pauseMax`: 250 and 8,000, a quarter more or less. */
  pause?: number;
  pauseMax?: number;
}

export interface ChannelStats {
  sent: number;
  received: number;
  /** Copies of repeated messages. */
  repeated: number;
  acknowledged: number;
  /** Messages that were repeated as often as allowed, or whose connection was lost. The server may have them nevertheless. */
  lost: number;
  waiting: number;
  /** Milliseconds from a message to its acknowledgement, smoothed; of repeated channels. */
  roundTrip?: number;
}

/** Fires `message` events like a data channel. */
export interface Channel extends EventTarget {
  readonly label: string;
  readonly readyState: RTCDataChannelState;
  readonly raw: RTCDataChannel | undefined;
  onmessage: ((event: MessageEvent<string | ArrayBuffer>) => void) | null;
  /** Whether the message was given to an open channel. */
  send(data: string | ArrayBuffer | ArrayBufferView): boolean;
  stats(): ChannelStats;
}

export interface ConnectionStats {
  /** Connections that came about. */
  opened: number;
  attempts: number;
  /** Milliseconds that the present connection took. */
  openTime?: number;
  /** Milliseconds, as the browser measures it. */
  roundTrip?: number;
}

/** Fires `open` (`detail.time`, ms) for each connection that comes about, and `lost` (`detail.reason`) for each that ends or fails. */
export interface Connection extends EventTarget {
  readonly channels: Record<string, Channel>;
  readonly isOpen: boolean;
  readonly raw: RTCPeerConnection | undefined;
  /** Resolves at the first `open`; fails if the server refuses the offer. */
  readonly ready: Promise<Connection>;
  stats(): Promise<ConnectionStats>;
  /** Takes the connection up again on another network. It happens by itself when the browser says that the connection is interrupted. */
  restart(): Promise<void> | undefined;
  close(): void;
}

/** Connects to a Festina server, and again whenever the connection is lost, until `close`. */
export function connect(options: ConnectOptions): Connection;
