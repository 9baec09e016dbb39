//! Measures the effect of a flood of INITs on an association of the same endpoint, and the endpoint's CPU time.
//!
//! ```text
//! cargo run --release -p festina --example init_flood -- 150000 10
//! ```
//!
//! The arguments are INITs per second (0 for as many as the senders manage), seconds, and the number of sending threads. The endpoint under attack
//! has a thread of its own, so that its CPU time can be separated from that of the attacker and of the client; Linux reports it. "INITs sifted" are
//! those that the system dropped before the endpoint saw them.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use festina::{Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, EndpointStats, Message, ServerConfig, now};
use forged::init;

#[path = "../tests/sockets/forged.rs"]
mod forged;

/// Pause between two pings.
const PING_PAUSE: Duration = Duration::from_millis(2);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let per_second: u64 = arguments.next().map_or(Ok(150_000), |rate| rate.parse())?;
    let duration = Duration::from_secs(arguments.next().map_or(Ok(5), |seconds| seconds.parse())?);

    let threads: u32 = arguments.next().map_or(Ok(1), |threads| threads.parse())?;

    let (told, endpoints) = mpsc::channel();
    thread::spawn(move || serve(&told));
    let (server, tid) = endpoints.recv()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::plain()).await?;
        let association = client.connect(server.local_addr()).await?;
        report("quiet", &mut ping(&association, duration).await?);

        let flood = Flood::start(server.local_addr(), per_second, threads)?;
        let (stats, sifted, cpu) = (server.stats(), server.inits_sifted(), cpu_time(&tid));
        let begun = now();
        report("flooded", &mut ping(&association, duration).await?);
        let elapsed = now() - begun;
        let sent = flood.stop();
        let cpu = cpu_time(&tid).zip(cpu).map(|(after, before)| after.saturating_sub(before));
        println!("  sifted: about {:.0} INITs/s by the system", per(server.inits_sifted() - sifted, elapsed));
        spent(&stats, &server.stats(), sent, elapsed, cpu);
        Ok(())
    })
}

/// Runs the endpoint under attack; it answers every message with itself.
fn serve(told: &mpsc::Sender<(Endpoint, String)>) -> Result<(), Failure> {
    let tid = std::fs::read_link("/proc/thread-self").map(|path| path.display().to_string()).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let endpoint = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::plain()).await?;
        let listener = endpoint.listen(DEFAULT_SCTP_PORT)?;
        told.send((endpoint, tid))?;
        while let Some(association) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(Some(message)) = association.recv().await {
                    if association.send(Message::new(message.into_payload())).await.is_err() {
                        break;
                    }
                }
            });
        }
        Ok(())
    })
}

/// Round trips of messages, one after the other.
async fn ping(association: &Association, duration: Duration) -> Result<Vec<Duration>, Failure> {
    let (begun, mut round_trips) = (now(), Vec::new());
    while now() - begun < duration {
        let sent = now();
        association.send(Message::new("ping")).await?;
        association.recv().await?.ok_or("the peer has left")?;
        round_trips.push(now() - sent);
        tokio::time::sleep(PING_PAUSE).await;
    }
    Ok(round_trips)
}

/// Threads that send INITs, each from another SCTP port and with another tag.
struct Flood {
    stopped: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Flood {
    fn start(target: SocketAddr, per_second: u64, threads: u32) -> Result<Self, Failure> {
        let flood = Self { stopped: Arc::default(), sent: Arc::default() };
        let inits: Arc<Vec<_>> = Arc::new((1..=u16::MAX).map(init).collect());
        for _ in 0..threads {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(target)?;
            let (stopped, sent, inits) = (flood.stopped.clone(), flood.sent.clone(), inits.clone());
            let per_second = per_second / u64::from(threads);
            thread::spawn(move || send(&socket, &inits, per_second, &stopped, &sent));
        }
        Ok(flood)
    }

    /// Ends the flood; the number of INITs sent.
    fn stop(&self) -> u64 {
        self.stopped.store(true, Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed)
    }
}

fn send(socket: &UdpSocket, inits: &[Vec<u8>], per_second: u64, stopped: &AtomicBool, sent: &AtomicU64) {
    let begun = now();
    for (init, number) in inits.iter().cycle().zip(0_u64..) {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        let due = number.saturating_mul(1_000_000_000).checked_div(per_second).unwrap_or(0);
        while u128::from(due) > (now() - begun).as_nanos() + 200_000 {
            thread::sleep(Duration::from_micros(100));
        }
        if socket.send(init).is_ok() {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn report(name: &str, round_trips: &mut [Duration]) {
    round_trips.sort_unstable();
    let last = round_trips.len().saturating_sub(1);
    let at = |percent: usize| round_trips.get(last * percent / 100).copied().unwrap_or_default();
    println!("{name:>8}: {} pings, p50 {:?}, p99 {:?}, max {:?}", round_trips.len(), at(50), at(99), at(100));
}

fn spent(before: &EndpointStats, after: &EndpointStats, sent: u64, elapsed: Duration, cpu: Option<Duration>) {
    let received = after.packets_received - before.packets_received;
    let answered = after.packets_sent - before.packets_sent;
    println!(
        "  attack: {:.0} INITs/s sent; {:.0} packets/s received, {:.0} of them shed, {:.0} packets/s sent",
        per(sent, elapsed),
        per(received, elapsed),
        per(after.strays_shed - before.strays_shed, elapsed),
        per(answered, elapsed),
    );
    if let Some(cpu) = cpu {
        println!(
            "    cost: {:.0} % of a core; {:.0} INITs sent and {:.0} packets received per CPU second, {:.1} packets per system call",
            100.0 * cpu.as_secs_f64() / elapsed.as_secs_f64(),
            per(sent, cpu),
            per(received, cpu),
            per(received, Duration::from_secs(after.receive_calls - before.receive_calls)),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a report")]
fn per(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// CPU time of a thread, where the system reports it in nanoseconds.
fn cpu_time(tid: &str) -> Option<Duration> {
    let line = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    line.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
