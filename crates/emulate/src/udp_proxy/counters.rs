//! Counters of a proxy.

use festina_netsim::LinkCounters;

use crate::passage::Passage;
use crate::timing::Lateness;

/// Counters of a proxy so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyCounters {
    /// The link from the clients to the server.
    pub forward: LinkCounters,
    /// The link from the server to the clients.
    pub backward: LinkCounters,
    /// Clients that were given an upstream socket.
    pub clients: u64,
    /// Clients that were forgotten to make room for new ones. If they send again, they count as new.
    pub forgotten: u64,
    /// Datagrams of new clients that were ignored because the proxy could not make another socket.
    pub refused: u64,
    /// Datagrams of new clients that were ignored because the system had no route to the server.
    pub unreachable: u64,
    /// Datagrams that left a link but could not be sent on, or whose client had been
    /// forgotten in the meantime.
    pub send_failed: u64,
    /// The lateness of deliveries on both links together.
    pub lateness: Lateness,
    /// Queue lengths and delays from the clients to the server.
    pub forward_passage: Passage,
    /// Queue lengths and delays from the server to the clients.
    pub backward_passage: Passage,
}
