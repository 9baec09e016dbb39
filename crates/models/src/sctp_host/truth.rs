//! The notes of two SCTP hosts, joined.

use festina_sctp::Stats;

use super::SctpHost;
use super::connection::Connection;
use crate::record::{RttRecord, Truth, join};

/// All that is known about one association that sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssociationRecord {
    /// Its number at the sending host.
    pub association: usize,
    /// What happened to its messages and DATA chunks.
    pub truth: Truth,
    /// The round-trip times that the sending core measured, in their order.
    pub rtt_samples: Vec<RttRecord>,
    /// The sending core's own counters.
    pub sender: Stats,
    /// The receiving core's own counters.
    pub receiver: Stats,
}

/// Joins what a sending and a receiving host noted: one record per association between them that was begun and accepted. Both
/// must have been made with `Config::message_events`. A packet still under way when this is called counts as lost, so let the
/// network run empty first.
#[must_use]
pub fn observe(sender: &SctpHost, receiver: &SctpHost) -> Vec<AssociationRecord> {
    let between = sender.connections.iter().enumerate().filter(|(_, sending)| sending.peer() == receiver.node);
    between
        .filter_map(|(association, sending)| {
            let ports = (sending.ports().peer, sending.ports().local);
            let receiving = receiver.connections.get(*receiver.by_ports.get(&(sender.node, ports))?)?;
            record(association, sending, receiving)
        })
        .collect()
}

fn record(association: usize, sending: &Connection, receiving: &Connection) -> Option<AssociationRecord> {
    let (sent, received) = (sending.log().filter(|_| sending.sends())?, receiving.log()?);
    Some(AssociationRecord {
        association,
        truth: join(sent, received, &received.delivered),
        rtt_samples: sent.round_trips.clone(),
        sender: sending.stats()?,
        receiver: receiving.stats()?,
    })
}
