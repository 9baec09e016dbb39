//! A client that changes its address again and again, in the middle of a stream of 30 messages a second. Both ends are in this process, with an
//! emulated path between them that shows the server another address after each change.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use festina::security::Identity;
use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig};
use festina_emulate::UdpProxy;
use festina_netsim::{LinkConfig, LossModel};
use festina_units::Probability;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::channel::Failure;

const MESSAGE_BYTES: usize = 100;
const INTERVAL: Duration = Duration::from_micros(33_333);
const MOVE_INTERVAL: Duration = Duration::from_secs(3);
const ONE_WAY: Duration = Duration::from_millis(50);
/// How long messages are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures each contender with and without loss, and prints a row for each.
pub(crate) async fn moves(duration: Duration) -> Result<(), Failure> {
    println!(
        "messages of {MESSAGE_BYTES} bytes, 30 a second, RTT 100 ms, a new address every 3 s, for {} s",
        duration.as_secs()
    );
    println!(
        "{:>18} {:>6} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8}",
        "", "loss", "moves", "lost", "twice", "p50 ms", "p99 ms", "max ms"
    );
    for loss in ["0%", "5%"] {
        let loss = loss.parse()?;
        report("festina", loss, &festina(duration, loss).await?);
        report("quinn", loss, &over_quinn(duration, loss).await?);
        #[cfg(feature = "noq")]
        report("noq", loss, &over_noq(duration, loss).await?);
    }
    Ok(())
}

fn report(name: &str, loss: Probability, run: &Run) {
    let mut delays: Vec<Duration> = run.delays.values().copied().collect();
    delays.sort_unstable();
    let at = |share: usize| delays.get(delays.len().saturating_sub(1) * share / 1_000).map_or(f64::NAN, ms);
    println!(
        "{name:>18} {loss:>6} {:>6} {:>6} {:>6} {:>8.1} {:>8.1} {:>8.1}",
        run.moves,
        run.sent.len() - delays.len(),
        run.twice,
        at(500),
        at(990),
        at(1_000),
    );
}

fn ms(duration: &Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// What became of the messages of one contender.
#[derive(Default)]
struct Run {
    sent: Vec<Instant>,
    delays: BTreeMap<usize, Duration>,
    twice: usize,
    moves: usize,
}

impl Run {
    fn next(&mut self) -> Bytes {
        let mut message = vec![0; MESSAGE_BYTES];
        message[..8].copy_from_slice(&(self.sent.len() as u64).to_be_bytes());
        self.sent.push(Instant::now());
        message.into()
    }

    fn came(&mut self, message: &[u8]) {
        let Some(number) = message.first_chunk().map(|number| u64::from_be_bytes(*number)) else { return };
        let Ok(number) = usize::try_from(number) else { return };
        let Some(sent_at) = self.sent.get(number) else { return };
        let delay = sent_at.elapsed();
        self.twice += usize::from(self.delays.insert(number, delay).is_some());
    }
}

type Shared = Arc<Mutex<Run>>;

fn run(shared: &Shared) -> std::sync::MutexGuard<'_, Run> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends at the interval and moves at its own.
async fn drive(
    shared: &Shared,
    duration: Duration,
    mut send: impl AsyncFnMut(Bytes) -> Result<(), Failure>,
    mut rebind: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (began_at, mut moved_at) = (Instant::now(), Instant::now());
    while began_at.elapsed() < duration {
        ticks.tick().await;
        if moved_at.elapsed() >= MOVE_INTERVAL {
            rebind()?;
            run(shared).moves += 1;
            moved_at = Instant::now();
        }
        let message = run(shared).next();
        send(message).await?;
    }
    let all = async {
        while {
            let run = run(shared);
            run.delays.len() < run.sent.len()
        } {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = timeout(PATIENCE, all).await;
    Ok(())
}

fn path(to: SocketAddr, loss: Probability) -> io::Result<festina_emulate::RunningProxy> {
    let link = LinkConfig { delay: ONE_WAY, loss: LossModel::Independent(loss), ..LinkConfig::default() };
    UdpProxy::bind(([127, 0, 0, 1], 0).into(), to, link.clone(), link, 1)?.spawn()
}

async fn festina(duration: Duration, loss: Probability) -> Result<Run, Failure> {
    let identity = Identity::self_signed("bench.test")?;
    let client = ClientConfig::new(identity.fingerprint());
    let far = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::new(identity)).await?;
    let near = Endpoint::client("127.0.0.1:0".parse()?, client).await?;
    let path = path(far.local_addr(), loss)?;
    let listener = far.listen(DEFAULT_SCTP_PORT)?;
    let (connected, accepted) = tokio::join!(near.connect(path.local_addr()), listener.accept());
    let (sender, receiver) = (connected?, accepted.ok_or("nothing was accepted")?);
    let shared = Shared::default();
    let book = shared.clone();
    let receiving = tokio::spawn(async move {
        while let Ok(Some(message)) = receiver.recv().await {
            run(&book).came(&message.into_payload());
        }
    });
    let send = async |message| Ok(sender.send(Message::new(message)).await.map(drop)?);
    let rebind = || Ok(near.rebind("127.0.0.1:0".parse()?)?);
    drive(&shared, duration, send, rebind).await?;
    receiving.abort();
    Ok(std::mem::take(&mut run(&shared)))
}

/// A reliable stream of QUIC, whose messages all have one size. Both libraries have the same interface.
macro_rules! over_quic {
    ($name:ident, $quic:ident) => {
        async fn $name(duration: Duration, loss: Probability) -> Result<Run, Failure> {
            use $quic::rustls::RootCertStore;
            use $quic::rustls::pki_types::PrivatePkcs8KeyDer;

            let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
            let certificate = certified.cert.der().clone();
            let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
            let server = $quic::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
            let mut roots = RootCertStore::empty();
            roots.add(certificate)?;
            let client = $quic::ClientConfig::with_root_certificates(Arc::new(roots))?;
            let far = $quic::Endpoint::server(server, "127.0.0.1:0".parse()?)?;
            let near = $quic::Endpoint::client("127.0.0.1:0".parse()?)?;
            let path = path(far.local_addr()?, loss)?;
            let connecting = near.connect_with(client, path.local_addr(), "localhost")?;
            let accepting = async { far.accept().await.ok_or("nothing was accepted")?.await.map_err(Failure::from) };
            let (connected, accepted) = tokio::join!(connecting, accepting);
            let (connected, accepted) = (connected?, accepted?);
            let mut stream = connected.open_uni().await?;
            let shared = Shared::default();
            let book = shared.clone();
            let receiving = tokio::spawn(async move {
                let Ok(mut stream) = accepted.accept_uni().await else { return };
                let mut message = [0; MESSAGE_BYTES];
                while stream.read_exact(&mut message).await.is_ok() {
                    run(&book).came(&message);
                }
            });
            let send = async |message: Bytes| Ok(stream.write_all(&message).await?);
            let rebind = || Ok(near.rebind(UdpSocket::bind("127.0.0.1:0")?)?);
            drive(&shared, duration, send, rebind).await?;
            receiving.abort();
            Ok(std::mem::take(&mut run(&shared)))
        }
    };
}

over_quic!(over_quinn, quinn);
#[cfg(feature = "noq")]
over_quic!(over_noq, noq);
