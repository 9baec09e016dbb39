//! Finds the association that a packet belongs to.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use festina_sctp::wire::CommonHeader;
use festina_sctp::{Association, Ports};

use crate::association::{Inner, Waiters};

/// First chunk types whose packets may carry the peer's own tag (the T bit, RFC 9260 §8.5.1).
const CHUNK_ABORT: u8 = 6;
const CHUNK_SHUTDOWN_COMPLETE: u8 = 14;

/// By what an endpoint finds an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Where its peer is.
    pub(crate) remote: SocketAddr,
    /// Its SCTP ports.
    pub(crate) ports: Ports,
    /// Its own verification tag.
    pub(crate) tag: u32,
}

impl Key {
    /// The key of an association as it is now.
    pub(crate) fn of(core: &Association) -> Self {
        Self { remote: core.remote(), ports: core.ports(), tag: core.local_tag() }
    }
}

/// All living associations of an endpoint, by their own verification tag and by peer address and ports.
#[derive(Debug, Default)]
pub(crate) struct Demux {
    by_tag: HashMap<u32, Arc<Inner>, BuildHasherDefault<TagHasher>>,
    tag_by_path: HashMap<(SocketAddr, Ports), u32>,
    /// Those who wait for the last association to go.
    waiters: Waiters,
}

impl Demux {
    /// The association that gets the packet. Its verification tag tells, unless it is the peer's own (T bit) or none (INIT).
    pub(crate) fn find(&self, from: SocketAddr, header: &CommonHeader, packet: &[u8]) -> Option<&Arc<Inner>> {
        let by_tag = || self.by_tag.get(&header.verification_tag);
        if header.verification_tag != 0
            && !has_tag_reflected(packet)
            && let Some(association) = by_tag()
        {
            return Some(association);
        }
        let ports = Ports { local: header.destination_port, peer: header.source_port };
        self.by_tag.get(self.tag_by_path.get(&(from, ports))?)
    }

    /// Whether an association uses the tag.
    pub(crate) fn has_tag(&self, tag: u32) -> bool {
        self.by_tag.contains_key(&tag)
    }

    /// Whether an association with the peer uses the ports.
    pub(crate) fn has_path(&self, remote: SocketAddr, ports: Ports) -> bool {
        self.tag_by_path.contains_key(&(remote, ports))
    }

    /// Adds an association; `false` if its tag or its path is taken.
    pub(crate) fn insert(&mut self, key: Key, association: &Arc<Inner>) -> bool {
        let free = !self.has_tag(key.tag) && !self.has_path(key.remote, key.ports);
        if free {
            self.by_tag.insert(key.tag, association.clone());
            self.tag_by_path.insert((key.remote, key.ports), key.tag);
        }
        free
    }

    /// Follows an association whose own tag changed, as a restart by the peer makes it (RFC 9260 §5.2.4), or whose peer came
    /// to another UDP port (RFC 6951 §5.4). A path that another association has by now stays that one's; packets are found
    /// by their tag all the same.
    pub(crate) fn rekey(&mut self, old: Key, new: Key) {
        if let Some(association) = self.by_tag.remove(&old.tag) {
            self.by_tag.insert(new.tag, association);
            self.remove_path(old);
            self.tag_by_path.entry((new.remote, new.ports)).or_insert(new.tag);
        }
    }

    fn remove_path(&mut self, key: Key) {
        let path = (key.remote, key.ports);
        if self.tag_by_path.get(&path) == Some(&key.tag) {
            self.tag_by_path.remove(&path);
        }
    }

    /// Removes an association. When it was the last, whoever waits for that is to be woken.
    pub(crate) fn remove(&mut self, key: Key) -> (Option<Arc<Inner>>, Waiters) {
        let removed = self.by_tag.remove(&key.tag);
        self.remove_path(key);
        let waiters = if self.by_tag.is_empty() { self.waiters.take() } else { Waiters::None };
        (removed, waiters)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_tag.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_tag.len()
    }

    /// All associations, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Inner>> {
        self.by_tag.values().cloned().collect()
    }

    /// Has `waker` woken when the last association goes.
    pub(crate) fn wait_until_empty(&mut self, key: u64, waker: &Waker) -> Option<Waker> {
        self.waiters.register(key, waker)
    }
}

/// Whether the first chunk says that the packet carries the tag of its sender's peer.
fn has_tag_reflected(packet: &[u8]) -> bool {
    let chunk = packet.get(festina_sctp::wire::COMMON_HEADER_BYTES..).unwrap_or_default();
    matches!(chunk, [CHUNK_ABORT | CHUNK_SHUTDOWN_COMPLETE, flags, ..] if flags & 1 != 0)
}

/// Spreads verification tags. This side drew them at random, so nobody can choose keys that collide.
#[derive(Debug, Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, tag: u32) {
        // The table takes the bucket from the low bits and a check from the high ones: both must depend on all of the tag.
        self.0 = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abort_and_shutdown_complete_with_the_t_bit_carry_the_other_tag() {
        let packet = |chunk_type, flags| {
            let mut packet = vec![0; 12];
            packet.extend([chunk_type, flags, 0, 4]);
            packet
        };
        assert!(has_tag_reflected(&packet(6, 1)));
        assert!(has_tag_reflected(&packet(14, 1)));
        assert!(!has_tag_reflected(&packet(6, 0)));
        assert!(!has_tag_reflected(&packet(14, 0)));
        assert!(!has_tag_reflected(&packet(0, 1)), "on DATA the bit means something else");
        assert!(!has_tag_reflected(&packet(6, 1)[..13]));
    }

    #[test]
    fn tags_that_differ_in_one_bit_land_in_different_buckets() {
        let bucket = |tag| {
            let mut hasher = TagHasher::default();
            hasher.write_u32(tag);
            hasher.finish() & 0xffff
        };
        assert!((0..32).all(|bit| bucket(0x1234_5678) != bucket(0x1234_5678 ^ (1 << bit))));
    }
}
