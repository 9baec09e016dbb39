//! One host: its application, its listener, and at most one association.

use std::net::SocketAddr;
use std::sync::Arc;

use festina_sctp::{
    AbandonReason, Association, AssociationState, ClosedReason, Config, Context, Event, Listener, Message, MessageId,
    Ports,
};
use festina_units::{Duration, Instant};

use super::heap::{live_bytes, on_behalf_of};
use super::ledger::{Ledger, SessionId};
use crate::forge::Knowledge;

const PORTS: [u16; 2] = [5_001, 5_000];
/// The cause code of a protocol violation (RFC 9260 §3.3.10.13).
const PROTOCOL_VIOLATION: u16 = 13;
/// The reason that the shutdown guard gives when a dead link has delayed a shutdown.
const SHUTDOWN_GUARD: &[u8] = b"shutdown did not finish in time";
/// Retransmission timers may count in ticks.
const CLOCK_TICK: Duration = Duration::from_millis(4);
/// Maximum size of an association on the heap besides twice its buffers: for the receiving and for the sending side.
const HEAP_BYTES_MAX: usize = 2 * (64 << 10);

/// One host.
pub(crate) struct Host {
    pub(crate) index: usize,
    pub(crate) address: SocketAddr,
    pub(crate) context: Arc<Context>,
    pub(crate) listener: Listener,
    pub(crate) association: Option<Association>,
    pub(crate) ports: Ports,
    pub(crate) knowledge: Knowledge,
    pub(crate) session: SessionId,
    pub(crate) reads: bool,
    pub(crate) closed: Option<ClosedReason>,
    /// The number of the session's first message among those of the association.
    first_message: u64,
    nonce: u64,
    heap_before: isize,
    /// The tags of associations that have ended here.
    tags_ended: Vec<u32>,
    /// A late COOKIE ECHO has revived an ended association. A stateless listener cannot know that, and the peer may
    /// still report TSNs of the ended one.
    pub(crate) has_revived: bool,
}

impl Host {
    pub(crate) fn new(index: usize, config: Config, session: SessionId) -> Self {
        let context = Context::new(config, [7 + index as u8; 16]).expect("the settings are in range");
        let mut listener = Listener::new(&context);
        listener.listen(PORTS[index]);
        Self {
            index,
            address: SocketAddr::from(([192, 0, 2, 1 + index as u8], 9_899)),
            context,
            listener,
            association: None,
            ports: Ports { local: PORTS[index], peer: PORTS[1 - index] },
            knowledge: Knowledge::default(),
            session,
            reads: true,
            closed: None,
            first_message: 0,
            nonce: 0,
            heap_before: 0,
            tags_ended: Vec::new(),
            has_revived: false,
        }
    }

    pub(crate) fn living(&mut self) -> Option<&mut Association> {
        self.association.as_mut().filter(|association| !association.is_closed())
    }

    pub(crate) fn is_living(&self) -> bool {
        self.association.as_ref().is_some_and(|association| !association.is_closed())
    }

    pub(crate) fn is_established(&self) -> bool {
        self.association.as_ref().is_some_and(|association| association.state() == AssociationState::Established)
    }

    /// Discards all state, including the secret.
    pub(crate) fn forget(&mut self, ledger: &mut Ledger) {
        ledger.tear(self.session);
        let config = self.context.config().clone();
        let session = ledger.open();
        let knowledge = std::mem::take(&mut self.knowledge);
        let (address, nonce, reads) = (self.address, self.nonce + 1, self.reads);
        *self = Self::new(self.index, config, session);
        (self.address, self.nonce, self.reads, self.knowledge) = (address, nonce, reads, knowledge);
        let mut secret = [9; 16];
        secret[0] = self.index as u8;
        secret[1..9].copy_from_slice(&nonce.to_be_bytes());
        self.context = Context::new(self.context.config().clone(), secret).expect("the settings are in range");
        self.listener = Listener::new(&self.context);
        self.listener.listen(self.ports.local);
    }

    pub(crate) fn connect(&mut self, now: Instant, remote: SocketAddr, ledger: &mut Ledger) {
        self.clear(ledger);
        self.nonce += 1;
        self.heap_before = live_bytes(self.index);
        let (index, context, ports, nonce) = (self.index, &self.context, self.ports, self.nonce);
        let association = on_behalf_of(index, || Association::connect(now, context, remote, ports, nonce));
        self.association = Some(association);
    }

    /// Takes over the accepted association. Messages read before are the old association's.
    pub(crate) fn adopt(&mut self, association: Association, heap_before: isize, ledger: &mut Ledger) {
        let held = live_bytes(self.index);
        self.clear(ledger);
        self.has_revived |= self.tags_ended.contains(&association.local_tag());
        self.heap_before = heap_before - (held - live_bytes(self.index));
        self.association = Some(association);
    }

    fn clear(&mut self, ledger: &mut Ledger) {
        self.read(usize::MAX, ledger);
        self.tags_ended.extend(self.association.take().map(|association| association.local_tag()));
        self.closed = None;
        self.first_message = 0;
        self.session = ledger.open();
    }

    pub(crate) fn send(&mut self, now: Instant, message: Message, ledger: &mut Ledger) -> bool {
        let Some(association) = &mut self.association else { return false };
        let kept = message.clone();
        match on_behalf_of(self.index, || association.send(now, message)) {
            Ok(_) => {
                ledger.accepted(self.session, &kept);
                true
            }
            Err(_) => false,
        }
    }

    /// Reads messages.
    pub(crate) fn read(&mut self, count: usize, ledger: &mut Ledger) {
        let Some(association) = &mut self.association else { return };
        for _ in 0..count {
            let Some(message) = on_behalf_of(self.index, || association.poll_message()) else { break };
            ledger.read(self.session, &message);
        }
    }

    /// Takes all events. Without an attacker, and unless an association was revived, no host violates the protocol.
    pub(crate) fn poll_events(&mut self, excused: bool, ledger: &mut Ledger) {
        let Some(association) = &mut self.association else { return };
        while let Some(event) = on_behalf_of(self.index, || association.poll_event()) {
            assert!(self.closed.is_none(), "{event:?} after the end");
            match event {
                Event::PeerRestarted => {
                    ledger.tear(self.session);
                    self.session = ledger.open();
                    self.first_message = association.stats().sent.messages;
                }
                Event::MessagesAbandoned { first, last, reason: AbandonReason::StreamRefused, .. } => {
                    for MessageId(id) in (first.0..=last.0).map(MessageId) {
                        ledger.excuse(self.session, id.saturating_sub(self.first_message) as usize);
                    }
                }
                Event::MessageDelivered { id: MessageId(id), .. } => {
                    if let Some(number) = id.checked_sub(self.first_message) {
                        ledger.confirm(self.session, number as usize);
                    }
                }
                Event::Closed(reason) => {
                    if !excused {
                        check_reason(&reason);
                    }
                    if reason != ClosedReason::Shutdown {
                        ledger.tear(self.session);
                    }
                    self.closed = Some(reason);
                }
                _ => {}
            }
        }
        assert_eq!(self.closed.is_some(), association.is_closed(), "the end is reported when it comes");
    }

    /// Checks that the association measures no round trip shorter than is possible. One tick of the coarsest clock is
    /// tolerated.
    pub(crate) fn check_round_trip(&self, least: Duration) {
        let srtt = self.association.as_ref().and_then(|association| association.stats().path.srtt);
        let least = least.saturating_sub(CLOCK_TICK);
        assert!(srtt.is_none_or(|srtt| srtt >= least), "SRTT is {srtt:?}, and no round trip takes less than {least:?}");
    }

    /// Checks that the association's memory is bounded.
    pub(crate) fn check_heap(&self) {
        let limits = &self.context.config().limits;
        let buffers = limits.receive_buffer_bytes + limits.send_buffer_bytes.max(limits.message_bytes_max);
        let bytes_max = 2 * buffers + HEAP_BYTES_MAX;
        let bytes = live_bytes(self.index) - self.heap_before;
        assert!(bytes <= bytes_max as isize, "{bytes} bytes on the heap, and {bytes_max} are allowed");
    }
}

fn check_reason(reason: &ClosedReason) {
    match reason {
        ClosedReason::ProtocolViolation(what) => panic!("an honest peer is accused: {what}"),
        ClosedReason::AbortedByPeer { code: PROTOCOL_VIOLATION, info } if info != SHUTDOWN_GUARD => {
            panic!("an honest peer accuses: {}", String::from_utf8_lossy(info));
        }
        _ => {}
    }
}
