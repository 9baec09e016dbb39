//! Static routes, computed once.
//!
//! Only routers have a table: a host looks its links up in those of the routers at their ends. So routes take time and memory by the number of hosts
//! times that of routers, not by the square of the hosts.

use std::collections::VecDeque;

use super::{LinkId, NodeId, Topology};

/// For every router the way to every host, and for every host its links.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The place of each router in a row; `None` for hosts.
    routers: Vec<Option<usize>>,
    router_count: usize,
    /// Row by destination, column by router.
    ways: Vec<Way>,
    /// The links that leave each host, rising, and where each leads.
    leaving: Vec<Vec<(u32, NodeId)>>,
}

/// The way from a router to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    /// Number of links; `u32::MAX` if there is no way.
    distance: u32,
    /// The first of the links.
    link: u32,
}

const NO_WAY: Way = Way { distance: u32::MAX, link: u32::MAX };

impl Routes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let node_count = topology.node_count();
        let mut router_count = 0;
        let routers: Vec<Option<usize>> = (0..node_count)
            .map(|node| {
                let is_router = !topology.nodes[node].is_host;
                router_count += usize::from(is_router);
                is_router.then(|| router_count - 1)
            })
            .collect();
        // A way leads only through routers.
        let mut from_routers: Vec<Vec<(u32, NodeId)>> = vec![Vec::new(); node_count];
        let mut leaving: Vec<Vec<(u32, NodeId)>> = vec![Vec::new(); node_count];
        for (index, link) in (0..).zip(topology.links()) {
            match topology.is_host(link.from) {
                true => leaving[link.from.0 as usize].push((index, link.to)),
                false => from_routers[link.to.0 as usize].push((index, link.from)),
            }
        }
        let mut routes = Self { routers, router_count, ways: vec![NO_WAY; node_count * router_count], leaving };
        for destination in topology.host_ids() {
            routes.fill_row(&from_routers, destination);
        }
        routes
    }

    /// Returns the link on which `node` forwards packets for `destination`; `None` if there is no route.
    pub(crate) fn next_link(&self, node: NodeId, destination: NodeId) -> Option<LinkId> {
        let way = match *self.routers.get(node.0 as usize)? {
            Some(_) => self.way(node, destination),
            None if node == destination => return None,
            None => {
                let links = self.leaving[node.0 as usize].iter();
                links.map(|(link, to)| Way { link: *link, ..self.way(*to, destination) }).min()?
            }
        };
        (way.distance != NO_WAY.distance).then_some(LinkId(way.link))
    }

    /// The way from the end of a link; hosts do not forward.
    fn way(&self, node: NodeId, destination: NodeId) -> Way {
        match self.routers.get(node.0 as usize) {
            Some(Some(router)) => {
                let place = destination.0 as usize * self.router_count + router;
                self.ways.get(place).copied().unwrap_or(NO_WAY)
            }
            _ if node == destination => Way { distance: 0, ..NO_WAY },
            _ => NO_WAY,
        }
    }

    /// Runs a breadth-first search from the destination, against the direction of the links.
    fn fill_row(&mut self, from_routers: &[Vec<(u32, NodeId)>], destination: NodeId) {
        let row_start = destination.0 as usize * self.router_count;
        let row = &mut self.ways[row_start..row_start + self.router_count];
        let mut frontier = VecDeque::from([(destination, 0)]);
        while let Some((node, distance)) = frontier.pop_front() {
            for &(link, from) in &from_routers[node.0 as usize] {
                let Some(router) = self.routers[from.0 as usize] else { continue };
                let found = Way { distance: distance + 1, link };
                if row[router] == NO_WAY {
                    frontier.push_back((from, found.distance));
                }
                row[router] = row[router].min(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Duplex, LinkConfig, RandomStream};

    /// The number of links from a node to a host, and the first of the first-listed of those ways, by trying all.
    fn searched(topology: &Topology, node: NodeId, destination: NodeId, links_max: u32) -> Option<(u32, LinkId)> {
        let links = (0..).zip(topology.links()).filter(|(_, link)| link.from == node && node != destination);
        let ways = links.filter_map(|(index, link)| {
            if link.to == destination {
                return Some((1, LinkId(index)));
            }
            let is_open = links_max > 1 && !topology.is_host(link.to);
            let (distance, _) = is_open.then(|| searched(topology, link.to, destination, links_max - 1)).flatten()?;
            Some((distance + 1, LinkId(index)))
        });
        ways.min()
    }

    #[test]
    fn routes_agree_with_a_search_of_all_ways_in_random_topologies() {
        let mut found = 0;
        for seed in 0..60 {
            let mut random = RandomStream::new(seed, "topology");
            let mut topology = Topology::new();
            let nodes: Vec<NodeId> = (0..6)
                .map(|number| {
                    let name = format!("n{number}");
                    if random.below(2) == 0 { topology.host(&name) } else { topology.router(&name) }
                })
                .collect();
            for _ in 0..10 {
                let [from, to] = [(); 2].map(|()| nodes[usize::try_from(random.below(6)).expect("small")]);
                if from != to {
                    topology.link(from, to, LinkConfig::default());
                }
            }
            let routes = Routes::new(&topology);
            for from in nodes.iter().copied() {
                for to in nodes.iter().copied() {
                    let is_host = topology.is_host(to);
                    let wanted = is_host.then(|| searched(&topology, from, to, 6)).flatten().map(|(_, link)| link);
                    assert_eq!(routes.next_link(from, to), wanted, "seed {seed}, {from:?} to {to:?}");
                    found += u32::from(wanted.is_some());
                }
            }
        }
        assert!(found > 200, "{found}");
    }

    #[test]
    fn tables_grow_with_the_hosts_and_not_with_their_square() {
        let mut topology = Topology::new();
        let router = topology.router("router");
        for number in 0..500 {
            let host = topology.host(&format!("host {number}"));
            topology.duplex(host, router, Duplex::default());
        }
        let routes = Routes::new(&topology);
        let entries = routes.ways.len() + routes.leaving.iter().map(Vec::len).sum::<usize>();
        assert!(entries < 3 * topology.node_count(), "{entries}");
    }
}
