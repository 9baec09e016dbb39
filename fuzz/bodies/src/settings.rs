//! Settings of both sides, from the fuzzer's input.

use arbitrary::Arbitrary;
use festina_recovery::profile::SpuriousResponse;
use festina_recovery::redundancy::Redundancy;
use festina_recovery::thin::ThinDetection;
use festina_sctp::{Config, Expiry, Mechanisms, PartialReliability, Profile, SendBufferPolicy, StreamScheduler};
use festina_units::Duration;

const SCHEDULERS: [StreamScheduler; 6] = [
    StreamScheduler::FirstComeFirstServed,
    StreamScheduler::RoundRobin,
    StreamScheduler::RoundRobinPerPacket,
    StreamScheduler::Priority,
    StreamScheduler::FairCapacity,
    StreamScheduler::WeightedFairQueueing,
];

const SEND_BUFFERS: [SendBufferPolicy; 4] = [
    SendBufferPolicy::Fixed,
    SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 0 },
    SendBufferPolicy::FollowsWindow { windows: 2, extra_packets: 3 },
    SendBufferPolicy::Target(Duration::from_millis(20)),
];

/// Settings of both sides.
#[derive(Arbitrary, Debug)]
pub(crate) struct Setup {
    pub(crate) mechanisms: MechanismsPlan,
    pub(crate) packet_bytes: u16,
    pub(crate) receive_buffer_bytes: u16,
    pub(crate) send_buffer_bytes: u16,
    pub(crate) message_bytes: u16,
    pub(crate) streams: u8,
    pub(crate) sack_delay_ms: u8,
    /// The highest bit offers E-FORWARD-TSN.
    pub(crate) scheduler: u8,
    pub(crate) interleaving: bool,
    pub(crate) nr_sack: bool,
    /// The two highest bits select the policy of the send buffer.
    pub(crate) expiry: u8,
    pub(crate) message_events: bool,
    pub(crate) heartbeats: bool,
    pub(crate) ecn: bool,
}

/// The loss-recovery mechanisms.
#[derive(Arbitrary, Debug)]
pub(crate) struct MechanismsPlan {
    /// The profile whose rules hold while the stream is not thin.
    pub(crate) normal: u8,
    /// The profile whose rules hold while it is thin, and whose thin-stream detector may be used.
    pub(crate) thin: u8,
    pub(crate) redundancy: u8,
    /// Whether spurious timeouts and cuts are detected.
    pub(crate) doubts: bool,
}

/// One of the two hosts.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The place of a host in arrays of two.
pub(crate) fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

fn profile(number: u8) -> Profile {
    let profiles = Profile::all();
    profiles[usize::from(number) % profiles.len()]
}

/// The rules of two profiles, one for thick streams and one for thin ones.
pub(crate) fn mechanisms(plan: &MechanismsPlan) -> Mechanisms {
    let all = Redundancy::NAMED;
    let mut mechanisms = Mechanisms {
        normal: profile(plan.normal).mechanisms().normal,
        redundancy: all[usize::from(plan.redundancy) % all.len()],
        ..profile(plan.thin).mechanisms()
    };
    if mechanisms.thin_detection == ThinDetection::Never {
        mechanisms.thin_detection = Profile::Festina.mechanisms().thin_detection;
    }
    if plan.doubts {
        let spurious = SpuriousResponse { f_rto: true, undo: true };
        (mechanisms.normal.spurious, mechanisms.thin.spurious) = (spurious, spurious);
    }
    mechanisms
}

/// Returns the settings of the plan.
pub(crate) fn config(setup: &Setup) -> Config {
    let mut config = Config { mechanisms: mechanisms(&setup.mechanisms), ..Config::default() };
    let limits = &mut config.limits;
    limits.packet_bytes_max = 384 + usize::from(setup.packet_bytes) % 1_200;
    limits.receive_buffer_bytes = 1_500 + usize::from(setup.receive_buffer_bytes);
    limits.send_buffer_bytes = 1_500 + usize::from(setup.send_buffer_bytes);
    limits.send_low_water_bytes = limits.send_buffer_bytes / 2;
    limits.message_bytes_max = (1 + usize::from(setup.message_bytes)).min(limits.receive_buffer_bytes);
    limits.outbound_streams = 1 + u16::from(setup.streams);
    limits.inbound_streams = 1 + u16::from(setup.streams);
    config.sack.delay = Duration::from_millis(setup.sack_delay_ms.into());
    config.message_events = setup.message_events;
    config.scheduler = SCHEDULERS[usize::from(setup.scheduler) % SCHEDULERS.len()];
    config.interleaving = setup.interleaving;
    config.carrier.ecn = setup.ecn;
    let expiry = Expiry::all().cycle().nth(setup.expiry.into()).unwrap_or_default();
    config.partial_reliability =
        PartialReliability { expiry, nr_sack: setup.nr_sack, enhanced_forward_tsn: setup.scheduler & 0x80 != 0 };
    config.limits.send_buffer = SEND_BUFFERS[usize::from(setup.expiry >> 6)];
    if !setup.heartbeats {
        config.timers.heartbeat_interval = None;
    }
    config
}
