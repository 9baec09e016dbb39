//! A path to the peer: its address, its reachability, and its heartbeats (RFC 9260 §5.4, §8).
//!
//! A path also contains the sender's state for it, a [`SendPath`].

use std::net::SocketAddr;

use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, Instant, OptionalInstant};

use super::context::{Context, Purpose};
use crate::config::{Config, Retries};
use crate::event::{Event, Events};
use crate::send::SendPath;

/// The round trip of another network, at least, until it is measured.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_millis(200);

/// One destination.
#[derive(Debug)]
pub(crate) struct Path {
    /// Where packets go.
    pub(crate) remote: SocketAddr,
    /// Repair, congestion control and their like.
    pub(crate) sending: SendPath,
    /// Consecutive timeouts and missed heartbeats.
    errors: u32,
    /// When the peer last acknowledged anything.
    answered_at: Instant,
    /// When the first packet left since then that asks for an answer.
    asked_at: OptionalInstant,
    /// When a chunk last left that measures the round trip.
    used_at: Instant,
    /// When anything last came from the peer.
    heard_at: Instant,
    standing: Standing,
    heartbeat: Heartbeat,
    /// The heartbeats since the last answer to one: their count and the nonce of the first. The others count up from it.
    unanswered: (u16, u64),
}

/// Whether a path may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing shows that the address is the peer's: only heartbeats are sent to it (RFC 9260 §5.4).
    Unconfirmed,
    /// It answers (RFC 9260 §8.2).
    Active,
    /// It has not answered for too long.
    Inactive,
    /// The peer has left the address: nothing is sent to it.
    Closed,
}

/// The consequence of a timeout or a missed heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathVerdict {
    /// Nothing yet.
    Hope,
    /// The path has just become inactive.
    Inactive,
    /// The peer is unreachable.
    Dead,
}

/// A heartbeat was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatAnswer {
    /// The round-trip time, if it is certain.
    pub(crate) round_trip: Option<Duration>,
}

#[derive(Debug)]
enum Heartbeat {
    /// Not sent in this state, or by the application's wish.
    Off,
    /// Sent at this time if the path stays idle, or when the peer has been silent for too long. [`Instant::MAX`]: only if the peer leaves a request
    /// unanswered.
    Idle { due_at: Instant },
    /// Must leave with the next packet.
    Ready,
    /// Waits for its answer.
    Sent { sent_at: Instant, missed_at: Instant },
}

impl Path {
    pub(crate) fn new(now: Instant, remote: SocketAddr, sending: SendPath) -> Self {
        Self {
            remote,
            sending,
            errors: 0,
            answered_at: now,
            asked_at: OptionalInstant::NONE,
            used_at: now,
            heard_at: now,
            standing: Standing::Active,
            heartbeat: Heartbeat::Off,
            unanswered: (0, 0),
        }
    }

    /// A path to an address that is not confirmed: a heartbeat is due.
    pub(crate) fn unconfirmed(now: Instant, remote: SocketAddr, sending: SendPath) -> Self {
        Self { standing: Standing::Unconfirmed, heartbeat: Heartbeat::Ready, ..Self::new(now, remote, sending) }
    }

    /// Whether the path may be used.
    #[inline]
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// A path to an address that the peer has left. `sending` has nothing in flight.
    pub(crate) fn closed(now: Instant, remote: SocketAddr, sending: SendPath) -> Self {
        Self { standing: Standing::Closed, ..Self::new(now, remote, sending) }
    }

    /// Whether the peer has left the address.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.standing == Standing::Closed
    }

    /// Whether the address is known to be the peer's (RFC 9260 §5.4).
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(self.standing, Standing::Active | Standing::Inactive)
    }

    /// Consecutive timeouts and missed heartbeats.
    #[inline]
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    /// DATA or FORWARD-TSN left. What measures the round trip shows that the path is not idle (RFC 9260 §8.3).
    #[inline]
    pub(crate) fn used(&mut self, now: Instant, measures: bool) {
        if measures {
            self.used_at = now;
        }
        self.asked(now);
    }

    /// A packet of the peer's came. A peer behind a NAT may change its UDP port, never its address (RFC 6951 §5.4).
    #[inline]
    pub(crate) fn heard(&mut self, now: Instant, source: SocketAddr) {
        self.heard_at = now;
        if source.ip() == self.remote.ip() {
            self.remote.set_port(source.port());
        }
    }

    /// The peer was found at another address.
    pub(crate) fn move_to(&mut self, remote: SocketAddr, config: &Config, round_trip: Duration) {
        if remote.ip() != self.remote.ip() {
            self.sending.forget_path(config, initial_window_bytes(remote), AssumedRoundTrip::once(round_trip));
        }
        self.remote = remote;
    }

    /// This side sends from another network: all measurements are void, and the round trip may be longer.
    pub(crate) fn forget(&mut self, config: &Config) {
        let round_trip = self.sending.srtt().unwrap_or_default().max(UNKNOWN_ROUND_TRIP);
        self.sending.forget_path(config, initial_window_bytes(self.remote), AssumedRoundTrip::once(round_trip));
    }

    /// Something leaves that a living peer answers.
    #[inline]
    pub(crate) fn asked(&mut self, now: Instant) {
        self.asked_at.get_or_insert(now);
    }

    /// When the peer counts as gone if it stays silent: it has left a request unanswered for `peer_timeout`, and the last request was sent after that
    /// time, so that a shorter outage ends no association. Without heartbeats, T2 sends that many requests.
    #[inline]
    pub(crate) fn gone_at(&self, peer_timeout: Duration) -> Option<Instant> {
        match self.heartbeat {
            Heartbeat::Idle { .. } | Heartbeat::Ready => None,
            Heartbeat::Off => Some(self.asked_at.get()? + peer_timeout + 2 * question_pause_max(peer_timeout)),
            Heartbeat::Sent { sent_at, missed_at } => {
                let timed_out_at = self.asked_at.get()? + peer_timeout;
                (sent_at >= timed_out_at).then_some(missed_at)
            }
        }
    }

    /// As [`gone_at`](Self::gone_at), for one of several paths: another may be asked until later, and further heartbeats do not put that off.
    pub(crate) fn gone_among_others_at(&self, peer_timeout: Duration) -> Option<Instant> {
        let asked_at = self.asked_at.get()?;
        Some(self.gone_at(peer_timeout)?.min(asked_at + peer_timeout + 2 * question_pause_max(peer_timeout)))
    }

    /// Returns whether [`gone_at`](Self::gone_at) may be some instant. Usually it is none, and drivers ask after each packet.
    #[inline]
    pub(crate) fn may_be_gone(&self) -> bool {
        matches!(self.heartbeat, Heartbeat::Off | Heartbeat::Sent { .. }) && self.asked_at.is_some()
    }

    /// Returns whether something left that a living peer answers, and no answer has come.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// The peer acknowledged something. Reports it if the path had counted as inactive (RFC 9260 §8.2).
    pub(crate) fn answered(&mut self, now: Instant, events: &mut Events) {
        self.errors = 0;
        self.answered_at = now;
        self.asked_at = OptionalInstant::NONE;
        if self.standing == Standing::Inactive {
            self.standing = Standing::Active;
            events.push(self.reachable_event(true));
        }
    }

    /// The peer has shown that it receives there. Reports it if the address was not confirmed.
    pub(crate) fn confirm(&mut self, events: &mut Events) {
        if !self.is_confirmed() {
            self.standing = Standing::Active;
            events.push(Event::PathConfirmed { path: self.sending.id(), remote: self.remote });
        }
    }

    /// The event that tells that the path answers again, or no longer.
    pub(crate) fn reachable_event(&self, reachable: bool) -> Event {
        Event::PathReachable { path: self.sending.id(), reachable }
    }

    /// Time since the peer last acknowledged anything.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.answered_at)
    }

    /// Handles a timeout or a missed heartbeat (RFC 9260 §8.1, §8.2). The peer counts as unreachable only when both the number of errors and the time
    /// without an answer exceed their limits, so that short timers do not end it sooner. With a peer timeout (`timed`) it never does here.
    pub(crate) fn failed(&mut self, now: Instant, retries: &Retries, timed: bool) -> PathVerdict {
        self.errors = self.errors.saturating_add(1);
        let silence = now.saturating_duration_since(self.answered_at);
        if !timed && self.errors > retries.association_max && silence >= retries.unreachable_after_min {
            return PathVerdict::Dead;
        }
        if self.errors > retries.path_max && self.standing == Standing::Active {
            self.standing = Standing::Inactive;
            return PathVerdict::Inactive;
        }
        PathVerdict::Hope
    }

    /// The RTO, doubled for each error in a row (RFC 9260 §8.3).
    fn backed_off_rto(&self, rto_max: Duration) -> Duration {
        doubled(self.sending.rto(), self.errors).min(rto_max)
    }

    /// The pause before the next heartbeat; `None` if the application wants none. It is endless if the application wants none on idle paths,
    /// but wants to know when the peer is gone.
    pub(crate) fn heartbeat_pause(&self, now: Instant, context: &Context, tag: u32) -> Option<Duration> {
        let Config { timers, peer_timeout, .. } = context.config();
        match timers.heartbeat_interval {
            Some(interval) => Some(heartbeat_pause(context, tag, now, self.backed_off_rto(timers.rto_max), interval)),
            None => peer_timeout.map(|_| Duration::MAX),
        }
    }

    /// Time limit for the answer to a heartbeat sent now. With a peer timeout the next heartbeat follows then, and another at the end of that
    /// timeout. On a path that may have failed each takes twice as long as the one before (RFC 7829 §3.2).
    pub(crate) fn heartbeat_wait(&self, now: Instant, config: &Config, is_suspected: bool) -> Duration {
        let Some(timeout) = config.peer_timeout else {
            let rto_max = config.timers.rto_max;
            return match self.standing {
                Standing::Unconfirmed => self.backed_off_rto(rto_max),
                _ if is_suspected => doubled(self.sending.rto(), self.unanswered.0.into()).min(rto_max),
                _ => self.sending.rto(),
            };
        };
        let wait = self.backed_off_rto(config.timers.rto_max).clamp(timeout / 64, question_pause_max(timeout));
        match self.asked_at.get().map(|asked_at| asked_at + timeout) {
            Some(timed_out_at) if now < timed_out_at => wait.min(timed_out_at - now),
            _ => wait,
        }
    }

    /// Starts or stops the heartbeats.
    pub(crate) fn set_heartbeat(&mut self, now: Instant, pause: Option<Duration>) {
        let pause = pause.filter(|_| !self.is_closed());
        self.heartbeat = pause.map_or(Heartbeat::Off, |pause| Heartbeat::Idle { due_at: now + pause });
    }

    /// Changes the pause before the next heartbeat, unless one waits to leave or for its answer.
    pub(crate) fn set_heartbeat_pause(&mut self, now: Instant, pause: Option<Duration>) {
        if matches!(self.heartbeat, Heartbeat::Off | Heartbeat::Idle { .. }) {
            self.set_heartbeat(now, pause);
        }
    }

    /// When to look after the heartbeats and the search for larger packets, if the peer is asked after `quiet` without a word from either side.
    #[inline(always)]
    pub(crate) fn deadline(&self, quiet: impl FnOnce() -> Duration) -> Option<Instant> {
        let heartbeat = self.heartbeat_deadline(quiet);
        match self.sending.searching() {
            None => heartbeat,
            Some(search) => Instant::earliest([heartbeat, search.deadline()]),
        }
    }

    /// When to look after the heartbeats.
    #[inline(always)]
    pub(crate) fn heartbeat_deadline(&self, quiet: impl FnOnce() -> Duration) -> Option<Instant> {
        match self.heartbeat {
            Heartbeat::Off | Heartbeat::Ready => None,
            Heartbeat::Idle { due_at } => Some(due_at.min(self.quiet_until(due_at, quiet()))),
            Heartbeat::Sent { missed_at, .. } => Some(missed_at),
        }
    }

    /// When the peer is asked after `quiet` without a word from either side. A peer that is heard but answers nothing may not hear this
    /// side, and is asked as well.
    fn quiet_until(&self, due_at: Instant, quiet: Duration) -> Instant {
        let idle_since = if due_at < Instant::MAX { self.used_at.max(self.heard_at) } else { Instant::MAX };
        idle_since.min(self.asked_at.get().unwrap_or(Instant::MAX)) + quiet
    }

    /// A heartbeat leaves with the next packet.
    pub(crate) fn heartbeat_at_once(&mut self) {
        self.heartbeat = Heartbeat::Ready;
    }

    /// Whether the next one waits for its time.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.heartbeat, Heartbeat::Idle { .. })
    }

    /// No heartbeat leaves before the pause is over, unless the peer is heard meanwhile: as if it had been heard at the end of the pause.
    pub(crate) fn rest(&mut self, now: Instant, pause: Duration) {
        (self.heard_at, self.asked_at) = (now + pause, OptionalInstant::NONE);
        self.set_heartbeat(now, Some(pause));
    }

    /// Whether a heartbeat has gone without its answer for as long as it waits.
    pub(crate) fn heartbeat_missed(&self, now: Instant) -> bool {
        matches!(self.heartbeat, Heartbeat::Sent { missed_at, .. } if now >= missed_at)
    }

    /// Whether the path has answered something since its last heartbeat left.
    pub(crate) fn has_answered_since_heartbeat(&self) -> bool {
        matches!(self.heartbeat, Heartbeat::Sent { sent_at, .. } if self.answered_at > sent_at)
    }

    /// Lets a heartbeat leave if the path has been idle for `pause` (RFC 9260 §8.3), or if neither side has said anything for `quiet`;
    /// looks again later otherwise.
    pub(crate) fn send_heartbeat_if_idle(&mut self, now: Instant, pause: Duration, quiet: Duration) {
        let Heartbeat::Idle { mut due_at } = self.heartbeat else { return };
        if now >= due_at {
            due_at = self.used_at + pause;
        }
        let is_due = now >= due_at || now >= self.quiet_until(due_at, quiet);
        self.heartbeat = if is_due { Heartbeat::Ready } else { Heartbeat::Idle { due_at } };
    }

    pub(crate) fn heartbeat_ready(&self) -> bool {
        matches!(self.heartbeat, Heartbeat::Ready)
    }

    /// The heartbeat leaves now, and waits so long for its answer: its nonce.
    pub(crate) fn heartbeat_sent(&mut self, now: Instant, wait: Duration, context: &Context, tag: u32) -> u64 {
        self.asked(now);
        self.heartbeat = Heartbeat::Sent { sent_at: now, missed_at: now + wait };
        let (count, first_nonce) = &mut self.unanswered;
        if *count == 0 {
            #[expect(clippy::cast_possible_truncation, reason = "64 bits of a hash make the nonce")]
            let nonce = context
                .derive(Purpose::HeartbeatNonce, &[tag.into(), now.as_nanos(), self.sending.id().0.into()])
                as u64;
            *first_nonce = nonce;
        }
        let nonce = first_nonce.wrapping_add(u64::from(*count));
        *count = count.saturating_add(1);
        nonce
    }

    /// A HEARTBEAT ACK came. It counts if it answers a heartbeat that was not answered yet, however late (RFC 9260 §8.3); it measures the
    /// round trip if that is the one that still waits.
    pub(crate) fn heartbeat_acked(
        &mut self,
        now: Instant,
        info: &[u8],
        pause: Option<Duration>,
    ) -> Option<HeartbeatAnswer> {
        let (count, first_nonce) = self.unanswered;
        let number = u64::from_be_bytes(info.try_into().ok()?).wrapping_sub(first_nonce);
        if number >= u64::from(count) {
            return None;
        }
        let round_trip = match self.heartbeat {
            Heartbeat::Sent { sent_at, .. } if number + 1 == u64::from(count) => {
                Some(now.saturating_duration_since(sent_at))
            }
            _ => None,
        };
        self.unanswered = (0, 0);
        if !matches!(self.heartbeat, Heartbeat::Off) {
            self.set_heartbeat(now, pause);
        }
        Some(HeartbeatAnswer { round_trip })
    }
}

fn doubled(rto: Duration, times: u32) -> Duration {
    rto.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX))
}

/// Maximum interval between requests with a peer timeout.
pub(crate) fn question_pause_max(peer_timeout: Duration) -> Duration {
    peer_timeout / 8
}

/// The part of the initial cwnd that depends on the address family (RFC 9260 §7.2.1).
pub(crate) fn initial_window_bytes(remote: SocketAddr) -> u16 {
    if remote.ip().to_canonical().is_ipv4() { 4_404 } else { 4_344 }
}

/// The pause before a heartbeat: the interval plus an RTO, which is spread by half either way (RFC 9260 §8.3).
fn heartbeat_pause(context: &Context, tag: u32, now: Instant, rto: Duration, interval: Duration) -> Duration {
    let rto_ns = u64::try_from(rto.as_nanos()).unwrap_or(u64::MAX);
    let spread = u64::from(context.derive_u32(Purpose::HeartbeatJitter, &[tag.into(), now.as_nanos()])) % rto_ns.max(1);
    interval + rto / 2 + Duration::from_nanos(spread)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::path_id::PathId;

    const PAUSE: Duration = Duration::from_secs(30);
    const RTO: Duration = Duration::from_secs(1);
    const NEVER: Duration = Duration::from_secs(1_000_000);

    fn path() -> Path {
        let (now, config) = (Instant::ZERO, Config::default());
        let sending = SendPath::new(now, PathId(0), &config, Arc::new(config.mechanisms), 4_404);
        Path::new(now, "192.0.2.1:9".parse().unwrap(), sending)
    }

    fn context() -> Arc<Context> {
        Context::new(Config::default(), [0; 16]).unwrap()
    }

    #[test]
    fn rfc9260_8_3_a_heartbeat_waits_until_the_path_has_been_idle() {
        let mut path = path();
        path.set_heartbeat(Instant::ZERO, Some(PAUSE));
        path.used(Instant::from_secs(20), true);
        path.send_heartbeat_if_idle(Instant::from_secs(30), PAUSE, NEVER);
        assert!(!path.heartbeat_ready());
        assert_eq!(path.deadline(|| NEVER), Some(Instant::from_secs(50)));
        path.send_heartbeat_if_idle(Instant::from_secs(50), PAUSE, NEVER);
        assert!(path.heartbeat_ready());
    }

    #[test]
    fn a_peer_that_is_heard_of_is_not_asked_before_its_turn_and_one_that_is_quiet_is() {
        let (mut path, quiet) = (path(), Duration::from_secs(15));
        path.set_heartbeat(Instant::ZERO, Some(PAUSE));
        path.heard(Instant::from_secs(10), path.remote);
        assert_eq!(path.deadline(|| quiet), Some(Instant::from_secs(25)));
        path.heard(Instant::from_secs(20), path.remote);
        path.send_heartbeat_if_idle(Instant::from_secs(25), PAUSE, quiet);
        assert!(!path.heartbeat_ready());
        assert_eq!(path.deadline(|| quiet), Some(Instant::from_secs(30)), "its turn");
        path.used(Instant::from_secs(29), true);
        path.send_heartbeat_if_idle(Instant::from_secs(30), PAUSE, quiet);
        assert_eq!(path.deadline(|| quiet), Some(Instant::from_secs(44)), "quiet since then");
        path.send_heartbeat_if_idle(Instant::from_secs(44), PAUSE, quiet);
        assert!(path.heartbeat_ready());
    }

    #[test]
    fn rfc9260_8_3_only_the_right_nonce_acknowledges_a_heartbeat_and_gives_the_round_trip() {
        let mut path = path();
        let nonce = path.heartbeat_sent(Instant::from_secs(1), RTO, &context(), 5);
        assert_eq!(path.heartbeat_acked(Instant::from_secs(2), b"wrong", Some(PAUSE)), None);
        let later = Instant::from_millis(1_300);
        let answer = HeartbeatAnswer { round_trip: Some(Duration::from_millis(300)) };
        assert_eq!(path.heartbeat_acked(later, &nonce.to_be_bytes(), Some(PAUSE)), Some(answer));
        assert_eq!(path.heartbeat_acked(later, &nonce.to_be_bytes(), Some(PAUSE)), None, "a replay means nothing");
    }

    #[test]
    fn a_late_answer_to_a_heartbeat_that_was_missed_counts_but_measures_nothing() {
        let mut path = path();
        let nonces = [1, 2, 3].map(|second| path.heartbeat_sent(Instant::from_secs(second), RTO, &context(), 5));
        let later = Instant::from_secs(4);
        let late = Some(HeartbeatAnswer { round_trip: None });
        assert_eq!(path.heartbeat_acked(later, &nonces[1].to_be_bytes(), Some(PAUSE)), late);
        assert_eq!(path.heartbeat_acked(later, &nonces[2].to_be_bytes(), Some(PAUSE)), None, "one answer is enough");
    }

    #[test]
    fn rfc9260_8_3_a_heartbeat_without_answer_within_one_rto_is_missed() {
        let mut path = path();
        path.heartbeat_sent(Instant::from_secs(1), RTO, &context(), 5);
        assert!(!path.heartbeat_missed(Instant::from_millis(1_999)));
        assert!(path.heartbeat_missed(Instant::from_secs(2)));
    }

    #[test]
    fn rfc9260_8_2_a_path_is_inactive_once_after_more_errors_than_allowed_and_active_again_when_it_answers() {
        let (mut path, retries) = (path(), Retries::default());
        let verdicts: Vec<_> = (1..=7).map(|second| path.failed(Instant::from_secs(second), &retries, false)).collect();
        let hope = PathVerdict::Hope;
        assert_eq!(verdicts, [hope, hope, hope, hope, hope, PathVerdict::Inactive, hope]);
        let mut events = Events::default();
        path.answered(Instant::from_secs(8), &mut events);
        path.answered(Instant::from_secs(9), &mut events);
        assert_eq!(events.pop(), Some(path.reachable_event(true)));
        assert_eq!(events.pop(), None);
    }

    #[test]
    fn rfc9260_8_1_the_peer_is_dead_after_too_many_errors_but_never_before_the_minimum_silence() {
        let (mut path, retries) = (path(), Retries::default());
        for second in 1..300 {
            let verdict = path.failed(Instant::from_secs(second), &retries, false);
            assert_ne!(verdict, PathVerdict::Dead, "{second} s of silence are too few");
        }
        assert_eq!(path.failed(Instant::from_secs(300), &retries, false), PathVerdict::Dead);
    }

    #[test]
    fn rfc9260_8_3_the_rto_of_heartbeats_doubles_with_each_error_up_to_the_maximum() {
        let (mut path, retries, rto_max) = (path(), Retries::default(), Duration::from_secs(60));
        let pauses = [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs);
        for (second, pause) in (1..).zip(pauses) {
            assert_eq!(path.backed_off_rto(rto_max), pause);
            path.failed(Instant::from_secs(second), &retries, false);
        }
        path.answered(Instant::from_secs(9), &mut Events::default());
        assert_eq!(path.backed_off_rto(rto_max), RTO);
    }

    #[test]
    fn rfc9260_8_3_the_pause_is_the_interval_plus_an_rto_give_or_take_half() {
        for now in 0..200 {
            let pause = heartbeat_pause(&context(), 1, Instant::from_millis(now), RTO, PAUSE);
            assert!((PAUSE + RTO / 2..PAUSE + RTO * 3 / 2).contains(&pause), "{pause:?}");
        }
    }
}
