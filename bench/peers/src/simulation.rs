//! Two endpoints over two links in virtual time, with the checks of interoperability.

pub mod conversation;
mod direction;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use direction::Direction;
use festina_netsim::{LinkConfig, LinkCounters, RandomStream};

use crate::peer::{Message, Peer, SendError, Stack};

/// Virtual time after which a run counts as stuck: far beyond what exponential backoff needs at 20 % loss.
const TIME_MAX: Duration = Duration::from_secs(48 * 3_600);
/// Events after which a run counts as busy without progress.
const EVENTS_MAX: u64 = 2_000_000;
/// Streams that carry messages.
const STREAMS: u64 = 4;

/// How an association ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client shuts down once all messages have arrived.
    ClientShutsDown,
    /// The server shuts down once all messages have arrived.
    ServerShutsDown,
    /// Both shut down at the same time.
    BothShutDown,
    /// The client shuts down directly after queuing its last message, while the server has nothing to send.
    ClientShutsDownEarly,
    /// The client aborts once all messages have arrived. Every packet arrives from then on, for an ABORT is sent once.
    ClientAborts,
    /// The server aborts.
    ServerAborts,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What both links do to packets.
    pub link: LinkConfig,
    /// Decides the packets' fate and the messages.
    pub seed: u64,
    /// Whether the messages are unordered.
    pub unordered: bool,
    /// Sizes of the client's messages, in bytes.
    pub client_sends: Vec<usize>,
    /// Sizes of the server's messages, in bytes.
    pub server_sends: Vec<usize>,
    /// How it ends.
    pub ending: Ending,
}

/// What happened in a run that satisfied all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Messages delivered, both directions.
    pub messages: u64,
    /// User data delivered, both directions.
    pub bytes: u64,
    /// Counters of the links to the server and to the client.
    pub links: [LinkCounters; 2],
    /// Virtual time at the end.
    pub time: Duration,
    /// One side had ended gracefully and forgotten the association when the other, which had lost its SHUTDOWN COMPLETE, sent
    /// something else than SHUTDOWN ACK, was answered with ABORT as RFC 9260 section 8.4 demands, and called that an error
    /// ([`Stack::LATE_ABORT_IS_ERROR`]). Nothing is lost by that.
    pub late_abort: bool,
}

/// Runs one scenario with a client of the first stack and a server of the second.
///
/// # Errors
/// What went wrong: an association that was not to end ended, a message that was wrong, missing, duplicated or out of order,
/// an end that was not graceful (but for [`Outcome::late_abort`]), or no end at all.
pub fn run<C: Stack, S: Stack>(clients: &mut C, servers: &mut S, scenario: &Scenario) -> Result<Outcome, String> {
    let mut run = Run::new(clients, servers, scenario);
    run.shelters_end = scenario.ending.is_abort() || !(C::ANSWERS_STRAYS && S::ANSWERS_STRAYS);
    run.client.late_abort_is_error = C::LATE_ABORT_IS_ERROR;
    run.server.late_abort_is_error = S::LATE_ABORT_IS_ERROR;
    run.drive_until(Run::all_done, scenario)?;
    run.end(scenario)?;
    run.drive_until(Run::both_closed, scenario)?;
    run.outcome(scenario)
}

/// One endpoint, its unsent messages, and the messages that it still has to receive.
struct Side<P> {
    name: &'static str,
    peer: P,
    late_abort_is_error: bool,
    to_send: VecDeque<Message>,
    expected: Expected,
}

/// Which side ended before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstClosed {
    Neither,
    Client,
    Server,
}

struct Run<C, S> {
    client: Side<C>,
    server: Side<S>,
    to_server: Direction,
    to_client: Direction,
    now: Duration,
    events: u64,
    ending: bool,
    /// From the first call that ends the association, the links lose and damage nothing.
    shelters_end: bool,
    first_closed: FirstClosed,
    delivered: Outcome,
}

impl<C: Peer, S: Peer> Run<C, S> {
    fn new(clients: &mut impl Stack<Peer = C>, servers: &mut impl Stack<Peer = S>, scenario: &Scenario) -> Self {
        let messages = |sizes, name| messages(sizes, scenario.unordered, RandomStream::new(scenario.seed, name));
        let from_client = messages(&scenario.client_sends, "messages of the client");
        let from_server = messages(&scenario.server_sends, "messages of the server");
        let direction = |name| Direction::new(scenario.link.clone(), scenario.seed, name);
        let start = Duration::ZERO;
        Run {
            client: Side {
                name: "client",
                peer: clients.client(start),
                late_abort_is_error: false,
                expected: Expected::new(&from_server),
                to_send: from_client.clone(),
            },
            server: Side {
                name: "server",
                peer: servers.server(start),
                late_abort_is_error: false,
                expected: Expected::new(&from_client),
                to_send: from_server,
            },
            to_server: direction("to the server"),
            to_client: direction("to the client"),
            now: start,
            events: 0,
            ending: false,
            shelters_end: false,
            first_closed: FirstClosed::Neither,
            delivered: Outcome::default(),
        }
    }

    fn all_delivered(&self) -> bool {
        self.client.expected.is_empty() && self.server.expected.is_empty()
    }

    fn all_done(&self) -> bool {
        let established = self.client.peer.is_connected() && self.server.peer.is_connected();
        self.all_delivered() && (established || self.ending)
    }

    fn both_closed(&self) -> bool {
        self.client.peer.is_closed() && self.server.peer.is_closed()
    }

    fn drive_until(&mut self, done: fn(&Self) -> bool, scenario: &Scenario) -> Result<(), String> {
        loop {
            self.settle(scenario)?;
            if done(self) {
                return Ok(());
            }
            self.events += 1;
            let deadlines = [
                self.to_server.deadline(),
                self.to_client.deadline(),
                self.client.peer.deadline(),
                self.server.peer.deadline(),
            ];
            let Some(next) = deadlines.into_iter().flatten().min() else {
                return Err(self.complaint("nothing is left to happen"));
            };
            self.now = self.now.max(next);
            if self.now > TIME_MAX || self.events > EVENTS_MAX {
                return Err(self.complaint("stuck"));
            }
            self.step();
        }
    }

    /// Lets both sides send and receive until neither has anything to do at this moment.
    fn settle(&mut self, scenario: &Scenario) -> Result<(), String> {
        for _ in 0..2 {
            self.client.exchange(self.now, &mut self.to_server, &mut self.delivered)?;
            self.server.exchange(self.now, &mut self.to_client, &mut self.delivered)?;
        }
        if scenario.ending == Ending::ClientShutsDownEarly
            && !self.ending
            && self.client.to_send.is_empty()
            && self.client.peer.is_connected()
        {
            self.end(scenario)?;
        }
        if self.first_closed == FirstClosed::Neither {
            self.first_closed = match (self.client.peer.is_closed(), self.server.peer.is_closed()) {
                (true, false) => FirstClosed::Client,
                (false, true) => FirstClosed::Server,
                _ => FirstClosed::Neither,
            };
        }
        if !self.ending && (self.client.peer.is_closed() || self.server.peer.is_closed()) {
            return Err(self.complaint("the association ended by itself"));
        }
        Ok(())
    }

    /// Delivers arrived packets, and runs expired timers.
    fn step(&mut self) {
        while let Some(packet) = self.to_server.poll_delivery(self.now) {
            self.server.peer.handle_packet(self.now, packet);
        }
        while let Some(packet) = self.to_client.poll_delivery(self.now) {
            self.client.peer.handle_packet(self.now, packet);
        }
        if self.client.peer.deadline().is_some_and(|at| at <= self.now) {
            self.client.peer.handle_timeout(self.now);
        }
        if self.server.peer.deadline().is_some_and(|at| at <= self.now) {
            self.server.peer.handle_timeout(self.now);
        }
    }

    fn end(&mut self, scenario: &Scenario) -> Result<(), String> {
        if self.ending {
            return Ok(());
        }
        self.ending = true;
        let (client, server, now) = (&mut self.client.peer, &mut self.server.peer, self.now);
        match scenario.ending {
            Ending::ClientShutsDown | Ending::ClientShutsDownEarly => client.shutdown(now),
            Ending::ServerShutsDown => server.shutdown(now),
            Ending::BothShutDown => {
                client.shutdown(now);
                server.shutdown(now);
            }
            Ending::ClientAborts => client.abort(now).map_err(|error| error.to_string())?,
            Ending::ServerAborts => server.abort(now).map_err(|error| error.to_string())?,
        }
        if self.shelters_end {
            self.to_server.shelter();
            self.to_client.shelter();
        }
        Ok(())
    }

    fn outcome(&self, scenario: &Scenario) -> Result<Outcome, String> {
        if !self.all_delivered() {
            return Err(self.complaint("closed before everything had arrived"));
        }
        let late_abort = if scenario.ending.is_abort() {
            if [self.client.peer.was_aborted(), self.server.peer.was_aborted()].contains(&Some(false)) {
                return Err(self.complaint("the end was not the abort that was asked for"));
            }
            false
        } else {
            self.ended_by_late_abort().ok_or_else(|| self.complaint("the end was not graceful"))?
        };
        let links = [self.to_server.counters(), self.to_client.counters()];
        Ok(Outcome { links, time: self.now, late_abort, ..self.delivered })
    }

    /// Whether [`Outcome::late_abort`] holds of a graceful end; `None` if it was none.
    fn ended_by_late_abort(&self) -> Option<bool> {
        let (client_failed, server_failed) = (self.client.peer.error().is_some(), self.server.peer.error().is_some());
        match (client_failed, server_failed, self.first_closed) {
            (false, false, _) => Some(false),
            (false, true, FirstClosed::Client) if self.server.late_abort_is_error => Some(true),
            (true, false, FirstClosed::Server) if self.client.late_abort_is_error => Some(true),
            _ => None,
        }
    }

    fn complaint(&self, what: &str) -> String {
        let Run { client, server, .. } = self;
        format!(
            "{what} at {:?} after {} events; still to arrive: {} at the client, {} at the server; client connected {} closed {} \
             error {:?}, server connected {} closed {} error {:?}",
            self.now,
            self.events,
            client.expected.missing,
            server.expected.missing,
            client.peer.is_connected(),
            client.peer.is_closed(),
            client.peer.error(),
            server.peer.is_connected(),
            server.peer.is_closed(),
            server.peer.error(),
        )
    }
}

impl Ending {
    /// Whether it is by ABORT.
    #[must_use]
    pub fn is_abort(self) -> bool {
        matches!(self, Ending::ClientAborts | Ending::ServerAborts)
    }
}

impl<P: Peer> Side<P> {
    fn exchange(&mut self, now: Duration, link: &mut Direction, delivered: &mut Outcome) -> Result<(), String> {
        while let Some(message) = self.peer.receive(now) {
            delivered.messages += 1;
            delivered.bytes += message.payload.len() as u64;
            self.expected.take(&message).map_err(|error| format!("at the {}: {error}", self.name))?;
        }
        while self.peer.is_connected()
            && let Some(message) = self.to_send.front()
        {
            match self.peer.send(now, message) {
                Ok(()) => drop(self.to_send.pop_front()),
                Err(SendError::WouldBlock) => break,
                Err(error @ SendError::Refused(_)) => return Err(format!("the {} cannot send: {error}", self.name)),
            }
        }
        while let Some(packet) = self.peer.poll_packet(now) {
            link.send(now, packet);
        }
        Ok(())
    }
}

/// Messages that still have to arrive.
struct Expected {
    /// By stream, in order.
    ordered: HashMap<u16, VecDeque<Message>>,
    /// Unordered messages: how often each payload is still expected, by stream.
    unordered: HashMap<(u16, Bytes), u64>,
    missing: u64,
}

impl Expected {
    fn new(messages: &VecDeque<Message>) -> Self {
        let mut expected = Expected { ordered: HashMap::new(), unordered: HashMap::new(), missing: 0 };
        for message in messages {
            expected.missing += 1;
            if message.unordered {
                *expected.unordered.entry((message.stream, message.payload.clone())).or_default() += 1;
            } else {
                expected.ordered.entry(message.stream).or_default().push_back(message.clone());
            }
        }
        expected
    }

    fn is_empty(&self) -> bool {
        self.missing == 0
    }

    fn take(&mut self, got: &Message) -> Result<(), String> {
        let what = format!("message of {} bytes on stream {}", got.payload.len(), got.stream);
        if got.ppid != PPID_BINARY {
            return Err(format!("{what}: payload protocol identifier {}", got.ppid));
        }
        if let Some(count) = self.unordered.get_mut(&(got.stream, got.payload.clone())).filter(|count| **count > 0) {
            *count -= 1;
        } else {
            let wanted = self.ordered.get_mut(&got.stream).and_then(VecDeque::pop_front);
            let wanted = wanted.ok_or_else(|| format!("{what}: matches none that is still to come"))?;
            if wanted.payload != got.payload {
                return Err(format!("{what}: differs from the next one in order, of {} bytes", wanted.payload.len()));
            }
        }
        self.missing -= 1;
        Ok(())
    }
}

/// Payload protocol identifier of binary WebRTC messages.
const PPID_BINARY: u32 = 53;

/// Messages of the given sizes with random content, spread over the streams.
fn messages(sizes: &[usize], unordered: bool, mut random: RandomStream) -> VecDeque<Message> {
    let message = |&size: &usize| {
        let mut payload = vec![0; size];
        for piece in payload.chunks_mut(size_of::<u64>()) {
            piece.copy_from_slice(&random.bits().to_le_bytes()[..piece.len()]);
        }
        // Ordered and unordered messages never share a stream, because some stacks fix the mode per stream.
        let stream = random.below(STREAMS) + if unordered { STREAMS } else { 0 };
        Message {
            stream: u16::try_from(stream).unwrap_or(0),
            ppid: PPID_BINARY,
            unordered,
            payload: Bytes::from(payload),
        }
    };
    sizes.iter().map(message).collect()
}
