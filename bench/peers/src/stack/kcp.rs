//! KCP, a reliable protocol over UDP without handshake, in the Rust edition of the crate `kcp`.
//!
//! It has a millisecond clock and works when its `update` is called, which `check` requires at least every `interval`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use ::kcp::Kcp;
use bytes::Bytes;

use crate::peer::{AbortUnsupported, Message, Peer, SendError};

/// What both ends agree on beforehand.
const CONVERSATION: u32 = 0x46;
/// Messages under way at most, each way, as its manual advises; the default is 32 from the sender.
const WINDOW_PACKETS: u16 = 128;

/// The four numbers of `ikcp_nodelay`, and how the driver calls it.
#[derive(Clone, Copy, Debug)]
pub struct KcpSettings {
    /// RTO of 30 ms at least instead of 100, which grows by half instead of doubling.
    pub nodelay: bool,
    /// Milliseconds between two flushes.
    pub interval_ms: i32,
    /// Later acknowledgements that prove a loss; 0 for none.
    pub resend: i32,
    /// Whether congestion control is off.
    pub no_congestion_control: bool,
    /// Flushes as soon as the application writes or a packet comes, and not at the next interval.
    pub flushes_at_once: bool,
}

impl KcpSettings {
    /// A client and its server.
    #[must_use]
    pub fn pair(&self) -> [KcpPeer; 2] {
        [KcpPeer::new(self), KcpPeer::new(self)]
    }
}

/// Packets that wait to be polled.
#[derive(Clone, Default)]
struct Outbox(Rc<RefCell<VecDeque<Bytes>>>);

impl io::Write for Outbox {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().push_back(Bytes::copy_from_slice(packet));
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One end of a KCP conversation.
pub struct KcpPeer {
    kcp: Kcp<Outbox>,
    outbox: Outbox,
    flushes_at_once: bool,
    now_ms: u32,
    error: Option<String>,
}

impl KcpPeer {
    fn new(settings: &KcpSettings) -> Self {
        let outbox = Outbox::default();
        let mut kcp = Kcp::new(CONVERSATION, outbox.clone());
        kcp.set_nodelay(settings.nodelay, settings.interval_ms, settings.resend, settings.no_congestion_control);
        kcp.set_wndsize(WINDOW_PACKETS, WINDOW_PACKETS);
        let mut peer = KcpPeer { kcp, outbox, flushes_at_once: settings.flushes_at_once, now_ms: 0, error: None };
        peer.update(Duration::ZERO);
        peer
    }

    fn note<T>(&mut self, result: ::kcp::KcpResult<T>) {
        if let Err(error) = result {
            self.error.get_or_insert(error.to_string());
        }
        if self.kcp.is_dead_link() {
            self.error.get_or_insert("a message was sent too often".into());
        }
    }

    fn update(&mut self, now: Duration) {
        self.now_ms = u32::try_from(now.as_millis()).unwrap_or(u32::MAX);
        let updated = self.kcp.update(self.now_ms);
        self.note(updated);
    }

    fn flush_at_once(&mut self) {
        if self.flushes_at_once {
            let flushed = self.kcp.flush();
            self.note(flushed);
        }
    }
}

impl Peer for KcpPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        if self.flushes_at_once {
            self.update(now);
        }
        let taken = self.kcp.input(&packet);
        self.note(taken);
        self.flush_at_once();
    }

    fn poll_packet(&mut self, _now: Duration) -> Option<Bytes> {
        self.outbox.0.borrow_mut().pop_front()
    }

    fn deadline(&self) -> Option<Duration> {
        // It answers 0 while a timer is due that `update` runs only at the next interval.
        let wait_ms = self.kcp.check(self.now_ms).max(1);
        Some(Duration::from_millis(u64::from(self.now_ms) + u64::from(wait_ms)))
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.update(now);
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        if self.flushes_at_once {
            self.update(now);
        }
        self.kcp.send(&message.payload).map_err(|error| SendError::Refused(error.to_string()))?;
        self.flush_at_once();
        Ok(())
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        let mut payload = vec![0; self.kcp.peeksize().ok()?];
        self.kcp.recv(&mut payload).ok()?;
        Some(Message { stream: 0, ppid: 53, unordered: false, payload: Bytes::from(payload) })
    }

    fn shutdown(&mut self, _now: Duration) {}

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        Err(AbortUnsupported)
    }

    /// There is no handshake.
    fn is_connected(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.kcp.is_dead_link()
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}
