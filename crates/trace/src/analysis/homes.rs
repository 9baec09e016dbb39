//! Pairs of addresses that belong to one association of SCTP.
//!
//! Nothing but heartbeats and their answers is sent to a further address before one was answered (RFC 9260 §5.4). So two addresses whose first packet is
//! one of these, with the verification tag and the ports of an association between others, are a path of that association. A capture on both sides of
//! a NAT has the same tags between two pairs of addresses as well, and there both begin with INIT or with data.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::headers::Sctp;
use super::packet::{Content, Key, Parsed, parse};
use crate::dissect::Transport;
use crate::protocol::Protocol;

/// Maximum number of pairs, and of tags, that are remembered, which take 40 megabytes. Beyond it all are forgotten, and the further paths of the
/// associations until then count as associations of their own.
const KNOWN_MAX: usize = 1 << 17;

/// The associations between pairs of addresses.
#[derive(Debug, Default)]
pub(super) struct Homes {
    pairs: HashMap<Key, Pair>,
    /// The association whose end receives packets with this tag, from this port at this one.
    tags: HashMap<(u32, u16, u16), (Key, usize)>,
}

/// Two addresses.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The pair that the association began with.
    first: Key,
    /// The ends have the other order in it.
    is_reversed: bool,
    /// The tags towards each end.
    tags: [Option<u32>; 2],
}

impl Homes {
    /// Has a packet of a further path belong to the pair that its association began with.
    pub(super) fn resolve(&mut self, parsed: &mut Parsed<'_>) {
        let Content::Sctp(sctp) = &parsed.content else { return };
        let (key, to) = (parsed.key, 1 - parsed.from);
        let [from_port, to_port] = [parsed.source.port, parsed.destination.port];
        let by_tag = (sctp.tag, from_port, to_port);
        if self.pairs.len() >= KNOWN_MAX || self.tags.len() >= KNOWN_MAX {
            *self = Self::default();
        }
        if sctp.initial_tsn.is_some() {
            self.pairs.remove(&key);
        }
        let pair = self.pairs.entry(key).or_insert_with(|| {
            let own = (key, to);
            let (first, first_to) = *self.tags.get(&by_tag).filter(|_| sctp.is_heartbeat).unwrap_or(&own);
            Pair { first, is_reversed: first_to != to, tags: [None, None] }
        });
        (parsed.key, parsed.from) = (pair.first, parsed.from ^ usize::from(pair.is_reversed));
        // INIT has the tag 0.
        if sctp.tag != 0 && pair.tags[to] != Some(sctp.tag) {
            pair.tags[to] = Some(sctp.tag);
            self.tags.entry(by_tag).or_insert((parsed.key, 1 - parsed.from));
        }
    }
}

/// The conversation of each packet.
#[derive(Default)]
pub(crate) struct Resolver {
    homes: Homes,
    scratch: Sctp,
}

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) protocol: Protocol,
    /// Those of the first path of an association.
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// SCTP is inside of UDP.
    pub(crate) is_in_udp: bool,
}

impl Resolver {
    /// Returns the direction that a packet belongs to; `None` if it is of another protocol.
    pub(crate) fn way(&mut self, transport: &Transport<'_>) -> Option<Way> {
        let mut parsed = parse(transport, &mut self.scratch)?;
        self.homes.resolve(&mut parsed);
        let [first, second] = parsed.key.ends;
        let [source, destination] = if parsed.from == 0 { [first, second] } else { [second, first] };
        let (protocol, is_in_udp) = (parsed.key.protocol, source.udp_port != 0);
        Some(Way { protocol, source: source.socket(), destination: destination.socket(), is_in_udp })
    }
}
