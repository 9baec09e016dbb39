//! Messages of mixed importance over one association, together with greedy TCP flows: R12 §III-B, and R15's parking lot.

use festina_models::host::Host;
use festina_models::record::Truth;
use festina_models::sctp_host::{Delivery, SctpHost, SctpSender, observe};
use festina_models::workload::{Poisson, Workload};
use festina_netsim::NodeId;
use festina_sctp::{Config, Stats};
use festina_units::{Duration, Instant};

use super::contended::{Contended, STARTS_AT};

/// Messages of mixed importance through one bottleneck or several in a row, each with TCP flows of its own.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    pub(crate) sender: Config,
    pub(crate) receiver: Config,
    pub(crate) workload: Poisson,
    pub(crate) delivery: Delivery,
    /// Duration of the writing.
    pub(crate) duration: Duration,
    pub(crate) network: Contended,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) struct MixtureRun {
    pub(crate) truth: Truth,
    /// The sending core's own counters.
    pub(crate) sender: Stats,
    /// Share of the packets offered to all bottlenecks while messages were written that found no room.
    pub(crate) dropped: f64,
    /// Goodput of the TCP flows meanwhile, per bottleneck.
    pub(crate) tcp_bps: f64,
}

impl Mixture {
    /// Runs it until the sender has settled all messages. The same seed gives the same run.
    pub(crate) fn run(&self, seed: u64) -> MixtureRun {
        let hosts = |ends, stops_at| self.hosts(ends, seed, stops_at);
        let run = self.network.run(
            seed,
            self.duration,
            hosts,
            |[sender, _]| has_settled_all(sender),
            |ends| {
                let [sender, receiver] = ends.map(|end| end.as_sctp().expect("both ends are of SCTP"));
                observe(sender, receiver).pop().expect("the association was begun and accepted")
            },
        );
        let record = run.observed;
        MixtureRun { truth: record.truth, sender: record.sender, dropped: run.dropped, tcp_bps: run.tcp_bps }
    }

    fn hosts(&self, [from, to]: [NodeId; 2], seed: u64, stops_at: Instant) -> [Host; 2] {
        let writing = SctpSender {
            starts_at: STARTS_AT,
            stops_at: Some(stops_at),
            delivery: self.delivery,
            ..SctpSender::new(to, Workload::Poisson(self.workload))
        };
        let sender = noting(from, seed, &self.sender).with_sender(&writing);
        [sender.into(), noting(to, seed, &self.receiver).listening().into()]
    }
}

/// A host that notes how each message fares.
pub(crate) fn noting(node: NodeId, seed: u64, config: &Config) -> SctpHost {
    let config = Config { message_events: true, ..config.clone() };
    SctpHost::new(node, seed, config).expect("the experiment's settings are within their ranges")
}

/// Whether nothing is left in the sender's buffer; also if the association is gone.
pub(crate) fn has_settled_all(sender: &Host) -> bool {
    sender.as_sctp().and_then(|sender| sender.stats(0)).is_none_or(|stats| stats.path.send_buffer_bytes == 0)
}
