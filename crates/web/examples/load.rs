//! Many clients that speak as browsers do, at one server: delays of both directions, memory and CPU time of the server.
//!
//! ```text
//! cargo run --release -p festina-web --example load -- 1000 30
//! ```
//!
//! connects 1,000 clients. For 30 s each sends 100 bytes 30 times a second and receives as many. The server is a process of its own; offers and answers
//! go through its standard input and output.

#[path = "../tests/browser/mod.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod browser;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use browser::Browser;
use festina_sctp::Message;
use festina_units::{Duration, Instant};
use festina_web::{ChannelMessage, Peer, WebConfig, WebEndpoint};
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval, sleep};

type Fault = Box<dyn std::error::Error + Send + Sync>;

const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 30);
/// Payload of a channel's message, and its PPIDs (RFC 8831 §8).
const LENGTH: usize = 100;
const BINARY: u32 = 53;
const DCEP: u32 = 50;
/// Opens the unordered channel "load" (RFC 8832 §5.1).
const OPEN: &[u8] = b"\x03\x80\x01\x00\x00\x00\x00\x00\x00\x04\x00\x00load";

/// Delays in microseconds, of the messages that have arrived.
type Delays = Arc<Mutex<Vec<u64>>>;

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text: &String| text.parse::<u64>());
    // One thread serves more than two would, which wait for each other.
    let runtime = match arguments.first().map(String::as_str) {
        Some("serve") => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        _ => tokio::runtime::Runtime::new()?,
    };
    match arguments.first().map(String::as_str) {
        Some("serve") => runtime.block_on(serve()),
        _ => runtime.block_on(load(number(0, 1_000)?, Duration::from_secs(number(1, 30)?))),
    }
}

/// The server: reads offers, each after a line with its length, and writes answers alike. At the end it writes the delays of messages to it.
async fn serve() -> Result<(), Fault> {
    let endpoint = Arc::new(WebEndpoint::bind("127.0.0.1:0".parse()?, WebConfig::default()).await?);
    let (accepting, delays) = (endpoint.clone(), Delays::default());
    let recorded = delays.clone();
    tokio::spawn(async move {
        while let Some(peer) = accepting.accept().await {
            tokio::spawn(talk(peer, recorded.clone()));
        }
    });
    tokio::task::spawn_blocking(move || {
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        while input.read_line(&mut line)? > 0 {
            let mut offer = vec![0; line.trim().parse()?];
            input.read_exact(&mut offer)?;
            let (_, answer) = Handle::current().block_on(endpoint.answer(&String::from_utf8(offer)?))?;
            print!("{}\n{answer}", answer.len());
            std::io::stdout().flush()?;
            line.clear();
        }
        println!("{}", told("to the server", &delays));
        Ok(())
    })
    .await?
}

async fn talk(peer: Peer, delays: Delays) {
    let Some(channel) = peer.accept_channel().await else { return };
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = channel.recv() => match message {
                Some(message) => record(&delays, &message.into_bytes()),
                None => return,
            },
            _ = ticks.tick() => if channel.send(ChannelMessage::Binary(stamped().into())).await.is_err() {
                return;
            }
        }
    }
}

async fn load(clients: u64, duration: Duration) -> Result<(), Fault> {
    let mut server =
        Command::new(std::env::current_exe()?).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = server.stdin.take().ok_or("no input")?;
    let mut output = BufReader::new(server.stdout.take().ok_or("no output")?);
    sleep(Duration::from_millis(500)).await;
    let before = used(&server)?;
    let (delays, connected) = (Delays::default(), Arc::new(Mutex::new(0)));
    let clock = clock();
    let mut tasks = Vec::new();
    for number in 0..clients {
        let mut client = Browser::new(festina::now(), clock, number);
        let offer = client.offer();
        write!(input, "{}\n{offer}", offer.len())?;
        input.flush()?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        let mut answer = vec![0; line.trim().parse()?];
        output.read_exact(&mut answer)?;
        let to = client.take_answer(&String::from_utf8(answer)?);
        tasks.push(tokio::spawn(run(client, to, delays.clone(), connected.clone())));
        // Two handshakes at a time.
        sleep(Duration::from_millis(2)).await;
    }
    sleep(Duration::from_secs(3)).await;
    println!("{} of {clients} clients are connected", connected.lock().map_err(|_| "a client has failed")?);
    let idle = used(&server)?;
    delays.lock().map_err(|_| "a client has failed")?.clear();
    sleep(duration).await;
    let after = used(&server)?;
    println!("{}", told("to the clients", &delays));
    println!(
        "memory per client: {} bytes when connected, {} at the end",
        (idle.0 - before.0) / clients,
        (after.0 - before.0) / clients
    );
    println!("CPU time of the server: {:.1} % of one core", (after.1 - idle.1) / duration.as_secs_f64() * 100.0);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    for task in tasks {
        let _ = task.await;
    }
    drop(input);
    std::io::copy(&mut output, &mut std::io::stdout())?;
    server.wait()?;
    Ok(())
}

async fn run(mut client: Browser, to: SocketAddr, delays: Delays, connected: Arc<Mutex<u64>>) -> Result<(), Fault> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let mut buffer = [0; 2_048];
    let mut next: Option<Instant> = None;
    loop {
        let now = festina::now();
        if client.poll_deadline(now).is_some_and(|at| at <= now) {
            client.handle_timeout(now);
        }
        if client.association.is_some() && next.is_none() {
            client.send(now, Message::new(OPEN).with_ppid(DCEP));
            *connected.lock().map_err(|_| "a client has failed")? += 1;
            next = Some(now + INTERVAL);
        }
        if let Some(at) = next.filter(|at| *at <= now) {
            client.send(now, Message::new(stamped()).with_ppid(BINARY).unordered());
            next = Some(at + INTERVAL);
        }
        for datagram in client.poll_datagrams(now) {
            socket.send_to(&datagram, to).await?;
        }
        while let Some(message) = client.recv() {
            if message.ppid() == BINARY {
                record(&delays, message.payload());
            }
        }
        let until = Instant::earliest([next, client.poll_deadline(now)]).unwrap_or(now + INTERVAL);
        tokio::select! {
            received = socket.recv_from(&mut buffer) => client.handle_datagram(festina::now(), &buffer[..received?.0]),
            () = sleep(until.saturating_duration_since(festina::now())) => {}
        }
    }
}

fn stamped() -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    bytes[..8].copy_from_slice(&wall_micros().to_be_bytes());
    bytes
}

fn record(delays: &Delays, message: &[u8]) {
    if let Some(Ok(sent)) = message.get(..8).map(<[u8; 8]>::try_from)
        && let Ok(mut delays) = delays.lock()
    {
        delays.push(wall_micros().saturating_sub(u64::from_be_bytes(sent)));
    }
}

fn told(direction: &str, delays: &Delays) -> String {
    let Ok(mut delays) = delays.lock() else { return String::new() };
    delays.sort_unstable();
    let at = |permille: usize| {
        delays
            .get((delays.len() * permille / 1_000).min(delays.len().saturating_sub(1)))
            .map_or(f64::NAN, |delay| *delay as f64 / 1e3)
    };
    format!(
        "{direction}: {} messages, delay p50 {:.2}, p99 {:.2}, p99.9 {:.2}, longest {:.2} ms",
        delays.len(),
        at(500),
        at(990),
        at(999),
        at(1_000)
    )
}

/// Resident bytes and seconds of CPU time of a process.
fn used(process: &Child) -> Result<(u64, f64), Fault> {
    let read = |name| std::fs::read_to_string(format!("/proc/{}/{name}", process.id()));
    let pages: u64 = read("statm")?.split(' ').nth(1).ok_or("statm is short")?.parse()?;
    let stat = read("stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: f64 = fields.get(11).ok_or("stat is short")?.parse::<f64>()?
        + fields.get(12).ok_or("stat is short")?.parse::<f64>()?;
    Ok((pages * 4_096, ticks / 100.0))
}

/// The system's clock, which both processes share.
#[expect(clippy::disallowed_methods, reason = "both processes compare their times")]
fn wall_micros() -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "DTLS takes the standard library's instants")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
