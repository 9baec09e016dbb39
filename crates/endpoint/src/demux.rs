//! Finds the association that a packet belongs to.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use festina_sctp::wire::{CommonHeader, Packet, chunk_type};
use festina_sctp::{Admission, Context, Ports, named_addresses, transport_address};
use festina_secure::parameters::ResetToken;
use festina_secure::reset::token_of;
use festina_secure::wire::{ConnectionId, Header, destination_id_of_any_version, read_header};
use festina_secure::{further_ids, next_id, previous_id};

use crate::protocols::Protocols;

/// By what an endpoint finds an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where its peer is.
    pub remote: SocketAddr,
    /// Its SCTP ports.
    pub ports: Ports,
    /// Its own name.
    pub name: Name,
    /// The end of datagrams by which its server resets it.
    pub reset_token: Option<ResetToken>,
    /// The connection ID that has taken the place of its name since it or its peer has moved.
    pub moved_id: Option<ConnectionId>,
}

/// The random name of an association, drawn by this side: its peer's packets carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The verification tag of a plain association.
    Tag(u32),
    /// The connection ID of a protected one.
    Id(ConnectionId),
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(match self {
            Self::Tag(tag) => (*tag).into(),
            Self::Id(id) => u64::from_be_bytes(id.0),
        });
    }
}

/// A peer's address, the local and the peer's SCTP port, and whether the association is plain: a plain and a protected one may share the rest.
type Path = (SocketAddr, u16, u16, bool);

fn path(remote: SocketAddr, ports: Ports, is_plain: bool) -> Path {
    (remote, ports.local, ports.peer, is_plain)
}

impl Key {
    fn is_plain(&self) -> bool {
        matches!(self.name, Name::Tag(_))
    }

    fn path(&self) -> Path {
        path(self.remote, self.ports, self.is_plain())
    }
}

/// Protected associations that are over and still answer, at most. Further ones are forgotten at once.
const LINGERING_MAX: usize = 4_096;

/// The connection ID that a client chose for this side, and the address from which its hellos come.
pub type Origin = (ConnectionId, SocketAddr);

/// All living associations of an endpoint, by their own name and by peer address and ports. `A` is a handle, such as a number or an `Arc`.
#[derive(Debug)]
pub struct Demux<A> {
    by_name: HashMap<Name, Entry<A>, BuildHasherDefault<NameHasher>>,
    /// In order, so that all associations with one peer are found together.
    name_by_path: BTreeMap<Path, Name>,
    /// Names by the connection IDs that clients chose and their addresses. Its hash function is keyed, since strangers choose these.
    name_by_origin: HashMap<Origin, Name>,
    /// Names of protected associations that this side began, by their peers: another protocol may answer a hello without any connection ID.
    name_by_remote: HashMap<SocketAddr, Name>,
    /// Names by the tokens that servers have given. Its hash function is keyed, since they choose these.
    name_by_token: HashMap<ResetToken, Name>,
    /// Names by the connection IDs for further addresses of this endpoint.
    name_by_further: HashMap<Name, Name, BuildHasherDefault<NameHasher>>,
    /// Names by the connection IDs that have taken their place. Those before and after such an ID, and the one after a name, follow from it.
    name_by_moved: HashMap<Name, Name, BuildHasherDefault<NameHasher>>,
    /// The settings of the endpoint.
    context: Arc<Context>,
    /// Associations in `by_name` that are over.
    lingering: usize,
    /// Associations that peers set up, by the network that they came from. No longer than `by_name`.
    accepted: HashMap<IpAddr, usize>,
    admission: Admission,
}

/// A living association.
#[derive(Debug)]
struct Entry<A> {
    association: A,
    side: Side,
}

/// Who began an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This endpoint.
    Own,
    /// The peer.
    Peer,
    /// It is over, and still answers a peer that has missed the end.
    Over,
}

/// Why an association cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its name or its path is taken.
    Taken,
    /// There are too many.
    Full,
    /// This side begins it, and one of its SCTP ports is 0 (RFC 9260 §3.1).
    PortZero,
}

impl<A: Clone> Demux<A> {
    /// Without any association.
    pub fn new(context: &Arc<Context>) -> Self {
        let admission = context.config().admission.clone();
        Self {
            name_by_further: HashMap::default(),
            name_by_moved: HashMap::default(),
            context: Arc::clone(context),
            by_name: HashMap::default(),
            name_by_path: BTreeMap::new(),
            name_by_origin: HashMap::new(),
            name_by_remote: HashMap::new(),
            name_by_token: HashMap::new(),
            lingering: 0,
            accepted: HashMap::new(),
            admission,
        }
    }

    /// The association whose own tag the packet carries; not for INIT, nor for the peer's own tag (T bit).
    fn find_by_tag(&self, header: &CommonHeader, packet: &[u8]) -> Option<&A> {
        if header.verification_tag == 0 || has_tag_reflected(packet) {
            return None;
        }
        self.by_name.get(&Name::Tag(header.verification_tag)).map(|entry| &entry.association)
    }

    /// The plain association that gets the packet. Its verification tag tells, unless it is the peer's own (T bit) or none (INIT). A peer that has lost
    /// its state may come from another of its addresses, and names them (RFC 9260 §5.1.2 D).
    fn find_plain(&self, from: SocketAddr, header: &CommonHeader, packet: &[u8]) -> Option<&A> {
        self.find_by_tag(header, packet).or_else(|| {
            let ports = Ports { local: header.destination_port, peer: header.source_port };
            let at = |remote| self.name_by_path.get(&path(remote, ports, true));
            let named = || named_addresses(packet).into_iter().find_map(|address| at(transport_address(from, address)));
            self.by_name.get(at(from).or_else(named)?).map(|entry| &entry.association)
        })
    }

    /// The association that has this connection ID, or whose client at this address has chosen it.
    fn find_by_id(&self, id: ConnectionId, from: SocketAddr) -> Option<&A> {
        self.find_by_own_id(id).or_else(|| {
            let entry = self.by_name.get(self.name_by_origin.get(&(id, from))?)?;
            Some(&entry.association)
        })
    }

    /// The association that has this connection ID, which this side drew at random.
    fn find_by_own_id(&self, id: ConnectionId) -> Option<&A> {
        let name = Name::Id(id);
        let other = || self.by_name.get(self.name_by_further.get(&name).or_else(|| self.name_by_moved.get(&name))?);
        self.by_name.get(&name).or_else(other).map(|entry| &entry.association)
    }

    /// The association that has this connection ID, or to which it was given for the next move, or that has had it before the last one.
    fn find_by_own_id_at_move(&self, id: ConnectionId) -> Option<&A> {
        let spare = || self.find_by_own_id(previous_id(&self.context, id));
        let former = || {
            let name = self.name_by_moved.get(&Name::Id(next_id(&self.context, id)))?;
            self.by_name.get(name).map(|entry| &entry.association)
        };
        self.find_by_own_id(id).or_else(spare).or_else(former)
    }

    /// The connection IDs of an association for further addresses of this endpoint.
    fn further_names(&self, name: Name) -> Vec<Name> {
        match name {
            Name::Id(id) => further_ids(&self.context, id).map(Name::Id).collect(),
            Name::Tag(_) => Vec::new(),
        }
    }

    /// The latest protected association that this side has begun with a peer there.
    pub fn find_by_remote(&self, remote: SocketAddr) -> Option<&A> {
        let entry = self.by_name.get(self.name_by_remote.get(&remote)?)?;
        Some(&entry.association)
    }

    /// The association that a datagram resets.
    fn find_by_reset(&self, datagram: &[u8]) -> Option<&A> {
        let entry = self.by_name.get(self.name_by_token.get(&token_of(datagram)?)?)?;
        Some(&entry.association)
    }

    /// The association whose own tag or connection ID the packet carries.
    pub fn find_expected(&self, protocols: Protocols, from: SocketAddr, packet: &[u8]) -> Option<&A> {
        if protocols.expects_protected(packet) {
            let found = self.find_protected(from, packet);
            if found.is_some() || protocols == Protocols::Encrypted {
                return found;
            }
        }
        self.find_by_tag(&Packet::peek(packet).ok()?, packet)
    }

    /// The association that gets the packet.
    pub fn find(&self, protocols: Protocols, from: SocketAddr, packet: &[u8]) -> Option<&A> {
        if protocols.expects_protected(packet) {
            let found = self.find_protected(from, packet);
            if found.is_some() || protocols == Protocols::Encrypted {
                return found;
            }
        }
        self.find_plain(from, &Packet::peek(packet).ok()?, packet)
    }

    /// The protected association that gets the packet.
    pub fn find_protected(&self, from: SocketAddr, packet: &[u8]) -> Option<&A> {
        match read_header(packet) {
            Ok(Header::Long(header)) => self.find_by_id(header.destination, from),
            Ok(Header::Short(id)) => self.find_by_own_id_at_move(id).or_else(|| self.find_by_reset(packet)),
            Err(_) => self.find_by_own_id(destination_id_of_any_version(packet)?),
        }
    }

    /// Notes a protected association that this side begins.
    pub fn note_hello(&mut self, key: Key) {
        self.name_by_remote.insert(key.remote, key.name);
    }

    /// Whether a peer at this address may set up another association.
    pub fn admits(&self, peer: IpAddr) -> bool {
        self.has_room()
            && self
                .accepted
                .get(&network(peer))
                .is_none_or(|count| *count < self.admission.associations_per_address_max)
    }

    fn has_room(&self) -> bool {
        self.len() < self.admission.associations_max
    }

    /// Whether an association uses the name.
    pub fn has_name(&self, name: Name) -> bool {
        self.by_name.contains_key(&name)
    }

    /// Whether an association of this kind with the peer uses the ports.
    pub fn has_path(&self, remote: SocketAddr, ports: Ports, is_plain: bool) -> bool {
        self.name_by_path.contains_key(&path(remote, ports, is_plain))
    }

    /// Adds an association. `origin` is that of a client's; such an association may share its path with an
    /// older one, whose client has lost its state.
    pub fn insert(&mut self, key: Key, origin: Option<Origin>, association: &A, side: Side) -> Result<(), Refusal> {
        if side == Side::Own && (key.ports.local == 0 || key.ports.peer == 0) {
            return Err(Refusal::PortZero);
        }
        let is_path_taken = origin.is_none() && self.has_path(key.remote, key.ports, key.is_plain());
        if is_path_taken || self.has_name(key.name) {
            return Err(Refusal::Taken);
        }
        let peer = key.remote.ip();
        let admitted = match side {
            Side::Own => self.has_room(),
            Side::Peer => self.admits(peer),
            Side::Over => true,
        };
        if !admitted {
            return Err(Refusal::Full);
        }
        if side == Side::Peer {
            *self.accepted.entry(network(peer)).or_default() += 1;
        }
        self.by_name.insert(key.name, Entry { association: association.clone(), side });
        self.name_by_path.insert(key.path(), key.name);
        if let Some(origin) = origin {
            self.name_by_origin.insert(origin, key.name);
        }
        self.name_by_further.extend(self.further_names(key.name).into_iter().map(|further| (further, key.name)));
        Ok(())
    }

    /// Follows an association that has another connection ID, whose own tag changed, as a restart by the peer makes it (RFC 9260 §5.2.4), or whose peer came
    /// to another UDP port (RFC 6951 §5.4) or, if it is encrypted, another address. A path that another association has by now stays that one's; packets are found
    /// by their tag all the same.
    pub fn rekey(&mut self, old: Key, new: Key) {
        if let Some(entry) = self.by_name.remove(&old.name) {
            let (is_over, is_accepted) = (entry.side == Side::Over, entry.side == Side::Peer);
            self.by_name.insert(new.name, entry);
            self.remove_moved(old);
            if let Some(id) = new.moved_id {
                // Another association has the same one with a probability of 2^-64.
                self.name_by_moved.entry(Name::Id(id)).or_insert(new.name);
            }
            if is_accepted && network(old.remote.ip()) != network(new.remote.ip()) {
                self.forget_accepted(old.remote.ip());
                *self.accepted.entry(network(new.remote.ip())).or_default() += 1;
            }
            self.remove_path(old);
            if !is_over {
                self.name_by_path.entry(new.path()).or_insert(new.name);
                self.name_by_token.extend(new.reset_token.map(|token| (token, new.name)));
            }
        }
    }

    fn remove_moved(&mut self, key: Key) {
        if let Some(id) = key.moved_id.map(Name::Id)
            && self.name_by_moved.get(&id) == Some(&key.name)
        {
            self.name_by_moved.remove(&id);
        }
    }

    fn remove_path(&mut self, key: Key) {
        let path = key.path();
        if self.name_by_path.get(&path) == Some(&key.name) {
            self.name_by_path.remove(&path);
        }
        if let Some(token) = key.reset_token
            && self.name_by_token.get(&token) == Some(&key.name)
        {
            self.name_by_token.remove(&token);
        }
        if self.name_by_remote.get(&key.remote) == Some(&key.name) {
            self.name_by_remote.remove(&key.remote);
        }
    }

    /// Who began the association, if it is there.
    pub fn side(&self, key: Key) -> Option<Side> {
        self.by_name.get(&key.name).map(|entry| entry.side)
    }

    /// Removes an association.
    pub fn remove(&mut self, key: Key, origin: Option<Origin>) -> Option<A> {
        let removed = self.by_name.remove(&key.name)?;
        for further in self.further_names(key.name) {
            self.name_by_further.remove(&further);
        }
        self.remove_moved(key);
        self.remove_path(key);
        if let Some(origin) = origin
            && self.name_by_origin.get(&origin) == Some(&key.name)
        {
            self.name_by_origin.remove(&origin);
        }
        match removed.side {
            Side::Own => {}
            Side::Peer => self.forget_accepted(key.remote.ip()),
            Side::Over => self.lingering -= 1,
        }
        Some(removed.association)
    }

    /// Keeps an association that is over, so that its packets still reach it. It counts no more, and its path is free. Returns `false`, without
    /// effect, if too many such associations are kept.
    pub fn linger(&mut self, key: Key) -> bool {
        let may_stay = self.lingering < LINGERING_MAX;
        let Some(entry) = self.by_name.get_mut(&key.name).filter(|_| may_stay) else { return false };
        let side = std::mem::replace(&mut entry.side, Side::Over);
        self.lingering += usize::from(side != Side::Over);
        self.remove_path(key);
        if side == Side::Peer {
            self.forget_accepted(key.remote.ip());
        }
        true
    }

    fn forget_accepted(&mut self, peer: IpAddr) {
        let network = network(peer);
        if let Some(count) = self.accepted.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.accepted.remove(&network);
            }
        }
    }

    /// Whether none lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of living associations.
    pub fn len(&self) -> usize {
        self.by_name.len() - self.lingering
    }

    /// All associations, in no order, and those that are over and still answer.
    pub fn all(&self) -> Vec<A> {
        self.by_name.values().map(|entry| entry.association.clone()).collect()
    }

    /// The associations whose packets go to this address.
    pub fn to(&self, destination: SocketAddr) -> Vec<A> {
        let paths = self.name_by_path.range((destination, 0, 0, false)..=(destination, u16::MAX, u16::MAX, true));
        paths.filter_map(|(_, name)| self.by_name.get(name)).map(|entry| entry.association.clone()).collect()
    }
}

/// What counts as one address: an IPv4 address, or the /64 network of an IPv6 address, which one host mostly has for itself.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Whether the first chunk says that the packet carries the tag of its sender's peer.
fn has_tag_reflected(packet: &[u8]) -> bool {
    let chunk = packet.get(festina_sctp::wire::COMMON_HEADER_BYTES..).unwrap_or_default();
    matches!(chunk, [chunk_type::ABORT | chunk_type::SHUTDOWN_COMPLETE, flags, ..] if flags & 1 != 0)
}

/// Spreads verification tags and connection IDs. This side drew them at random, so that peers cannot choose keys that collide.
#[derive(Debug, Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, name: u64) {
        // The table takes the bucket from the low bits and a check from the high ones: both must depend on all of the name.
        self.0 = (self.0 ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
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
    fn an_association_that_moves_a_thousand_times_is_found_by_three_ids_and_takes_one_more_place() {
        let context = Context::new(festina_sctp::Config::default(), [1; 16]).unwrap();
        let mut demux = Demux::new(&context);
        let key = |number: u64| Key {
            remote: SocketAddr::from(([192, 0, 2, 1], 9)),
            ports: Ports { local: 1, peer: u16::try_from(number).unwrap() },
            name: Name::Id(ConnectionId(number.to_be_bytes())),
            reset_token: None,
            moved_id: None,
        };
        for number in 1..=2 {
            demux.insert(key(number), None, &number, Side::Own).unwrap();
        }
        let at = |steps: usize| (0..steps).fold(ConnectionId(1_u64.to_be_bytes()), |id, _| next_id(&context, id));
        let mut last = key(1);
        for moves in 1..=1_000 {
            let moved = Key { moved_id: Some(next_id(&context, last.moved_id.unwrap_or(at(0)))), ..last };
            demux.rekey(last, moved);
            last = moved;
            if [1, 2, 3, 1_000].contains(&moves) {
                let found: Vec<usize> =
                    (0..moves + 4).filter(|steps| demux.find_by_own_id_at_move(at(*steps)) == Some(&1)).collect();
                // The name stays, and so does the spare of the name; the association drops packets to IDs that count no more.
                let mut expected = vec![0, 1, moves - 1, moves, moves + 1];
                expected.sort_unstable();
                expected.dedup();
                assert_eq!(found, expected, "after {moves} moves");
                assert_eq!((demux.name_by_moved.len(), demux.by_name.len()), (1, 2));
            }
        }
        let (other, spare) = (ConnectionId(2_u64.to_be_bytes()), next_id(&context, ConnectionId(2_u64.to_be_bytes())));
        assert!([other, spare].iter().all(|id| demux.find_by_own_id_at_move(*id) == Some(&2)));
        // One that claims the ID of another takes nothing from it.
        demux.rekey(key(2), Key { moved_id: last.moved_id, ..key(2) });
        assert_eq!(demux.find_by_own_id_at_move(last.moved_id.unwrap()), Some(&1));
        demux.remove(Key { moved_id: last.moved_id, ..key(2) }, None).unwrap();
        demux.remove(last, None).unwrap();
        assert!(demux.name_by_moved.is_empty() && demux.is_empty());
    }

    #[test]
    fn an_ipv4_address_and_an_ipv6_network_of_64_bits_count_as_one() {
        let same = |one: &str, other: &str| network(one.parse().unwrap()) == network(other.parse().unwrap());
        assert!(same("192.0.2.1", "192.0.2.1") && !same("192.0.2.1", "192.0.2.2"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"), "a dual-stack socket sees the second");
        assert!(!same("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
    }

    #[test]
    fn tags_that_differ_in_one_bit_land_in_different_buckets() {
        let bucket = |tag| {
            let mut hasher = NameHasher::default();
            hasher.write_u64(tag);
            hasher.finish() & 0xffff
        };
        assert!((0..32).all(|bit| bucket(0x1234_5678) != bucket(0x1234_5678 ^ (1 << bit))));
    }
}
