//! Measures the accuracy and the CPU cost of the proxy's delay.
//!
//! 256 datagrams of 100 bytes per second (64 streams at four a second, at random times) go through one proxy with 50 ms
//! of delay for ten seconds. The output is the error of the delay from socket to socket, which includes waking up the
//! receiver, the same without a proxy, and the CPU time.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Instant;

use festina_emulate::UdpProxy;
use festina_netsim::{LinkConfig, RandomStream};
use festina_units::{Duration, Instant as Moment, duration};
use rustix::time::{ClockId, clock_gettime};

const DELAY: Duration = Duration::from_millis(50);
const MEAN_GAP: Duration = Duration::from_micros(1_000_000 / 256);
const DATAGRAMS: u32 = 2_560;

fn main() -> io::Result<()> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let receiver = UdpSocket::bind(loopback)?;
    print("without proxy", measure(&receiver, receiver.local_addr()?, Duration::ZERO)?);

    let receiver = UdpSocket::bind(loopback)?;
    let link = LinkConfig { delay: DELAY, ..LinkConfig::default() };
    let target = receiver.local_addr()?;
    let proxy = UdpProxy::bind(loopback, target, link.clone(), link, 1)?.spawn()?;
    print("with proxy", measure(&receiver, proxy.local_addr(), DELAY)?);
    let counters = proxy.stop()?;
    println!(
        "timers of the proxy: late by {} on average, {} at most",
        duration::display(counters.lateness.mean()),
        duration::display(counters.lateness.max)
    );
    Ok(())
}

struct Measurement {
    errors: Vec<Duration>,
    processor_share: f64,
}

/// Sends datagrams to `to` and compares their arrival at `receiver` with the expected `delay`.
fn measure(receiver: &UdpSocket, to: SocketAddr, delay: Duration) -> io::Result<Measurement> {
    let start = now();
    let processor_before = processor_time();
    let sender = thread::spawn(move || send(start, to));
    let mut errors = Vec::new();
    let mut buffer = [0; 100];
    for _ in 0..DATAGRAMS {
        receiver.recv(&mut buffer)?;
        let arrived = start.elapsed();
        let (sent, _) = buffer.split_first_chunk().expect("100 bytes hold a time");
        let sent = Duration::from_nanos(u64::from_be_bytes(*sent));
        errors.push(arrived.saturating_sub(sent + delay));
    }
    sender.join().expect("the sender does not panic")?;
    errors.sort();
    Ok(Measurement {
        errors,
        processor_share: (processor_time() - processor_before).as_secs_f64() / start.elapsed().as_secs_f64(),
    })
}

fn send(start: Instant, to: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let mut gaps = RandomStream::new(1, "gaps");
    let mut due = Moment::ZERO;
    for _ in 0..DATAGRAMS {
        due += gaps.exponential(MEAN_GAP);
        let elapsed = Moment::ZERO + start.elapsed();
        thread::sleep(due - elapsed);
        let mut payload = [0; 100];
        let sent = Moment::ZERO + start.elapsed();
        payload[..8].copy_from_slice(&sent.as_nanos().to_be_bytes());
        socket.send_to(&payload, to)?;
    }
    Ok(())
}

fn print(what: &str, measurement: Measurement) {
    let Measurement { errors, processor_share } = measurement;
    let quantile = |per_mille: usize| {
        let microseconds = errors[(errors.len() - 1) * per_mille / 1_000].as_micros();
        format!("{microseconds} us")
    };
    println!(
        "{what}: error p50 {}, p99 {}, p99.9 {}, max {}; {:.1} % of one processor in all",
        quantile(500),
        quantile(990),
        quantile(999),
        quantile(1_000),
        processor_share * 100.0
    );
}

#[expect(clippy::disallowed_methods, reason = "a measurement on a real clock")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the CPU time of all threads of this process.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
