//! Options whose values are gauges of an association, and those that act on one.

use std::net::SocketAddr;
use std::sync::Arc;

use festina::{AssociationState, PathState, PathStatus, StreamId};

use super::options::{self as names, FRAGMENT_BYTES, sized};
use super::peer::Peer;
use super::socket::Socket;
use super::{Engine, lock, timing};
use crate::address::{self, STORAGE_BYTES};
use crate::numbers::Errno;

/// Returns the association's number at the start of an option's value.
fn association_of(value: &[u8]) -> i32 {
    value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes))
}

/// Returns the association that an option is about.
fn peer(socket: &Socket, association: i32) -> Result<Arc<Peer>, Errno> {
    let state = socket.state();
    let found = if socket.is_many { state.peers.get(&association) } else { state.peers.values().next() };
    found.cloned().ok_or(Errno::EINVAL)
}

fn shown(socket: &Socket, address: SocketAddr) -> SocketAddr {
    address::shown(address, socket.is_ipv6, socket.state().options.keeps_mapped())
}

/// Returns the value of an option for a program's buffer of `room` bytes, whose first bytes are `given`.
pub(super) fn get(socket: &Socket, name: i32, given: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
    let association = association_of(given);
    match name {
        names::STATUS => {
            let peer = peer(socket, association)?;
            sized(status(socket, &peer), room)
        }
        names::PEER_ADDR_INFO => {
            let peer = peer(socket, association)?;
            let asked = given.get(4..).and_then(address::read).ok_or(Errno::EINVAL)?.0;
            let path = peer.path_to(asked.ip()).ok_or(Errno::EINVAL)?;
            sized(path_info(socket, &peer, &path), room)
        }
        names::PRIMARY_ADDR => {
            let peer = peer(socket, association)?;
            let mut value = peer.id.to_ne_bytes().to_vec();
            address::write_storage(shown(socket, peer.primary()), &mut value);
            sized(value, room)
        }
        names::ASSOC_NUMBER => sized(count(socket).to_ne_bytes().to_vec(), room),
        names::ASSOC_ID_LIST => {
            let ids: Vec<i32> = socket.state().peers.keys().copied().collect();
            let list = ids.iter().flat_map(|id| id.to_ne_bytes());
            sized(count(socket).to_ne_bytes().into_iter().chain(list).collect(), room)
        }
        names::REMOTE_UDP_PORT if let Ok(peer) = peer(socket, association) => {
            let mut value = socket.state().options.get(name, room)?;
            value[names::UDP_PORT_AT..][..2].copy_from_slice(&peer.association.remote_addr().port().to_be_bytes());
            Ok(value)
        }
        names::PEER_ADDRS => addresses(socket, peer(socket, association)?.addresses(), association, room),
        names::LOCAL_ADDRS => {
            let bound = socket.state().bound.clone().ok_or(Errno::EINVAL)?;
            addresses(socket, bound.addresses().collect(), association, room)
        }
        _ => {
            if let Some(association) = timing::association_of(name, given) {
                get_timing(socket, (name, association), given, room)
            } else {
                socket.state().options.get(name, room)
            }
        }
    }
}

fn get_timing(socket: &Socket, (name, association): (i32, i32), given: &[u8], room: usize) -> Result<Vec<u8>, Errno> {
    let (peers, is_for_socket) = concerned(socket, name, association)?;
    let Some(peer) = peers.first().filter(|_| !is_for_socket) else {
        return socket.state().options.timing.get(name, given, room);
    };
    is_of(peer, timing::address_of(name, given))?;
    let mut value = lock(&peer.timing).get(name, given, room)?;
    if name == timing::ASSOCINFO {
        let window = u32::try_from(peer.association.stats().path.peer_window_bytes).unwrap_or(u32::MAX);
        let paths = u16::try_from(peer.association.paths().len()).unwrap_or(u16::MAX);
        value[6..8].copy_from_slice(&paths.to_ne_bytes());
        value[8..12].copy_from_slice(&window.to_ne_bytes());
    }
    Ok(value)
}

/// Returns the associations that such an option is about, and whether it is about those to come.
fn concerned(socket: &Socket, name: i32, association: i32) -> Result<(Vec<Arc<Peer>>, bool), Errno> {
    const FUTURE: i32 = 0;
    const CURRENT: i32 = 1;
    const ALL: i32 = 2;
    let peers = || socket.state().peers.values().cloned().collect::<Vec<_>>();
    match association {
        _ if !socket.is_many => {
            let peers = peers();
            let is_unconnected = peers.is_empty();
            Ok((peers, is_unconnected))
        }
        FUTURE => Ok((Vec::new(), true)),
        CURRENT | ALL if name != timing::DELAYED_SACK => Err(Errno::EINVAL),
        CURRENT => Ok((peers(), false)),
        ALL => Ok((peers(), true)),
        association => Ok((vec![peer(socket, association)?], false)),
    }
}

fn is_of(peer: &Peer, address: Option<SocketAddr>) -> Result<(), Errno> {
    let Some(address) = address else { return Ok(()) };
    peer.path_to(address.ip()).ok_or(Errno::EINVAL)?;
    // Timers are those of all paths.
    if peer.association.paths().len() > 1 { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// Sets an option about the timers and limits of associations.
fn set_timing(engine: &Engine, socket: &Socket, (name, association): (i32, i32), value: &[u8]) -> Result<(), Errno> {
    let (peers, is_for_socket) = concerned(socket, name, association)?;
    let address = timing::address_of(name, value);
    if is_for_socket {
        if address.is_some() {
            return Err(Errno::EINVAL);
        }
        socket.state().options.timing.set(name, value)?;
    }
    for peer in &peers {
        is_of(peer, address)?;
        peer.change_timing(engine, |timing| timing.set(name, value))?;
    }
    Ok(())
}

fn count(socket: &Socket) -> u32 {
    u32::try_from(socket.state().peers.len()).unwrap_or(u32::MAX)
}

/// `struct sctp_getaddrs`.
fn addresses(socket: &Socket, list: Vec<SocketAddr>, association: i32, room: usize) -> Result<Vec<u8>, Errno> {
    let mut value = association.to_ne_bytes().to_vec();
    value.extend(u32::try_from(list.len()).unwrap_or(u32::MAX).to_ne_bytes());
    list.into_iter().for_each(|address| address::write(shown(socket, address), &mut value));
    if room < value.len() { Err(Errno::ENOMEM) } else { Ok(value) }
}

/// `struct sctp_status`.
fn status(socket: &Socket, peer: &Peer) -> Vec<u8> {
    let state: i32 = match peer.association.state() {
        AssociationState::Closed => 1,
        AssociationState::CookieWait => 2,
        AssociationState::CookieEchoed => 3,
        AssociationState::ShutdownPending => 5,
        AssociationState::ShutdownSent => 6,
        AssociationState::ShutdownReceived => 7,
        AssociationState::ShutdownAckSent => 8,
        _ => 4,
    };
    let path_stats = peer.association.stats().path;
    let mut value = peer.id.to_ne_bytes().to_vec();
    value.extend(state.to_ne_bytes());
    value.extend(u32::try_from(path_stats.peer_window_bytes).unwrap_or(u32::MAX).to_ne_bytes());
    let pending = u16::try_from(path_stats.messages_pending).unwrap_or(u16::MAX);
    let (outbound, inbound) = peer.streams();
    for number in [u16::try_from(path_stats.in_flight_packets).unwrap_or(u16::MAX), pending, inbound, outbound] {
        value.extend(number.to_ne_bytes());
    }
    value.extend(FRAGMENT_BYTES.to_ne_bytes());
    if let Some(primary) = peer.path_to(peer.primary().ip()) {
        value.extend(path_info(socket, peer, &primary));
    }
    value
}

/// `struct sctp_paddrinfo`.
fn path_info(socket: &Socket, peer: &Peer, path: &PathStatus) -> Vec<u8> {
    // enum sctp_spinfo_state
    let state: i32 = match path.state {
        PathState::Active => 2,
        PathState::Unconfirmed => 3,
        PathState::PotentiallyFailed => 1,
        _ => 0,
    };
    let stats = peer.association.path_stats().into_iter().find(|stats| stats.id == path.id);
    let stats = stats.unwrap_or_else(|| peer.association.stats().path);
    let milliseconds = |time: festina::Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let mut value = peer.id.to_ne_bytes().to_vec();
    address::write_storage(shown(socket, peer.address_of(path)), &mut value);
    value.extend(state.to_ne_bytes());
    let window = u32::try_from(stats.cwnd_bytes).unwrap_or(u32::MAX);
    for number in [window, milliseconds(stats.srtt.unwrap_or_default()), milliseconds(stats.rto), FRAGMENT_BYTES] {
        value.extend(number.to_ne_bytes());
    }
    value
}

/// Performs an option that acts on an association. `None` if the option is another.
pub(super) fn act(engine: &Engine, socket: &Socket, name: i32, value: &[u8]) -> Option<Result<(), Errno>> {
    if let Some(association) = timing::association_of(name, value) {
        return Some(set_timing(engine, socket, (name, association), value));
    }
    let association = association_of(value);
    match name {
        names::RESET_STREAMS => Some(reset(socket, association, value)),
        names::ADD_STREAMS => Some(add(socket, association, value)),
        names::PRIMARY_ADDR => Some(set_primary(socket, association, value)),
        names::AUTOCLOSE if !socket.is_many => Some(Err(Errno::EOPNOTSUPP)),
        _ => None,
    }
}

/// `struct sctp_reset_streams`.
fn reset(socket: &Socket, association: i32, value: &[u8]) -> Result<(), Errno> {
    const INCOMING: u16 = 1;
    const OUTGOING: u16 = 2;
    let peer = peer(socket, association)?;
    let [f0, f1, n0, n1, list @ ..] = value.get(4..).unwrap_or_default() else { return Err(Errno::EINVAL) };
    let (flags, count) = (u16::from_ne_bytes([*f0, *f1]), u16::from_ne_bytes([*n0, *n1]));
    let streams: Vec<StreamId> =
        list.chunks_exact(2).take(count.into()).map(|two| StreamId(u16::from_ne_bytes([two[0], two[1]]))).collect();
    if streams.len() != usize::from(count) || flags == 0 || flags > INCOMING | OUTGOING {
        return Err(Errno::EINVAL);
    }
    let on = &peer.association;
    let mut asked = Ok(());
    if flags & OUTGOING != 0 {
        asked = if streams.is_empty() { on.reset_all_streams() } else { on.reset_streams(&streams) };
    }
    if flags & INCOMING != 0 && asked.is_ok() {
        asked = if streams.is_empty() { on.request_reset_all() } else { on.request_reset(&streams) };
    }
    asked.map_err(|_| Errno::EINVAL)
}

/// `struct sctp_add_streams`.
fn add(socket: &Socket, association: i32, value: &[u8]) -> Result<(), Errno> {
    let peer = peer(socket, association)?;
    let [i0, i1, o0, o1] = *value.get(4..).unwrap_or_default() else { return Err(Errno::EINVAL) };
    let (inbound, outbound) = (u16::from_ne_bytes([i0, i1]), u16::from_ne_bytes([o0, o1]));
    peer.association.add_streams(outbound, inbound).map_err(|_| Errno::EINVAL)
}

/// `struct sctp_prim`.
fn set_primary(socket: &Socket, association: i32, value: &[u8]) -> Result<(), Errno> {
    if value.len() < 4 + STORAGE_BYTES {
        return Err(Errno::EINVAL);
    }
    let peer = peer(socket, association)?;
    let (address, _) = address::read(&value[4..]).ok_or(Errno::EINVAL)?;
    let path = peer.path_to(address.ip()).ok_or(Errno::EINVAL)?;
    // The only path is primary, and one without a confirmed address cannot be.
    if peer.association.set_primary_path(path.id) || address.ip().to_canonical() == peer.remote.ip() {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}
