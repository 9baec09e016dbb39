// Data channels to a Festina server: opens them, opens them again, measures, and repeats small messages until the server has them.

/** The protocol by which a server knows a channel whose messages are repeated. */
const REPEATED = "repeat.festina";
const [BINARY, TEXT] = [0, 1];
/** First character of an acknowledgement. A text of the server that begins with it begins with two. */
const ACKNOWLEDGES = "\u0006";
const FRAME_BYTES = 5;
/** Messages that wait for an acknowledgement; an older one is not repeated. */
const WAITING_MAX = 256;

const now = () => performance.now();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** One channel of a connection. It stays the same when the connection is made again. */
class Channel extends EventTarget {
  #label;
  #options;
  #channel;
  #number = 0;
  #waiting = new Map();
  #smoothed;
  #variation = 0;
  #counts = { sent: 0, received: 0, repeated: 0, acknowledged: 0, lost: 0 };
  onmessage = null;

  constructor(label, options) {
    super();
    this.#label = label;
    this.#options = options;
  }

  get label() {
    return this.#label;
  }

  get readyState() {
    return this.#channel?.readyState ?? "connecting";
  }

  /** The data channel of the browser that is used now. */
  get raw() {
    return this.#channel;
  }

  stats() {
    return { ...this.#counts, waiting: this.#waiting.size, roundTrip: this.#smoothed };
  }

  /** Returns whether the message was given to an open channel. */
  send(data) {
    if (this.#channel?.readyState !== "open") return false;
    if (this.#options.repeat) {
      this.#first(data);
    } else {
      this.#channel.send(data);
    }
    this.#counts.sent += 1;
    return true;
  }

  /** Opens the channel in a connection that is being made; `adopt` follows if the connection is the one to use. */
  open(connection) {
    const { repeat, ...options } = this.#options;
    const init = repeat ? { ...options, protocol: REPEATED, ordered: false, maxRetransmits: 0 } : options;
    const channel = connection.createDataChannel(this.#label, init);
    channel.binaryType = "arraybuffer";
    return channel;
  }

  adopt(channel) {
    this.leave();
    this.#channel = channel;
    channel.onmessage = ({ data }) => this.#received(data);
  }

  /** The connection is over: what was not acknowledged is lost. */
  leave() {
    for (const waiting of this.#waiting.values()) clearTimeout(waiting.timer);
    this.#counts.lost += this.#waiting.size;
    this.#waiting.clear();
    this.#number = 0;
    if (this.#channel) this.#channel.onmessage = null;
    this.#channel = undefined;
  }

  #first(data) {
    const isText = typeof data === "string";
    const bytes = isText ? new TextEncoder().encode(data) : new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength);
    const frame = new Uint8Array(FRAME_BYTES + bytes.length);
    const number = this.#number;
    this.#number = (number + 1) >>> 0;
    new DataView(frame.buffer).setUint32(1, number);
    frame[0] = isText ? TEXT : BINARY;
    frame.set(bytes, FRAME_BYTES);
    this.#channel.send(frame);
    this.#waiting.set(number, { frame, at: now(), repeats: 0, timer: this.#arm(number, 1) });
    if (this.#waiting.size > WAITING_MAX) this.#forget(this.#waiting.keys().next().value);
  }

  /** Repeats after the time in which the acknowledgement should have come (RFC 6298 with a lower bound of 20 ms), then less and less often. */
  #arm(number, factor) {
    const pause = this.#smoothed === undefined ? 250 : this.#smoothed + Math.max(4 * this.#variation, 20);
    return setTimeout(() => this.#repeat(number), Math.min(pause * factor, 2000));
  }

  #repeat(number) {
    const waiting = this.#waiting.get(number);
    if (waiting.repeats >= (this.#options.repeat.times ?? 5) || this.#channel?.readyState !== "open") {
      this.#forget(number);
      return;
    }
    waiting.repeats += 1;
    this.#counts.repeated += 1;
    this.#channel.send(waiting.frame);
    waiting.timer = this.#arm(number, waiting.repeats < 3 ? 1 : 2 ** (waiting.repeats - 2));
  }

  #forget(number) {
    clearTimeout(this.#waiting.get(number).timer);
    this.#waiting.delete(number);
    this.#counts.lost += 1;
  }

  #received(data) {
    if (this.#options.repeat && data[0] === ACKNOWLEDGES) {
      if (data[1] !== ACKNOWLEDGES) return this.#acknowledged(data);
      data = data.slice(1);
    }
    this.#counts.received += 1;
    const event = new MessageEvent("message", { data });
    this.onmessage?.(event);
    this.dispatchEvent(event);
  }

  /** The number that has come, and which of the 32 before it have. */
  #acknowledged(text) {
    const [number, before] = [text.slice(1, 9), text.slice(9)].map((digits) => parseInt(digits, 16));
    this.#measure(this.#waiting.get(number));
    this.#has(number);
    for (let bit = 0; bit < 32; bit += 1) {
      if ((before >>> bit) & 1) this.#has((number - 1 - bit) >>> 0);
    }
  }

  #has(number) {
    const waiting = this.#waiting.get(number);
    if (!waiting) return;
    clearTimeout(waiting.timer);
    this.#waiting.delete(number);
    this.#counts.acknowledged += 1;
  }

  /** An acknowledgement of a repeated message does not tell which transmission it is for. */
  #measure(waiting) {
    if (!waiting || waiting.repeats > 0) return;
    const sample = now() - waiting.at;
    if (this.#smoothed === undefined) {
      [this.#smoothed, this.#variation] = [sample, sample / 2];
    } else {
      this.#variation += (Math.abs(this.#smoothed - sample) - this.#variation) / 4;
      this.#smoothed += (sample - this.#smoothed) / 8;
    }
  }
}

/** A connection with its channels, made again when it is lost. */
class Connection extends EventTarget {
  #options;
  #channels = {};
  #current;
  #closed = false;
  #counts = { opened: 0, attempts: 0, openTime: undefined };

  constructor(options) {
    super();
    this.#options = { hedge: 600, patience: 10_000, pause: 250, pauseMax: 8_000, ...options };
    for (const [label, channel] of Object.entries(options.channels)) this.#channels[label] = new Channel(label, channel);
    this.ready = new Promise((ready, fail) => this.#keep(ready, fail));
    // Whoever does not wait for it listens to `lost`.
    this.ready.catch(() => {});
  }

  /** The channels by their labels. */
  get channels() {
    return this.#channels;
  }

  get isOpen() {
    return this.#current !== undefined;
  }

  /** The browser's connection that is used now. */
  get raw() {
    return this.#current?.connection;
  }

  async stats() {
    let roundTrip;
    for (const report of (await this.raw?.getStats())?.values() ?? []) {
      if (report.type === "candidate-pair" && report.nominated) roundTrip = report.currentRoundTripTime * 1000;
    }
    return { ...this.#counts, roundTrip };
  }

  /** Takes the connection up again on another network; it happens by itself when the browser says that the connection is interrupted. */
  restart() {
    return this.#current?.restart();
  }

  close() {
    this.#closed = true;
    this.#current?.end("closed");
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  async #keep(ready, fail) {
    for (let failures = 0; !this.#closed; ) {
      const begun = now();
      try {
        const current = await this.#race();
        if (this.#closed) {
          current.end("closed");
          break;
        }
        failures = 0;
        this.#current = current;
        this.#counts.opened += 1;
        this.#counts.openTime = now() - begun;
        for (const [label, channel] of Object.entries(this.#channels)) channel.adopt(current.channels[label]);
        ready(this);
        this.#tell("open", { time: this.#counts.openTime });
        const reason = await current.ended;
        this.#current = undefined;
        for (const channel of Object.values(this.#channels)) channel.leave();
        this.#tell("lost", { reason });
      } catch (error) {
        failures += 1;
        this.#tell("lost", { reason: error.message });
        // The server has refused the offer: asking again would not help.
        if (error.isFinal) break;
      }
      if (!this.#closed && failures > 0) {
        const { pause, pauseMax } = this.#options;
        await sleep(Math.min(pause * 2 ** (failures - 1), pauseMax) * (0.75 + Math.random() / 2));
      }
    }
    this.#closed = true;
    fail(new Error("the connection was not made"));
  }

  /** Begins an attempt, and a second one beside it when the first is late: a browser waits a second before it repeats a lost packet of the handshake. */
  #race() {
    const { hedge, patience } = this.#options;
    const begun = [];
    return new Promise((won, lost) => {
      let failed = 0;
      let isOver = false;
      const settle = (settled, value) => {
        if (isOver) return;
        isOver = true;
        clearTimeout(second);
        clearTimeout(last);
        for (const attempt of begun) if (attempt !== value) attempt.end("not needed");
        settled(value);
      };
      const begin = () => {
        const attempt = new Attempt(this.#options, this.#channels);
        begun.push(attempt);
        this.#counts.attempts += 1;
        attempt.open.then(
          () => settle(won, attempt),
          (error) => {
            failed += 1;
            if (failed === begun.length || error.isFinal) settle(lost, error);
          },
        );
      };
      const second = setTimeout(() => !isOver && begin(), hedge);
      const last = setTimeout(() => settle(lost, new Error(`no connection within ${patience} ms`)), patience);
      begin();
    });
  }
}

/** One connection of the browser, until it ends. */
class Attempt {
  channels = {};
  #options;
  #end;

  constructor(options, channels) {
    this.#options = options;
    this.ended = new Promise((end) => (this.#end = end));
    const connection = new RTCPeerConnection(options.configuration);
    this.connection = connection;
    for (const [label, channel] of Object.entries(channels)) this.channels[label] = channel.open(connection);
    const opening = Object.values(this.channels).map(
      (channel) =>
        new Promise((opened) => {
          channel.onopen = opened;
          channel.onclose = () => this.end("the server has closed a channel");
        }),
    );
    const over = this.ended.then((reason) => Promise.reject(new Error(reason)));
    this.open = Promise.race([Promise.all([this.#offer(), ...opening]), over]);
    this.open.catch(() => {});
    connection.onconnectionstatechange = () => {
      const state = connection.connectionState;
      if (state === "failed" || state === "closed") this.end(`the connection is ${state}`);
      if (state === "disconnected") this.restart();
    };
  }

  end(reason) {
    this.#end(reason);
    this.connection.onconnectionstatechange = null;
    this.connection.close();
  }

  async #offer() {
    const { connection } = this;
    await connection.setLocalDescription();
    const { peer, answer } = await exchange(this.#options.offer, connection.localDescription.sdp);
    this.peer = peer;
    await connection.setRemoteDescription({ type: "answer", sdp: answer });
  }

  /** The network has changed: the same association from another address. */
  async restart() {
    const { connection, peer } = this;
    const { restart } = this.#options;
    if (!restart || peer === undefined) return;
    try {
      await connection.setLocalDescription(await connection.createOffer({ iceRestart: true }));
      const target = typeof restart === "function" ? (sdp) => restart(sdp, peer) : `${restart}/${peer}`;
      const { answer } = await exchange(target, connection.localDescription.sdp);
      await connection.setRemoteDescription({ type: "answer", sdp: answer });
    } catch (error) {
      this.end(`the connection could not be taken up again: ${error.message}`);
    }
  }
}

/** Posts an offer. The answer may begin with a line that names the peer. */
async function exchange(target, sdp) {
  if (typeof target === "function") return target(sdp);
  const response = await fetch(target, { method: "POST", body: sdp, headers: { "content-type": "application/sdp" } });
  const text = await response.text();
  if (!response.ok) {
    const isFinal = response.status >= 400 && response.status < 500 && ![408, 425, 429].includes(response.status);
    throw Object.assign(new Error(text || `the server answers ${response.status}`), { isFinal });
  }
  if (text.startsWith("v=")) return { answer: text };
  const line = text.indexOf("\n");
  return { peer: text.slice(0, line).trim(), answer: text.slice(line + 1) };
}

export const connect = (options) => new Connection(options);
