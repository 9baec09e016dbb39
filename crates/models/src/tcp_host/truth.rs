//! Joins the logs of two TCP hosts.

use festina_units::{Duration, Instant};

use super::TcpHost;
use crate::record::{Truth, join};
use crate::tcp::TcpCounters;

/// The history of a flow that one connection carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpRecord {
    /// Its number at the sending host.
    pub flow: usize,
    /// The fate of its messages. A chunk is the part of a segment that ends a message, so a retransmission is recorded
    /// once for each message that it ends.
    pub truth: Truth,
    /// The sender's retransmission timeout, without backoff, after each segment that it received.
    pub rtos: Vec<(Instant, Duration)>,
    /// The sending model's own counters, in segments.
    pub sender: TcpCounters,
}

/// Joins the logs of a sending and a receiving host: one record per flow between them that has a connection for all its
/// writes. Both must be [`logging`](TcpHost::logging). A packet still in transit counts as lost.
#[must_use]
pub fn observe(sender: &TcpHost, receiver: &TcpHost) -> Vec<TcpRecord> {
    let flows = sender.flows.iter().enumerate();
    flows
        .filter(|(_, flow)| flow.sender.peer == receiver.node && flow.transfers.is_none())
        .filter_map(|(flow, state)| record(flow, state.connection?, sender, receiver))
        .collect()
}

fn record(flow: usize, index: usize, sender: &TcpHost, receiver: &TcpHost) -> Option<TcpRecord> {
    let sending = sender.connections.get(index)?.as_ref()?;
    let (local, peer) = sending.ports();
    let receiving = receiver.connections.get(*receiver.by_ports.get(&(sender.node, (peer, local)))?)?.as_ref()?;
    let delivered = delivered(sending.ends(), receiving.readable());
    let truth = join(sending.log()?, receiving.log()?, &delivered);
    Some(TcpRecord { flow, truth, rtos: sending.rtos().to_vec(), sender: sending.counters() })
}

/// Returns when each message could be read to its end; `ends` and `readable` both grow.
fn delivered(ends: &[u64], readable: &[(u64, Instant)]) -> Vec<(u32, Instant)> {
    let mut delivered = Vec::new();
    let mut ends = (0..).zip(ends).peekable();
    for &(through, at) in readable {
        while let Some((sequence, _)) = ends.next_if(|&(_, &end)| end <= through) {
            delivered.push((sequence, at));
        }
    }
    delivered
}
