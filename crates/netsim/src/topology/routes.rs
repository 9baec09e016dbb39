//! Static routes, computed once.

use std::collections::VecDeque;

use super::{LinkId, NodeId, Topology};

/// For every node, the link towards every host.
#[derive(Debug)]
pub(crate) struct Routes {
    node_count: usize,
    /// Row by destination, column by node: the link to take, or [`NO_LINK`].
    links: Vec<u32>,
}

const NO_LINK: u32 = u32::MAX;

impl Routes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let node_count = topology.node_count();
        let mut incoming: Vec<Vec<u32>> = vec![Vec::new(); node_count];
        for (index, link) in (0..).zip(topology.links()) {
            incoming[link.to.0 as usize].push(index);
        }
        let mut routes = Self { node_count, links: vec![NO_LINK; node_count * node_count] };
        for destination in topology.host_ids() {
            routes.fill_row(topology, &incoming, destination);
        }
        routes
    }

    /// Returns the link on which `node` forwards packets for `destination`; `None` if there is no route.
    pub(crate) fn next_link(&self, node: NodeId, destination: NodeId) -> Option<LinkId> {
        if node.0 as usize >= self.node_count {
            return None;
        }
        let link = *self.links.get(destination.0 as usize * self.node_count + node.0 as usize)?;
        (link != NO_LINK).then_some(LinkId(link))
    }

    /// Runs a breadth-first search from the destination, against the direction of the links.
    fn fill_row(&mut self, topology: &Topology, incoming: &[Vec<u32>], destination: NodeId) {
        let row_start = destination.0 as usize * self.node_count;
        let row = &mut self.links[row_start..row_start + self.node_count];
        let mut distances = vec![u32::MAX; self.node_count];
        distances[destination.0 as usize] = 0;
        let mut frontier = VecDeque::from([destination]);
        while let Some(node) = frontier.pop_front() {
            if node != destination && topology.is_host(node) {
                continue;
            }
            let distance = distances[node.0 as usize] + 1;
            for link in &incoming[node.0 as usize] {
                let from = topology.links()[*link as usize].from;
                let from_index = from.0 as usize;
                if distances[from_index] == u32::MAX {
                    distances[from_index] = distance;
                    row[from_index] = *link;
                    frontier.push_back(from);
                } else if distances[from_index] == distance {
                    row[from_index] = row[from_index].min(*link);
                }
            }
        }
    }
}
