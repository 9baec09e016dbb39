//! Standard topologies.

use super::{Duplex, LinkId, NodeId, Topology};

/// A chain: `sender - router1 - ... - receiver`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The hosts `sender` and `receiver`, and between them the routers `router1` and so on.
    pub topology: Topology,
    /// The host at the near end.
    pub sender: NodeId,
    /// The host at the far end.
    pub receiver: NodeId,
    /// The links from the sender to the receiver, in this order.
    pub forward: Vec<LinkId>,
    /// The links from the receiver to the sender, in this order.
    pub backward: Vec<LinkId>,
}

/// Pairs of hosts that share one bottleneck.
///
/// ```text
/// sender1 ──┐                  ┌── receiver1
/// sender2 ──┼─ left ──── right ┼── receiver2
/// sender3 ──┘    bottleneck    └── receiver3
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dumbbell {
    /// The routers `left` and `right` and the hosts `sender1`, `receiver1` and so on.
    pub topology: Topology,
    /// The hosts on the left.
    pub senders: Vec<NodeId>,
    /// The hosts on the right.
    pub receivers: Vec<NodeId>,
    /// The link from left to right.
    pub bottleneck: LinkId,
    /// The link from right to left.
    pub bottleneck_back: LinkId,
}

impl Topology {
    /// Creates a chain of `hops` from a sender to a receiver, with a router between consecutive hops.
    ///
    /// # Panics
    /// If there is no hop.
    pub fn path(hops: &[Duplex]) -> Path {
        assert!(!hops.is_empty(), "a path has at least one hop");
        let mut topology = Self::new();
        let [sender, receiver] = topology.hosts(["sender", "receiver"]);
        let mut path = Path { sender, receiver, forward: Vec::new(), backward: Vec::new(), topology };
        let mut node = sender;
        for (number, hop) in (1..).zip(hops) {
            let next = if number == hops.len() { receiver } else { path.topology.router(&format!("router{number}")) };
            let (forward, backward) = path.topology.duplex(node, next, hop.clone());
            path.forward.push(forward);
            path.backward.insert(0, backward);
            node = next;
        }
        path
    }

    /// Creates pairs of hosts that share one bottleneck, one pair for each entry in `access`. Both the sender and the
    /// receiver of a pair are connected by its entry; forward leads from the sender to its router and from the other
    /// router to the receiver.
    pub fn dumbbell(access: &[Duplex], bottleneck: Duplex) -> Dumbbell {
        let mut topology = Self::new();
        let [left, right] = topology.routers(["left", "right"]);
        let (bottleneck, bottleneck_back) = topology.duplex(left, right, bottleneck);
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (number, access) in (1_usize..).zip(access) {
            let sender = topology.host(&format!("sender{number}"));
            let receiver = topology.host(&format!("receiver{number}"));
            topology.duplex(sender, left, access.clone());
            topology.duplex(right, receiver, access.clone());
            senders.push(sender);
            receivers.push(receiver);
        }
        Dumbbell { topology, senders, receivers, bottleneck, bottleneck_back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkConfig;

    fn ends(topology: &Topology, from: NodeId, to: NodeId) -> String {
        let route = topology.route(from, to).expect("there is a way");
        let names: Vec<_> =
            route.iter().map(|link| topology.name(topology.links()[link.0 as usize].to).to_owned()).collect();
        names.join(" ")
    }

    fn plain(count: usize) -> Vec<Duplex> {
        vec![Duplex::symmetric(LinkConfig::default()); count]
    }

    #[test]
    fn a_path_is_a_chain_in_both_directions() {
        let path = Topology::path(&plain(3));
        assert_eq!(ends(&path.topology, path.sender, path.receiver), "router1 router2 receiver");
        assert_eq!(path.topology.route(path.sender, path.receiver), Some(path.forward));
        assert_eq!(path.topology.route(path.receiver, path.sender), Some(path.backward));
        let direct = Topology::path(&plain(1));
        assert_eq!(ends(&direct.topology, direct.receiver, direct.sender), "sender");
    }

    #[test]
    fn all_pairs_of_a_dumbbell_share_the_bottleneck() {
        let dumbbell = Topology::dumbbell(&plain(3), Duplex::default());
        let topology = &dumbbell.topology;
        for sender in &dumbbell.senders {
            for receiver in &dumbbell.receivers {
                let route = topology.route(*sender, *receiver).expect("there is a way");
                assert_eq!((route.len(), route[1]), (3, dumbbell.bottleneck));
                let back = topology.route(*receiver, *sender).expect("there is a way");
                assert_eq!((back.len(), back[1]), (3, dumbbell.bottleneck_back));
            }
        }
        assert_eq!(ends(topology, dumbbell.senders[0], dumbbell.senders[2]), "left sender3");
    }
}
