//! What a proxy counts.

use festina_netsim::LinkCounters;

use crate::passage::Passage;
use crate::timing::Lateness;

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyCounters {
    /// The link from the clients to the server.
    pub forward: LinkCounters,
    /// The link from the server to the clients.
    pub backward: LinkCounters,
    /// Clients that were given an upstream socket.
    pub clients: u64,
    /// Datagrams of new clients that were ignored because the proxy could not make another socket.
    pub refused: u64,
    /// Datagrams that left a link but could not be sent on, or whose client had been
    /// forgotten in the meantime.
    pub send_failed: u64,
    /// How late deliveries were made on both links together.
    pub lateness: Lateness,
    /// How datagrams fared on the way from the clients to the server.
    pub forward_passage: Passage,
    /// How datagrams fared on the way from the server to the clients.
    pub backward_passage: Passage,
}
