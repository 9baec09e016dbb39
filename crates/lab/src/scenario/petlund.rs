//! The transports that Petlund et al. 2010 compare (§6, Fig. 8): lksctp, each modification alone, all of them, and TCP.

use festina_models::tcp::{DelayedAck, RtoConfig, RtoFloor, Switches, TcpConfig};
use festina_recovery::backoff::Backoff;
use festina_recovery::fast_retransmit::FastRetransmit;
use festina_recovery::profile::Rules;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::thin::ThinDetection;
use festina_recovery::{Mechanisms, Profile};
use festina_units::Duration;

use super::{Fault, Readings, Stack, Version};

/// Packets that fast retransmit needs in Linux 2.6.16 (P10 §5.1).
const PTTFR: u8 = 3;
/// The thin stream's RTO.Min (P10 §5.2).
const THIN_RTO_MIN: Duration = Duration::from_millis(200);

/// One of the paper's groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Linux 2.6.16 as it was.
    Lksctp,
    /// No exponential backoff while thin (§5.3), nothing else.
    ModExpBo,
    /// RTO.Min 200 ms while thin (§5.2), nothing else but what [`TimerFix`] says.
    ModMinRto,
    /// Fast retransmission on the first indication while thin (§5.4), nothing else.
    ModFr,
    /// All modifications together.
    AllMods,
    /// TCP New Reno of Linux 2.6.
    NewReno,
}

/// The fix of the timer's restart, and the groups that have it. §5.2 describes it together with RTO.Min; neither §6 nor the figures say where it
/// belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerFix {
    /// It belongs to RTO.Min, with which it shares a section: at a SACK the new timer is shorter by the age of the oldest chunk that is
    /// left, so that none waits for more than one RTO.
    WithMinRto,
    /// For all modifications together, and for none alone.
    InAllModsOnly,
    /// It belongs to RTO.Min and follows the wording of §5.2: the new timer is shorter by the time since the old one was started. It then expires
    /// before a full RTO if a SACK arrives after the next message is sent, as delayed SACKs do.
    AsWorded,
    /// No group has it.
    Nowhere,
}

impl Group {
    /// All groups in the order of Fig. 8.
    pub const ALL: [Self; 6] =
        [Self::Lksctp, Self::ModExpBo, Self::ModMinRto, Self::ModFr, Self::AllMods, Self::NewReno];

    /// The names of [`ALL`](Self::ALL), for a plan.
    pub const NAMES: &'static [&'static str] =
        &["lksctp", "mod-exp-bo", "mod-min-rto", "mod-fr", "all-mods", "new-reno"];

    /// The group with this name.
    ///
    /// # Panics
    /// If it is none of [`NAMES`](Self::NAMES).
    pub fn named(name: &str) -> Self {
        let place = Self::NAMES.iter().position(|known| *known == name);
        Self::ALL[place.unwrap_or_else(|| panic!("{name} is a group of the paper"))]
    }

    /// The name in a plan.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The name in the paper's figures.
    pub fn title(self) -> &'static str {
        ["lksctp", "mod exp bo", "mod min rto", "mod FR", "All mods", "TCP New Reno"][self as usize]
    }

    /// The transport with a receiver that delays acknowledgements by `ack_delay`; zero for none.
    pub fn stack(self, readings: &Readings, ack_delay: Duration) -> Stack {
        let group = if readings.fault == Fault::Swapped { self.swapped() } else { self };
        let stack = match group.mechanisms(readings) {
            Some(mechanisms) => Stack::sctp(mechanisms, ack_delay),
            None => Stack::tcp(new_reno_2_6(ack_delay)),
        };
        readings.fault.in_stack(stack)
    }

    /// As [`stack`](Self::stack), but thin streams with all modifications also have the bundling of the first version of the
    /// patches: unacknowledged chunks leave with new ones and with fast retransmissions (P06 §4.4). P10 does not speak of it.
    pub fn stack_with_bundling_of_p06(self, readings: &Readings, ack_delay: Duration) -> Stack {
        match (self, self.stack(readings, ack_delay)) {
            (Self::AllMods, Stack::Sctp { mut sender, receiver }) => {
                sender.mechanisms.thin.bundling = Profile::Pedersen2006.mechanisms().thin.bundling;
                Stack::Sctp { sender, receiver }
            }
            (_, stack) => stack,
        }
    }

    /// Swaps the unmodified and the modified kernel.
    fn swapped(self) -> Self {
        match self {
            Self::Lksctp => Self::AllMods,
            Self::AllMods => Self::Lksctp,
            other => other,
        }
    }

    /// The loss recovery; `None` for TCP.
    pub(crate) fn mechanisms(self, readings: &Readings) -> Option<Mechanisms> {
        let normal = readings.lksctp(Version::Petlund);
        let fix = readings.timer_fix;
        let backoff = Backoff::Linear { linear_for: Duration::MAX };
        let fast_retransmit = FastRetransmit { threshold: 1, repeats: true };
        let min_rto = |rules, fixed: &[TimerFix]| {
            let timer_restart = match fix {
                TimerFix::AsWorded => TimerRestart::SinceTimerStart,
                fix if fixed.contains(&fix) => TimerRestart::SinceEarliestSent,
                _ => normal.timer_restart,
            };
            Rules { timer_restart, rto_min: THIN_RTO_MIN, ..rules }
        };
        let thin = match self {
            Self::Lksctp => return Some(Mechanisms { normal, thin: normal, ..Profile::Rfc9260.mechanisms() }),
            Self::ModExpBo => Rules { backoff, ..normal },
            Self::ModMinRto => min_rto(normal, &[TimerFix::WithMinRto]),
            Self::ModFr => Rules { fast_retransmit, ..normal },
            Self::AllMods => {
                let both = Rules { backoff, fast_retransmit, ..normal };
                min_rto(both, &[TimerFix::WithMinRto, TimerFix::InAllModsOnly])
            }
            Self::NewReno => return None,
        };
        let thin_detection = ThinDetection::Dynamic { pttfr: PTTFR };
        Some(Mechanisms { thin_detection, normal, thin, ..Profile::Rfc9260.mechanisms() })
    }
}

impl TimerFix {
    /// The names for a plan.
    pub const NAMES: &'static [&'static str] = &["with-min-rto", "in-all-mods-only", "as-worded", "nowhere"];

    /// The choice with this name.
    ///
    /// # Panics
    /// If it is none of [`NAMES`](Self::NAMES).
    pub fn named(name: &str) -> Self {
        match name {
            "with-min-rto" => Self::WithMinRto,
            "in-all-mods-only" => Self::InAllModsOnly,
            "as-worded" => Self::AsWorded,
            "nowhere" => Self::Nowhere,
            _ => panic!("{name} says nothing about the fix of the timer"),
        }
    }
}

/// TCP New Reno as in Linux 2.6 with SACK switched off: timestamps, an initial window of three segments and a first RTO of three seconds (RFC 2988),
/// an RTO whose variance term is at least 200 ms. The application has switched Nagle's algorithm off, as interactive ones do. A retransmission
/// contains no other segment, unless an experiment asks for it.
fn new_reno_2_6(ack_delay: Duration) -> TcpConfig {
    let delayed_ack =
        if ack_delay.is_zero() { DelayedAck::OFF } else { DelayedAck { delay: ack_delay, ..DelayedAck::default() } };
    TcpConfig {
        mss_bytes: 1_448,
        timestamps: true,
        delayed_ack,
        rto: RtoConfig { initial: Duration::from_secs(3), floor: RtoFloor::Variance, ..RtoConfig::default() },
        switches: Switches::default(),
        ..TcpConfig::new_reno()
    }
}

#[cfg(test)]
mod tests {
    use festina_recovery::rtt::RttSampling;

    use super::*;

    /// The kernel as the profiles have it, but for the fix of the timer.
    fn with(timer_fix: TimerFix) -> Readings {
        let (rtt_samples, timer_restart) = (RttSampling::FirstAcknowledgement, TimerRestart::EarliestAcked);
        Readings { rtt_samples, timer_restart, timer_fix, fault: Fault::None }
    }

    #[test]
    fn every_group_is_found_by_its_name() {
        for group in Group::ALL {
            assert_eq!(Group::named(group.name()), group);
        }
    }

    #[test]
    fn each_modification_differs_from_lksctp_in_its_own_rule_only() {
        let rules = |group: Group| group.mechanisms(&with(TimerFix::InAllModsOnly)).expect("it is SCTP").thin;
        let lksctp = rules(Group::Lksctp);
        let all = rules(Group::AllMods);
        assert_eq!(rules(Group::ModExpBo), Rules { backoff: all.backoff, ..lksctp });
        assert_eq!(rules(Group::ModMinRto), Rules { rto_min: all.rto_min, ..lksctp });
        assert_eq!(rules(Group::ModFr), Rules { fast_retransmit: all.fast_retransmit, ..lksctp });
    }

    #[test]
    fn all_modifications_are_those_of_the_profile() {
        let all = Group::AllMods.mechanisms(&with(TimerFix::AsWorded)).expect("it is SCTP");
        let profile = Profile::Petlund2010.mechanisms();
        assert_eq!((all.thin_detection, all.normal), (profile.thin_detection, profile.normal));
        assert_eq!(all.thin, Rules { timer_restart: TimerRestart::SinceTimerStart, ..profile.thin });
    }

    #[test]
    fn the_fix_of_the_timer_goes_where_it_is_said_to_belong() {
        use TimerRestart::{EarliestAcked, SinceEarliestSent, SinceTimerStart};
        for (fix, [min_rto, all_mods]) in [
            (TimerFix::WithMinRto, [SinceEarliestSent, SinceEarliestSent]),
            (TimerFix::InAllModsOnly, [EarliestAcked, SinceEarliestSent]),
            (TimerFix::AsWorded, [SinceTimerStart, SinceTimerStart]),
            (TimerFix::Nowhere, [EarliestAcked, EarliestAcked]),
        ] {
            let restarts = Group::ALL.into_iter().filter_map(|group| group.mechanisms(&with(fix)));
            let restarts = restarts.map(|mechanisms| mechanisms.thin.timer_restart);
            let expected = [EarliestAcked, EarliestAcked, min_rto, EarliestAcked, all_mods];
            assert_eq!(restarts.collect::<Vec<_>>(), expected, "{fix:?}");
        }
        for name in TimerFix::NAMES {
            let debug = format!("{:?}", TimerFix::named(name)).to_lowercase();
            assert_eq!(debug, name.replace('-', ""));
        }
    }

    #[test]
    fn the_bundling_of_p06_is_added_to_all_modifications_only() {
        let changed = |group: Group| {
            let [without, with] = [Group::stack, Group::stack_with_bundling_of_p06];
            without(group, &Readings::DEFAULT, Duration::ZERO) != with(group, &Readings::DEFAULT, Duration::ZERO)
        };
        assert_eq!(Group::ALL.map(changed), [false, false, false, false, true, false]);
    }

    #[test]
    fn an_acknowledgement_is_delayed_if_it_is_to_be() {
        for group in Group::ALL {
            let [prompt, delayed] =
                [Duration::ZERO, Duration::from_millis(200)].map(|delay| group.stack(&Readings::DEFAULT, delay));
            assert_ne!(prompt, delayed, "{}", group.name());
        }
    }
}
