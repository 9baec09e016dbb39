//! Topologies: hosts, routers and links as a list that reads like the diagram.
//!
//! ```
//! use festina_netsim::{Duplex, LinkConfig, Topology};
//! use festina_units::Duration;
//!
//! let access = LinkConfig { rate: "1Gbit/s".parse().ok(), ..LinkConfig::default() };
//! let bottleneck =
//!     LinkConfig { rate: "10Mbit/s".parse().ok(), delay: Duration::from_millis(20), ..LinkConfig::default() };
//!
//! let mut topology = Topology::new();
//! let [alice, bob, carol] = topology.hosts(["alice", "bob", "carol"]);
//! let [west, east] = topology.routers(["west", "east"]);
//! topology.duplex(alice, west, Duplex::symmetric(access.clone()));
//! topology.duplex(bob, west, Duplex::symmetric(access.clone()));
//! topology.duplex(west, east, Duplex::symmetric(bottleneck));
//! topology.duplex(east, carol, Duplex::symmetric(access));
//! assert_eq!(topology.route(alice, carol).map(|links| links.len()), Some(3));
//! ```
//!
//! Packets take the route with the fewest links; among equally short ones the one whose links were listed first. Only
//! routers forward.

mod constructors;
mod routes;

pub use constructors::{Dumbbell, Path};
pub(crate) use routes::Routes;

use std::collections::BTreeMap;

use crate::link::LinkConfig;

/// A host or a router of a [`Topology`], numbered from zero in the order in which they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A link of a [`Topology`], numbered from zero in the order in which they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// Hosts, routers and the links between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    nodes: Vec<NodeEntry>,
    links: Vec<LinkEntry>,
    by_name: BTreeMap<String, NodeId>,
    /// Number of links from one node to another.
    parallel: BTreeMap<[NodeId; 2], u32>,
}

/// The two directions of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Duplex {
    /// From the first end to the second.
    pub forward: LinkConfig,
    /// From the second end to the first.
    pub backward: LinkConfig,
}

/// One direction of a connection, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEntry {
    /// The node at which packets enter.
    pub from: NodeId,
    /// The node at which packets leave.
    pub to: NodeId,
    /// The link's configuration.
    pub config: LinkConfig,
    /// The names of both ends, as in `west>east`, followed by `#2` for the second such link, and so on. It determines
    /// the link's random streams, which do not change when other links are added.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeEntry {
    name: String,
    is_host: bool,
}

impl Duplex {
    /// Creates a connection with the same configuration in both directions.
    pub fn symmetric(config: LinkConfig) -> Self {
        Self { forward: config.clone(), backward: config }
    }
}

impl Topology {
    /// Creates an empty topology.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host, which sends and receives but does not forward.
    ///
    /// # Panics
    /// If the name is already in use.
    pub fn host(&mut self, name: &str) -> NodeId {
        self.node(name, true)
    }

    /// Adds several hosts.
    ///
    /// # Panics
    /// If a name is already in use.
    pub fn hosts<const COUNT: usize>(&mut self, names: [&str; COUNT]) -> [NodeId; COUNT] {
        names.map(|name| self.host(name))
    }

    /// Adds a router, which only forwards.
    ///
    /// # Panics
    /// If the name is already in use.
    pub fn router(&mut self, name: &str) -> NodeId {
        self.node(name, false)
    }

    /// Adds several routers.
    ///
    /// # Panics
    /// If a name is already in use.
    pub fn routers<const COUNT: usize>(&mut self, names: [&str; COUNT]) -> [NodeId; COUNT] {
        names.map(|name| self.router(name))
    }

    /// Adds a one-way link.
    ///
    /// # Panics
    /// If an end is not of this topology, or both are the same.
    pub fn link(&mut self, from: NodeId, to: NodeId, config: LinkConfig) -> LinkId {
        assert_ne!(from, to, "a link connects two different nodes");
        let mut name = format!("{}>{}", self.name(from), self.name(to));
        let parallel = self.parallel.entry([from, to]).or_default();
        *parallel += 1;
        if *parallel > 1 {
            name = format!("{name}#{parallel}");
        }
        let id = LinkId(index_u32(self.links.len()));
        self.links.push(LinkEntry { from, to, config, name });
        id
    }

    /// Adds a link for each direction; the first of the result leads from `a` to `b`.
    ///
    /// # Panics
    /// If an end is not of this topology, or both are the same.
    pub fn duplex(&mut self, a: NodeId, b: NodeId, connection: Duplex) -> (LinkId, LinkId) {
        (self.link(a, b, connection.forward), self.link(b, a, connection.backward))
    }

    /// Returns the number of hosts and routers.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the hosts, in the order in which they were added.
    pub fn host_ids(&self) -> impl Iterator<Item = NodeId> {
        (0..).zip(&self.nodes).filter(|(_, node)| node.is_host).map(|(index, _)| NodeId(index))
    }

    /// Returns the links, in the order in which they were added.
    pub fn links(&self) -> &[LinkEntry] {
        &self.links
    }

    /// Returns the name of a host or router.
    ///
    /// # Panics
    /// If `node` is not of this topology.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// Returns the host or router with this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Returns the links that a packet from `from` to the host `to` takes, or `None` if there is no route. The route is
    /// empty if both are the same.
    pub fn route(&self, from: NodeId, to: NodeId) -> Option<Vec<LinkId>> {
        let routes = Routes::new(self);
        let mut taken = Vec::new();
        let mut node = from;
        while node != to {
            let link = routes.next_link(node, to)?;
            taken.push(link);
            node = self.links[link.0 as usize].to;
        }
        Some(taken)
    }

    pub(crate) fn is_host(&self, node: NodeId) -> bool {
        self.nodes[node.0 as usize].is_host
    }

    fn node(&mut self, name: &str, is_host: bool) -> NodeId {
        assert!(self.find(name).is_none(), "there is a node called {name:?} already");
        let id = NodeId(index_u32(self.nodes.len()));
        self.nodes.push(NodeEntry { name: name.to_owned(), is_host });
        self.by_name.insert(name.to_owned(), id);
        id
    }
}

fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("a topology has less than 2^32 nodes and links")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Duplex {
        Duplex::default()
    }

    #[test]
    fn links_are_named_after_their_ends_and_parallel_ones_are_counted() {
        let mut topology = Topology::new();
        let [a, b] = topology.hosts(["a", "b"]);
        topology.duplex(a, b, plain());
        topology.link(a, b, LinkConfig::default());
        let names: Vec<_> = topology.links().iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["a>b", "b>a", "a>b#2"]);
    }

    #[test]
    #[should_panic(expected = "called \"a\" already")]
    fn a_name_is_used_once() {
        let mut topology = Topology::new();
        topology.host("a");
        topology.router("a");
    }

    #[test]
    fn the_shortest_route_is_taken_and_among_equals_the_first_listed() {
        let mut topology = Topology::new();
        let [a, b] = topology.hosts(["a", "b"]);
        let [north, south, detour] = topology.routers(["north", "south", "detour"]);
        topology.duplex(a, detour, plain());
        topology.duplex(detour, south, plain());
        let (a_south, _) = topology.duplex(a, south, plain());
        topology.duplex(a, north, plain());
        topology.duplex(north, b, plain());
        let (south_b, _) = topology.duplex(south, b, plain());
        topology.link(a, south, LinkConfig::default());
        assert_eq!(topology.route(a, b), Some(vec![a_south, south_b]));
    }

    #[test]
    fn hosts_do_not_forward() {
        let mut topology = Topology::new();
        let [a, b, c] = topology.hosts(["a", "b", "c"]);
        topology.duplex(a, b, plain());
        topology.duplex(b, c, plain());
        assert_eq!(topology.route(a, c), None);
        assert_eq!(topology.route(a, a), Some(vec![]));
        assert!(topology.route(c, b).is_some());
    }

    #[test]
    fn a_link_carries_packets_one_way_only() {
        let mut topology = Topology::new();
        let [a, b] = topology.hosts(["a", "b"]);
        topology.link(a, b, LinkConfig::default());
        assert!(topology.route(a, b).is_some());
        assert_eq!(topology.route(b, a), None);
    }
}
