//! Connecting and listening.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use festina::{Association, ConnectError, ConnectOptions, Duration, Endpoint, Listener};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::notification::{self, CANT_STR_ASSOC};
use super::options::Options;
use super::peer::{self, Peer};
use super::program;
use super::socket::{Bound, Phase, Socket};
use super::{Carrier, Engine};
use crate::numbers::{Errno, event};
use crate::wire::{Header, Kind};

/// The first of the ports that the system chooses.
const FIRST_EPHEMERAL_PORT: u16 = 32_768;
/// Own addresses of an endpoint.
const ADDRESSES_MAX: usize = 8;
/// Messages that wait for an association that the first of them sets up.
const WAITING_MAX: usize = 256;

/// Binds a socket that is not bound yet to one address or several.
pub(super) async fn bind(engine: &Arc<Engine>, socket: &Socket, addresses: &[SocketAddr]) -> Result<(), Errno> {
    let first = addresses.first().ok_or(Errno::EINVAL)?;
    let ips: Vec<IpAddr> = addresses.iter().map(|address| address.ip().to_canonical()).collect();
    let is_doubled = (1..ips.len()).any(|at| ips[..at].contains(&ips[at]));
    let is_foreign = |address: &SocketAddr| address.port() != first.port() || !socket.is_ipv6 && address.is_ipv6();
    if is_doubled || addresses.iter().any(is_foreign) {
        return Err(Errno::EINVAL);
    }
    if let Some(bound) = &socket.state().bound {
        // sctp_bindx() adds addresses to those that there are, which an endpoint cannot.
        return Err(if bound.ips.iter().any(|ip| ips.contains(ip)) { Errno::EINVAL } else { Errno::EOPNOTSUPP });
    }
    if ips.len() > 1 && (ips.len() > ADDRESSES_MAX || ips.iter().any(IpAddr::is_unspecified)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let endpoint = engine.endpoint_at(&ips).await?;
    let port = if first.port() == 0 { ephemeral_port()? } else { first.port() };
    socket.state().bound = Some(Bound { endpoint, ips, port });
    Ok(())
}

fn ephemeral_port() -> Result<u16, Errno> {
    let mut random = [0; 2];
    getrandom::fill(&mut random).map_err(|_| Errno::EIO)?;
    Ok(FIRST_EPHEMERAL_PORT | u16::from_ne_bytes(random))
}

/// Listens, or stops listening if `backlog` is 0 on a one-to-many socket.
pub(super) async fn listen(engine: &Arc<Engine>, socket: &Arc<Socket>, backlog: i32) -> Result<(), Errno> {
    if socket.state().phase == Phase::Listening {
        return Ok(());
    }
    if !matches!(socket.state().phase, Phase::Fresh) || socket.is_many && backlog == 0 {
        return if socket.is_many { Ok(()) } else { Err(Errno::EINVAL) };
    }
    if socket.state().bound.is_none() {
        bind(engine, socket, &[SocketAddr::new(unspecified(socket.is_ipv6), 0)]).await?;
    }
    let bound = socket.state().bound.clone().ok_or(Errno::EINVAL)?;
    let (mut endpoints, is_wildcard) = (vec![bound.endpoint.clone()], bound.ips.iter().any(IpAddr::is_unspecified));
    if is_wildcard {
        // A raw socket serves one version of IP.
        if engine.config.carrier == Carrier::Raw && socket.serves(Ipv4Addr::LOCALHOST.into()) {
            engine.endpoint_at(&[Ipv4Addr::UNSPECIFIED.into()]).await?;
        }
        endpoints = engine.endpoints.lock().await.values().cloned().collect();
    }
    let listeners: Result<Vec<_>, _> = endpoints.iter().map(|endpoint| endpoint.listen(bound.port)).collect();
    let listeners = match listeners {
        Ok(listeners) => listeners,
        // The socket of the other protocol at this port accepts for both.
        Err(_) if is_wildcard && engine.other_protocol(socket, bound.port).is_some() => Vec::new(),
        Err(_) => return Err(Errno::EADDRINUSE),
    };
    for listener in listeners {
        let accepting = tokio::spawn(accept(engine.clone(), socket.clone(), listener));
        socket.state().tasks.push(accepting.abort_handle());
    }
    let mut state = socket.state();
    state.listens = true;
    if !socket.is_many {
        state.phase = Phase::Listening;
    }
    Ok(())
}

/// Has a socket that listens at any address do so at a new endpoint.
pub(super) fn listen_there_too(engine: &Arc<Engine>, socket: &Arc<Socket>, endpoint: &Endpoint) {
    let mut state = socket.state();
    let Some(bound) = state.bound.as_ref().filter(|bound| bound.ips.iter().any(IpAddr::is_unspecified)) else { return };
    if state.listens
        && let Ok(listener) = endpoint.listen(bound.port)
    {
        let accepting = tokio::spawn(accept(engine.clone(), socket.clone(), listener));
        state.tasks.push(accepting.abort_handle());
    }
}

pub(super) fn unspecified(is_ipv6: bool) -> IpAddr {
    if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Hands associations to the program.
async fn accept(engine: Arc<Engine>, socket: Arc<Socket>, listener: Listener) {
    let own = socket;
    while let Some(association) = listener.accept().await {
        let mut socket = own.clone();
        if !socket.serves(association.remote_addr().ip()) {
            let Some(other) = engine.other_protocol(&own, association.ports().local) else {
                association.abort("nothing listens for this version of IP");
                continue;
            };
            socket = other;
        }
        if socket.is_many {
            Peer::add(&engine, &socket, association);
            continue;
        }
        let Ok((accepted, descriptor)) = adopt(&engine, &socket, association) else { continue };
        let peer = accepted.state().peers.values().next().map(|peer| peer.remote);
        let header = Header { socket: accepted.id, address: peer, ..Header::new(Kind::Accept) };
        if socket.send(&header, &[], Some(descriptor.as_fd())).await.is_err() {
            return;
        }
    }
}

/// Makes a one-to-one socket of an association. Returns it with the program's descriptor.
fn adopt(engine: &Arc<Engine>, from: &Socket, association: Association) -> Result<(Arc<Socket>, OwnedFd), Errno> {
    let (socket, descriptor) = child(engine, from)?;
    Peer::add(engine, &socket, association);
    Ok((socket, descriptor))
}

/// Returns a one-to-one socket with the options of another, and the program's descriptor.
pub(super) fn child(engine: &Arc<Engine>, from: &Socket) -> Result<(Arc<Socket>, OwnedFd), Errno> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (descriptor, end) = pair.map_err(|_| Errno::EMFILE)?;
    let (options, bound) = {
        let state = from.state();
        (state.options.clone(), state.bound.clone())
    };
    let socket = create(engine, end, (false, from.is_ipv6), options)?;
    socket.state().bound = bound;
    Ok((socket, descriptor))
}

/// Adds a socket and begins to serve it.
pub(super) fn create(
    engine: &Arc<Engine>,
    end: OwnedFd,
    kind: (bool, bool),
    options: Options,
) -> Result<Arc<Socket>, Errno> {
    let id = engine.next_socket.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let socket = Socket::new(engine, id, end, kind, options).map_err(|_| Errno::EIO)?;
    engine.add(&socket);
    tokio::spawn(program::serve(engine.clone(), socket.clone()));
    Ok(socket)
}

/// Begins to connect to the first of these addresses that answers.
pub(super) fn connect(engine: &Arc<Engine>, socket: &Arc<Socket>, addresses: Vec<SocketAddr>) -> Result<(), Errno> {
    if addresses.is_empty() || addresses.iter().any(|address| address.port() == 0) {
        return Err(Errno::EINVAL);
    }
    let mut state = socket.state();
    if socket.is_many {
        if state.peers.values().any(|peer| addresses.iter().any(|address| peer.is_at(*address))) {
            return Err(Errno::EISCONN);
        }
        if state.waiting.contains_key(&addresses[0]) {
            return Err(Errno::EALREADY);
        }
        state.waiting.insert(addresses[0], Vec::new());
    } else {
        match state.phase {
            Phase::Fresh => state.phase = Phase::Connecting,
            Phase::Connecting => return Err(Errno::EALREADY),
            Phase::Connected | Phase::Ended => return Err(Errno::EISCONN),
            Phase::Listening => return Err(Errno::EOPNOTSUPP),
        }
        state.error = None;
    }
    let connecting = tokio::spawn(attempt(engine.clone(), socket.clone(), addresses));
    state.tasks.retain(|task| !task.is_finished());
    state.tasks.push(connecting.abort_handle());
    Ok(())
}

/// Sends the first message to a peer, which sets the association up.
pub(super) fn send_first(engine: &Arc<Engine>, socket: &Arc<Socket>, header: Header, payload: Bytes) {
    let Some(remote) = header.address else { return };
    let _known = connect(engine, socket, vec![remote]);
    if let Some(waiting) = socket.state().waiting.get_mut(&remote)
        && waiting.len() < WAITING_MAX
    {
        waiting.push((header, payload));
    }
}

async fn attempt(engine: Arc<Engine>, socket: Arc<Socket>, addresses: Vec<SocketAddr>) {
    let mut result = Err(Errno::EINVAL);
    for remote in &addresses {
        result = reach(&engine, &socket, *remote).await;
        if result.is_ok() {
            break;
        }
    }
    let waiting = socket.state().waiting.remove(&addresses[0]).unwrap_or_default();
    match result {
        Ok(association) => {
            let peer = Peer::add(&engine, &socket, association);
            for (header, payload) in waiting {
                program::send_to(&peer, &header, payload).await;
            }
        }
        Err(error) => {
            if !socket.is_many {
                let mut state = socket.state();
                (state.phase, state.error) = (Phase::Fresh, Some(error));
            }
            let failure = |_: &Options| notification::association_change(CANT_STR_ASSOC, 0, (0, 0), 0);
            peer::notify(|| socket.clone(), 0, addresses.first().copied(), event::ASSOC_CHANGE, failure).await;
        }
    }
    socket.settled.notify_one();
    socket.attempted.notify_waiters();
}

async fn reach(engine: &Engine, socket: &Socket, remote: SocketAddr) -> Result<Association, Errno> {
    let (bound, options) = {
        let state = socket.state();
        (state.bound.clone(), state.options.clone())
    };
    let ip = match remote.ip().to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let is_raw = engine.config.carrier == Carrier::Raw;
    let endpoint = match &bound {
        Some(bound) if !is_raw || bound.ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4()) => bound.endpoint.clone(),
        _ => engine.endpoint_to(ip).await?,
    };
    let udp = match engine.config.carrier {
        Carrier::Udp { peer, .. } => options.peer_udp_port().unwrap_or(peer),
        Carrier::Raw => 0,
    };
    let mut connect = ConnectOptions::default().peer_port(remote.port()).handshake_timeout(time_to_connect(&options));
    if let Some(bound) = &bound {
        connect = connect.local_port(bound.port);
    }
    let mut to = SocketAddr::new(ip, udp);
    if let (SocketAddr::V6(to), SocketAddr::V6(remote)) = (&mut to, remote) {
        to.set_scope_id(remote.scope_id());
    }
    let association = endpoint.connect_with(to, connect).await.map_err(|error| match error {
        ConnectError::NotListening { .. } | ConnectError::Refused { .. } | ConnectError::PeerFull { .. } => {
            Errno::ECONNREFUSED
        }
        ConnectError::Timeout { .. } => Errno::ETIMEDOUT,
        ConnectError::CannotSend { .. } => Errno::EHOSTUNREACH,
        ConnectError::BadAddress { .. } => Errno::EINVAL,
        ConnectError::PortInUse { .. } | ConnectError::NoPortLeft { .. } => Errno::EADDRNOTAVAIL,
        _ => Errno::ECONNABORTED,
    })?;
    if bound.is_none() {
        let (ips, port) = (vec![own_ip(&endpoint, ip)], association.ports().local);
        socket.state().bound.get_or_insert(Bound { endpoint, ips, port });
    }
    Ok(association)
}

/// The own address of an endpoint that the system would send from.
fn own_ip(endpoint: &Endpoint, to: IpAddr) -> IpAddr {
    let bound = endpoint.local_addr().ip();
    if bound.is_unspecified() { source_to(to) } else { bound }
}

/// The own address that the system would send from.
pub(super) fn source_to(to: IpAddr) -> IpAddr {
    let any = SocketAddr::new(unspecified(to.is_ipv6()), 0);
    // Connecting a UDP socket sends nothing.
    let probe =
        std::net::UdpSocket::bind(any).and_then(|probe| probe.connect((to, 9)).and_then(|()| probe.local_addr()));
    probe.map_or(any.ip(), |local| local.ip().to_canonical())
}

/// The time after which the last repetition of the INIT has failed.
fn time_to_connect(options: &Options) -> Duration {
    let (_, attempts, longest_ms) = options.init();
    let mut interval = u64::from(options.timing.rto_initial_ms());
    let mut total = 0;
    for _ in 0..=attempts.min(64) {
        total += interval.min(longest_ms.into());
        interval = interval.saturating_mul(2);
    }
    Duration::from_millis(total.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting_takes_as_long_as_the_attempts() {
        let mut options = Options::default();
        // 1, 2, 4, ... seconds, at most 60.
        assert_eq!(time_to_connect(&options), Duration::from_secs(1 + 2 + 4 + 8 + 16 + 32 + 60 + 60 + 60));
        options.set(super::super::options::INITMSG, &[0, 0, 0, 0, 2, 0, 0xf4, 1]).unwrap();
        assert_eq!(time_to_connect(&options), Duration::from_millis(1_500), "three INITs, 500 ms apart");
    }
}
