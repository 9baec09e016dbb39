//! The exit: each client of the tunnel has a socket of its own, so that the server tells them apart.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use festina::{Association, Instant};
use festina_emulate::Recent;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::{DATAGRAM_BYTES_MAX, IDLE_TIME, message, split};
use crate::address::{self, HostPort};
use crate::commands::tunnel::losses::Losses;
use crate::output;

/// Datagrams of one client that wait for its socket; more are dropped.
const DATAGRAMS_QUEUED_MAX: usize = 64;
/// How often and after what time a socket is asked for again when the system has none.
const DESCRIPTOR_ATTEMPTS: u32 = 5;
const DESCRIPTOR_RETRY: Duration = Duration::from_millis(10);

/// How the exit treats datagrams, and how many it has lost.
pub(in super::super) struct ExitSettings {
    lifetime: Duration,
    clients_max: usize,
    forgotten: Losses,
    crowded: Losses,
    too_old: Losses,
    unanswered: Losses,
}

impl ExitSettings {
    pub(in super::super) fn new(lifetime: Duration, clients_max: usize) -> Arc<Self> {
        Arc::new(Self {
            lifetime,
            clients_max,
            forgotten: super::forgotten(clients_max),
            crowded: Losses::new("datagrams dropped: more wait for the server's socket than it takes"),
            too_old: Losses::new("datagrams dropped: the server was not found within --lifetime"),
            unanswered: Losses::new("answers dropped: the path to the entrance is slower than the server"),
        })
    }
}

/// Carries both ways until the association ends.
pub(in super::super) async fn take_out(association: &Association, server: &HostPort, settings: &Arc<ExitSettings>) {
    let mut upstreams: Recent<u32, Upstream> = Recent::new(settings.clients_max);
    let mut ended = JoinSet::new();
    let needs_descriptor = Arc::new(Notify::new());
    let note_eviction = |evicted: Option<(u32, Upstream)>| {
        if evicted.is_some_and(|(_, upstream)| !upstream.datagrams.is_closed()) {
            settings.forgotten.note();
        }
    };
    loop {
        tokio::select! {
            message = association.recv() => {
                let Ok(Some(message)) = message else { return };
                let Some((number, datagram)) = split(message.into_payload()) else { continue };
                let arrived = (festina::now(), datagram);
                let arrived = match upstreams.touch(number) {
                    None => arrived,
                    Some(upstream) => match upstream.datagrams.try_send(arrived) {
                        Ok(()) => continue,
                        Err(TrySendError::Full(_)) => {
                            settings.crowded.note();
                            continue;
                        }
                        Err(TrySendError::Closed(arrived)) => arrived,
                    },
                };
                let (datagrams, received) = mpsc::channel(DATAGRAMS_QUEUED_MAX);
                let (association, server) = (association.clone(), server.clone());
                let client = Client { association, number, server, settings: settings.clone() };
                let serving = client.serve(arrived, received, needs_descriptor.clone());
                let task = ended.spawn(async move { serving.await.err() });
                note_eviction(upstreams.insert(number, Upstream { datagrams, _task: AbortOnDrop(task) }));
            }
            () = needs_descriptor.notified() => note_eviction(upstreams.evict()),
            Some(ended) = ended.join_next() => {
                if let Ok(Some(error)) = ended {
                    output::complain(&output::causes(&error));
                }
            }
        }
    }
}

/// The way of one client's datagrams to its task, with the times of their arrival. Dropping it ends the task and closes its socket.
struct Upstream {
    datagrams: mpsc::Sender<(Instant, Bytes)>,
    _task: AbortOnDrop,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One client.
struct Client {
    association: Association,
    number: u32,
    server: HostPort,
    settings: Arc<ExitSettings>,
}

impl Client {
    /// Carries its datagrams both ways until it has been idle for [`IDLE_TIME`]. The server's addresses are tried in turn: one that refuses
    /// the first datagrams is followed by the next.
    async fn serve(
        self,
        (arrived_at, mut first): (Instant, Bytes),
        mut received: mpsc::Receiver<(Instant, Bytes)>,
        needs_descriptor: Arc<Notify>,
    ) -> Result<()> {
        let addresses = self.server.resolve_all().await?;
        for (index, address) in addresses.iter().enumerate() {
            let is_last = index + 1 == addresses.len();
            let socket = match connected_to(*address, &needs_descriptor).await {
                Ok(socket) => socket,
                // The host may lack this family.
                Err(_) if !is_last => continue,
                Err(error) => return Err(error).with_context(|| format!("cannot send to {address}")),
            };
            if self.is_fresh(arrived_at) {
                let _ = socket.send(&first).await;
            }
            if self.carry(&socket, &mut first, &mut received, !is_last).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether a datagram that arrived at this time may still be sent on, and counts it otherwise.
    fn is_fresh(&self, arrived_at: Instant) -> bool {
        let is_fresh = festina::now().saturating_duration_since(arrived_at) < self.settings.lifetime;
        if !is_fresh {
            self.settings.too_old.note();
        }
        is_fresh
    }

    /// Carries until idle and returns true. Returns false if the server refuses before it has answered and `may_leave`; then `latest` is the
    /// datagram to repeat elsewhere.
    async fn carry(
        &self,
        socket: &UdpSocket,
        latest: &mut Bytes,
        received: &mut mpsc::Receiver<(Instant, Bytes)>,
        mut may_leave: bool,
    ) -> bool {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            tokio::select! {
                datagram = received.recv() => match datagram {
                    Some((arrived_at, _)) if !self.is_fresh(arrived_at) => {}
                    Some((_, datagram)) => {
                        let sent = socket.send(&datagram).await;
                        *latest = datagram;
                        if let Err(error) = sent {
                            if may_leave && is_refusal(&error) {
                                return false;
                            }
                            // The error belongs to an earlier datagram; this one has not been sent.
                            let _ = socket.send(latest).await;
                        }
                    }
                    None => return true,
                },
                answer = socket.recv(&mut buffer) => match answer {
                    Ok(length) => {
                        may_leave = false;
                        let datagram = buffer.get(..length).unwrap_or_default();
                        if self.association.try_send(message(self.number, datagram, self.settings.lifetime)).is_err() {
                            self.settings.unanswered.note();
                        }
                    }
                    Err(error) if may_leave && is_refusal(&error) => return false,
                    Err(_) => {}
                },
                () = sleep(IDLE_TIME) => return true,
            }
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied)
}

/// Returns whether the process or the system has too many open files: EMFILE or ENFILE, which have these numbers on every Unix.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

/// Opens a socket for this server. If the system has no descriptor left, other clients are asked for theirs.
async fn connected_to(server: SocketAddr, needs_descriptor: &Notify) -> io::Result<UdpSocket> {
    let mut attempts = DESCRIPTOR_ATTEMPTS;
    let socket = loop {
        match UdpSocket::bind(address::unspecified_for(server)).await {
            Err(error) if attempts > 0 && is_out_of_descriptors(&error) => {
                attempts -= 1;
                needs_descriptor.notify_one();
                sleep(DESCRIPTOR_RETRY).await;
            }
            socket => break socket?,
        }
    };
    socket.connect(server).await?;
    Ok(socket)
}
