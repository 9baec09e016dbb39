//! The messages and the network of a comparison.

use std::time::Duration;

use clap::Args;
use festina::{CongestionControl, Transport};
use festina_netsim::{LinkConfig, QueueLimit};
use festina_sctp::Profile;
use festina_units::{Bandwidth, ByteCount, Probability, duration};

use super::recorder::HEADER_BYTES;
use crate::args;
use crate::link;
use crate::usage::UsageError;

/// As many as a message's number and time take.
const MESSAGE_BYTES_MIN: u32 = 16;
const _: () = assert!(MESSAGE_BYTES_MIN as usize == HEADER_BYTES);
const MESSAGE_BYTES_MAX: u32 = 65_536;
/// Headers of IPv4, UDP, SCTP and a DATA chunk, in bytes.
const PACKET_OVERHEAD_BYTES: u64 = 20 + 8 + 12 + 16;

/// Bounds the memory for telling which message has arrived.
const MESSAGES_MAX: u64 = 10_000_000;

/// Handshakes take two round trips, several times that when packets get lost, and are not waited for without end.
const RTT_MAX: Duration = Duration::from_secs(5);

/// RTO.Initial in round trips; at least the time below.
const RTO_INITIAL_ROUND_TRIPS: u32 = 3;
const RTO_INITIAL_MIN: Duration = Duration::from_millis(200);

/// The profiles that are compared if none is named: the standard, the papers' baseline and their best, RACK-TLP (RFC 8985), and
/// ours. More at a time would only disturb each other.
const PROFILES: [Profile; 5] =
    [Profile::Rfc9260, Profile::Lksctp2006, Profile::Petlund2010, Profile::Rack, Profile::Festina];

/// Handshakes start so far apart, so that they do not meet in one burst.
pub(crate) const HANDSHAKE_SPACING: Duration = Duration::from_micros(500);

/// The longest time for the handshakes of one profile.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(60);

/// Time between the last handshake and the first message.
pub(super) const BREATH: Duration = Duration::from_millis(200);

/// How often progress is checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// After the last message has arrived, its acknowledgement may still be lost and the message be sent again. That counts,
/// within this time.
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(2);

fn profiles_help() -> String {
    format!(
        "The loss-recovery profiles to compare, separated by commas: {}; if left out {}",
        args::one_of(Profile::all()),
        args::listed(&PROFILES, "and")
    )
}

fn congestion_help() -> String {
    let (choices, profile) = (args::one_of(CongestionControl::all()), Profile::default());
    let own = festina_sctp::Config::published(profile).congestion;
    format!(
        "Congestion control of all profiles, {choices}; if left out each has its own, which is {own} with {profile}"
    )
}

/// The settings with which a profile was published.
pub(crate) fn published(profile: Profile) -> Transport {
    Transport::from_core(festina_sctp::Config::published(profile))
}

/// Every number of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct Scenario {
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_default_value = true)]
    #[arg(default_values_t = PROFILES, help = profiles_help())]
    pub(crate) profiles: Vec<Profile>,
    #[arg(long, value_name = "NAME", help = congestion_help())]
    pub(crate) congestion: Option<CongestionControl>,
    /// Streams of messages per profile, each an association of its own, 1 to 10000
    #[arg(long, value_name = "NUMBER", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) associations: u32,
    /// Size of a message, 16 to 65536 bytes
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = args::size(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX))]
    pub(crate) size: u32,
    /// Time between two messages of an association
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = args::positive_duration)]
    pub(crate) interval: Duration,
    /// How long messages are sent
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = args::positive_duration)]
    pub(crate) duration: Duration,
    /// How long to wait for the last messages after that
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = args::positive_duration)]
    pub(crate) drain: Duration,
    /// Round-trip time of the network
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = args::any_duration)]
    pub(crate) rtt: Duration,
    /// Share of packets lost, each way
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    pub(crate) loss: Probability,
    /// Lose packets in bursts of this mean length instead of singly; --loss remains the share on average
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    pub(crate) burst: Option<Duration>,
    /// Vary the one-way delay by up to this time in either direction
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = args::any_duration)]
    pub(crate) jitter: Duration,
    /// Rate of the network each way, for example 1Mbit/s; without it there is no limit
    #[arg(long, value_name = "RATE", value_parser = link::rate)]
    pub(crate) rate: Option<Bandwidth>,
    /// Queue limit of a network with a rate: packets (100p) or bytes (64KiB)
    #[arg(long, value_name = "SIZE", default_value = "100p", value_parser = link::queue)]
    pub(crate) queue: QueueLimit,
    /// How long the receivers may delay acknowledgements (RFC 9260: at most 500ms); 0 for not at all
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = args::any_duration)]
    pub(crate) sack_delay: Duration,
    /// What the network does is drawn from this number, for every profile: the same seed loses the same packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Scenario {
    /// Checks combinations of flags, which no parser of a single flag can judge.
    pub(crate) fn validate(&self) -> Result<(), UsageError> {
        for (index, profile) in self.profiles.iter().enumerate() {
            if self.profiles.iter().skip(index + 1).any(|other| other == profile) {
                return Err(UsageError::new(format!("--profiles names {} twice", profile.name())));
            }
        }
        if self.duration < self.interval {
            return Err(UsageError::new(format!(
                "--duration {} is shorter than --interval {}",
                duration::display(self.duration),
                duration::display(self.interval)
            )));
        }
        if self.messages() > MESSAGES_MAX {
            return Err(UsageError::new(format!(
                "{} messages per profile are too many; at most {MESSAGES_MAX} are allowed",
                self.messages()
            )));
        }
        if self.loss == Probability::ONE {
            return Err(UsageError::new("with --loss 100% nothing can ever arrive"));
        }
        if self.rtt > RTT_MAX {
            return Err(UsageError::new(format!("--rtt is longer than {}", duration::display(RTT_MAX))));
        }
        if self.jitter > self.rtt / 2 {
            return Err(UsageError::new("--jitter is longer than the one-way delay, half of --rtt"));
        }
        if self.message_time() > RTT_MAX {
            return Err(UsageError::new(format!(
                "at this --rate a message of {} bytes takes {} to send; at most {} are allowed",
                self.size,
                duration::display(Duration::from_secs(self.message_time().as_secs())),
                duration::display(RTT_MAX)
            )));
        }
        if self.sack_delay > Duration::from_millis(500) {
            return Err(UsageError::new("--sack-delay is above the 500ms that RFC 9260 allows"));
        }
        self.link().map(|_| ())
    }

    /// How long the network takes to send the packet of one message, at its rate.
    fn message_time(&self) -> Duration {
        let packet = ByteCount::from_bytes(u64::from(self.size) + PACKET_OVERHEAD_BYTES);
        self.rate.map_or(Duration::ZERO, |rate| rate.transmission_time(packet))
    }

    /// What to say of messages that need more than the rate of the network.
    pub(crate) fn overload(&self) -> Option<String> {
        let needed = self.message_time() * self.associations;
        (needed > self.interval).then(|| {
            format!(
                "the messages of one --interval take {} at this --rate, which is longer than {}: they will queue, and be dropped",
                spaced(Duration::from_millis(u64::try_from(needed.as_millis()).unwrap_or(u64::MAX))),
                spaced(self.interval)
            )
        })
    }

    /// The network in either direction.
    pub(crate) fn link(&self) -> Result<LinkConfig, UsageError> {
        Ok(LinkConfig {
            rate: self.rate,
            delay: self.rtt / 2,
            jitter: link::jitter(self.jitter),
            queue: self.queue,
            loss: link::loss_model(self.loss, self.burst)?,
            ..LinkConfig::default()
        })
    }

    /// How the server behaves: the same for every profile, a standard receiver.
    pub(super) fn server_transport(&self) -> Transport {
        published(Profile::Rfc9260).with_sack_delay(self.sack_delay)
    }

    /// How a client of the profile behaves.
    pub(super) fn client_transport(&self, profile: Profile) -> Transport {
        let transport = published(profile);
        let congestion = self.congestion.unwrap_or(transport.congestion());
        transport
            .with_congestion(congestion)
            .with_sack_delay(self.sack_delay)
            .with_expert(|expert| expert.with_rto_initial(self.rto_initial()))
    }

    /// RTO.Initial of the senders: the handshakes cross the lossy network too, and the standard second for every lost INIT
    /// would take longer than the comparison.
    pub(crate) fn rto_initial(&self) -> Duration {
        (self.rtt * RTO_INITIAL_ROUND_TRIPS).max(RTO_INITIAL_MIN)
    }

    /// Messages that one association sends: one per interval, the first at once.
    pub(crate) fn messages_per_association(&self) -> u64 {
        let count = self.duration.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Messages that all associations of one profile send.
    pub(crate) fn messages(&self) -> u64 {
        self.messages_per_association().saturating_mul(self.associations.into())
    }

    /// When association `number` of the profile at `profile_index` sends its first message, counted from the start. The
    /// starts are spread evenly over one interval so that nothing sends in lockstep.
    pub(crate) fn offset(&self, profile_index: usize, number: u32) -> Duration {
        let profiles = u32::try_from(self.profiles.len()).unwrap_or(u32::MAX);
        let profile_index = u32::try_from(profile_index).unwrap_or(u32::MAX);
        let slots = u128::from(self.associations) * u128::from(profiles.max(1));
        let slot = u128::from(number) * u128::from(profiles) + u128::from(profile_index);
        let offset_ns = self.interval.as_nanos() * slot / slots.max(1);
        Duration::from_nanos(u64::try_from(offset_ns).unwrap_or(u64::MAX))
    }

    /// The scenario in one line.
    pub(crate) fn summary(&self) -> String {
        let Self { associations, size, loss, .. } = self;
        let [interval, duration, rtt] = [self.interval, self.duration, self.rtt].map(spaced);
        format!(
            "{associations} association{}, {size} bytes every {interval} for {duration}, round-trip time {rtt}, {loss} \
             loss each way{}",
            if *associations == 1 { "" } else { "s" },
            self.burst.map_or(String::new(), |burst| format!(" in bursts of {}", spaced(burst)))
        )
    }
}

/// A duration for prose, with a blank between number and unit; flags have none.
pub(super) fn spaced(time: Duration) -> String {
    let text = duration::display(time).to_string();
    match text.find(|character: char| character.is_ascii_alphabetic()) {
        Some(unit_at) => format!("{} {}", &text[..unit_at], &text[unit_at..]),
        None => text,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The scenario of the command without any flag.
    pub(crate) fn default_scenario() -> Scenario {
        Scenario {
            profiles: PROFILES.to_vec(),
            congestion: None,
            associations: 64,
            size: 100,
            interval: Duration::from_millis(250),
            duration: Duration::from_secs(20),
            drain: Duration::from_secs(12),
            rtt: Duration::from_millis(100),
            loss: Probability::from_percent(5),
            burst: None,
            jitter: Duration::ZERO,
            rate: None,
            queue: QueueLimit::packets(100),
            sack_delay: Duration::from_millis(200),
            seed: 1,
        }
    }

    #[test]
    fn the_default_scenario_makes_sense_and_sends_5120_messages_per_profile() {
        let scenario = default_scenario();
        assert!(scenario.validate().is_ok());
        assert_eq!(scenario.messages(), 5_120);
        assert_eq!(
            scenario.summary(),
            "64 associations, 100 bytes every 250 ms for 20 s, round-trip time 100 ms, 5% loss each way"
        );
        let one = Scenario { associations: 1, ..default_scenario() }.summary();
        assert!(one.starts_with("1 association, 100 bytes"), "{one}");
    }

    #[test]
    fn starts_are_spread_over_one_interval_without_coincidence() {
        let scenario = default_scenario();
        let mut offsets: Vec<Duration> = (0..scenario.profiles.len())
            .flat_map(|profile| (0..scenario.associations).map(move |number| (profile, number)))
            .map(|(profile, number)| scenario.offset(profile, number))
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 64 * scenario.profiles.len());
        assert!(offsets.last().is_some_and(|last| *last < scenario.interval));
    }

    #[test]
    fn messages_that_need_more_than_the_rate_draw_a_warning() {
        let at = |rate: &str| {
            let rate = Some(rate.parse().expect("a rate"));
            let scenario = Scenario { rate, ..default_scenario() };
            scenario.validate().expect("it is legal");
            scenario.overload()
        };
        // 64 messages of 156 bytes with headers every 250 ms are 319 kbit/s.
        assert_eq!(at("320kbit/s"), None);
        assert!(
            at("319kbit/s").is_some_and(|warning| warning.contains("take 250 ms") || warning.contains("take 251 ms"))
        );
        assert_eq!(default_scenario().overload(), None);
    }

    #[test]
    fn scenarios_that_make_no_sense_are_refused() {
        let sound = default_scenario();
        let refused = [
            Scenario { profiles: vec![Profile::Festina, Profile::Festina], ..sound.clone() },
            Scenario { duration: Duration::from_millis(1), ..sound.clone() },
            Scenario { interval: Duration::from_nanos(1), ..sound.clone() },
            Scenario { loss: Probability::ONE, ..sound.clone() },
            Scenario { jitter: Duration::from_secs(1), ..sound.clone() },
            Scenario { rtt: Duration::from_secs(3_600), ..sound.clone() },
            Scenario { sack_delay: Duration::from_secs(1), ..sound.clone() },
            Scenario { rate: Some(Bandwidth::from_bits_per_second(1)), ..sound.clone() },
            Scenario { loss: Probability::ZERO, burst: Some(Duration::from_secs(1)), ..sound },
        ];
        for scenario in refused {
            assert!(scenario.validate().is_err(), "{scenario:?}");
        }
    }
}
