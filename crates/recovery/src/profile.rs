//! Loss-recovery profiles: named sets of mechanisms.

use festina_units::Duration;

use crate::{
    backoff::Backoff,
    early_copy::EarlyCopies,
    early_fast_retransmit,
    fast_retransmit::FastRetransmit,
    probe::Probe,
    redundancy::Redundancy,
    rto_restart::TimerRestart,
    rtt::{RttClock, RttSampling},
    tail_probe::TlpRule,
    thin::ThinDetection,
};

/// The switches of loss recovery: one rule set for thin streams, one for all others, and the rule that chooses between
/// them.
///
/// Every field may be changed at any time during the lifetime of an association (P10 §7.3 wants this per socket).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mechanisms {
    /// The rule for classifying a stream as thin.
    pub thin_detection: ThinDetection,
    /// The rules while the stream is not thin.
    pub normal: Rules,
    /// The rules while the stream is thin.
    pub thin: Rules,
    /// Whether a thin stream spends bytes or packets on proactive copies.
    pub redundancy: Redundancy,
    /// Whether chunks that open and end the association are copied ahead of their timers.
    pub early_copies: EarlyCopies,
    /// What an association with several destinations does with them.
    pub destinations: Destinations,
}

/// The rules for several destinations of one association.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Destinations {
    /// The thin-stream detector counts the packets in flight to all destinations together (P06 §4.1). Off: to each apart.
    pub detector_shared: bool,
    /// Every retransmission is sent to another active destination than new data, the first fast one included (RFC 2960
    /// §6.4; lksctp in 2006, `retran_path` in `net/sctp/associola.c`). Off: only what timed out (RFC 9260 §6.4).
    pub repairs_elsewhere: bool,
}

impl Destinations {
    /// RFC 9260.
    pub const RFC9260: Self = Self { detector_shared: false, repairs_elsewhere: false };
    /// lksctp with the detector of P06 and P10: the association counts packets, and retransmits to another destination.
    pub const LKSCTP: Self = Self { detector_shared: true, repairs_elsewhere: true };
}

impl Mechanisms {
    /// Returns the rules for a thin stream, or for any other.
    #[must_use]
    pub fn rules(&self, thin: bool) -> &Rules {
        if thin { &self.thin } else { &self.normal }
    }
}

/// A set of recovery rules; each field is an independent switch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Lower bound of the RTO: RTO.Min of RFC 9260 §6.3.1 C6, 1 s; 200 ms for thin streams in P10
    /// §5.2.
    pub rto_min: Duration,
    /// Which acknowledgements measure the round-trip time (RFC 9260 §6.3.1 C5, P06 §3.2).
    pub rtt_sampling: RttSampling,
    /// The clock that measures and averages them.
    pub rtt_clock: RttClock,
    /// Effect of unanswered timeouts on the timer (RFC 9260 §6.3.3 E2, P10 §5.3).
    pub backoff: Backoff,
    /// Effect of a SACK on the running timer (RFC 9260 §6.3.2 R3, P10 §5.2, RFC 7765).
    pub timer_restart: TimerRestart,
    /// When miss indications prove a loss (RFC 9260 §7.2.4, P10 §5.4).
    pub fast_retransmit: FastRetransmit,
    /// Whether fewer indications are sufficient when too little is outstanding for the usual number (RFC 5827).
    pub early_retransmit: bool,
    /// How a loss is distinguished from reordering.
    pub loss_detection: LossDetection,
    /// FreeBSD's timer of about a round trip, at least this long, that retransmits while cwnd is not full (EFR).
    /// `None`: off.
    pub early_fast_retransmit: Option<Duration>,
    /// Whether a fast retransmission of the earliest outstanding chunk restarts the full RTO (RFC 9260 §7.2.4 rule 4).
    /// Off: it only starts a timer that is not running, as in lksctp in 2006, so the timeout may fire while the answer
    /// is in transit.
    pub fast_restarts_timer: bool,
    /// Whether, after a timeout, only its retransmission is sent until something is acknowledged (RFC 9260 §7.2.3).
    /// Off: only cwnd, which is then one full packet, is the limit; small packets are still sent, as in lksctp in 2006.
    pub one_packet_after_timeout: bool,
    /// Which packets also carry outstanding chunks that are not known to be lost (P06 §3.3, §4.4).
    pub bundling: Bundling,
    /// Which DATA chunks request an immediate SACK.
    pub immediate_sack: ImmediateSack,
    /// The probe that replaces the retransmission timer.
    pub probe: Probe,
    /// Detection of spurious retransmissions and the response to them.
    pub spurious: SpuriousResponse,
}

impl Rules {
    /// RFC 9260 with its suggested parameters (§16).
    pub const RFC9260: Self = Self {
        rto_min: Duration::from_secs(1),
        rtt_sampling: RttSampling::Unambiguous,
        rtt_clock: RttClock::Nanoseconds,
        backoff: Backoff::Exponential,
        timer_restart: TimerRestart::EarliestAcked,
        fast_retransmit: FastRetransmit::RFC9260,
        early_retransmit: false,
        loss_detection: LossDetection::Counted,
        early_fast_retransmit: None,
        fast_restarts_timer: true,
        one_packet_after_timeout: true,
        bundling: Bundling::RFC9260,
        immediate_sack: ImmediateSack::Never,
        probe: Probe::Off,
        spurious: SpuriousResponse::NONE,
    };
}

/// Which DATA chunks carry the I bit (RFC 7053), in addition to those selected by the application and the last before a
/// SHUTDOWN.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ImmediateSack {
    /// No other.
    Never,
    /// The last ones before the queue runs empty: no later chunk triggers a SACK. The sender learns about a tail a
    /// round trip after it was sent, and its tail probe need not allow for a delayed SACK.
    Tail,
    /// Those whose SACK would otherwise come late ([`crate::cadence`]). Festina's own.
    Needed,
}

/// How a loss is distinguished from reordering.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// By the number of miss indications ([`Rules::fast_retransmit`]).
    Counted,
    /// As `Counted`, but on a path with recent reordering a packet is lost only once it is later than overtaken packets
    /// were ([`crate::reordering`]). Festina's own.
    Tolerant,
    /// By time: a packet is lost if it was sent well before one that has arrived (RFC 8985 §6).
    Rack,
}

/// How a sender detects a spurious retransmission, and its response to the spurious cut of the window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SpuriousResponse {
    /// After a timeout, new data shows whether the timeout was spurious (F-RTO, RFC 4138). If so, the packets presumed
    /// lost count as in flight again, and the backoff ends.
    pub f_rto: bool,
    /// A cut of the window is undone if all retransmissions since prove spurious: by duplicate reports, or by F-RTO
    /// ([`crate::undo`], RFC 4015).
    pub undo: bool,
}

impl SpuriousResponse {
    /// RFC 9260 has neither.
    pub const NONE: Self = Self { f_rto: false, undo: false };
}

/// Which packets are filled up with outstanding chunks (sent, not acknowledged, not reported lost) as far as they have
/// room.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bundling {
    /// Timeout retransmissions include all outstanding chunks that fit, lowest TSN first (RFC 9260 §6.3.3 E3, P06
    /// §3.3). Off: only those that were last sent at least one RTO ago.
    pub into_timeout: bool,
    /// Fast retransmissions do the same (P06 §4.4). Off: only chunks marked for fast retransmission
    /// (RFC 9260 §7.2.4).
    pub into_fast_retransmit: bool,
    /// Packets with new data include outstanding chunks (P06 §4.4). Off: they do not.
    pub with_new_data: bool,
}

impl Bundling {
    /// RFC 9260 §6.3.3 E3, and no other.
    pub const RFC9260: Self = Self { into_timeout: true, into_fast_retransmit: false, with_new_data: false };
}

/// Maximum bytes of new DATA chunks that a light stream sends per round trip: the initial window that RFC 9260 §7.2.1
/// grants every sender, by its smaller figure, that for IPv6.
pub const LIGHT_BYTES_MAX: u32 = 4_344;

/// Maximum bytes of DATA chunks that a light stream sends per round trip including all copies: three times as many,
/// still fewer than the ten packets that RFC 6928 lets every TCP flow send at once.
pub const LIGHT_COPIES_BYTES_MAX: u32 = 3 * LIGHT_BYTES_MAX;

/// A named set of [`Mechanisms`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The standard, nothing more.
    Rfc9260,
    /// Linux 2.6.15 as described in P06 §3 and §4.2.1: four miss indications, and again after each further four;
    /// ambiguous RTT samples count, although its Table 2 and Linux's `net/sctp/outqueue.c` of that time have Karn's
    /// rule, as the lab's model does; times are averaged in ticks of 4 ms;
    /// a fast retransmission does not restart the timer; after a timeout small packets are still sent. (P10's 2.6.16
    /// needs three indications.)
    Lksctp2006,
    /// P06 §4: Linux 2.6.15 with all enhancements for streams of fewer than four packets in flight
    /// (§4.1): RTO.Min 200 ms and the timer-restart fix (§4.2.1), no backoff (§4.2.2), fast
    /// retransmit on the first indication (§4.3), bundling of outstanding chunks into fast
    /// retransmissions and packets with new chunks (§4.4). The receiver without SACK delay (§4.2.1)
    /// is a setting of the receiver.
    Pedersen2006,
    /// P10: Linux 2.6.16 with all thin-stream modifications: dynamic detection (§5.1), RTO.Min 200
    /// ms and the timer-restart fix (§5.2), linear timeouts without a cap (§5.3), fast retransmit
    /// on the first indication (§5.4). Ambiguous RTT samples still count (§7).
    Petlund2010,
    /// The standard with FreeBSD's early fast retransmit (P10 §6.4), at least 250 ms.
    FreebsdEfr,
    /// The standard with early retransmit (RFC 5827).
    EarlyRetransmit,
    /// The standard with RTO restart (RFC 7765).
    RtoRestart,
    /// The standard with the tail loss probe of R15 §3.4.2.
    Tlp,
    /// The same with the restart logic of R15 §3.4.2 in the probe timer: TLPR.
    Tlpr,
    /// The standard with RACK and its tail probe in place of miss indications (RFC 8985).
    Rack,
    /// Festina's own, the default. On thin streams, including those of many small packets: the I bit where it lets the
    /// sender detect a loss earlier, a probe as soon as an acknowledgement is overdue and about one per round trip for
    /// the first three seconds of silence, RTO.Min 200 ms with exponential backoff after that, fast retransmit on the
    /// first indication, and piggybacked copies of unacknowledged chunks as the measured loss requires. On other
    /// streams `Rack` with the I bit on tails: losses are detected by time and tails are probed. A cut of the window is
    /// undone if the packets presumed lost prove to have been reordered. Chunks that open and end the association are
    /// also repaired on the time scale of a round trip.
    #[default]
    Festina,
}

impl Profile {
    /// Returns all profiles, the standard first.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &[
            Self::Rfc9260,
            Self::Lksctp2006,
            Self::Pedersen2006,
            Self::Petlund2010,
            Self::FreebsdEfr,
            Self::EarlyRetransmit,
            Self::RtoRestart,
            Self::Tlp,
            Self::Tlpr,
            Self::Rack,
            Self::Festina,
        ]
    }

    /// Returns the name as used on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rfc9260 => "rfc9260",
            Self::Lksctp2006 => "lksctp-2006",
            Self::Pedersen2006 => "pedersen-2006",
            Self::Petlund2010 => "petlund-2010",
            Self::FreebsdEfr => "freebsd-efr",
            Self::EarlyRetransmit => "early-retransmit",
            Self::RtoRestart => "rto-restart",
            Self::Tlp => "tlp",
            Self::Tlpr => "tlpr",
            Self::Rack => "rack",
            Self::Festina => "festina",
        }
    }

    /// Returns the mechanisms of this profile.
    #[must_use]
    pub fn mechanisms(self) -> Mechanisms {
        match self {
            Self::Rfc9260 => always(Rules::RFC9260),
            Self::Lksctp2006 => Mechanisms { destinations: Destinations::LKSCTP, ..always(lksctp_2_6_15()) },
            Self::Pedersen2006 => pedersen_2006(),
            Self::Petlund2010 => petlund_2010(),
            Self::FreebsdEfr => always(Rules {
                early_fast_retransmit: Some(early_fast_retransmit::DELAY_MIN_DEFAULT),
                ..Rules::RFC9260
            }),
            Self::EarlyRetransmit => always(Rules { early_retransmit: true, ..Rules::RFC9260 }),
            Self::RtoRestart => always(Rules { timer_restart: TimerRestart::SinceEarliestSent, ..Rules::RFC9260 }),
            Self::Tlp => always(Rules { probe: Probe::TailLoss(TlpRule::Draft), ..Rules::RFC9260 }),
            Self::Tlpr => always(Rules { probe: Probe::TailLoss(TlpRule::DraftWithRestart), ..Rules::RFC9260 }),
            Self::Rack => always(rack()),
            Self::Festina => festina(),
        }
    }
}

/// The same rules for every stream.
fn always(rules: Rules) -> Mechanisms {
    Mechanisms {
        thin_detection: ThinDetection::Never,
        normal: rules,
        thin: rules,
        redundancy: Redundancy::Off,
        early_copies: EarlyCopies::Off,
        destinations: Destinations::RFC9260,
    }
}

fn rack() -> Rules {
    Rules { loss_detection: LossDetection::Rack, probe: Probe::TailLoss(TlpRule::Rfc8985), ..Rules::RFC9260 }
}

fn lksctp_2_6_15() -> Rules {
    Rules {
        rtt_sampling: RttSampling::FirstAcknowledgement,
        rtt_clock: RttClock::LINUX_250_HZ,
        // "Some, but not all" in P06 §4.2.1 and P10 §5.2 are chunks up to the cumulative TSN. If gap acks restarted the
        // timer too, it would never expire during a stream, but P06 Table 2 has ten timeouts for each fast
        // retransmission.
        timer_restart: TimerRestart::EarliestAcked,
        fast_retransmit: FastRetransmit { threshold: 4, repeats: true },
        fast_restarts_timer: false,
        one_packet_after_timeout: false,
        ..Rules::RFC9260
    }
}

fn pedersen_2006() -> Mechanisms {
    let normal = lksctp_2_6_15();
    Mechanisms {
        thin_detection: ThinDetection::Static { in_flight_below: 4 },
        normal,
        thin: Rules {
            rto_min: Duration::from_millis(200),
            backoff: Backoff::Linear { linear_for: Duration::MAX },
            // According to P06 the time since the old timer's start is subtracted, and the oldest chunk waits for one
            // RTO at most. Subtracted at each SACK, that makes the timer expire before an RTO has passed, and causes
            // six times as many retransmissions as in P06 Table 3, where none is earlier than the RTO. So the age of
            // the oldest chunk must be meant.
            timer_restart: TimerRestart::SinceEarliestSent,
            fast_retransmit: FastRetransmit { threshold: 1, repeats: true },
            bundling: Bundling { into_timeout: true, into_fast_retransmit: true, with_new_data: true },
            ..normal
        },
        redundancy: Redundancy::Off,
        early_copies: EarlyCopies::Off,
        destinations: Destinations::LKSCTP,
    }
}

fn petlund_2010() -> Mechanisms {
    // The paper changes lksctp, which repeats fast retransmissions. Otherwise only T3-rtx, which every acknowledgement
    // restarts, could repair a lost fast retransmission, and a steady stream never lets it expire.
    let normal = Rules { fast_retransmit: FastRetransmit { threshold: 3, repeats: true }, ..lksctp_2_6_15() };
    Mechanisms {
        thin_detection: ThinDetection::Dynamic { pttfr: 3 },
        normal,
        thin: Rules {
            rto_min: Duration::from_millis(200),
            backoff: Backoff::Linear { linear_for: Duration::MAX },
            timer_restart: TimerRestart::SinceTimerStart,
            fast_retransmit: FastRetransmit { threshold: 1, repeats: true },
            ..normal
        },
        redundancy: Redundancy::Off,
        early_copies: EarlyCopies::Off,
        destinations: Destinations::LKSCTP,
    }
}

fn festina() -> Mechanisms {
    Mechanisms {
        thin_detection: ThinDetection::Light { pttfr: 3, bytes_max: LIGHT_BYTES_MAX },
        normal: Rules {
            immediate_sack: ImmediateSack::Tail,
            spurious: SpuriousResponse { f_rto: false, undo: true },
            ..rack()
        },
        thin: Rules {
            rto_min: Duration::from_millis(200),
            rtt_sampling: RttSampling::Inferred,
            backoff: Backoff::Linear { linear_for: Duration::from_secs(3) },
            timer_restart: TimerRestart::SinceEarliestSent,
            fast_retransmit: FastRetransmit { threshold: 1, repeats: false },
            loss_detection: LossDetection::Tolerant,
            immediate_sack: ImmediateSack::Needed,
            probe: Probe::FESTINA,
            ..Rules::RFC9260
        },
        redundancy: Redundancy::ADAPTIVE,
        early_copies: EarlyCopies::ByRoundTrip,
        destinations: Destinations::RFC9260,
    }
}

festina_units::text_is_name!(
    Profile,
    Profile::all().iter().copied(),
    /// Text that is not the name of a [`Profile`]: an error of the caller. The message lists the names.
    UnknownProfile,
    "recovery profile"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name() {
        for &profile in Profile::all() {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(profile.to_string(), profile.name());
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "reno".parse::<Profile>().expect_err("no such profile");
        let names: Vec<&str> = Profile::all().iter().map(|profile| profile.name()).collect();
        let expected = format!("unknown recovery profile \"reno\", expected one of: {}", names.join(", "));
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn streams_that_are_not_thin_get_rack_from_festina() {
        let (rack, festina) = (Profile::Rack.mechanisms(), Profile::Festina.mechanisms());
        let spurious = SpuriousResponse { f_rto: false, undo: true };
        let expected = Rules { immediate_sack: ImmediateSack::Tail, spurious, ..*rack.rules(false) };
        assert_eq!(*festina.rules(false), expected);
        assert_eq!(Profile::default(), Profile::Festina);
    }

    #[test]
    fn only_festina_repeats_control_chunks_ahead_of_their_timers() {
        for &profile in Profile::all() {
            let expected = if profile == Profile::Festina { EarlyCopies::ByRoundTrip } else { EarlyCopies::Off };
            assert_eq!(profile.mechanisms().early_copies, expected, "{profile}");
        }
    }

    #[test]
    fn rfc9260_and_lksctp_know_no_thin_streams() {
        for profile in [Profile::Rfc9260, Profile::Lksctp2006] {
            let mechanisms = profile.mechanisms();
            assert_eq!(mechanisms.thin_detection, ThinDetection::Never);
            assert_eq!(mechanisms.rules(true), mechanisms.rules(false));
        }
    }

    #[test]
    fn p06_4_the_enhancements_of_pedersen_apply_below_four_packets_in_flight_and_lksctp_above() {
        let mechanisms = Profile::Pedersen2006.mechanisms();
        assert_eq!(mechanisms.thin_detection, ThinDetection::Static { in_flight_below: 4 });
        assert_eq!(mechanisms.rules(false), Profile::Lksctp2006.mechanisms().rules(false));
        let thin = mechanisms.rules(true);
        assert_eq!(thin.bundling, Bundling { into_timeout: true, into_fast_retransmit: true, with_new_data: true });
        assert_eq!((thin.rto_min, thin.fast_retransmit.threshold), (Duration::from_millis(200), 1));
    }

    #[test]
    fn the_stacks_of_the_papers_take_ambiguous_round_trip_samples_and_the_others_do_not() {
        for &profile in Profile::all() {
            let flawed = matches!(profile, Profile::Lksctp2006 | Profile::Pedersen2006 | Profile::Petlund2010);
            let mechanisms = profile.mechanisms();
            for rules in [mechanisms.normal, mechanisms.thin] {
                assert_eq!(rules.rtt_sampling == RttSampling::FirstAcknowledgement, flawed, "{profile}");
            }
        }
    }

    #[test]
    fn the_profiles_of_one_mechanism_differ_from_the_standard_in_that_one() {
        let change = |profile: Profile, undo: fn(&mut Rules)| {
            let mut mechanisms = profile.mechanisms();
            assert_ne!(mechanisms, Profile::Rfc9260.mechanisms(), "{profile}");
            undo(&mut mechanisms.normal);
            undo(&mut mechanisms.thin);
            assert_eq!(mechanisms, Profile::Rfc9260.mechanisms(), "{profile}");
        };
        change(Profile::FreebsdEfr, |rules| rules.early_fast_retransmit = None);
        change(Profile::EarlyRetransmit, |rules| rules.early_retransmit = false);
        change(Profile::RtoRestart, |rules| rules.timer_restart = TimerRestart::EarliestAcked);
        change(Profile::Tlp, |rules| rules.probe = Probe::Off);
        change(Profile::Tlpr, |rules| rules.probe = Probe::Off);
        change(Profile::Rack, |rules| (rules.loss_detection, rules.probe) = (LossDetection::Counted, Probe::Off));
    }

    #[test]
    fn a_single_mechanism_can_be_switched_on_its_own() {
        let mut ablated = Profile::Petlund2010.mechanisms();
        ablated.thin.backoff = Backoff::Exponential;
        assert_ne!(ablated, Profile::Petlund2010.mechanisms());
        assert_eq!(ablated.thin.rto_min, Duration::from_millis(200));
    }
}
