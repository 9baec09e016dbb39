//! The thread that moves datagrams between sockets and links on time.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use festina_netsim::Admission;
use festina_units::Instant;
use rustix::event::{PollFd, PollFlags};

use super::clients::{ClientId, Clients};
use super::counters::ProxyCounters;
use super::datagram::Datagram;
use super::tap::{Tap, TapRecord};
use super::upstream::{is_news, is_out_of_descriptors};
use crate::client_socket::{ClientAddr, ClientSocket};
use crate::clock::Clock;
use crate::passage::MeasuredLink;
use crate::tap::{Direction, TapEvent};
use crate::timing::{be_punctual, sharpen_timers, timeout_until};
use crate::worker::Strings;

/// Maximum number of datagrams read from one socket before due deliveries are made.
const RECEIVE_BATCH_MAX: usize = 64;

/// No UDP datagram is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// The proxy's thread: waits for datagrams and deadlines, and passes datagrams on when they are due.
pub(super) struct EventLoop {
    listen: ClientSocket,
    clients: Clients,
    forward: MeasuredLink<Datagram>,
    backward: MeasuredLink<Datagram>,
    tap: Option<Tap>,
    /// Counters that the links do not have themselves.
    counters: ProxyCounters,
    strings: Strings<ProxyCounters>,
    buffer: Vec<u8>,
}

/// The events that ended the wait.
#[derive(Default)]
struct Ready {
    stop: bool,
    listen: bool,
    upstreams: Vec<ClientId>,
}

impl EventLoop {
    pub(super) fn new(
        listen: ClientSocket,
        clients: Clients,
        forward: MeasuredLink<Datagram>,
        backward: MeasuredLink<Datagram>,
        strings: Strings<ProxyCounters>,
    ) -> Self {
        Self {
            listen,
            clients,
            forward,
            backward,
            tap: None,
            counters: ProxyCounters::default(),
            strings,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        }
    }

    pub(super) fn add_targets(&mut self, targets: &[SocketAddr]) {
        self.clients.add_targets(targets);
    }

    pub(super) fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// If waiting or receiving fails for a reason that will not pass by itself.
    pub(super) fn run(&mut self, clock: Clock) -> io::Result<()> {
        sharpen_timers();
        be_punctual();
        let outcome = self.work(clock);
        self.publish();
        outcome
    }

    fn work(&mut self, clock: Clock) -> io::Result<()> {
        loop {
            self.deliver_due(clock);
            self.publish();
            let ready = self.wait(clock)?;
            if ready.stop {
                return Ok(());
            }
            // Datagrams that were due before the wait ended precede those that have just arrived.
            self.deliver_due(clock);
            if ready.listen {
                self.receive_from_clients(clock)?;
            }
            for client in ready.upstreams {
                self.receive_from_target(client, clock);
            }
        }
    }

    /// Sleeps until a datagram arrives, a link has to be polled, or the proxy is stopped.
    fn wait(&self, clock: Clock) -> io::Result<Ready> {
        let mut fds = vec![
            PollFd::new(&self.strings.stop_requested, PollFlags::IN),
            PollFd::new(self.listen.socket(), PollFlags::IN),
        ];
        fds.extend(self.clients.iter().map(|(_, client)| PollFd::new(&client.upstream.socket, PollFlags::IN)));
        let deadlines = [self.forward.poll_deadline(), self.backward.poll_deadline()];
        let timeout = deadlines.into_iter().flatten().min().map(|deadline| timeout_until(deadline, clock.now()));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok(Ready {
            stop: is_ready.next().unwrap_or(false),
            listen: is_ready.next().unwrap_or(false),
            upstreams: self.clients.iter().zip(is_ready).filter_map(|((id, _), ready)| ready.then_some(id)).collect(),
        })
    }

    fn receive_from_clients(&mut self, clock: Clock) -> io::Result<()> {
        for _ in 0..RECEIVE_BATCH_MAX {
            let (len, addr) = match self.listen.recv_from(&mut self.buffer) {
                Ok(received) => received,
                // An earlier datagram found no client at its destination, which some systems report even without a connection.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionReset) => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            match self.clients.heard_from(addr) {
                Ok(client) => self.offer(Direction::Forward, clock, client, addr, len),
                Err(error) if is_out_of_descriptors(&error) => self.counters.refused += 1,
                Err(_) => self.counters.unreachable += 1,
            }
        }
        Ok(())
    }

    fn receive_from_target(&mut self, id: ClientId, clock: Clock) {
        for _ in 0..RECEIVE_BATCH_MAX {
            // A new client may have replaced this one since the wait.
            let Some((client, targets)) = self.clients.get(id) else { return };
            let addr = client.addr;
            match client.upstream.recv(&mut self.buffer, targets) {
                Ok(Some(len)) => self.offer(Direction::Backward, clock, id, addr, len),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Sends the first `len` bytes of the buffer into a link.
    fn offer(&mut self, direction: Direction, clock: Clock, client: ClientId, client_addr: ClientAddr, len: usize) {
        let now = clock.now();
        let payload = self.buffer.get(..len).unwrap_or_default();
        let datagram = Datagram { client, client_addr, payload: payload.to_vec() };
        let link = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        };
        let admission: Admission = link.send(now, datagram);
        if let Some(tap) = &mut self.tap {
            tap(TapRecord {
                at: clock.unix_time(now),
                direction,
                client: client_addr.canonical_remote(),
                target: self.clients.target_of(client),
                payload,
                event: TapEvent::Offered(admission),
            });
        }
    }

    /// Sends on all datagrams that have arrived at the far end of either link.
    fn deliver_due(&mut self, clock: Clock) {
        let now = clock.now();
        while let Some((due_at, datagram)) = self.forward.poll_timed_delivery(now) {
            let sent = match self.clients.get(datagram.client) {
                Some((client, targets)) => client.upstream.send(&datagram.payload, targets),
                None => false,
            };
            self.note_delivery(Direction::Forward, clock, due_at, &datagram, sent);
        }
        while let Some((due_at, datagram)) = self.backward.poll_timed_delivery(now) {
            let send = || self.listen.send_to(&datagram.payload, datagram.client_addr);
            let sent = send().or_else(|error| if is_news(&error) { send() } else { Err(error) }).is_ok();
            self.note_delivery(Direction::Backward, clock, due_at, &datagram, sent);
        }
    }

    fn note_delivery(&mut self, direction: Direction, clock: Clock, due_at: Instant, datagram: &Datagram, sent: bool) {
        let at = clock.now();
        self.counters.lateness.note(at - due_at);
        if !sent {
            self.counters.send_failed += 1;
            return;
        }
        if let Some(tap) = &mut self.tap {
            tap(TapRecord {
                at: clock.unix_time(at),
                direction,
                client: datagram.client_addr.canonical_remote(),
                target: self.clients.target_of(datagram.client),
                payload: &datagram.payload,
                event: TapEvent::Delivered,
            });
        }
    }

    fn publish(&mut self) {
        self.counters.forward = self.forward.counters();
        self.counters.backward = self.backward.counters();
        self.counters.forward_passage = self.forward.passage();
        self.counters.backward_passage = self.backward.passage();
        self.counters.clients = self.clients.accepted_count();
        self.counters.forgotten = self.clients.forgotten_count();
        *self.strings.published.lock() = self.counters;
    }
}
