//! One association: messages and events on their way to the program.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use festina::{
    Association, ClosedReason, Direction, Duration, Event, Instant, PathId, PathStatus, ReceivedMessage, StreamRequest,
};

use super::notification::{
    self, ADDR_AVAILABLE, ADDR_CONFIRMED, ADDR_UNREACHABLE, COMM_LOST, COMM_UP, RESTART, SHUTDOWN_COMP,
};
use super::options::Options;
use super::socket::{self, Phase, Socket};
use super::timing::Timing;
use super::{Engine, lock};
use crate::address;
use crate::numbers::{Errno, event, flag};
use crate::wire::{Header, Kind, mark};

/// An association of a program.
pub(super) struct Peer {
    /// The number by which the program knows it.
    pub(super) id: i32,
    pub(super) association: Association,
    /// The peer's address with its SCTP port.
    pub(super) remote: SocketAddr,
    /// The limit of `SCTP_INITMSG`.
    streams_max: u16,
    /// Another one after `sctp_peeloff`.
    owner: Mutex<Arc<Socket>>,
    /// A task waits until everything is acknowledged.
    is_drying: AtomicBool,
    /// Timers and limits.
    pub(super) timing: Mutex<Timing>,
    /// When a message was sent or received last.
    used_at: Mutex<Instant>,
    /// Time without messages after which it is shut down.
    autoclose: Option<Duration>,
}

impl Peer {
    /// Adds an association to a socket, and begins to pass messages and events on.
    pub(super) fn add(engine: &Arc<Engine>, socket: &Arc<Socket>, association: Association) -> Arc<Self> {
        let ip = association.remote_addr().ip().to_canonical();
        let mut state = socket.state();
        let (timing, autoclose) = (state.options.timing, state.options.autoclose());
        let peer = Arc::new(Self {
            id: engine.next_association(),
            remote: SocketAddr::new(ip, association.ports().peer),
            streams_max: state.options.init().0,
            association,
            owner: Mutex::new(socket.clone()),
            is_drying: AtomicBool::new(false),
            timing: Mutex::default(),
            used_at: Mutex::new(festina::now()),
            autoclose,
        });
        state.peers.insert(peer.id, peer.clone());
        if !socket.is_many {
            state.phase = Phase::Connected;
        }
        drop(state);
        // A program cannot set anything that the transport does not take.
        let _taken = peer.change_timing(engine, |of_peer| {
            *of_peer = timing;
            Ok(())
        });
        tokio::spawn(serve(engine.clone(), peer.clone()));
        peer
    }

    /// Changes the timers and limits of the association.
    pub(super) fn change_timing(
        &self,
        engine: &Engine,
        change: impl FnOnce(&mut Timing) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut timing = lock(&self.timing);
        let mut changed = *timing;
        change(&mut changed)?;
        if changed != *timing {
            self.association.set_timing(changed.apply(engine.transport())).map_err(|_| Errno::EINVAL)?;
            *timing = changed;
        }
        Ok(())
    }

    /// A message was sent or received.
    pub(super) fn note_use(&self) {
        if self.autoclose.is_some() {
            *lock(&self.used_at) = festina::now();
        }
    }

    /// Waits until no message has been sent or received for as long as `SCTP_AUTOCLOSE` says.
    async fn idle(&self) {
        let Some(autoclose) = self.autoclose else { return std::future::pending().await };
        loop {
            let left = autoclose.saturating_sub(festina::now().saturating_duration_since(*lock(&self.used_at)));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    pub(super) fn owner(&self) -> Arc<Socket> {
        lock(&self.owner).clone()
    }

    pub(super) fn set_owner(&self, socket: &Arc<Socket>) {
        *lock(&self.owner) = socket.clone();
    }

    /// Streams to the peer and from it.
    pub(super) fn streams(&self) -> (u16, u16) {
        let streams = self.association.streams();
        (streams.outbound.min(self.streams_max), streams.inbound)
    }

    /// The peer's addresses with its SCTP port.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let ips = self.association.peer_addresses();
        ips.into_iter().map(|ip| SocketAddr::new(ip.to_canonical(), self.remote.port())).collect()
    }

    /// Whether an address is one of the peer's.
    pub(super) fn is_at(&self, address: SocketAddr) -> bool {
        address::is_same(address, self.remote)
            || address.port() == self.remote.port()
                && self.association.peer_addresses().contains(&address.ip().to_canonical())
    }

    /// The path to one of the peer's addresses.
    pub(super) fn path_to(&self, ip: IpAddr) -> Option<PathStatus> {
        let mut paths = self.association.paths().into_iter();
        paths.find(|path| path.remote.ip().to_canonical() == ip.to_canonical())
    }

    /// Where a path leads, with the SCTP port.
    pub(super) fn address_of(&self, path: &PathStatus) -> SocketAddr {
        SocketAddr::new(path.remote.ip().to_canonical(), self.remote.port())
    }

    /// The address that new data is sent to.
    pub(super) fn primary(&self) -> SocketAddr {
        let paths = self.association.paths();
        paths.iter().find(|path| path.carries_data).map_or(self.remote, |path| self.address_of(path))
    }

    async fn deliver(&self, message: &ReceivedMessage) {
        self.note_use();
        let owner = self.owner();
        let mut header = Header::new(Kind::Data);
        header.stream = message.stream().0;
        header.flags = if message.is_unordered() { flag::UNORDERED } else { 0 };
        header.ppid = message.ppid().to_be();
        owner.state().options.mark(&mut header);
        header.association = self.id;
        header.address = Some(self.remote);
        socket::deliver(|| self.owner(), header, message.payload()).await;
    }

    /// Delivers a notification if the program has subscribed to its kind.
    pub(super) async fn notify(&self, kind: u16, write: impl FnOnce(&Options) -> Vec<u8>) {
        notify(|| self.owner(), self.id, Some(self.remote), kind, write).await;
    }

    /// Has a notification follow when everything is acknowledged, if the program has subscribed to it.
    pub(super) fn note_sent(self: &Arc<Self>) {
        if !self.owner().state().options.subscribes(event::SENDER_DRY) || self.is_drying.swap(true, Ordering::SeqCst) {
            return;
        }
        let peer = self.clone();
        tokio::spawn(async move {
            let drained = peer.association.drained().await;
            peer.is_drying.store(false, Ordering::SeqCst);
            if drained.is_ok() {
                peer.notify(event::SENDER_DRY, |_| notification::plain(event::SENDER_DRY, peer.id)).await;
            }
        });
    }

    /// Shuts the association down in the background.
    pub(super) fn shut_down(self: &Arc<Self>) {
        let peer = self.clone();
        tokio::spawn(async move { peer.association.shutdown().await });
    }
}

/// Delivers a notification if the program has subscribed to its kind.
pub(super) async fn notify(
    owner: impl Fn() -> Arc<Socket>,
    association: i32,
    remote: Option<SocketAddr>,
    kind: u16,
    write: impl FnOnce(&Options) -> Vec<u8>,
) {
    let contents = {
        let socket = owner();
        let state = socket.state();
        if !state.options.subscribes(kind) {
            return;
        }
        write(&state.options)
    };
    let ends = [COMM_LOST, SHUTDOWN_COMP].map(u16::to_ne_bytes);
    let is_end =
        kind == event::ASSOC_CHANGE && contents.get(8..10).is_some_and(|state| ends.iter().any(|end| end == state));
    let marks = if is_end { mark::ENDED } else { 0 };
    let header = Header { association, address: remote, marks, ..Header::new(Kind::Notification) };
    socket::deliver(owner, header, &contents).await;
}

/// Passes messages and events on until the association has ended.
async fn serve(engine: Arc<Engine>, peer: Arc<Peer>) {
    let mut is_closing = false;
    let up = |_: &Options| notification::association_change(COMM_UP, 0, peer.streams(), peer.id);
    peer.notify(event::ASSOC_CHANGE, up).await;
    loop {
        tokio::select! {
            biased;
            message = peer.association.recv() => match message {
                Ok(Some(message)) => peer.deliver(&message).await,
                Ok(None) | Err(_) => break,
            },
            Some(event) = peer.association.event() => peer.handle(event).await,
            () = peer.idle(), if !is_closing => {
                is_closing = true;
                peer.shut_down();
            }
        }
    }
    while let Some(event) = peer.association.try_event() {
        peer.handle(event).await;
    }
    peer.end(&engine).await;
}

impl Peer {
    async fn handle(&self, event: Event) {
        let id = self.id;
        match event {
            Event::PeerRestarted => {
                let change = |_: &Options| notification::association_change(RESTART, 0, self.streams(), id);
                self.notify(event::ASSOC_CHANGE, change).await;
            }
            Event::PeerShutdown => self.notify(event::SHUTDOWN, |_| notification::plain(event::SHUTDOWN, id)).await,
            Event::PathReachable { reachable, path } => {
                let state = if reachable { ADDR_AVAILABLE } else { ADDR_UNREACHABLE };
                self.address_changed(path, state).await;
            }
            Event::PathConfirmed { path, .. } => self.address_changed(path, ADDR_CONFIRMED).await,
            Event::PeerError { code, info } => {
                self.notify(event::REMOTE_ERROR, |_| notification::remote_error(code, &info, id)).await;
            }
            Event::StreamsReset { direction, streams } => {
                self.streams_reset(direction, 0, &streams.iter().map(|stream| stream.0).collect::<Vec<_>>()).await;
            }
            Event::StreamsAdded { outbound_streams, inbound_streams } => {
                let change = |_: &Options| notification::stream_change(0, (inbound_streams, outbound_streams), id);
                self.notify(event::STREAM_CHANGE, change).await;
            }
            Event::StreamRequestFailed { request: StreamRequest::Reset(direction, streams), .. } => {
                const FAILED: u16 = 8;
                self.streams_reset(direction, FAILED, &streams.iter().map(|stream| stream.0).collect::<Vec<_>>()).await;
            }
            _ => {}
        }
    }

    async fn address_changed(&self, path: PathId, state: i32) {
        let is_ipv6 = self.owner().is_ipv6;
        let paths = self.association.paths();
        let remote = paths.iter().find(|status| status.id == path).map_or(self.remote, |path| self.address_of(path));
        let change = |options: &Options| {
            let shown = address::shown(remote, is_ipv6, options.keeps_mapped());
            notification::address_change(shown, state, self.id)
        };
        self.notify(event::PEER_ADDR_CHANGE, change).await;
    }

    async fn streams_reset(&self, direction: Direction, flags: u16, streams: &[u16]) {
        let flags = flags | if direction == Direction::Inbound { 1 } else { 2 };
        self.notify(event::STREAM_RESET, |_| notification::stream_reset(flags, streams, self.id)).await;
    }

    async fn end(self: &Arc<Self>, engine: &Engine) {
        let reason = self.association.close_reason();
        let error = match &reason {
            Some(ClosedReason::Shutdown) | None => None,
            Some(ClosedReason::PeerUnreachable | ClosedReason::ShutdownTimeout) => Some(Errno::ETIMEDOUT),
            Some(ClosedReason::AbortedLocally) => Some(Errno::ECONNABORTED),
            Some(ClosedReason::ProtocolViolation(_)) => Some(Errno::EPROTO),
            Some(_) => Some(Errno::ECONNRESET),
        };
        let code = match &reason {
            Some(ClosedReason::AbortedByPeer { code, .. }) => code.to_be(),
            _ => 0,
        };
        let state = if error.is_none() { SHUTDOWN_COMP } else { COMM_LOST };
        self.notify(event::ASSOC_CHANGE, |_| notification::association_change(state, code, self.streams(), self.id))
            .await;
        let owner = self.owner();
        {
            let mut state = owner.state();
            if owner.is_many {
                state.peers.remove(&self.id);
                return;
            }
            // Programs that have just accepted it may still ask for its status.
            state.error = error;
            state.phase = Phase::Ended;
        }
        owner.close();
        engine.retire(&owner);
    }
}
