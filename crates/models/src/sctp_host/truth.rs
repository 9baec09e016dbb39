//! Joins the logs of two SCTP hosts.

use festina_sctp::Stats;
use festina_units::Instant;

use super::SctpHost;
use super::connection::Connection;
use crate::record::{RttRecord, Truth, join};

/// The history of an association that sent data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssociationRecord {
    /// Its number at the sending host.
    pub association: usize,
    /// The fate of its messages and DATA chunks.
    pub truth: Truth,
    /// The round-trip times that the sending core measured, in order.
    pub rtt_samples: Vec<RttRecord>,
    /// The sending core's own counters.
    pub sender: Stats,
    /// The receiving core's own counters.
    pub receiver: Stats,
}

/// Joins the logs of a sending and a receiving host: one record per association between them that was set up and
/// accepted. Both must have been made with `Config::message_events`. A packet still in transit counts as lost, so run
/// the simulation until the network is empty first.
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

/// The fate of a message of an association's second application
/// ([`SctpSender::companion`](super::SctpSender::companion)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompanionDelivery {
    /// When the application wanted to write it. It may then have waited for room in the send buffer.
    pub due_at: Instant,
    /// Time of the first transmission of its first chunk; `None` before that.
    pub left_at: Option<Instant>,
    /// Time of delivery to the receiving application; `None` before that.
    pub delivered_at: Option<Instant>,
}

/// Returns the messages of the second applications of all associations between two hosts, association by association
/// and in the order in which they were due. Messages that the core has not accepted yet for lack of room are included.
#[must_use]
pub fn companion_deliveries(sender: &SctpHost, receiver: &SctpHost) -> Vec<CompanionDelivery> {
    let between = sender.connections.iter().filter(|sending| sending.peer() == receiver.node);
    let deliveries = between.filter_map(|sending| {
        let companion = sending.companion.as_ref()?;
        let ports = (sending.ports().peer, sending.ports().local);
        let index = receiver.by_ports.get(&(sender.node, ports));
        let delivered = index.map_or(&[][..], |&index| receiver.connections[index].companion_delivered());
        // The stream is ordered, so the messages arrived in the order in which they were written.
        let delivered = delivered.iter().copied().map(Some).chain(std::iter::repeat(None));
        let of = |((due_at, left_at), delivered_at)| CompanionDelivery { due_at, left_at, delivered_at };
        Some(companion.messages().zip(delivered).map(of))
    });
    deliveries.flatten().collect()
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
