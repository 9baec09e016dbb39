//! Streams of messages over each contender's sockets.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use festina::{Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Message, PathPolicy, ServerConfig, Transport};
use festina_emulate::take_precedence;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::networks::{CLIENT, MPTCP, Networks, SERVER, SERVER_OF_BOTH};
use super::{Contender, Failure, Scale};

const MESSAGE_BYTES: usize = 100;
/// A message that warms a connection up: it is not measured, and its number is larger than those of the others.
const WARM_UP: u32 = u32::MAX;
/// From the first message to those that are measured: further subflows and paths are there by then.
const LEAD: Duration = Duration::from_secs(3);
/// Time after the last message for those that are still missing.
const DRAIN_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the last acknowledgements.
const SETTLE: Duration = Duration::from_secs(1);

/// Which messages have arrived, and when.
#[derive(Debug)]
pub(super) struct Book {
    began_at: Instant,
    arrivals: Mutex<Arrivals>,
}

#[derive(Debug, Default)]
struct Arrivals {
    delays: Vec<Duration>,
    seen: HashSet<(u32, u32)>,
    twice: usize,
}

impl Default for Book {
    fn default() -> Self {
        Self { began_at: Instant::now(), arrivals: Mutex::default() }
    }
}

impl Book {
    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message that is sent now.
    fn message(&self, stream: u32, number: u32) -> Vec<u8> {
        let sent_us = u64::try_from(self.began_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut message = [&stream.to_be_bytes()[..], &number.to_be_bytes(), &sent_us.to_be_bytes()].concat();
        message.resize(MESSAGE_BYTES, 0);
        message
    }

    fn came(&self, message: &[u8]) {
        let now = self.began_at.elapsed();
        let Some((head, rest)) = message.split_first_chunk::<8>() else { return };
        let Some(sent_us) = rest.first_chunk() else { return };
        let stream_and_number = u64::from_be_bytes(*head);
        let [stream, number] = [stream_and_number >> 32, stream_and_number & u64::from(u32::MAX)].map(narrow);
        if number == WARM_UP {
            return;
        }
        let mut arrivals = self.arrivals();
        if arrivals.seen.insert((stream, number)) {
            arrivals.delays.push(now.saturating_sub(Duration::from_micros(u64::from_be_bytes(*sent_us))));
        } else {
            arrivals.twice += 1;
        }
    }

    /// The delays in ascending order, the number of missing messages, and of those that came again.
    pub(super) fn close(&self, scale: Scale) -> (Vec<Duration>, usize, usize) {
        let mut arrivals = std::mem::take(&mut *self.arrivals());
        arrivals.delays.sort_unstable();
        let missing = expected(scale).saturating_sub(arrivals.delays.len());
        (arrivals.delays, missing, arrivals.twice)
    }
}

fn narrow(half: u64) -> u32 {
    u32::try_from(half).unwrap_or(u32::MAX)
}

fn expected(scale: Scale) -> usize {
    scale.streams as usize * scale.messages as usize
}

/// One connection.
pub(super) enum Sender {
    Connection(TcpStream),
    Association(Association),
}

impl Sender {
    async fn send(&mut self, message: Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Connection(stream) => stream.write_all(&message).await?,
            Self::Association(association) => drop(association.send(Message::new(message)).await?),
        }
        Ok(())
    }
}

/// Connects all streams and sends the first message of each, so that further subflows and paths are there afterwards.
pub(super) async fn connect(
    contender: Contender,
    networks: &Networks,
    scale: Scale,
    book: &Arc<Book>,
) -> Result<Vec<Sender>, Failure> {
    let mut senders = match contender {
        Contender::Tcp => kernel(networks, 0, scale, book)?,
        Contender::Mptcp { .. } => kernel(networks, MPTCP, scale, book)?,
        Contender::Festina(policy) => festina(networks, policy, scale, book).await?,
    };
    for (stream, sender) in (0..).zip(&mut senders) {
        sender.send(book.message(stream, WARM_UP)).await?;
    }
    sleep(LEAD).await;
    Ok(senders)
}

/// Connections of the kernel's, `protocol` 0 for TCP.
fn kernel(networks: &Networks, protocol: i32, scale: Scale, book: &Arc<Book>) -> Result<Vec<Sender>, Failure> {
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(protocol)));
    let runtime = Handle::current();
    let listener = networks.server.run(|| -> Result<_, Failure> {
        let socket = socket()?;
        socket.bind(&SockAddr::from(SocketAddr::from((SERVER_OF_BOTH, 0))))?;
        socket.listen(1_024)?;
        socket.set_nonblocking(true)?;
        Ok(std::net::TcpListener::from(socket))
    })??;
    let to = listener.local_addr()?;
    let _inside = runtime.enter();
    tokio::spawn(accept(TcpListener::from_std(listener)?, Arc::clone(book)));
    let connect = || -> Result<Sender, Failure> {
        let stream = networks.client.run(|| -> Result<_, Failure> {
            let socket = socket()?;
            socket.connect(&to.into())?;
            socket.set_tcp_nodelay(true)?;
            // A new namespace may choose Reno on any machine.
            socket.set_tcp_congestion(b"cubic")?;
            socket.set_nonblocking(true)?;
            Ok(std::net::TcpStream::from(socket))
        })??;
        Ok(Sender::Connection(TcpStream::from_std(stream)?))
    };
    tokio::task::block_in_place(|| (0..scale.streams).map(|_| connect()).collect())
}

async fn accept(listener: TcpListener, book: Arc<Book>) -> Result<(), Failure> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let book = Arc::clone(&book);
        tokio::spawn(async move {
            let mut message = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut message).await.is_ok() {
                book.came(&message);
            }
        });
    }
}

async fn festina(
    networks: &Networks,
    policy: PathPolicy,
    scale: Scale,
    book: &Arc<Book>,
) -> Result<Vec<Sender>, Failure> {
    let transport = Transport::default().with_path_policy(policy);
    let local = |addresses: [Ipv4Addr; 2]| (SocketAddr::from((addresses[0], 0)), [addresses[1].into()]);
    let ((client_at, client_other), (server_at, server_other)) = (local(CLIENT), local(SERVER));
    let server = ServerConfig::plain().with_transport(transport.clone()).with_other_addresses(server_other);
    let client = ClientConfig::plain().with_transport(transport).with_other_addresses(client_other);
    let runtime = Handle::current();
    // Sockets belong to the host on which they are made.
    let (far, near) = tokio::task::block_in_place(|| -> Result<_, Failure> {
        let far = networks.server.run(|| runtime.block_on(Endpoint::server(server_at, server)))??;
        let near = networks.client.run(|| runtime.block_on(Endpoint::client(client_at, client)))??;
        Ok((far, near))
    })?;
    let listener = far.listen(DEFAULT_SCTP_PORT)?;
    let mut senders = Vec::new();
    for _ in 0..scale.streams {
        let (connected, accepted) = tokio::join!(near.connect(far.local_addr()), listener.accept());
        let (sender, receiver) = (connected?, accepted.ok_or("the endpoint was closed")?);
        let book = Arc::clone(book);
        tokio::spawn(async move {
            while let Ok(Some(message)) = receiver.recv().await {
                book.came(message.payload());
            }
        });
        senders.push(Sender::Association(sender));
    }
    Ok(senders)
}

/// Sends the messages of all streams at their times, and waits until they have arrived.
pub(super) async fn drive(senders: Vec<Sender>, scale: Scale, book: &Arc<Book>) -> Result<(), Failure> {
    let first_at = Instant::now();
    let mut sending = JoinSet::new();
    for (stream, mut sender) in (0..).zip(senders) {
        let book = Arc::clone(book);
        sending.spawn(async move {
            let phase = scale.interval * stream / scale.streams.max(1);
            for number in 0..scale.messages {
                sleep_until(first_at + phase + scale.interval * number).await;
                sender.send(book.message(stream, number)).await?;
            }
            Ok::<_, Failure>(sender)
        });
    }
    let mut sent = Vec::new();
    while let Some(sender) = sending.join_next().await {
        sent.push(sender??);
    }
    let all = async {
        while book.arrivals().delays.len() < expected(scale) {
            sleep(POLL_INTERVAL).await;
        }
    };
    // The others count as missing.
    let _ = timeout(DRAIN_MAX, all).await;
    sleep(SETTLE).await;
    Ok(())
}

/// A runtime whose threads come before other work of this machine.
///
/// # Errors
/// If the threads cannot be started.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().on_thread_start(take_precedence).build()
}
