//! A client that comes to another address (RFC 9000 §9), or writes to another address of its server: the server follows once the client has returned a
//! nonce that was sent there. A client follows its server in the same way; below, "client" then means the server.
//!
//! The last handshake packets of a client count as well: its NAT may have given it another port since its hello.
//!
//! An authentic packet that is newer than all before it, on another path than the one in use, makes a candidate. So does a duplicate, as far as there is
//! room: a tap may have copied the packet and overtaken it. The server challenges the candidate and the path in use, and sends a copy of each of its
//! datagrams to the candidate, as far as three times the bytes received from it allow. The first one repeats the earliest data in flight, which may have
//! missed the client. An answer counts only if it arrives from the candidate.
//!
//! A candidate takes the place of the path in use with its answer, if nothing has arrived on that path meanwhile although an original packet would have
//! had the time. If authentic packets arrive on both paths, duplicates included, a tap relays the client's packets or the client has just moved. The
//! server cannot tell which path is the client's, so it sends all datagrams to both,
//! until one of them answers no challenge any more.
//!
//! A client that knows of its move sends to the server's spare connection ID. Then its old address is dead, and an observer of both networks must not see
//! the same packets there: datagrams are sent to the candidate alone as far as the limit allows, the candidate takes the place of the path in use with its
//! answer, and the old path is forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use festina_sctp::{Context, PathId};
use festina_units::{Duration, Instant};

use crate::channel::AMPLIFICATION_MAX;
use crate::path::Path;
use crate::reset::ResetKey;
use crate::wire::ConnectionId;

/// Among the numbers of the context that follow from a connection ID.
const NONCES: u8 = u8::MAX;
/// Paths other than the one in use. A further one takes the place of the oldest that is not validated.
const OTHERS_MAX: usize = 4;
/// Validated paths other than the one in use. Each gets all datagrams.
const RIVALS_MAX: usize = 2;
/// Challenges sent to a candidate, and the pause after the first. Each further pause is twice as long.
const CHALLENGES_MAX: usize = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// Challenges that a validated path may leave without an answer.
const UNANSWERED_MAX: usize = 2;
/// Copies of datagrams that wait, at most.
const COPIES_MAX: usize = 64;

/// The path of the core that leads elsewhere now, where to, and its round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) id: PathId,
    pub(super) path: Path,
    pub(super) round_trip: Duration,
    /// The connection ID in packets there, if it is not the one in use.
    pub(super) to: Option<ConnectionId>,
}

/// A challenge: on which path of the core, where it goes, with which connection ID if it is not the one in use, and its nonce.
pub(super) type Challenge = (PathId, Path, Option<ConnectionId>, u64);

/// The paths that a client's packets come on.
#[derive(Debug)]
pub(super) struct Moves {
    id: ConnectionId,
    /// Makes a server's tokens of resets.
    pub(super) resets: Option<Arc<ResetKey>>,
    /// Nonces made so far.
    nonces: u64,
    /// While the client may have moved.
    contest: Option<Box<Contest>>,
}

/// Several paths on which authentic packets have arrived.
#[derive(Debug)]
struct Contest {
    /// The path of the core that may lead elsewhere.
    id: PathId,
    /// The path in use.
    home: Place,
    /// Candidates and validated paths. The candidate that has sent the newest packet comes last.
    others: Vec<Place>,
    copies: VecDeque<(Path, Vec<u8>)>,
    /// After a challenge of a validated path.
    pause: Duration,
    /// A packet that was sent when the contest began may take this long on the path in use.
    one_way: Duration,
}

/// A path in a contest.
#[derive(Debug)]
struct Place {
    path: Path,
    /// The connection ID in packets there, if it is not the one in use.
    to: Option<ConnectionId>,
    since: Instant,
    /// When the latest authentic packet arrived, if any did since the contest began.
    heard_at: Option<Instant>,
    received_bytes: usize,
    sent_bytes: usize,
    is_validated: bool,
    /// A packet from there was the newest when it arrived.
    is_newest: bool,
    /// The path was in use until a candidate took its place: it returns with its answer.
    was_home: bool,
    round_trip: Duration,
    /// The nonces that count, and when each was sent.
    challenges: Vec<(u64, Instant)>,
    /// When the next challenge is sent, or the path forgotten.
    next_at: Instant,
}

impl Place {
    fn new(path: Path, now: Instant) -> Self {
        Self {
            path,
            to: None,
            since: now,
            heard_at: None,
            received_bytes: 0,
            sent_bytes: 0,
            is_validated: false,
            is_newest: false,
            was_home: false,
            round_trip: PAUSE,
            challenges: Vec::new(),
            next_at: now,
        }
    }

    fn hear(&mut self, now: Instant, bytes: usize) {
        self.heard_at = Some(now);
        self.received_bytes = self.received_bytes.saturating_add(bytes);
    }

    fn allows(&self, bytes: usize) -> bool {
        self.is_validated
            || self.sent_bytes.saturating_add(bytes) <= self.received_bytes.saturating_mul(AMPLIFICATION_MAX)
    }

    /// Returns whether a packet arrived at this time or later.
    fn is_heard_since(&self, at: Instant) -> bool {
        self.heard_at.is_some_and(|heard_at| heard_at >= at)
    }

    fn challenges_max(&self) -> usize {
        if self.is_validated { UNANSWERED_MAX } else { CHALLENGES_MAX }
    }

    /// The round trip of the challenge with this nonce.
    fn round_trip_of(&self, now: Instant, nonce: u64) -> Option<Duration> {
        let (_, sent_at) = self.challenges.iter().find(|(sent, _)| *sent == nonce)?;
        Some(now.saturating_duration_since(*sent_at))
    }

    /// A validated path need not be asked for this time.
    fn rest(&mut self, now: Instant, pause: Duration) {
        self.challenges.clear();
        self.next_at = now + pause * 3;
    }
}

impl Contest {
    fn new(now: Instant, (id, home): (PathId, Path), round_trip: Option<Duration>) -> Self {
        let pause = round_trip.unwrap_or_default().max(PAUSE);
        let home = Place { is_validated: true, round_trip: pause, ..Place::new(home, now) };
        let one_way = round_trip.unwrap_or_default() / 2;
        Self { id, home, others: Vec::new(), copies: VecDeque::new(), pause, one_way }
    }

    /// Adds a candidate. Returns `false`, without effect, if it would take the place of another one although its packet is not the newest.
    fn add(&mut self, candidate: Place, is_newest: bool) -> bool {
        if self.others.len() >= OTHERS_MAX {
            let oldest = self.others.iter().position(|place| !place.is_validated);
            let Some(oldest) = oldest.filter(|_| is_newest) else { return false };
            self.others.remove(oldest);
        }
        let now = candidate.since;
        let at = if is_newest { self.others.len() } else { 0 };
        self.others.insert(at, candidate);
        // The path in use is asked as well, unless that has just happened.
        if self.home.challenges.last().is_none_or(|(_, sent_at)| *sent_at + self.pause <= now) {
            self.home.challenges.clear();
            self.home.next_at = now;
        }
        true
    }

    /// Uses another path from now on. The one in use until now stays for a while, if it may still be the client's.
    fn promote(&mut self, at: usize) -> Move {
        let home = self.others.remove(at);
        let (was_home, to) = (!home.was_home, home.to);
        let demoted = core::mem::replace(&mut self.home, Place { was_home: false, to: None, ..home });
        let moved = Move { id: self.id, path: self.home.path, round_trip: self.home.round_trip, to };
        self.copies.clear();
        self.others.retain(|place| place.is_validated && to.is_none());
        if to.is_some() {
            return moved;
        }
        if self.others.len() >= RIVALS_MAX
            && let Some(oldest) =
                (0..self.others.len()).min_by_key(|&at| self.others.get(at).map(|place| place.heard_at))
        {
            self.others.remove(oldest);
        }
        self.others.push(Place { was_home, ..demoted });
        moved
    }

    /// A nonce was returned on the path at this place in `others`.
    fn answered(&mut self, now: Instant, at: usize, nonce: u64) -> Option<Move> {
        let (heard_at, pause, one_way) = (self.home.heard_at, self.pause, self.one_way);
        let rivals = self.others.iter().filter(|place| place.is_validated).count();
        let place = self.others.get_mut(at)?;
        let round_trip = place.round_trip_of(now, nonce)?;
        // The original of a packet that a tap has overtaken may still be on its way.
        let is_alone = heard_at.is_none_or(|heard_at| heard_at < place.since) && place.since + one_way <= now
            || place.to.is_some();
        if place.is_validated && !place.was_home || !place.is_validated && !is_alone && rivals >= RIVALS_MAX {
            return None;
        }
        place.is_validated = true;
        place.round_trip = round_trip;
        place.rest(now, pause);
        (is_alone || place.was_home).then(|| self.promote(at))
    }

    /// Forgets candidates that have not answered in time or that may get nothing more, and validated paths that have died. If that is the path in use,
    /// returns the one that takes its place.
    fn handle_timeout(&mut self, now: Instant, bytes: usize) -> Option<Move> {
        let Self { home, others, pause, .. } = self;
        for place in others.iter_mut().chain([&mut *home]) {
            let first = place.challenges.first().map(|(_, sent_at)| *sent_at);
            if place.is_validated && place.next_at <= now && first.is_some_and(|at| place.is_heard_since(at)) {
                place.rest(now, *pause);
            }
        }
        let is_over = |place: &Place| {
            place.next_at <= now && (place.challenges.len() >= place.challenges_max() || !place.allows(bytes))
        };
        others.retain(|place| !is_over(place));
        if !is_over(home) {
            return None;
        }
        home.rest(now, *pause);
        let latest = (0..others.len()).filter(|&at| others.get(at).is_some_and(|place| place.is_validated));
        let latest = latest.max_by_key(|&at| others.get(at).map(|place| place.heard_at))?;
        let moved = self.promote(latest);
        // The old path has died.
        self.others.pop();
        Some(moved)
    }
}

impl Moves {
    pub(super) fn new(id: ConnectionId, resets: Option<Arc<ResetKey>>) -> Self {
        Self { id, resets, nonces: 0, contest: None }
    }

    /// An authentic datagram was received, perhaps a duplicate. `home` is the path in use and its round trip. Returns whether the datagram is the newest
    /// and has made a candidate, to which packets have the connection ID `to`. Of several paths of the core one may move at a time.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        (home, round_trip): ((PathId, Path), impl FnOnce() -> Option<Duration>),
        (from, bytes): (Path, usize),
        (is_newest, to): (bool, Option<ConnectionId>),
    ) -> bool {
        let is_other = |contest: &Contest| contest.id != home.0;
        if let Some(contest) = self.contest.as_deref().filter(|contest| is_other(contest)) {
            // Duplicates alone, which anyone on a path can send, do not keep another path from moving.
            if !is_newest || from == home.1 || contest.others.iter().any(|place| place.is_validated || place.is_newest)
            {
                return false;
            }
            self.contest = None;
        }
        if from == home.1 && to.is_none() {
            if let Some(contest) = &mut self.contest {
                contest.home.hear(now, bytes);
            }
            return false;
        }
        let others = self.contest.as_mut().map(|contest| &mut contest.others);
        if let Some(others) = others
            && let Some(at) = others.iter().position(|place| place.path == from && place.to == to)
        {
            let mut place = others.remove(at);
            place.hear(now, bytes);
            place.is_newest |= is_newest;
            // One that only repeats old packets stays behind those that send new ones.
            let at = if is_newest { others.len() } else { at };
            others.insert(at, place);
            return false;
        }
        let ip = from.remote.ip();
        if ip.is_multicast() || ip.is_unspecified() || from.remote.port() == 0 {
            return false;
        }
        let contest = self.contest.get_or_insert_with(|| Box::new(Contest::new(now, home, round_trip())));
        let mut candidate = Place { is_newest, to, ..Place::new(from, now) };
        candidate.hear(now, bytes);
        contest.add(candidate, is_newest) && is_newest
    }

    /// No candidate counts any more.
    pub(super) fn end(&mut self) {
        self.contest = None;
    }

    /// The client has returned nonces. Returns the path that is used from now on, if it is another one.
    pub(super) fn answered(&mut self, now: Instant, from: Path, nonces: &[u64]) -> Option<Move> {
        let contest = self.contest.as_mut()?;
        let knows = |place: &Place| nonces.iter().any(|nonce| place.round_trip_of(now, *nonce).is_some());
        let at = contest.others.iter().position(|place| place.path == from && knows(place))?;
        nonces.iter().find_map(|nonce| contest.answered(now, at, *nonce))
    }

    /// The next challenge that is due. `bytes` is the length of its datagram.
    pub(super) fn poll_challenge(&mut self, now: Instant, bytes: usize, context: &Context) -> Option<Challenge> {
        let Contest { id, home, others, pause, .. } = self.contest.as_deref_mut()?;
        let is_due = |place: &&mut Place| {
            place.next_at <= now && place.challenges.len() < place.challenges_max() && place.allows(bytes)
        };
        let place = others.iter_mut().chain([home]).find(is_due)?;
        let nonce = context.number_below(u64::from_be_bytes(self.id.0).wrapping_add(self.nonces), NONCES);
        self.nonces += 1;
        let pause = if place.is_validated { *pause } else { PAUSE };
        place.next_at = now + pause * (1 << place.challenges.len());
        place.challenges.push((nonce, now));
        place.sent_bytes += bytes;
        Some((*id, place.path, place.to, nonce))
    }

    /// The newest candidate whose packets have another connection ID than the one in use.
    fn diversion(&mut self) -> Option<&mut Place> {
        self.contest.as_mut()?.others.iter_mut().rfind(|place| place.to.is_some())
    }

    /// The number of bytes that may be sent to a client that says it has moved.
    pub(super) fn diverted_bytes_max(&mut self) -> usize {
        self.diversion()
            .map_or(0, |place| place.received_bytes.saturating_mul(AMPLIFICATION_MAX).saturating_sub(place.sent_bytes))
    }

    /// Returns where a datagram of this size goes that was written for a client that says it has moved.
    pub(super) fn divert(&mut self, bytes: usize) -> Option<Path> {
        let place = self.diversion()?;
        place.sent_bytes += bytes;
        Some(place.path)
    }

    /// This side has moved: the copies that wait have the old connection ID.
    pub(super) fn forget_copies(&mut self) {
        if let Some(contest) = &mut self.contest {
            contest.copies.clear();
        }
    }

    /// Keeps copies of a datagram on this path for the validated paths, and for the newest candidate if it may get as much.
    pub(super) fn copy(&mut self, path: PathId, datagram: &[u8]) {
        let contest = self.contest.as_deref_mut().filter(|contest| contest.id == path);
        let Some(Contest { others, copies, .. }) = contest else { return };
        let newest = others.iter().rposition(|place| !place.is_validated);
        for (at, place) in others.iter_mut().enumerate().filter(|(_, place)| place.to.is_none()) {
            let is_wanted = place.is_validated || Some(at) == newest;
            if is_wanted && place.allows(datagram.len()) && copies.len() < COPIES_MAX {
                place.sent_bytes += datagram.len();
                copies.push_back((place.path, datagram.to_vec()));
            }
        }
    }

    pub(super) fn pop_copy(&mut self) -> Option<(Path, Vec<u8>)> {
        self.contest.as_mut()?.copies.pop_front()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let Contest { home, others, .. } = self.contest.as_deref()?;
        others.iter().chain([home]).map(|place| place.next_at).min()
    }

    /// Handles expired timers; `bytes` is the length of a challenge's datagram. Returns the path that is used from now on, if it is another one.
    pub(super) fn handle_timeout(&mut self, now: Instant, bytes: usize) -> Option<Move> {
        let contest = self.contest.as_mut()?;
        let moved = contest.handle_timeout(now, bytes);
        self.contest.take_if(|contest| contest.others.is_empty());
        moved
    }
}
