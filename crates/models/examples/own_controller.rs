//! A congestion controller from outside the core, through its public trait alone: a window that follows the queueing delay, in the manner of TCP
//! Vegas. It is compared with CUBIC in the simulator, over a bottleneck with a long queue.
//!
//! ```sh
//! cargo run --release -p festina-models --example own_controller
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::workload::{Greedy, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, QueueLimit, Simulation, Topology};
use festina_sctp::congestion::{Ack, CongestionSign, Controller, ControllerFactory, CustomController, NewPath};
use festina_sctp::{Config, CongestionControl, Stats};
use festina_units::{ByteCount, Duration, Instant, Probability};

/// The window grows while fewer packets than this wait in the queue.
const QUEUED_MIN: usize = 2;
/// The window shrinks while more packets than this wait in the queue.
const QUEUED_MAX: usize = 6;

/// Keeps between [`QUEUED_MIN`] and [`QUEUED_MAX`] packets in the bottleneck's queue.
#[derive(Debug)]
pub(crate) struct DelayBased {
    packet_bytes: usize,
    cwnd: usize,
    ssthresh: usize,
    /// The shortest round trip so far: the path without a queue.
    base: Option<Duration>,
    /// Data sent from here on belongs to the next round trip.
    round_ends_at: Instant,
    /// Set by a timeout: one packet may be in flight until something is acknowledged (RFC 9260 §7.2.3).
    one_packet: bool,
}

/// Creates a [`DelayBased`] for each path.
#[derive(Debug)]
struct Factory;

impl ControllerFactory for Factory {
    fn name(&self) -> &'static str {
        "delay-based"
    }

    fn create(&self, path: NewPath) -> Box<dyn Controller> {
        Box::new(DelayBased::new(&path))
    }
}

impl DelayBased {
    /// The choice for [`Config::congestion`].
    pub(crate) const CHOICE: CongestionControl = CongestionControl::Custom(CustomController::new(&Factory));

    fn new(path: &NewPath) -> Self {
        Self {
            packet_bytes: path.packet_bytes,
            cwnd: path.initial_window_bytes.max(2 * path.packet_bytes),
            ssthresh: usize::MAX,
            base: None,
            round_ends_at: Instant::ZERO,
            one_packet: false,
        }
    }

    fn floor(&self) -> usize {
        4 * self.packet_bytes
    }

    /// Packets of a full window that wait in the queue if a round trip takes `rtt`.
    fn queued_packets(&self, base: Duration, rtt: Duration) -> usize {
        let queued = (rtt - base.min(rtt)).as_nanos() * self.cwnd as u128 / rtt.as_nanos().max(1);
        usize::try_from(queued).unwrap_or(usize::MAX) / self.packet_bytes
    }
}

impl Controller for DelayBased {
    fn cwnd(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn allows(&self, in_flight: usize) -> bool {
        if self.one_packet { in_flight == 0 } else { in_flight < self.cwnd }
    }

    /// Once per round trip. A window that the application does not fill says nothing about the path.
    fn on_ack(&mut self, ack: &Ack) {
        if ack.bytes == 0 {
            return;
        }
        self.one_packet = false;
        if let Some(rtt) = ack.rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        }
        let is_limited = ack.in_flight_before + self.packet_bytes >= self.cwnd;
        let (Some(base), Some(rtt)) = (self.base, ack.rtt.or(ack.srtt)) else { return };
        if ack.in_fast_recovery || !is_limited {
            return;
        }
        let queued = self.queued_packets(base, rtt);
        if self.cwnd < self.ssthresh && queued < QUEUED_MIN {
            self.cwnd += ack.bytes;
            return;
        }
        self.ssthresh = self.ssthresh.min(self.cwnd);
        if ack.sent_at.is_some_and(|sent_at| sent_at >= self.round_ends_at) {
            self.round_ends_at = ack.now;
            if queued < QUEUED_MIN {
                self.cwnd += self.packet_bytes;
            } else if queued > QUEUED_MAX {
                self.cwnd = (self.cwnd - self.packet_bytes).max(self.floor());
            }
        }
    }

    fn on_congestion(&mut self, sign: CongestionSign) {
        self.ssthresh = (self.cwnd / 2).max(self.floor());
        self.cwnd = self.ssthresh;
        if let CongestionSign::Timeout { one_packet, .. } = sign {
            self.cwnd = self.packet_bytes;
            self.one_packet = one_packet;
        }
    }

    fn undo(&mut self, cwnd: usize, ssthresh: usize) {
        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
        self.one_packet = false;
    }
}

/// How a transfer of 20 s went.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// The sender's statistics at the end.
    pub(crate) stats: Stats,
}

/// Sends as much as it can for 20 s over 10 Mbit/s with 40 ms of propagation and a queue of 200 packets. The path loses a share of the packets.
pub(crate) fn transfer(congestion: CongestionControl, loss: Probability) -> Transfer {
    let back = LinkConfig {
        rate: Some("10Mbit/s".parse().expect("a rate")),
        delay: Duration::from_millis(20),
        queue: QueueLimit::packets(200),
        ..LinkConfig::default()
    };
    let forth = LinkConfig { loss: LossModel::Independent(loss), ..back.clone() };
    let accesses = [Duplex::symmetric(LinkConfig { delay: Duration::from_micros(10), ..LinkConfig::default() })];
    let dumbbell = Topology::dumbbell(&accesses, Duplex { forward: forth, backward: back });
    let (sender, receiver) = (dumbbell.senders[0], dumbbell.receivers[0]);
    let workload = Workload::Greedy(Greedy { size: ByteCount::from_bytes(60 << 10) });
    let config = Config { congestion, ..Config::default() };
    let host = |node| SctpHost::new(node, 1, config.clone()).expect("the settings are in range");
    let sending: Host = host(sender).with_sender(&SctpSender::new(receiver, workload)).into();
    let hosts = vec![sending, host(receiver).listening().into()];
    let mut simulation: Simulation<Packet, Host> = Simulation::new(dumbbell.topology, hosts, 1);
    simulation.run_until(Instant::from_secs(20));
    let of = |node| simulation.node(node).as_sctp().expect("both hosts speak SCTP");
    Transfer { bytes: of(receiver).received(0).bytes, stats: of(sender).stats(0).expect("there is an association") }
}

fn main() {
    for loss_ppb in [0, 1_000_000] {
        for congestion in [CongestionControl::Cubic, DelayBased::CHOICE] {
            let Transfer { bytes, stats } = transfer(congestion, Probability::from_ppb(loss_ppb));
            println!(
                "{congestion}, {:.1} % lost: {:.2} Mbit/s, smoothed round trip {:.0} ms, {} chunks lost",
                f64::from(loss_ppb) / 1e7,
                bytes as f64 * 8.0 / 20.0 / 1e6,
                stats.path.srtt.unwrap_or_default().as_secs_f64() * 1e3,
                stats.sent.chunks_lost,
            );
        }
    }
}
