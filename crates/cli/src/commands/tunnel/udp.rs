//! Datagrams through a tunnel. A message is the number of a client (32 bits, network byte order) and the datagram; it may
//! overtake others, and is given up when it is too old.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use festina::{Association, ClosedReason, Message};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::{Kind, UdpArgs, Way};
use crate::address::{self, HostPort};
use crate::commands::next_message;
use crate::recent::{IDLE_TIME, Recent};
use crate::{output, signal};

/// Programs that may send through one tunnel at the same time; a new one replaces a silent one.
const CLIENTS_MAX: usize = 1_024;
/// Datagrams of one client that wait for its socket at the exit; more are dropped.
const DATAGRAMS_QUEUED_MAX: usize = 64;
/// How often and after what time a socket is asked for again when the system has none.
const DESCRIPTOR_ATTEMPTS: u32 = 5;
const DESCRIPTOR_RETRY: Duration = Duration::from_millis(10);
/// No UDP datagram is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;
const NUMBER_BYTES: usize = 4;
/// How long to wait before another attempt to reach the exit.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The entrance: carries until interrupted. When the association ends, it makes another one.
pub(super) async fn run(arguments: UdpArgs) -> Result<()> {
    let listen = arguments.entrance.listen.resolve().await?;
    let socket = UdpSocket::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let way = Way::new(&arguments.entrance).await?;
    let mut association = way.open(Kind::Udp).await?;
    let interruption = signal::interruption();
    output::notice(&format!("{} leads to {}", socket.local_addr()?, association.remote_addr()));
    let mut entrance = Entrance::new(socket, arguments.lifetime);
    let carrying = async {
        loop {
            let reason = entrance.carry(&association).await?;
            output::complain(&format!("the tunnel ended: {reason}; trying again"));
            association = loop {
                // Entrances that have lost an exit at the same moment do not return at the same moment.
                let [random, ..] = RandomState::new().hash_one(()).to_le_bytes();
                sleep(RETRY_AFTER + RETRY_AFTER * u32::from(random) / 1_024).await;
                match way.open(Kind::Udp).await {
                    Ok(association) => break association,
                    Err(error) => output::complain(&output::causes(&error)),
                }
            };
            output::notice("the tunnel is up again");
        }
    };
    let ended = tokio::select! {
        ended = carrying => ended,
        () = interruption => Ok(()),
    };
    way.leave().await;
    ended
}

struct Entrance {
    socket: UdpSocket,
    lifetime: Duration,
    numbers: Recent<SocketAddr, u32>,
    clients: HashMap<u32, SocketAddr>,
    next_number: u32,
}

impl Entrance {
    fn new(socket: UdpSocket, lifetime: Duration) -> Self {
        Self { socket, lifetime, numbers: Recent::new(CLIENTS_MAX), clients: HashMap::new(), next_number: 0 }
    }

    /// Carries both ways until the association ends, and returns why it did.
    async fn carry(&mut self, association: &Association) -> Result<ClosedReason> {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    // An error tells of an earlier datagram whose receiver is not there.
                    let Ok((length, client)) = received else { continue };
                    let datagram = buffer.get(..length).unwrap_or_default();
                    let number = self.number_of(client, Instant::now());
                    // Where there is no room for it, a network drops a datagram.
                    let _ = association.try_send(message(number, datagram, self.lifetime));
                }
                message = next_message(association) => match message {
                    Ok(message) => {
                        if let Some((number, datagram)) = split(message.payload)
                            && let Some(client) = self.clients.get(&number)
                        {
                            self.numbers.touch(*client, Instant::now());
                            let _ = self.socket.send_to(&datagram, client).await;
                        }
                    }
                    Err(reason) => return Ok(reason),
                },
            }
        }
    }

    /// Returns the number of this client; a new one if it is not known, which may take another client's place.
    fn number_of(&mut self, client: SocketAddr, now: Instant) -> u32 {
        if let Some(number) = self.numbers.touch(client, now) {
            return *number;
        }
        // Numbers are not reused soon: the exit would take the new client for the one before.
        while self.clients.contains_key(&self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        if let Some((_, evicted)) = self.numbers.insert(client, number, now) {
            self.clients.remove(&evicted);
        }
        self.clients.insert(number, client);
        number
    }
}

/// The exit: carries both ways until the association ends. Each client has a socket of its own, so that the server tells them
/// apart.
pub(super) async fn take_out(association: &Association, server: &HostPort, lifetime: Duration) {
    let mut upstreams: Recent<u32, Upstream> = Recent::new(CLIENTS_MAX);
    let mut ended = JoinSet::new();
    let needs_descriptor = Arc::new(Notify::new());
    loop {
        tokio::select! {
            message = association.recv() => {
                let Ok(Some(message)) = message else { return };
                let Some((number, datagram)) = split(message.payload) else { continue };
                let now = Instant::now();
                let datagram = match upstreams.touch(number, now) {
                    None => datagram,
                    Some(upstream) => match upstream.datagrams.try_send(datagram) {
                        // If the queue is full, the server's socket does not take them as fast.
                        Ok(()) | Err(TrySendError::Full(_)) => continue,
                        Err(TrySendError::Closed(datagram)) => datagram,
                    },
                };
                let (datagrams, received) = mpsc::channel(DATAGRAMS_QUEUED_MAX);
                let client = Client { association: association.clone(), number, lifetime, server: server.clone() };
                let serving = client.serve(datagram, received, needs_descriptor.clone());
                let task = ended.spawn(async move { serving.await.err() });
                upstreams.insert(number, Upstream { datagrams, _task: AbortOnDrop(task) }, now);
            }
            () = needs_descriptor.notified() => drop(upstreams.evict(Instant::now())),
            Some(ended) = ended.join_next() => {
                if let Ok(Some(error)) = ended {
                    output::complain(&output::causes(&error));
                }
            }
        }
    }
}

/// The way of one client's datagrams to its task. Dropping it ends the task and closes its socket.
struct Upstream {
    datagrams: mpsc::Sender<Bytes>,
    _task: AbortOnDrop,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One client at the exit.
struct Client {
    association: Association,
    number: u32,
    lifetime: Duration,
    server: HostPort,
}

impl Client {
    /// Carries its datagrams both ways until it has been idle for [`IDLE_TIME`]. The server's addresses are tried in turn: one that refuses
    /// the first datagrams is followed by the next.
    async fn serve(
        self,
        mut first: Bytes,
        mut received: mpsc::Receiver<Bytes>,
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
            let _ = socket.send(&first).await;
            if self.carry(&socket, &mut first, &mut received, !is_last).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Carries until idle and returns true. Returns false if the server refuses before it has answered and `may_leave`; then `latest` is the
    /// datagram to repeat elsewhere.
    async fn carry(
        &self,
        socket: &UdpSocket,
        latest: &mut Bytes,
        received: &mut mpsc::Receiver<Bytes>,
        mut may_leave: bool,
    ) -> bool {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            tokio::select! {
                datagram = received.recv() => match datagram {
                    Some(datagram) => {
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
                        let _ = self.association.try_send(message(self.number, datagram, self.lifetime));
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

fn message(number: u32, datagram: &[u8], lifetime: Duration) -> Message {
    let mut payload = BytesMut::with_capacity(NUMBER_BYTES + datagram.len());
    payload.put_u32(number);
    payload.put_slice(datagram);
    Message { unordered: true, lifetime: Some(lifetime), ..Message::new(payload.freeze()) }
}

/// The client's number and the datagram; `None` if that is no such message.
fn split(mut message: Bytes) -> Option<(u32, Bytes)> {
    Some((message.try_get_u32().ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_client_and_keeps_the_datagram() {
        for datagram in [&b"hello"[..], b""] {
            let message = message(7, datagram, Duration::from_secs(1));
            assert!(message.unordered);
            assert_eq!(split(message.payload), Some((7, Bytes::copy_from_slice(datagram))));
        }
        assert_eq!(split(Bytes::from_static(b"abc")), None);
    }
}
