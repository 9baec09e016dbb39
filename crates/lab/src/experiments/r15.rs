//! What the experiments after R15 (Paper III) share: the senders that are compared, and what R15 says of them.

mod cases;
mod chart;
mod family;

pub(super) use cases::{ALMOST_ALL, Case, Cases, as_share};
pub(super) use chart::chart;
pub(super) use family::Family;

use festina_models::record::Truth;
use festina_models::tcp::{DelayedAck, LossRecovery, RtoConfig, RtoFloor, Switches, TailProbe, TcpConfig};
use festina_models::workload::{Replay, Workload};
use festina_units::{ByteCount, Duration};

use crate::count::as_f64;
use crate::plan::Point;
use crate::samples::Samples;
use crate::scenario::{Fault, Sender, Stack};

/// Spurious retransmissions.
pub(super) const SPURIOUS: &str = "spurious";
/// Packets with data, retransmissions included.
pub(super) const PACKETS: &str = "data packets";

/// Payload of a full packet over TCP.
const TCP_PACKET_BYTES: u32 = 1_460;
/// The same over SCTP: one message. Two messages of this size never share a packet.
const SCTP_PACKET_BYTES: u32 = 1_200;

type Setting = fn(&mut TcpConfig);

/// TCP with each mechanism: the changes to the settings of [`tcp`].
const TCP: &[(&str, Setting)] = &[
    ("tcp-standard", |_| {}),
    ("tcp-rtor", |tcp| tcp.switches.rto_restart = true),
    ("tcp-tlp", |tcp| tcp.switches.tail_probe = TailProbe::Draft),
    ("tcp-tlpr", |tcp| {
        tcp.switches.tail_probe = TailProbe::Draft;
        tcp.switches.tail_probe_restart = true;
    }),
    ("tcp-tlpr-rtor", |tcp| {
        tcp.switches.tail_probe = TailProbe::Draft;
        tcp.switches.tail_probe_restart = true;
        tcp.switches.rto_restart = true;
    }),
    ("tcp-rack", |tcp| {
        tcp.recovery = LossRecovery::Linux;
        tcp.switches.tail_probe = TailProbe::Rfc8985;
    }),
];

/// What all TCP senders have in common: SACK with FACK and early retransmit, ten packets at first, and Linux's RTO
/// of SRTT and 200 ms more at least.
fn tcp() -> TcpConfig {
    TcpConfig {
        mss_bytes: TCP_PACKET_BYTES,
        initial_window_segments: 10,
        rto: RtoConfig { floor: RtoFloor::Variance, ..RtoConfig::default() },
        switches: Switches { fack: true, early_retransmit: true, ..Switches::default() },
        ..TcpConfig::sack()
    }
}

/// The sender that a point chooses, over a receiver that delays acknowledgements by `delayed_ack` at most.
pub(super) fn stack(point: &Point, delayed_ack: Duration) -> Stack {
    let fault = Fault::of(point);
    let name = if fault == Fault::Swapped { family::swapped(point.choice("sender")) } else { point.choice("sender") };
    fault.in_stack(sound_stack(name, delayed_ack))
}

fn sound_stack(name: &str, delayed_ack: Duration) -> Stack {
    let Some((_, set)) = TCP.iter().find(|(known, _)| *known == name) else {
        return Stack::sctp(Sender::named(name).mechanisms(), delayed_ack);
    };
    let delayed_ack = match delayed_ack {
        Duration::ZERO => DelayedAck::OFF,
        delay => DelayedAck { delay, ..DelayedAck::default() },
    };
    let mut sender = TcpConfig { delayed_ack, ..tcp() };
    set(&mut sender);
    Stack::tcp(sender)
}

/// Payload of a full packet.
pub(super) fn packet_bytes(stack: &Stack) -> u64 {
    u64::from(match stack {
        Stack::Tcp { .. } => TCP_PACKET_BYTES,
        Stack::Sctp { .. } => SCTP_PACKET_BYTES,
    })
}

/// A workload of writes, each with its time and number of bytes, divided into full packets and a rest, so that the fate of every packet is
/// known.
pub(super) fn writes(writes: &[(Duration, u64)], packet_bytes: u64) -> Workload {
    let packets = writes.iter().flat_map(|&(at, bytes)| {
        let full = bytes / packet_bytes;
        let rest = Some(bytes % packet_bytes).filter(|&rest| rest > 0);
        (0..full).map(move |_| packet_bytes).chain(rest).map(move |bytes| (at, ByteCount::from_bytes(bytes)))
    });
    Workload::Replay(Replay::new(packets).expect("writes follow each other in time, and none is empty"))
}

/// The packets that a connection sent, and the spurious ones among them, as counts that [`set`](Cost::set) adds to the samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    packets: u64,
    spurious: u64,
}

impl Cost {
    pub(super) fn add(&mut self, truth: &Truth) {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.packets += truth.first_transmissions + count(truth.retransmissions.len());
        self.spurious += count(truth.retransmissions.iter().filter(|resent| resent.is_spurious()).count());
    }

    pub(super) fn set(self, samples: &mut Samples) {
        samples.set(PACKETS, as_f64(self.packets));
        samples.set(SPURIOUS, as_f64(self.spurious));
    }
}
