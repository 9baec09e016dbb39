//! The sockets of both hosts.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::{Bytes, BytesMut};
use festina::security::Identity;
use festina::{Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Listener, Message, ServerConfig, Transport};
use festina_emulate::hosts::Hosts;
use festina_lab::plan::Point;
use festina_sctp::Profile;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::super::hosts::{on_both, server_address};
use super::{DRAIN_MAX, LEAD, Measured, Sent, Streams};
use crate::compare::recorder::{Recorder, WARM_UP};
use crate::compare::rig::{ATTEMPT_RTO_INITIALS, connect_and_warm_up};
use crate::compare::scenario::{HANDSHAKE_SPACING, published};

/// The port on the receiver's host, which is used by this run alone.
const PORT: u16 = 9_899;
const CONGESTION: &[u8] = b"cubic";
const RTO_INITIAL: Duration = Duration::from_secs(1);
/// How often it is looked whether all messages have arrived, and how long their acknowledgements may take.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const SETTLE: Duration = Duration::from_secs(1);

/// What one stream is written to.
enum Carrier {
    Association(Association),
    Connection(TcpStream),
}

impl Carrier {
    async fn write(&mut self, message: Message) -> Result<()> {
        match self {
            Self::Association(association) => drop(association.send(message).await?),
            Self::Connection(stream) => stream.write_all(message.payload()).await?,
        }
        Ok(())
    }
}

/// Measures associations of the library.
pub(super) fn library(
    hosts: &Hosts,
    streams: Streams,
    profile: Profile,
    is_encrypted: bool,
    point: &Point,
) -> Result<Measured> {
    let sack_delay = point.duration("sack_delay");
    let (client, server) = if is_encrypted { encrypted()? } else { plain(profile) };
    let transport = |config: &Transport| {
        let transport = config.clone().with_sack_delay(sack_delay);
        transport.with_expert(|expert| expert.with_rto_initial(RTO_INITIAL))
    };
    let (own, peers) = (transport(client.transport()), transport(server.transport()));
    let (client, server) = (client.with_transport(own), server.with_transport(peers));
    let recorder = recorder(streams);
    let serve = |ready, ended| {
        let recorder = Arc::clone(&recorder);
        async move {
            let endpoint = Endpoint::server(server_address(PORT), server).await?;
            let listener = endpoint.listen(DEFAULT_SCTP_PORT)?;
            serve_until(ended, ready, accept_associations(listener, recorder)).await
        }
    };
    let send = || async {
        let endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), client).await?;
        let associations = connect_all(streams.count, |number| {
            let (endpoint, warm_up) = (endpoint.clone(), recorder.message(number, WARM_UP, streams.size));
            async move {
                let attempt_max = RTO_INITIAL * ATTEMPT_RTO_INITIALS;
                let association = connect_and_warm_up(&endpoint, server_address(PORT), attempt_max, &warm_up).await?;
                Ok(Carrier::Association(association))
            }
        });
        measure(hosts, streams, &recorder, associations.await?).await
    };
    Ok(on_both(hosts, serve, send)?.1)
}

/// Measures connections of the kernel's TCP.
pub(super) fn tcp(hosts: &Hosts, streams: Streams, is_thin: bool) -> Result<Measured> {
    let recorder = recorder(streams);
    let serve = |ready, ended| {
        let recorder = Arc::clone(&recorder);
        async move {
            let listener = TcpListener::bind(server_address(PORT)).await?;
            serve_until(ended, ready, accept_connections(listener, recorder, streams.size)).await
        }
    };
    let send = || async {
        let connections = connect_all(streams.count, |number| {
            let warm_up = recorder.message(number, WARM_UP, streams.size);
            async move {
                let mut stream = TcpStream::connect(server_address(PORT)).await?;
                stream.set_nodelay(true)?;
                let socket = SockRef::from(&stream);
                socket.set_tcp_congestion(CONGESTION)?;
                socket.set_tcp_thin_linear_timeouts(is_thin)?;
                stream.write_all(warm_up.payload()).await?;
                Ok(Carrier::Connection(stream))
            }
        });
        measure(hosts, streams, &recorder, connections.await?).await
    };
    Ok(on_both(hosts, serve, send)?.1)
}

fn recorder(streams: Streams) -> Arc<Recorder> {
    Arc::new(Recorder::new(Instant::now(), streams.count, streams.messages_each.into()))
}

/// The settings of both ends: the receiver is a standard one.
fn plain(profile: Profile) -> (ClientConfig, ServerConfig) {
    let [client, server] = [profile, Profile::Rfc9260].map(published);
    (ClientConfig::plain().with_transport(client), ServerConfig::plain().with_transport(server))
}

/// The library's defaults.
fn encrypted() -> Result<(ClientConfig, ServerConfig)> {
    let identity = Identity::self_signed("receiver")?;
    Ok((ClientConfig::new(identity.fingerprint()), ServerConfig::new(identity)))
}

/// Serves until the sender's part has ended.
async fn serve_until(
    ended: oneshot::Receiver<()>,
    ready: oneshot::Sender<()>,
    serving: impl Future<Output = Result<()>>,
) -> Result<()> {
    let _ = ready.send(());
    tokio::select! {
        outcome = serving => outcome,
        _ = ended => Ok(()),
    }
}

async fn accept_associations(listener: Listener, recorder: Arc<Recorder>) -> Result<()> {
    while let Some(association) = listener.accept().await {
        let recorder = Arc::clone(&recorder);
        tokio::spawn(async move {
            while let Ok(Some(message)) = association.recv().await {
                recorder.record(message.into_payload());
            }
        });
    }
    bail!("the endpoint has closed")
}

async fn accept_connections(listener: TcpListener, recorder: Arc<Recorder>, size: usize) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await.context("cannot accept")?;
        let recorder = Arc::clone(&recorder);
        tokio::spawn(async move {
            let mut message = BytesMut::zeroed(size);
            while stream.read_exact(&mut message).await.is_ok() {
                recorder.record(Bytes::copy_from_slice(&message));
            }
        });
    }
}

/// Connects all streams, a little apart, so that their handshakes do not meet in one burst.
async fn connect_all<Connecting>(count: u32, connect: impl Fn(u32) -> Connecting) -> Result<Vec<Carrier>>
where
    Connecting: Future<Output = Result<Carrier>> + Send + 'static,
{
    let mut connecting = JoinSet::new();
    for number in 0..count {
        let connecting_one = connect(number);
        connecting.spawn(async move {
            sleep(HANDSHAKE_SPACING * number).await;
            connecting_one.await
        });
    }
    let mut connected = Vec::new();
    while let Some(one) = connecting.join_next().await {
        connected.push(one.context("a task failed")?.context("a handshake failed")?);
    }
    Ok(connected)
}

/// Writes all messages at their times and waits until they have arrived.
async fn measure(
    hosts: &Hosts,
    streams: Streams,
    recorder: &Arc<Recorder>,
    carriers: Vec<Carrier>,
) -> Result<Measured> {
    let first_at = Instant::now() + LEAD;
    let mut writing = JoinSet::new();
    for (number, mut carrier) in (0..).zip(carriers) {
        let recorder = Arc::clone(recorder);
        writing.spawn(async move {
            for message in 0..streams.messages_each {
                sleep_until(first_at + streams.due_at(number, message)).await;
                carrier.write(recorder.message(number, message, streams.size)).await?;
            }
            anyhow::Ok(carrier)
        });
    }
    sleep_until(first_at).await;
    let before = Sent::of(&hosts.counters());
    let mut written = Vec::new();
    while let Some(carrier) = writing.join_next().await {
        written.push(carrier.context("a task failed")?.context("a stream ended early")?);
    }
    let deadline = Instant::now() + DRAIN_MAX;
    while recorder.delivered() < streams.messages() && Instant::now() < deadline {
        sleep(POLL_INTERVAL).await;
    }
    sleep(SETTLE).await;
    let after = Sent::of(&hosts.counters());
    let arrivals = recorder.arrivals();
    Ok(Measured { delays: arrivals.delays, unexpected: arrivals.unexpected, before, after })
}
