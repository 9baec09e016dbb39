//! dcSCTP, the stack of WebRTC data channels in Chromium, in its Rust edition.
//!
//! As shipped it spends most of its time on a log line: `LoggingEvents::add` (for every packet sent) and `handle_input`
//! (for every packet received), both in `socket/mod.rs`, call `logging::log_packet` in `lib.rs`, which writes each byte as
//! hexadecimal text into a `String` and only then hands it to `log::info!`, which discards it when no logger listens.

use std::time::Duration;

use ::dcsctp::api::{
    DcSctpSocket, Message as DcMessage, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime, StreamId,
};
use bytes::Bytes;

use crate::peer::{AbortUnsupported, InReturn, Message, PartiallyReliable, Peer, Policy, SendError, Settings, Stack};

/// Factory of dcSCTP sockets.
pub struct DcSctp {
    options: Options,
}

impl Stack for DcSctp {
    type Peer = DcSctpPeer;

    const NAME: &'static str = "dcsctp 0.1.16";
    const ANSWERS_STRAYS: bool = true;
    const LATE_ABORT_IS_ERROR: bool = true;
    // `maybe_send_shutdown` looks only at unacknowledged data, not at queued data.
    const SHUTDOWN_DRAINS: bool = false;
    const CAN_ABORT: bool = true;

    fn new(settings: &Settings) -> Self {
        let defaults = Options::default();
        let (data_limit, init_limit) = if settings.persistent {
            (None, None)
        } else {
            (defaults.max_retransmissions, defaults.max_init_retransmits)
        };
        DcSctp {
            options: Options {
                mtu: settings.packet_bytes_max as usize,
                max_message_size: settings.message_bytes_max as usize,
                max_receiver_window_buffer_size: settings.receive_window_bytes as usize,
                max_send_buffer_size: settings.send_buffer_bytes * 8,
                per_stream_send_queue_limit: settings.send_buffer_bytes,
                max_retransmissions: data_limit,
                max_init_retransmits: init_limit,
                ..defaults
            },
        }
    }

    fn client(&mut self, now: Duration) -> DcSctpPeer {
        let mut peer = DcSctpPeer::new(&self.options, now);
        peer.socket.connect();
        peer
    }

    fn server(&mut self, now: Duration) -> DcSctpPeer {
        DcSctpPeer::new(&self.options, now)
    }
}

impl DcSctp {
    /// A factory of sockets with other timers than the defaults: `tune` changes them.
    #[must_use]
    pub fn tuned(settings: &Settings, tune: impl FnOnce(&mut Options)) -> Self {
        let mut stack = DcSctp::new(settings);
        tune(&mut stack.options);
        stack
    }
}

/// One dcSCTP socket.
pub struct DcSctpPeer {
    socket: Box<dyn DcSctpSocket>,
    send_buffer_bytes: usize,
    now: Duration,
    ended: bool,
    error: Option<String>,
}

impl DcSctpPeer {
    fn new(options: &Options, now: Duration) -> Self {
        let mut socket = ::dcsctp::new_socket("", options);
        socket.advance_time(SocketTime::zero() + now);
        DcSctpPeer { socket, send_buffer_bytes: options.per_stream_send_queue_limit, now, ended: false, error: None }
    }

    fn advance(&mut self, now: Duration) {
        if now != self.now {
            self.now = now;
            self.socket.advance_time(SocketTime::zero() + now);
        }
    }
}

impl Peer for DcSctpPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        self.advance(now);
        self.socket.handle_input(&packet);
    }

    fn poll_packet(&mut self, now: Duration) -> Option<Bytes> {
        self.advance(now);
        while let Some(event) = self.socket.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => return Some(Bytes::from(packet)),
                SocketEvent::OnClosed() => self.ended = true,
                SocketEvent::OnAborted(kind, text) => {
                    self.ended = true;
                    self.error = Some(format!("{kind:?}: {text}"));
                }
                _ => {}
            }
        }
        None
    }

    fn deadline(&self) -> Option<Duration> {
        let at = self.socket.poll_timeout();
        (at != SocketTime::infinite_future()).then(|| at - SocketTime::zero())
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.now = now;
        self.socket.advance_time(SocketTime::zero() + now);
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        self.send_with(now, message, Policy::Reliable)
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        let message = self.socket.get_next_message()?;
        Some(Message {
            stream: message.stream_id.0,
            ppid: message.ppid.0,
            unordered: false,
            payload: Bytes::from(message.payload),
        })
    }

    fn shutdown(&mut self, now: Duration) {
        self.advance(now);
        self.socket.shutdown();
    }

    fn abort(&mut self, now: Duration) -> Result<(), AbortUnsupported> {
        self.advance(now);
        self.socket.close();
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.socket.state() == SocketState::Connected
    }

    fn is_closed(&self) -> bool {
        self.ended
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}

impl PartiallyReliable for DcSctpPeer {
    const IN_RETURN: InReturn = InReturn::Nothing;
    // `get_stream_to_produce_from` in `tx/send_queue.rs` silently drops the rest of a partly sent message. As I-DATA the message gets no end and no
    // I-FORWARD-TSN; as DATA a TSN for its end comes later, amid the fragments of another message.
    const EXPIRES_BETWEEN_FRAGMENTS: bool = false;

    fn send_with(&mut self, now: Duration, message: &Message, policy: Policy) -> Result<(), SendError> {
        self.advance(now);
        let stream = StreamId(message.stream);
        if self.socket.buffered_amount(stream) >= self.send_buffer_bytes {
            return Err(SendError::WouldBlock);
        }
        let (lifetime, max_retransmissions) = match policy {
            Policy::Reliable => (None, None),
            Policy::Lifetime(lifetime) => (Some(lifetime), None),
            Policy::Retransmissions(count) => (None, Some(count)),
            Policy::Priority(_) | Policy::Replacing(_) => (None, Some(0)),
        };
        let options =
            SendOptions { unordered: message.unordered, lifetime, max_retransmissions, ..SendOptions::default() };
        // The interface takes an owned vector, so this copy cannot be avoided.
        let owned = DcMessage::new(stream, PpId(message.ppid), message.payload.to_vec());
        self.socket.send(owned, &options).map_err(|error| SendError::Refused(error.to_string()))
    }

    fn reset(&mut self, now: Duration, streams: &[u16]) -> Result<(), String> {
        self.advance(now);
        let streams: Vec<_> = streams.iter().map(|&stream| StreamId(stream)).collect();
        self.socket.reset_streams(&streams).map_err(|error| error.to_string())
    }
}
