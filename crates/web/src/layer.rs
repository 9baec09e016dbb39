//! The gateway on a UDP socket, as the lower layer of an endpoint.

use std::array;
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use festina::lower::{LowerLayer, Received, Transmit};
use festina_units::{Duration, EcnCodepoint};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, oneshot};

use crate::gateway::{Gateway, GatewayEvent, PeerId};

/// Reads of the socket with one lock of the gateway, and datagrams of one read, at most.
const BATCH_MAX: usize = 4;
const READ_MAX: usize = 8;

/// Bytes of kernel buffer asked for in each direction, since all browsers share the socket. With 4 MiB an overloaded server was half a second behind.
const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// The endpoint answers an INIT within this time, or the answer to the offer goes without.
const INIT_PATIENCE: Duration = Duration::from_millis(100);

/// The parts that the lower layer, the timer and the endpoint share.
#[derive(Debug)]
pub(crate) struct Shared {
    socket: UdpSocket,
    features: UdpSocketState,
    state: Mutex<State>,
    /// The deadline may be earlier than the one that the timer waits for.
    rearm: Notify,
}

#[derive(Debug)]
struct State {
    gateway: Gateway,
    /// Channels that report the end of a peer.
    watched: HashMap<PeerId, oneshot::Sender<&'static str>>,
    /// Channels that report the endpoint's answer to an INIT.
    asked: HashMap<PeerId, oneshot::Sender<String>>,
    /// The endpoint, while it waits for packets.
    reader: Option<Waker>,
    buffer: Box<[u8]>,
}

impl Shared {
    pub(crate) fn new(socket: UdpSocket, gateway: Gateway) -> io::Result<Self> {
        let features = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let reference = || UdpSockRef::from(&socket);
        for result in [
            features.set_recv_buffer_size(reference(), SOCKET_BUFFER_BYTES),
            features.set_send_buffer_size(reference(), SOCKET_BUFFER_BYTES),
        ] {
            if let Err(error) = result {
                tracing::debug!(%error, "the socket keeps its default buffer size");
            }
        }
        let buffer = vec![0; READ_MAX * features.gro_segments() * 1_500].into_boxed_slice();
        let state = Mutex::new(State { gateway, watched: HashMap::new(), asked: HashMap::new(), reader: None, buffer });
        Ok(Self { socket, features, state, rearm: Notify::new() })
    }

    /// Uses the gateway, then sends its datagrams.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut Gateway) -> R) -> R {
        self.with_state(|state| call(&mut state.gateway))
    }

    fn with_state<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let before = state.gateway.poll_deadline();
        let result = call(&mut state);
        self.flush(&mut state);
        let after = state.gateway.poll_deadline();
        drop(state);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.rearm.notify_one();
        }
        result
    }

    /// Resolves when the peer is gone, with the reason; at once if it is gone already.
    pub(crate) fn watch(&self, peer: PeerId) -> oneshot::Receiver<&'static str> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        if state.gateway.contains(peer) {
            state.watched.insert(peer, sender);
        }
        receiver
    }

    /// Returns the line of the answer with this side's INIT, if the peer's offer had one (draft-hancke-tsvwg-snap).
    pub(crate) async fn init_of(&self, peer: PeerId) -> Option<String> {
        let (sender, receiver) = oneshot::channel();
        let reader = self.with_state(|state| {
            state.gateway.ask(peer).then(|| {
                state.asked.insert(peer, sender);
                state.reader.take()
            })
        })?;
        if let Some(reader) = reader {
            reader.wake();
        }
        let line = tokio::time::timeout(INIT_PATIENCE, receiver).await.ok().and_then(Result::ok);
        if line.is_none() {
            self.with_state(|state| {
                state.asked.remove(&peer);
                state.gateway.forget_init(peer);
            });
        }
        line
    }

    /// Runs the gateway's timers until the task is aborted.
    pub(crate) async fn run_timers(self: Arc<Self>) {
        loop {
            let deadline = self.state().gateway.poll_deadline();
            let rearmed = self.rearm.notified();
            match deadline {
                Some(deadline) => {
                    let wait = deadline.saturating_duration_since(festina::now());
                    tokio::select! {
                        () = tokio::time::sleep(wait) => self.with(|gateway| gateway.handle_timeout(festina::now())),
                        () = rearmed => {}
                    }
                }
                None => rearmed.await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Datagrams that the socket does not take are lost, as on the way.
    fn flush(&self, state: &mut State) {
        while let Some(datagram) = state.gateway.poll_datagram() {
            let transmit = quinn_udp::Transmit {
                destination: datagram.remote,
                ecn: None,
                contents: &datagram.bytes,
                segment_size: None,
                src_ip: datagram.local,
            };
            let sent = self
                .socket
                .try_io(Interest::WRITABLE, || self.features.try_send(UdpSockRef::from(&self.socket), &transmit));
            if let Err(error) = sent {
                tracing::trace!(%error, remote = %datagram.remote, "a datagram was not sent");
            }
        }
        while let Some(event) = state.gateway.poll_event() {
            tracing::debug!(?event, "browser");
            match event {
                GatewayEvent::Gone(peer, reason) => {
                    state.asked.remove(&peer);
                    if let Some(watcher) = state.watched.remove(&peer) {
                        let _ = watcher.send(reason);
                    }
                }
                GatewayEvent::Init(peer, line) => {
                    if let Some(asker) = state.asked.remove(&peer) {
                        let _ = asker.send(line);
                    }
                }
                GatewayEvent::Connected(_) => {}
            }
        }
    }

    /// Takes datagrams from the socket and gives them to the gateway.
    fn receive(&self, state: &mut State) -> io::Result<()> {
        let State { gateway, buffer, .. } = state;
        let part = buffer.len() / READ_MAX;
        let mut meta = [RecvMeta::default(); READ_MAX];
        let mut has_asked = false;
        let mut read = || {
            let mut parts = buffer.chunks_exact_mut(part);
            let mut parts: [_; READ_MAX] = array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            self.features.recv(UdpSockRef::from(&self.socket), &mut parts, &mut meta)
        };
        let mut count = self.socket.try_io(Interest::READABLE, || {
            has_asked = true;
            read()
        });
        // The runtime does not know of datagrams that came since it last asked the system.
        if !has_asked {
            count = read();
        }
        let (count, now) = (count?, festina::now());
        for (meta, bytes) in meta.iter().zip(buffer.chunks_exact(part)).take(count) {
            let bytes = bytes.get(..meta.len).unwrap_or_default();
            for datagram in bytes.chunks(meta.stride.max(1)) {
                gateway.handle_datagram(now, meta.addr, meta.dst_ip, datagram);
            }
        }
        Ok(())
    }
}

/// The lower layer: the packets inside DTLS, each under the label of its peer.
#[derive(Debug)]
pub(crate) struct Layer(pub(crate) Arc<Shared>);

impl LowerLayer for Layer {
    fn local_addr(&self) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], crate::sdp::SCTP_PORT))
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        PeerId::from_label(remote).map(|_| remote).ok_or("browsers are not connected to, they come")
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        let Some(peer) = PeerId::from_label(packets.destination) else { return Ok(()) };
        let now = festina::now();
        self.0.with(|gateway| packets.packets().for_each(|packet| gateway.send(now, peer, packet)));
        Ok(())
    }

    fn path_bytes(&self, _: SocketAddr) -> Option<usize> {
        Some(self.0.state().gateway.packet_bytes_max())
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        self.0.with_state(|state| {
            for _ in 0..BATCH_MAX {
                if state.gateway.packets() >= buffers.len() {
                    break;
                }
                match self.0.receive(state) {
                    Ok(()) => {}
                    Err(_) if state.gateway.packets() > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            let mut count = 0;
            for (buffer, incoming) in buffers.iter_mut().zip(incoming) {
                let Some((peer, packet)) = state.gateway.poll_packet() else { break };
                let bytes = packet.len().min(buffer.len());
                buffer[..bytes].copy_from_slice(&packet[..bytes]);
                *incoming = Received {
                    from: peer.label(),
                    ecn: EcnCodepoint::NotCapable,
                    bytes,
                    segment_bytes: bytes,
                    ..Received::default()
                };
                count += 1;
            }
            // Only ICE and handshakes have come.
            if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
        })
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        if state.gateway.packets() > 0 {
            return Poll::Ready(Ok(()));
        }
        state.reader = Some(context.waker().clone());
        drop(state);
        ready!(self.0.socket.poll_recv_ready(context))?;
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
