//! The paths to the peer: a bounded list that is never empty, and which of them carries what (RFC 9260 §6.4, §8.2; RFC 7829).

use std::net::{IpAddr, SocketAddr};

use festina_units::{Duration, Instant, OptionalInstant};

use super::homes::{Multihoming, PathPolicy};
use super::path::{Path, PathVerdict, Standing};
use super::sharing::Sharing;
use crate::config::Config;
use crate::event::{Event, Events};
use crate::path_id::{ByPath, PATHS_MAX, PathId, PathSet};
use crate::send::{Duties, SendPath, SendPaths};
use crate::wire::COMMON_HEADER_BYTES;

/// The paths of the association, by [`PathId`]. The first lies inside the association, and others on the heap.
#[derive(Debug)]
pub(super) struct Paths {
    first: Path,
    pub(super) others: Option<Box<Others>>,
}

/// The paths other than the first, and the choice among all.
#[derive(Debug)]
pub(super) struct Others {
    paths: Vec<Path>,
    /// The primary path.
    primary: PathId,
    /// The path that carries new data.
    data: PathId,
    /// The path that carries lost chunks and control chunks.
    repairs: PathId,
    /// The path on which the peer's data last came. SACKs leave by it (RFC 9260 §6.4).
    heard_data: PathId,
    /// What other paths than that of new data carry of it.
    pub(super) sharing: Sharing,
    /// The path on which the latest packet of the peer came.
    pub(super) came_by: PathId,
    /// The path by which answers leave, until one is repeated: that of the latest packet (RFC 9260 §6.4).
    pub(super) answers: Option<PathId>,
    /// Path.Max.Retrans of potentially failed paths (RFC 7829 §3), if there are any.
    suspected_above: Option<u32>,
    /// Consecutive errors of all paths together (RFC 9260 §8.1).
    errors: u32,
    /// The probes of addresses that are not confirmed.
    pub(super) probes: Probes,
    /// When a path where a probe of a thin stream is outstanding counts as failed if it stays silent.
    pub(super) silent_until: ByPath<OptionalInstant>,
    /// Paths to addresses that the peer no longer names, until another path is confirmed.
    pub(super) left: PathSet,
    /// How often in a row another path has taken over because of that, and nothing was acknowledged since.
    pub(super) moves_in_vain: u32,
}

/// What addresses get that are not confirmed.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Bytes sent there.
    pub(super) bytes: u64,
    /// Bytes that the peer had sent when it restarted, which allow nothing more.
    pub(super) received_before: u64,
    /// When the next of those addresses may be probed.
    pub(super) next_at: Instant,
}

/// Takeovers in a row after which nothing was acknowledged.
const MOVES_IN_VAIN_MAX: u32 = 4;

/// A path is no faster than another by less.
const GAIN_MIN: Duration = Duration::from_millis(1);

/// Bytes of a packet with a heartbeat and nothing else.
pub(super) const HEARTBEAT_PACKET_BYTES: u64 = COMMON_HEADER_BYTES as u64 + 16;

/// The state of one of several paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PathState {
    /// It answers, and may carry data.
    Active,
    /// It may have failed, since a timeout was not followed by an answer. It carries data only if no path is active (RFC 7829 §3).
    PotentiallyFailed,
    /// It has not answered for too long (RFC 9260 §8.2).
    Inactive,
    /// Nothing shows that the address is the peer's. Only heartbeats are sent to it (RFC 9260 §5.4).
    Unconfirmed,
    /// The peer has left the address ([`Association::name_addresses`](crate::Association::name_addresses)). Nothing is sent to it.
    Closed,
}

/// The contents of a packet on one of several paths, besides a heartbeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freight {
    /// Control chunks other than answers, heartbeats and SACKs.
    pub(super) control: bool,
    pub(super) sack: bool,
    pub(super) data: bool,
}

impl Paths {
    pub(super) fn new(first: Path) -> Self {
        Self { first, others: None }
    }

    /// Adds paths with consecutive numbers from 1 on.
    pub(super) fn open(&mut self, paths: Vec<Path>, multihoming: &Multihoming) {
        let [primary, data, repairs, heard_data, came_by] = [PathId::PRIMARY; 5];
        let (sharing, suspected_above) = (Sharing::new(multihoming.policy), multihoming.suspected_above);
        let (probes, silent_until) = (Probes::default(), ByPath::default());
        self.others = Some(Box::new(Others {
            paths,
            primary,
            data,
            repairs,
            heard_data,
            sharing,
            came_by,
            answers: None,
            suspected_above,
            errors: 0,
            probes,
            silent_until,
            left: PathSet::default(),
            moves_in_vain: 0,
        }));
        self.assign();
    }

    /// The number for a further path: that of a closed one only if there is no other.
    pub(super) fn vacant(&self, paths_max: usize) -> Option<PathId> {
        let open = self.iter().filter(|path| !path.is_closed()).count();
        let fresh = self.ids().count();
        let fresh = u8::try_from(fresh).ok().filter(|_| fresh < PATHS_MAX).map(PathId);
        let closed = || self.iter().filter(|path| path.is_closed()).map(|path| path.sending.id()).last();
        fresh.or_else(closed).filter(|_| open < paths_max)
    }

    /// Puts a path in its place.
    pub(super) fn put(&mut self, path: Path) {
        let id = path.sending.id();
        if usize::from(id.0) < self.ids().count() {
            *self.of_mut(id) = path;
        } else if let Some(others) = &mut self.others {
            others.paths.push(path);
        }
        self.assign();
    }

    /// Removes all paths but the first.
    pub(super) fn close_others(&mut self) {
        self.first.sending.set_duties(Duties::ALL);
        self.first.sending.set_measures(true);
        self.others = None;
    }

    /// Whether there are several paths.
    #[inline]
    pub(super) fn are_several(&self) -> bool {
        self.others.is_some()
    }

    /// The path of the handshake.
    #[inline]
    pub(super) fn first(&self) -> &Path {
        &self.first
    }

    /// As [`first`](Self::first).
    pub(super) fn first_mut(&mut self) -> &mut Path {
        &mut self.first
    }

    /// The path that new data is sent on (RFC 9260 §6.4): the primary path, or another while it does not answer.
    #[inline]
    pub(super) fn primary(&self) -> &Path {
        match &self.others {
            None => &self.first,
            Some(others) => self.of(others.data),
        }
    }

    /// As [`primary`](Self::primary).
    #[inline]
    pub(super) fn primary_mut(&mut self) -> &mut Path {
        match &self.others {
            None => &mut self.first,
            Some(others) => self.of_mut(others.data),
        }
    }

    /// The number of the path that lost chunks and control chunks are sent on.
    #[inline]
    pub(super) fn repairs(&self) -> PathId {
        self.others.as_ref().map_or(PathId::PRIMARY, |others| others.repairs)
    }

    /// The number of the path that answers are sent on: not one to an unconfirmed address (RFC 9260 §5.4).
    #[inline]
    pub(super) fn answers(&self) -> PathId {
        let answers = self.others.as_ref().and_then(|others| others.answers);
        answers.filter(|&id| self.of(id).is_confirmed()).unwrap_or(self.repairs())
    }

    /// Returns whether an answer to a chunk that came on `path`, or in the latest packet if that is `None`, leaves by this path.
    #[inline]
    pub(super) fn answer_on(&self, path: Option<PathId>, id: PathId) -> bool {
        !self.are_several() || path.unwrap_or(self.answers()) == id
    }

    /// The path with this number. The first path takes the place of one that is no more.
    #[inline]
    pub(super) fn of(&self, id: PathId) -> &Path {
        if id == PathId::PRIMARY { &self.first } else { self.other(id) }
    }

    #[cold]
    fn other(&self, id: PathId) -> &Path {
        id.other().and_then(|other| self.others.as_ref()?.paths.get(other)).unwrap_or(&self.first)
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(super) fn of_mut(&mut self, id: PathId) -> &mut Path {
        if id == PathId::PRIMARY { &mut self.first } else { self.other_mut(id) }
    }

    #[cold]
    fn other_mut(&mut self, id: PathId) -> &mut Path {
        id.other().and_then(|other| self.others.as_mut()?.paths.get_mut(other)).unwrap_or(&mut self.first)
    }

    /// Returns the path to the address of `source`, regardless of the port, if there is one.
    #[inline]
    pub(super) fn to(&self, source: SocketAddr) -> Option<PathId> {
        let Some(_) = &self.others else {
            return (self.first.remote.ip() == source.ip()).then_some(PathId::PRIMARY);
        };
        // A socket for both families writes IPv4 addresses as IPv6 ones.
        let source = source.ip().to_canonical();
        let leads_there = |path: &&Path| path.remote.ip().to_canonical() == source && !path.is_closed();
        self.iter().find(leads_there).map(|path| path.sending.id())
    }

    /// Returns whether one of the paths has this destination, in whichever form it is written.
    pub(super) fn lead_to(&self, address: IpAddr) -> bool {
        self.iter().any(|path| path.remote.ip().to_canonical() == address.to_canonical() && !path.is_closed())
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        core::iter::once(&self.first).chain(self.others.as_ref().map_or(&[][..], |others| &others.paths))
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        core::iter::once(&mut self.first).chain(self.others.as_mut().map_or(&mut [][..], |others| &mut others.paths))
    }

    /// What other paths carry of that of new data, if there are several.
    pub(super) fn sharing_mut(&mut self) -> Option<&mut Sharing> {
        self.others.as_mut().map(|others| &mut others.sharing)
    }

    /// Returns whether new data leaves by this one of several paths.
    pub(super) fn carries_new_data(&self, id: PathId) -> bool {
        self.others.as_ref().is_some_and(|others| others.data == id)
    }

    /// A path was closed: nothing that is to leave goes there.
    pub(super) fn leave(&mut self, id: PathId) {
        let (data, repairs) = (Self::primary(self).sending.id(), self.repairs());
        let Some(others) = &mut self.others else { return };
        if others.primary == id {
            (others.primary, others.sharing.is_primary_chosen) = (data, false);
        }
        if others.sharing.preferred == id {
            others.sharing.preferred = data;
        }
        for place in [&mut others.heard_data, &mut others.came_by] {
            if *place == id {
                *place = repairs;
            }
        }
        *others.silent_until.of_mut(id) = OptionalInstant::NONE;
        others.sharing.forget(id);
        self.assign();
    }

    /// The numbers of all paths.
    #[inline]
    pub(super) fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        let count = 1 + self.others.as_ref().map_or(0, |others| others.paths.len());
        (0..u8::try_from(count).unwrap_or(u8::MAX)).map(PathId)
    }

    /// The state of a path.
    pub(super) fn state_of(&self, path: &Path) -> PathState {
        let suspected_above = self.others.as_ref().and_then(|others| others.suspected_above);
        match path.standing() {
            Standing::Unconfirmed => PathState::Unconfirmed,
            Standing::Inactive => PathState::Inactive,
            Standing::Closed => PathState::Closed,
            Standing::Active if suspected_above.is_some_and(|errors| path.errors() > errors) => {
                PathState::PotentiallyFailed
            }
            Standing::Active => PathState::Active,
        }
    }

    /// The path with this number, which is the only one unless there are `SEVERAL`: then nothing is looked up.
    #[inline(always)]
    pub(super) fn one<const SEVERAL: bool>(&self, id: PathId) -> &Path {
        if SEVERAL { self.of(id) } else { &self.first }
    }

    /// As [`one`](Self::one).
    #[inline(always)]
    pub(super) fn one_mut<const SEVERAL: bool>(&mut self, id: PathId) -> &mut Path {
        if SEVERAL { self.of_mut(id) } else { &mut self.first }
    }

    /// What a packet on this path may hold; everything if it is the only one. `answers`: the control chunks that are due answer the peer's.
    #[inline(always)]
    pub(super) fn freight<const SEVERAL: bool>(&self, id: PathId, answers: bool) -> Freight {
        let everything = Freight { control: true, sack: true, data: true };
        let Some(others) = self.others.as_ref().filter(|_| SEVERAL) else { return everything };
        let control = if answers { self.answers() } else { others.repairs };
        Freight { control: id == control, sack: id == others.heard_data, data: self.of(id).is_confirmed() }
    }

    /// Chooses a primary path. Returns `false`, without effect, unless there is such a path and its address is confirmed.
    pub(super) fn set_primary(&mut self, id: PathId) -> bool {
        let is_known = self.iter().any(|path| path.sending.id() == id && path.is_confirmed());
        if let (true, Some(others)) = (is_known, &mut self.others) {
            others.primary = id;
            others.sharing.is_primary_chosen = true;
            self.assign();
        }
        is_known
    }

    /// Chooses the paths for new data and for lost chunks, after the state of a path has changed.
    ///
    /// New data leaves by the primary path while it is active, or by a faster one if the policy says so, and otherwise by the first active path. If
    /// there is none, the path with the fewest errors is used, and a potentially failed one before an inactive one (RFC 7829 §3.2). A chunk that timed out leaves by a path with fewer errors
    /// than its own, if one is active (RFC 9260 §6.4.1). With [`Destinations::repairs_elsewhere`](festina_recovery::profile::Destinations::repairs_elsewhere)
    /// any lost chunk leaves by another path than new data, unless that one has more errors.
    pub(super) fn assign(&mut self) {
        let Some(others) = &self.others else { return };
        let (sharing, primary) = (&others.sharing, others.primary);
        let primary = if sharing.is_primary_chosen { primary } else { self.preferred(primary, sharing.preferred) };
        let usable = || {
            let states = self.iter().map(|path| (self.state_of(path), path));
            states.filter(|&(_, path)| path.is_confirmed())
        };
        let data = usable().min_by_key(|&(state, path)| {
            let errors = if state == PathState::Active { 0 } else { path.errors() };
            (state, errors, path.sending.id() != primary)
        });
        let Some(data) = data.map(|(_, path)| path.sending.id()) else { return };
        let repairs = usable().min_by_key(|&(state, path)| (state, path.errors(), path.sending.id() != data));
        let repairs = repairs.map_or(data, |(_, path)| path.sending.id());
        let [helper, copier] =
            [sharing.slower_max(), sharing.copies_slower_max()].map(|max| self.helper_of(data, max?));
        let lost = if Self::of(self, data).sending.mechanisms().destinations.repairs_elsewhere {
            let elsewhere = usable().min_by_key(|&(state, path)| (state, path.errors(), path.sending.id() == data));
            elsewhere.map_or(repairs, |(_, path)| path.sending.id())
        } else {
            repairs
        };
        for path in self.iter_mut() {
            let id = path.sending.id();
            let has_copies = id == data && copier.is_some();
            path.sending.set_duties(Duties { new_data: id == data, lost: id == lost, asks: has_copies });
        }
        if let Some(others) = &mut self.others {
            (others.data, others.repairs, others.sharing.helper) = (data, repairs, helper);
            others.sharing.preferred = primary;
            others.sharing.copier = copier;
        }
    }

    /// Returns the primary path, or an active one that is faster by a quarter; by an eighth if that one is preferred so far.
    fn preferred(&self, primary: PathId, so_far: PathId) -> PathId {
        let Some(others) = self.others.as_ref().filter(|others| others.sharing.policy != PathPolicy::PrimaryOnly)
        else {
            return primary;
        };
        // The delay of SACKs would count as the path's.
        if !Self::of(self, others.data).sending.has_prompt_sacks() {
            return so_far;
        }
        let active = self.iter().filter(|path| self.state_of(path) == PathState::Active);
        let fastest = active.filter_map(|path| Some((path.sending.srtt()?, path.sending.id())));
        let fastest = fastest.min_by_key(|&(srtt, _)| srtt).zip(Self::of(self, primary).sending.srtt());
        match fastest {
            Some(((srtt, id), of_primary))
                if srtt + (srtt / if id == so_far { 8 } else { 4 }).max(GAIN_MIN) < of_primary =>
            {
                id
            }
            _ => primary,
        }
    }

    /// Returns the round trip of the fastest other active path: until it has passed, nothing sent there would arrive sooner than by another probe here.
    pub(super) fn detour(&self, id: PathId) -> Duration {
        let others = self.iter().filter(|path| path.sending.id() != id && self.state_of(path) == PathState::Active);
        others.filter_map(|path| path.sending.srtt()).min().unwrap_or_default()
    }

    /// Returns the fastest other active path than that of new data, if its round trip is at most as many times as long.
    fn helper_of(&self, data: PathId, slower_max: u32) -> Option<PathId> {
        let others = self.iter().filter(|path| path.sending.id() != data && self.state_of(path) == PathState::Active);
        let (srtt, helper) =
            others.map(|path| (path.sending.srtt(), path.sending.id())).min_by_key(|&(srtt, _)| srtt)?;
        let limit = self.of(data).sending.srtt().map(|srtt| srtt.saturating_mul(slower_max));
        srtt.zip(limit).is_none_or(|(srtt, limit)| srtt <= limit).then_some(helper)
    }

    /// The peer acknowledged something sent on a path, or answered a heartbeat.
    pub(super) fn answered(&mut self, now: Instant, id: PathId, events: &mut Events) {
        if self.is_suspected(id) {
            events.push(Event::PathSuspected { path: id, suspected: false });
        }
        self.of_mut(id).answered(now, events);
        if let Some(others) = &mut self.others {
            others.errors = 0;
            others.sharing.answered();
            *others.silent_until.of_mut(id) = OptionalInstant::NONE;
            self.assign();
        }
    }

    /// Whether a path may have failed.
    pub(super) fn is_suspected(&self, id: PathId) -> bool {
        self.others.is_some() && self.state_of(self.of(id)) == PathState::PotentiallyFailed
    }

    /// Handles a timeout or a missed heartbeat on a path. Returns whether the peer counts as unreachable. Probes of an unconfirmed address say nothing
    /// of the peer (RFC 9260 §5.4).
    pub(super) fn failed(&mut self, now: Instant, id: PathId, config: &Config, events: &mut Events) -> bool {
        let is_timed = config.peer_timeout.is_some();
        let Some(others) = &mut self.others else {
            let verdict = self.first.failed(now, &config.retries, is_timed);
            return report(&self.first, verdict, events);
        };
        let association_errors = others.errors.saturating_add(1);
        let was_suspected = self.is_suspected(id);
        let path = self.of_mut(id);
        let verdict = path.failed(now, &config.retries, true);
        report(path, verdict, events);
        if !was_suspected && self.is_suspected(id) {
            events.push(Event::PathSuspected { path: id, suspected: true });
        }
        if !Self::of(self, id).is_confirmed() {
            return false;
        }
        if let Some(others) = &mut self.others {
            others.errors = association_errors;
            *others.silent_until.of_mut(id) = OptionalInstant::NONE;
        }
        self.assign();
        let is_silent = || self.silence(now) >= config.retries.unreachable_after_min;
        !is_timed && association_errors > config.retries.association_max && is_silent()
    }

    /// Time since the peer last acknowledged anything on any path.
    fn silence(&self, now: Instant) -> Duration {
        self.iter().map(|path| path.silence(now)).min().unwrap_or_default()
    }
}

impl Others {
    /// Returns whether the paths answer heartbeats and lose all data, such as packets that are too large for a router: then the next path takes over only
    /// after a timeout, and answers to heartbeats do not end its backing off.
    pub(super) fn loses_data(&self) -> bool {
        self.moves_in_vain >= MOVES_IN_VAIN_MAX
    }

    /// Whether the first path is the only one.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Data of the peer came on a path.
    pub(super) fn note_data(&mut self, id: PathId) {
        if id.other().is_none_or(|other| self.paths.get(other).is_some_and(Path::is_confirmed)) {
            self.heard_data = id;
        }
    }

    /// A heartbeat of `bytes` leaves on a path, where the peer is known to answer within `rto`.
    pub(super) fn note_probe(&mut self, now: Instant, id: PathId, rto: Duration, bytes: u64) {
        let path = id.other().and_then(|other| self.paths.get(other));
        if path.is_some_and(|path| !path.is_confirmed()) {
            self.probes.bytes += bytes;
            self.probes.next_at = now + rto;
        }
    }
}

/// Reports that a path has become inactive. Returns whether the peer counts as unreachable.
fn report(path: &Path, verdict: PathVerdict, events: &mut Events) -> bool {
    if verdict == PathVerdict::Inactive {
        events.push(path.reachable_event(false));
    }
    verdict == PathVerdict::Dead
}

impl SendPaths for Paths {
    #[inline]
    fn primary(&mut self) -> &mut SendPath {
        &mut self.primary_mut().sending
    }

    #[inline]
    fn of(&mut self, id: PathId) -> &mut SendPath {
        &mut self.of_mut(id).sending
    }

    #[inline]
    fn all(&mut self) -> impl Iterator<Item = &mut SendPath> {
        self.iter_mut().map(|path| &mut path.sending)
    }
}
