//! The one task of an endpoint: receives, watches the time, and sends what the socket had no room for and what callers held back.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use festina_endpoint::handshakes::Handshakes;
use festina_endpoint::protocols::Tag;
use festina_endpoint::strays::Strays;
use festina_endpoint::{Datagram, Protocols};
use festina_units::{Duration, EcnCodepoint, Instant};

use super::alarm::Bell;
use super::door::Door;
use super::lower::Received;
use super::packets::Packets;
use super::pause::Pause;
use super::shared::Shared;
use super::sieve::Sieve;
use super::socket::count;
use super::timers::Due;
use crate::association::Inner;
use crate::clock;

/// Datagrams, or trains of them (GRO), received by one system call.
const BATCH_MAX: usize = 16;

/// Room for the longest train.
const BUFFER_BYTES: usize = 65_536;

/// Batches received before other tasks of the runtime get their turn.
const BATCHES_PER_TURN: usize = 8;

/// Associations whose time has come that are called in a turn. Their calls may draw packets, and while those leave, acknowledgements come that
/// make the calls of others needless: so pending packets are received first. Without a bound, a machine that was too slow once would retransmit
/// delivered chunks, lose acknowledgements because the socket's buffer is full, repeat the more, and never catch up.
const TIMERS_PER_TURN: usize = 64;

/// How long packets that pour in without end may hold up the timers.
const TIMERS_LAG_MAX: Duration = Duration::from_millis(10);

/// The future that runs an endpoint; ends when neither handles nor associations are left, or the endpoint was closed and no association is left.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<Shared>,
    bell: Bell,
    receiver: Receiver,
    pause: Pause,
    due: Vec<Due>,
    /// The last turn left associations whose time had come.
    late: bool,
    /// The last turn left work of any kind, so that this one follows at once. The runtime may not have looked at the socket in between.
    is_pressed: bool,
    /// What had come by then has been received.
    emptied_at: Instant,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, bell: Bell) -> Self {
        let receiver = Receiver::new(&shared);
        Self {
            shared,
            bell,
            receiver,
            pause: Pause::default(),
            due: Vec::new(),
            late: false,
            is_pressed: false,
            emptied_at: Instant::ZERO,
        }
    }

    /// Receives waiting packets. Returns whether there may be more.
    fn receive(&mut self, context: &mut Context<'_>) -> bool {
        if self.pause.until(clock::now).is_some() {
            return false;
        }
        self.receiver.strays.begin_turn();
        let more = self.receive_batches(context);
        let waiting = self.receiver.finish_turn();
        more || waiting
    }

    /// Has the system drop as many INITs as fits the flood, if there is one.
    fn sift(&mut self) {
        let sieve = &mut self.receiver.sieve;
        if sieve.is_idle() {
            return;
        }
        if let Some(halvings) = sieve.judge(clock::now())
            && let Err(error) = self.shared.socket.sift(halvings)
        {
            tracing::debug!(%error, "the system drops no INITs");
            sieve.give_up();
        }
        if let Some(at) = sieve.judged_by() {
            self.shared.timers.ring_by(clock::now(), at);
        }
    }

    fn receive_batches(&mut self, context: &mut Context<'_>) -> bool {
        let mut unasked = self.is_pressed;
        for _ in 0..BATCHES_PER_TURN {
            match self.shared.socket.poll_readable(context) {
                // A runtime with one thread asks the system only once in 61 polls of tasks, which may be hundreds of milliseconds of handshakes.
                Poll::Pending if unasked => unasked = false,
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    // Only a runtime that shuts down fails here, and drops this task.
                    tracing::debug!(%error, "the socket cannot be watched");
                    return false;
                }
            }
            match self.receiver.receive(&self.shared) {
                Ok(Batch { at, emptied }) => {
                    self.pause.succeed();
                    unasked = !emptied;
                    if emptied {
                        self.emptied_at = at;
                    }
                    // A probe that the system refused is known to be too large before anything that was received shows its answer.
                    self.shared.pass_refusals_on();
                    self.receiver.distribute(at, &self.shared);
                    self.shared.tray.flush_unless_blocked(&self.shared.socket);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.pause.succeed(),
                Err(error) => {
                    count(&self.shared.counters.receive_errors, 1);
                    if self.pause.fail(clock::now(), &error) {
                        tracing::warn!(%error, "cannot receive, and tries again after a pause");
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Calls the associations whose time has come. While there is `more` to receive, the runtime may poll the bell rarely, so the clock is read as
    /// well. A timer is due only once all packets that had arrived by its deadline are processed, because the acknowledgement that it waits for may
    /// be among them.
    fn ring(&mut self, context: &mut Context<'_>, more: bool) {
        let come = |emptied_at| if more { come_by(clock::now(), emptied_at) } else { clock::now() };
        let mut unasked = (more || self.is_pressed) && self.shared.timers.is_due(come(self.emptied_at));
        self.late = false;
        while !self.late && (std::mem::take(&mut unasked) || self.bell.poll(context).is_ready()) {
            let come = come(self.emptied_at);
            self.shared.timers.take_due(clock::now(), come, TIMERS_PER_TURN, &mut self.due);
            self.late = self.due.len() == TIMERS_PER_TURN;
            for (entry_at, association) in self.due.drain(..) {
                association.handle_timer(come, entry_at);
            }
        }
        if let Some(until) = self.pause.until(clock::now) {
            self.shared.timers.ring_by(clock::now(), until);
        }
    }

    /// Sends what lies in the tray and what waits for the driver. Who asks for it meanwhile wakes the task again, so that busy senders do
    /// not keep it from receiving.
    fn send_backlog(&self, context: &mut Context<'_>) {
        let Shared { socket, tray, .. } = &*self.shared;
        let mut asked = false;
        let mut blocked = !tray.flush_unless_blocked(socket);
        while blocked || (!asked && self.shared.has_backlog()) {
            if !matches!(socket.poll_writable(context), Poll::Ready(Ok(()))) {
                return;
            }
            if !blocked {
                self.shared.take_backlog().iter().for_each(Inner::handle_writable);
                asked = true;
            }
            blocked = tray.flush(socket).is_err();
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.shared.set_driver(context.waker());
        let more = this.receive(context);
        this.ring(context, more);
        this.sift();
        this.send_backlog(context);
        this.shared.pass_refusals_on();
        if this.shared.is_abandoned() || this.shared.is_closed() {
            return Poll::Ready(());
        }
        this.is_pressed = more || this.late || this.shared.socket.refusals.is_waiting();
        if this.is_pressed {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    /// Without its driver an endpoint is dead, so all waiting tasks are woken.
    fn drop(&mut self) {
        let Receiver { strays, door, .. } = &mut self.receiver;
        strays.end(clock::now(), door);
        door.flush();
        self.shared.driver_gone();
    }
}

/// Buffers of the receiving side.
#[derive(Debug)]
struct Receiver {
    buffers: Vec<u8>,
    metas: [Received; BATCH_MAX],
    /// Those that carry the tag of an association.
    datagrams: Vec<Datagram>,
    strays: Strays<Door>,
    door: Door,
    sieve: Sieve,
    packets: Packets,
    protocols: Protocols,
}

/// The time that has come for timers, while there is more to receive than what had come by `emptied_at`.
fn come_by(now: Instant, emptied_at: Instant) -> Instant {
    emptied_at.max(now.saturating_sub(TIMERS_LAG_MAX))
}

/// One batch of packets.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// When it was received.
    at: Instant,
    /// Nothing that had come before was left.
    emptied: bool,
}

impl Receiver {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            buffers: vec![0; BATCH_MAX * BUFFER_BYTES],
            metas: [Received::default(); BATCH_MAX],
            datagrams: Vec::new(),
            strays: Strays::new(shared.admission(), shared.protocols(), handshakes(shared)),
            door: Door::new(Arc::clone(shared)),
            sieve: Sieve::new(shared.admission().strays_per_second_max),
            packets: Packets::default(),
            protocols: shared.protocols(),
        }
    }

    /// Receives one batch and takes it apart: packets that carry the tag of an association on the one side, on the other as many strays as
    /// are looked at. The rest is dropped here.
    fn receive(&mut self, shared: &Shared) -> io::Result<Batch> {
        let mut rest = self.buffers.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_MAX] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        let filled = shared.socket.receive(&mut slices, &mut self.metas)?;
        let now = clock::now();
        let (mut packets, mut bytes, mut marked, mut shed, mut sifted, mut unanswerable) = (0, 0, 0, 0, 0, 0);
        let mut expected = None;
        // Then answers have to name their own address.
        let has_several_addresses = shared.socket.has_several_addresses();
        for (meta, buffer) in self.metas.iter().zip(self.buffers.chunks_exact(BUFFER_BYTES)).take(filled) {
            let train = buffer.get(meta.header_bytes..meta.bytes).unwrap_or_default();
            let (from, ecn) = (meta.from, meta.ecn);
            // UDP cannot answer there, so this is no peer.
            if from.port() == 0 && shared.socket.peer_address(from).is_err() {
                unanswerable += train.len().div_ceil(meta.segment_bytes.max(1));
                continue;
            }
            let source = meta.to.filter(|_| has_several_addresses);
            for packet in train.chunks(meta.segment_bytes.max(1)) {
                packets += 1;
                marked += usize::from(ecn == EcnCodepoint::CongestionExperienced);
                bytes += packet.len();
                shared.socket.observation.received(from, meta.to, packet);
                let tag = Tag::of_ordinary(packet, self.protocols);
                let is_expected = (tag.is_some() && tag == expected) || shared.is_expected(from, packet);
                if is_expected {
                    expected = tag;
                    let packet = self.packets.keep(packet);
                    self.datagrams.push(Datagram { from, source, ecn, packet });
                    continue;
                }
                sifted += self.sieve.note(packet);
                if self.strays.admit(now, from, packet) {
                    let packet = self.packets.keep(packet);
                    self.strays.push(Datagram { from, source, ecn, packet });
                } else {
                    shed += 1;
                }
            }
        }
        count(&shared.counters.packets_received, packets + unanswerable);
        if unanswerable > 0 {
            count(&shared.counters.packets_dropped, unanswerable);
        }
        count(&shared.counters.bytes_received, bytes);
        if marked > 0 {
            count(&shared.counters.congestion_marked, marked);
        }
        if shed > 0 {
            count(&shared.counters.strays_shed, shed);
            count(&shared.counters.packets_dropped, shed);
        }
        if sifted > 0 {
            count(&shared.counters.inits_sifted, sifted);
        }
        Ok(Batch { at: now, emptied: filled < BATCH_MAX })
    }

    /// Gives the received packets to their associations, neighbours for the same one together, and then looks at the strays.
    fn distribute(&mut self, now: Instant, shared: &Arc<Shared>) {
        let mut dropped = 0;
        let mut datagrams = self.datagrams.drain(..).peekable();
        while let Some(datagram) = datagrams.next() {
            let Some(association) = shared.find(datagram.from, &datagram.packet) else {
                // Its association has just ended.
                self.strays.push(datagram);
                continue;
            };
            let (from, tag) = (datagram.from, Tag::of(&datagram.packet, self.protocols));
            let same = |Datagram { from: next, packet, .. }: &Datagram| {
                *next == from && tag.is_some() && Tag::of_ordinary(packet, self.protocols) == tag
            };
            let rest = std::iter::from_fn(|| datagrams.next_if(same));
            dropped += association.handle_packets(now, std::iter::once(datagram).chain(rest));
        }
        dropped += self.strays.handle(now, &mut self.door);
        count(&shared.counters.packets_dropped, dropped);
    }

    /// Goes on with the handshakes, looks at their timers, and sends the answers. Returns whether some packets are left for the next turn.
    fn finish_turn(&mut self) -> bool {
        let Self { strays, door, .. } = self;
        let dropped = strays.handle_handshakes(clock::now(), door);
        if dropped > 0 {
            count(&door.shared.counters.packets_dropped, dropped);
        }
        let now = clock::now();
        strays.expire(now, door);
        if let Some(at) = strays.deadline(now) {
            door.shared.timers.ring_by(now, at);
        }
        door.flush();
        strays.is_waiting(now)
    }
}

/// The handshakes of an encrypted endpoint.
fn handshakes(shared: &Shared) -> Option<Box<Handshakes<Door>>> {
    let secure = shared.secure.as_ref()?;
    Some(Box::new(Handshakes::new(secure.take_listener(), secure.site_secret(), clock::cpu_time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_busy_driver_looks_at_the_socket_though_the_runtime_does_not() {
        let runtime = crate::runtime::Tokio::current().unwrap();
        let socket = crate::endpoint::Socket::bind_udp(&*runtime, "127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        let (shared, bell) = Shared::new(runtime, socket, &crate::ServerConfig::plain().into()).unwrap();
        shared.handle_added();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut driver = Driver::new(Arc::clone(&shared), bell);
        // Nothing is awaited, so the runtime does not ask the system.
        let mut turn = |is_pressed| {
            driver.is_pressed = is_pressed;
            sender.send_to(b"a datagram", shared.socket.local_addr()).unwrap();
            assert!(Pin::new(&mut driver).poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
            shared.stats().packets_received
        };
        assert_eq!(turn(false), 0);
        assert_eq!(turn(true), 2);
        assert_eq!(turn(true), 3);
    }

    #[test]
    fn timers_wait_for_what_has_come_but_not_for_ever() {
        let emptied_at = Instant::from_secs(1);
        assert_eq!(come_by(emptied_at + Duration::from_millis(9), emptied_at), emptied_at);
        assert_eq!(come_by(emptied_at + Duration::from_millis(30), emptied_at), emptied_at + Duration::from_millis(20));
        assert_eq!(come_by(Instant::ZERO, Instant::ZERO), Instant::ZERO);
    }
}
