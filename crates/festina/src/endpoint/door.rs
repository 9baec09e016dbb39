//! The endpoint as the handshakes and strays see it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_endpoint::demux::Side;
use festina_endpoint::{Core, Datagram, Demux, Name, Origin, Owner, Plain, PlainVerdict, Request, Secure, Verdict};
use festina_sctp::{self as sctp, Message, Transmit};
use festina_secure::wire::ConnectionId;
use festina_units::Instant;

use super::accept::Place;
use super::lock;
use super::options::Answer;
use super::outbox::Outbox;
use super::requests::Held;
use super::shared::Shared;
use super::socket::ANY_BINDING;
use crate::association::{Association, Inner};

/// Belongs to the driver. The application's code runs without any lock.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) shared: Arc<Shared>,
    /// Answers to strangers.
    answers: Outbox,
}

impl Door {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, answers: Outbox::default() }
    }

    /// Sends the answers. One for which the socket has no room is lost: it is asked for again.
    pub(super) fn flush(&mut self) {
        let _blocked = self.answers.flush_to_strangers(&self.shared.socket);
        self.answers.clear();
    }

    /// Returns whether there was an answer.
    fn send(&mut self, source: Option<IpAddr>, transmit: Option<Transmit>) -> bool {
        let Some(transmit) = transmit else { return false };
        self.answers.push(&transmit, (source, ANY_BINDING), self.shared.socket.segments_max());
        if self.answers.is_full() {
            self.flush();
        }
        true
    }
}

impl Owner for Door {
    type Association = Arc<Inner>;
    type Held = Arc<Held>;
    type Place = Place;

    fn demux<R>(&mut self, look: impl FnOnce(&Demux<Arc<Inner>>) -> R) -> R {
        look(&lock(&self.shared.demux))
    }

    fn deliver(&mut self, now: Instant, association: &Arc<Inner>, datagram: Datagram) -> usize {
        association.handle_packets(now, std::iter::once(datagram))
    }

    fn answer(&mut self, source: Option<IpAddr>, write: impl FnOnce(&mut Vec<u8>) -> Option<Transmit>) -> bool {
        let transmit = write(self.answers.buffer());
        self.send(source, transmit)
    }

    fn judge_plain(&mut self, peer: SocketAddr, port: u16) -> PlainVerdict {
        let shared = &self.shared;
        let queue = lock(&shared.accepting).queue(port).cloned();
        if let Some(queue) = &queue {
            if shared.is_full(queue) {
                return PlainVerdict::Full;
            }
            // Such a listener uses parts of the handshake that only encrypted clients have.
            if shared.is_encrypted() && queue.options.needs_encryption() {
                return PlainVerdict::EncryptedOnly;
            }
        }
        let answer = queue.map_or(Answer::Accept, |queue| queue.options.answer(&Request::plain(peer)));
        if answer == Answer::Ignore {
            return PlainVerdict::Ignore;
        }
        if shared.admits(peer.ip()) && answer == Answer::Accept { PlainVerdict::Admit } else { PlainVerdict::Refuse }
    }

    fn answer_plain(
        &mut self,
        source: Option<IpAddr>,
        write: impl FnOnce(&sctp::Listener, &dyn Fn(u32) -> bool, &mut Vec<u8>) -> Option<Transmit>,
    ) -> bool {
        let is_in_use = |tag| lock(&self.shared.demux).has_name(Name::Tag(tag));
        let transmit = write(&lock(&self.shared.accepting).core, &is_in_use, self.answers.buffer());
        self.send(source, transmit)
    }

    fn adopt_plain(&mut self, association: sctp::Association, source: Option<IpAddr>) -> bool {
        let core = Core::Plain(Plain(association));
        let (shared, key) = (&self.shared, core.key());
        // Without a queue there is no listener any more: the association is dropped before it did anything.
        let Some(queue) = lock(&shared.accepting).queue(key.ports.local).cloned() else { return false };
        let inner = Inner::new(Arc::clone(shared), shared.next_id(), core, source);
        // Its path may be that of an association that this side has just begun; the peer asks again.
        let inserted = lock(&shared.demux).insert(key, None, &inner, Side::Peer);
        if inserted.is_ok() {
            let association = Association::new(inner);
            association.inner().start(None);
            queue.associations.push(association);
        }
        true
    }

    fn judge(&mut self, request: &Request, port: u16, is_held: bool) -> Verdict {
        if is_held { self.shared.judge_accepted(request, port) } else { self.shared.judge(request, port) }
    }

    fn keep_place(&mut self, port: u16, is_address_proved: bool) -> Option<Place> {
        self.shared.keep_place(port, is_address_proved)
    }

    fn hold(&mut self, id: ConnectionId, request: Request, port: u16) -> Option<Arc<Held>> {
        self.shared.hold(id, request, port)
    }

    fn verdict(held: &Arc<Held>) -> Verdict {
        held.verdict()
    }

    fn take_decided(&mut self, decided: &mut VecDeque<ConnectionId>) {
        self.shared.take_decided(decided);
    }

    fn take_withdrawal(&mut self) -> bool {
        self.shared.take_withdrawal()
    }

    fn take_readdressed(&mut self) -> Option<Arc<sctp::Context>> {
        self.shared.take_readdressed()
    }

    fn offer_early(
        &mut self,
        request: &Request,
        _origin: Option<Origin>,
        port: u16,
        message: Message,
    ) -> Option<Message> {
        self.shared.offer_early(request, port, message)
    }

    fn adopt(&mut self, association: Box<Secure>, port: u16, place: &Place) {
        self.shared.adopt_protected(association, (port, place));
    }

    fn note_forgotten(&mut self, client: SocketAddr) {
        tracing::debug!(%client, "a half-open handshake makes room for another client's");
    }
}

#[cfg(test)]
mod tests {
    use festina_units::EcnCodepoint;

    use super::*;
    use crate::endpoint::ConnectOptions;
    use crate::endpoint::socket::Socket;

    #[tokio::test]
    async fn the_associations_with_one_peer_are_found_by_its_address() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let lower = crate::MemoryNetwork::new().bind(address("10.0.0.1:1")).unwrap();
        let runtime = crate::runtime::Tokio::current().unwrap();
        let socket = Socket::new(Box::new(lower));
        let (shared, _bell) = Shared::new(runtime, socket, &crate::ServerConfig::plain().into()).unwrap();
        let peers = ["10.0.0.2:1", "10.0.0.2:2", "10.0.0.3:1"].map(address);
        let _associations = peers.map(|peer| {
            [(1, 1), (1, u16::MAX), (u16::MAX, u16::MAX), (7, 1)].map(|(local, port)| {
                let options = ConnectOptions::default().local_port(local).peer_port(port);
                shared.connect(peer, &options).unwrap()
            })
        });
        for peer in peers {
            let found = lock(&shared.demux).to(peer);
            assert!(found.len() == 4 && found.iter().all(|association| association.remote() == peer), "{peer}");
        }
        assert!(lock(&shared.demux).to(address("10.0.0.2:3")).is_empty());
    }

    #[tokio::test]
    async fn a_refused_answer_to_a_stranger_concerns_no_association() {
        let socket =
            Socket::bind_udp(&*crate::runtime::Tokio::current().unwrap(), "127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        std::future::poll_fn(|context| socket.poll_writable(context)).await.unwrap();
        // The system sends nothing to port 0.
        let destination = "127.0.0.1:0".parse().unwrap();
        let answer = || {
            let mut answers = Outbox::default();
            answers.buffer().extend_from_slice(b"answer");
            answers.push(&Transmit::new(destination, 6, EcnCodepoint::NotCapable), (None, ANY_BINDING), 1);
            answers
        };
        answer().flush_to_strangers(&socket).unwrap();
        assert!(!socket.refusals.is_waiting());
        answer().flush(&socket).unwrap();
        assert!(socket.refusals.is_waiting(), "those to peers are noted");
    }
}
