//! The system calls of programs that are more than datagrams on their socket pairs.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::connect;
use super::options::{AUTO_ASCONF, Options};
use super::peer::Peer;
use super::socket::{Phase, Socket};
use super::values;
use super::watched::Watched;
use super::{Engine, OptionCall};
use crate::address;
use crate::numbers::{Errno, IPPROTO_SCTP};
use crate::wire::{Operation, REQUEST_BYTES_MAX, Request};

const SOL_SOCKET: i32 = 1;
const SO_LINGER: i32 = 13;
const IPPROTO_IPV6: i32 = 41;
/// IP_TOS and IPV6_TCLASS.
const TRAFFIC_CLASS: [(i32, i32); 2] = [(0, 1), (IPPROTO_IPV6, 67)];
const IPV6_V6ONLY: i32 = 26;
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const SOCK_STREAM: i32 = 1;
const SOCK_SEQPACKET: i32 = 5;
/// Programs that wait to be served.
const BACKLOG: i32 = 1_024;

/// The answer to a request.
#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, descriptor: None }
    }
}

/// Serves requests in the background.
pub(super) fn serve(engine: &Arc<Engine>) -> io::Result<()> {
    let listening = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&listening, &SocketAddrUnix::new_abstract_name(engine.name.as_bytes())?)?;
    rustix::net::listen(&listening, BACKLOG)?;
    let listening = Watched::new(listening)?;
    let engine = Arc::downgrade(engine);
    tokio::spawn(async move {
        loop {
            let accepted =
                listening.read(|listening| Ok(rustix::net::accept_with(listening, SocketFlags::CLOEXEC)?)).await;
            let Some(engine) = engine.upgrade() else { return };
            match accepted {
                Ok(connection) => {
                    tokio::spawn(async move {
                        // A program that has gone away needs no answer.
                        let _gone = serve_one(&engine, connection).await;
                    });
                }
                // No descriptor is left, perhaps: it is tried again.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    });
    Ok(())
}

async fn serve_one(engine: &Arc<Engine>, connection: OwnedFd) -> io::Result<()> {
    let connection = Watched::new(connection)?;
    let (bytes, passed) = connection.read(receive).await?;
    let answered = match Request::decode(&engine.token, &bytes) {
        Some(request) => answer(engine, request, passed).await,
        None => Err(Errno::EACCES),
    };
    let (errno, answer) = match answered {
        Ok(answer) => (0, answer),
        Err(errno) => (errno as i32, Answer::default()),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = answer.descriptor.iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    // It is the first datagram, so there is room.
    let errno: [u8; 4] = errno.to_ne_bytes();
    let parts = [IoSlice::new(&errno), IoSlice::new(&answer.bytes)];
    rustix::net::sendmsg(&connection, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a request, and a descriptor if one came with it.
fn receive(connection: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; REQUEST_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        rustix::net::recvmsg(connection, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    bytes.truncate(received.bytes);
    let mut passed = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let passed = passed.next().and_then(|mut descriptors| descriptors.next());
    Ok((bytes, passed))
}

async fn answer(engine: &Arc<Engine>, request: Request<'_>, passed: Option<OwnedFd>) -> Result<Answer, Errno> {
    let body = request.body;
    if request.operation == Operation::Create {
        return create(engine, body, passed.ok_or(Errno::EINVAL)?);
    }
    let socket = engine.find(request.socket).ok_or(Errno::EBADF)?;
    let addresses = || address::read_all(body).ok_or(Errno::EINVAL);
    match request.operation {
        Operation::Create => Err(Errno::EINVAL),
        Operation::Bind => connect::bind(engine, &socket, &addresses()?).await.map(|()| Answer::default()),
        Operation::Unbind => unbind(&socket, &addresses()?).map(|()| Answer::default()),
        Operation::Listen => {
            let (backlog, _) = Request::number(body).ok_or(Errno::EINVAL)?;
            connect::listen(engine, &socket, backlog).await.map(|()| Answer::default())
        }
        Operation::Connect => connect::connect(engine, &socket, addresses()?).map(|()| Answer::default()),
        Operation::Connected => connected(&socket, &addresses()?).await,
        Operation::TakeError => {
            let error = socket.state().error.take();
            Ok(error.map_or(0, |error| error as i32).to_ne_bytes().to_vec().into())
        }
        Operation::LocalName => local_name(&socket),
        Operation::PeerName => peer_name(&socket),
        Operation::SetOption | Operation::GetOption => option(engine, &socket, request),
        Operation::PeelOff => peel_off(engine, &socket, body, passed.as_ref()),
        Operation::Facts => Ok(socket.facts().encode().to_vec().into()),
    }
}

fn create(engine: &Arc<Engine>, body: &[u8], end: OwnedFd) -> Result<Answer, Errno> {
    let (domain, rest) = Request::number(body).ok_or(Errno::EINVAL)?;
    let (kind, _) = Request::number(rest).ok_or(Errno::EINVAL)?;
    let is_ipv6 = match domain {
        AF_INET => false,
        AF_INET6 => true,
        _ => return Err(Errno::EINVAL),
    };
    let is_many = match kind {
        SOCK_STREAM => false,
        SOCK_SEQPACKET => true,
        _ => return Err(Errno::ESOCKTNOSUPPORT),
    };
    let socket = connect::create(engine, end, (is_many, is_ipv6), Options::default())?;
    Ok(socket.id.to_ne_bytes().to_vec().into())
}

/// The addresses of a socket stay as they are.
fn unbind(socket: &Socket, addresses: &[SocketAddr]) -> Result<(), Errno> {
    let bound = socket.state().bound.clone().ok_or(Errno::EINVAL)?;
    let is_own = |address: &SocketAddr| bound.addresses().any(|own| address::is_same(own, *address));
    // The last one cannot be removed.
    let is_possible = addresses.iter().all(is_own) && addresses.len() < bound.ips.len();
    Err(if is_possible { Errno::EOPNOTSUPP } else { Errno::EINVAL })
}

async fn connected(socket: &Socket, addresses: &[SocketAddr]) -> Result<Answer, Errno> {
    loop {
        let mut attempted = std::pin::pin!(socket.attempted.notified());
        // From here on the end of an attempt is not missed.
        attempted.as_mut().enable();
        if let Some(result) = outcome(socket, addresses) {
            return result.map(|association| association.to_ne_bytes().to_vec().into());
        }
        attempted.await;
    }
}

/// The result of connecting; `None` while an attempt is under way.
fn outcome(socket: &Socket, addresses: &[SocketAddr]) -> Option<Result<i32, Errno>> {
    let mut state = socket.state();
    let reached = |peer: &&Arc<Peer>| addresses.iter().any(|address| peer.is_at(*address));
    if socket.is_many {
        let first = addresses.first()?;
        let peer = state.peers.values().find(reached).map(|peer| peer.id);
        let failed = if state.waiting.contains_key(first) { None } else { Some(Err(Errno::ECONNREFUSED)) };
        return peer.map(Ok).or(failed);
    }
    match state.phase {
        Phase::Connecting => None,
        Phase::Fresh => Some(Err(state.error.take().unwrap_or(Errno::ENOTCONN))),
        Phase::Listening => Some(Err(Errno::EINVAL)),
        Phase::Connected | Phase::Ended => Some(Ok(state.peers.values().next().map_or(0, |peer| peer.id))),
    }
}

fn name(socket: &Socket, name: SocketAddr) -> Answer {
    let shown = address::shown(name, socket.is_ipv6, socket.state().options.keeps_mapped());
    let mut bytes = Vec::new();
    address::write(shown, &mut bytes);
    bytes.into()
}

fn local_name(socket: &Socket) -> Result<Answer, Errno> {
    let any = if socket.is_ipv6 { "[::]:0" } else { "0.0.0.0:0" };
    let bound = socket.state().bound.as_ref().and_then(|bound| bound.addresses().next());
    match bound.map_or_else(|| any.parse(), Ok) {
        Ok(local) => Ok(name(socket, local)),
        Err(_) => Err(Errno::EINVAL),
    }
}

fn peer_name(socket: &Socket) -> Result<Answer, Errno> {
    let remote = socket.state().peers.values().next().map(|peer| peer.remote);
    match remote {
        Some(remote) if !socket.is_many => Ok(name(socket, remote)),
        _ => Err(Errno::ENOTCONN),
    }
}

fn option(engine: &Engine, socket: &Socket, request: Request<'_>) -> Result<Answer, Errno> {
    let (level, rest) = Request::number(request.body).ok_or(Errno::EINVAL)?;
    let (name, rest) = Request::number(rest).ok_or(Errno::EINVAL)?;
    let sets = request.operation == Operation::SetOption;
    let result = match sets {
        true => set_option(engine, socket, (level, name), rest).map(|()| Answer::default()),
        false => get_option(socket, (level, name), rest).map(Answer::from),
    };
    engine.note_option(OptionCall { sets, level, name }, result.as_ref().err().copied());
    result
}

fn set_option(engine: &Engine, socket: &Socket, (level, name): (i32, i32), value: &[u8]) -> Result<(), Errno> {
    match level {
        SOL_SOCKET if name == SO_LINGER => {
            let (on, rest) = Request::number(value).ok_or(Errno::EINVAL)?;
            let (seconds, _) = Request::number(rest).ok_or(Errno::EINVAL)?;
            socket.state().linger = (on != 0).then_some(seconds);
            Ok(())
        }
        IPPROTO_IPV6 if name == IPV6_V6ONLY && socket.is_ipv6 => {
            let (on, _) = Request::number(value).ok_or(Errno::EINVAL)?;
            socket.state().is_ipv6_only = on != 0;
            Ok(())
        }
        _ if TRAFFIC_CLASS.contains(&(level, name)) => {
            // Linux takes a byte as well.
            let number =
                Request::number(value).map_or_else(|| value.first().map(|byte| i32::from(*byte)), |read| Some(read.0));
            let class = number.ok_or(Errno::EINVAL)?.clamp(0, 255);
            socket.state().options.traffic_class = class;
            if class != 0 {
                engine.tell_once("IP_TOS and IPV6_TCLASS are accepted, but packets do not carry them");
            }
            Ok(())
        }
        IPPROTO_SCTP => {
            if let Some(acted) = values::act(engine, socket, name, value) {
                return acted;
            }
            socket.state().options.set(name, value)?;
            if name == AUTO_ASCONF {
                engine.tell_once(
                    "SCTP_AUTO_ASCONF is accepted, but addresses that this host gets later are not announced to peers",
                );
            }
            Ok(())
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}

fn get_option(socket: &Socket, (level, name): (i32, i32), rest: &[u8]) -> Result<Vec<u8>, Errno> {
    let (room, given) = Request::number(rest).ok_or(Errno::EINVAL)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?.min(REQUEST_BYTES_MAX / 2);
    match level {
        SOL_SOCKET if name == SO_LINGER => {
            let linger = socket.state().linger;
            let value = [i32::from(linger.is_some()), linger.unwrap_or(0)];
            Ok(value.iter().flat_map(|number| number.to_ne_bytes()).collect())
        }
        IPPROTO_IPV6 if name == IPV6_V6ONLY && socket.is_ipv6 => {
            Ok(i32::from(socket.state().is_ipv6_only).to_ne_bytes().to_vec())
        }
        _ if TRAFFIC_CLASS.contains(&(level, name)) => Ok(socket.state().options.traffic_class.to_ne_bytes().to_vec()),
        IPPROTO_SCTP => values::get(socket, name, given, room),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

fn peel_off(
    engine: &Arc<Engine>,
    socket: &Arc<Socket>,
    body: &[u8],
    program_end: Option<&OwnedFd>,
) -> Result<Answer, Errno> {
    let (association, _) = Request::number(body).ok_or(Errno::EINVAL)?;
    if !socket.is_many {
        return Err(Errno::EINVAL);
    }
    let peer = socket.state().peers.get(&association).cloned().ok_or(Errno::EINVAL)?;
    let (own, descriptor) = connect::child(engine, socket)?;
    {
        let mut state = own.state();
        state.peers.insert(association, peer.clone());
        state.phase = Phase::Connected;
    }
    socket.move_peer(&peer, &own, program_end);
    Ok(Answer { bytes: own.id.to_ne_bytes().to_vec(), descriptor: Some(descriptor) })
}
