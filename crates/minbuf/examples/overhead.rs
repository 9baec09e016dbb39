//! The cost of a limited send buffer: CPU time per gigabyte over loopback at full speed, compared with plain writes.
//!
//! ```sh
//! cargo run --release -p festina-minbuf --example overhead -- 40 300 65536
//! ```
//!
//! The arguments: rounds, milliseconds for each measurement, bytes of each write. The sending thread is pinned to the
//! process's first processor and the reading thread to the last. In each round every kind has one turn, each round
//! starts with a different one, and the increase over plain writes is computed within the round.

use std::io;
use std::time::Duration;

use festina_minbuf::{MinBuf, MinBufStream, SendBufferLimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// CPU time per gigabyte, and the throughput.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// CPU time of the sending thread.
    sender_s: f64,
    /// CPU time of both threads. Each thread does part of the kernel's work for the other end.
    both_s: f64,
    gbits: f64,
}

fn cpu_time(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Pins the calling thread to the first or the last processor that it may use.
fn pin(to_first: bool) -> io::Result<()> {
    let all = sched_getaffinity(None)?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor));
    let chosen = if to_first { processors.next() } else { processors.next_back() };
    let mut one = CpuSet::new();
    one.set(chosen.unwrap_or(0));
    Ok(sched_setaffinity(None, &one)?)
}

/// Writes for `lasts` on a separate thread and runtime; the reader has its own.
fn measure(limit: Option<SendBufferLimit>, lasts: Duration, write_bytes: usize) -> io::Result<Measured> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let reader = std::thread::spawn(move || -> io::Result<()> {
        pin(false)?;
        runtime()?.block_on(async {
            listener.set_nonblocking(true)?;
            let (mut stream, _) = TcpListener::from_std(listener)?.accept().await?;
            let mut sink = vec![0; 1 << 20];
            while stream.read(&mut sink).await? > 0 {}
            Ok(())
        })
    });
    let sender = std::thread::spawn(move || -> io::Result<Measured> {
        pin(true)?;
        runtime()?.block_on(async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            match limit {
                None => write(stream, lasts, write_bytes).await,
                Some(limit) => write(MinBufStream::new(stream, limit)?, lasts, write_bytes).await,
            }
        })
    });
    let joined = [sender.join(), reader.join().map(|read| read.map(|()| Measured::default()))];
    let [measured, read] = joined.map(|joined| joined.unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))));
    read.and(measured)
}

async fn write(mut stream: impl AsyncWriteExt + Unpin, lasts: Duration, write_bytes: usize) -> io::Result<Measured> {
    let block = vec![0; write_bytes];
    let clocks = [ClockId::ThreadCPUTime, ClockId::ProcessCPUTime];
    let (started, before, mut bytes) = (Instant::now(), clocks.map(cpu_time), 0_u64);
    while started.elapsed() < lasts {
        // Reading the clock for every write would distort the result.
        for _ in 0..16 {
            bytes += stream.write(&block).await? as u64;
        }
    }
    let [sender_s, both_s] = [0, 1].map(|index| cpu_time(clocks[index]) - before[index]);
    let gigabytes = bytes as f64 / 1e9;
    let gbits = gigabytes * 8.0 / started.elapsed().as_secs_f64();
    Ok(Measured { sender_s: sender_s / gigabytes, both_s: both_s / gigabytes, gbits })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Half of the 95 % interval of the mean; the quantile of Student's t is within a hundredth from ten rounds on.
fn half_width(values: &[f64]) -> f64 {
    let (count, mean) = (values.len() as f64, mean(values));
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (1.96 + 2.5 / (count - 1.0)) * (variance / count).sqrt()
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().ok());
    let mut next = |default| arguments.next().flatten().unwrap_or(default);
    let (rounds, millis, write_bytes) = (next(20), next(300), usize::try_from(next(65_536)).unwrap_or(65_536));
    let min_buf = |windows, extra_packets| Some(SendBufferLimit::MinBuf(MinBuf { windows, extra_packets }));
    let target = Some(SendBufferLimit::Target(Duration::from_millis(50)));
    let kinds = [
        ("plain", None),
        ("(2,0)", min_buf(2, 0)),
        ("(1,3)", min_buf(1, 3)),
        ("(1,0)", min_buf(1, 0)),
        ("50 ms", target),
    ];
    let mut measured = vec![Vec::new(); kinds.len()];
    for round in 0..usize::try_from(rounds.max(2)).unwrap_or(2) {
        for turn in 0..kinds.len() {
            let kind = (round + turn) % kinds.len();
            measured[kind].push(measure(kinds[kind].1, Duration::from_millis(millis), write_bytes)?);
        }
    }
    println!("writes of {write_bytes} bytes, {rounds} rounds of {millis} ms each; CPU time per GB, 95 % intervals");
    println!("         Gbit/s   sender              over plain         both ends           over plain");
    let plain = measured[0].clone();
    for ((name, _), measured) in kinds.iter().zip(&measured) {
        let column = |value: fn(&Measured) -> f64| {
            let own: Vec<f64> = measured.iter().map(value).collect();
            let more: Vec<f64> =
                own.iter().zip(&plain).map(|(own, plain)| (own / value(plain) - 1.0) * 100.0).collect();
            format!(
                "{:.4} ± {:.4} s   {:+5.1} ± {:4.1} %",
                mean(&own),
                half_width(&own),
                mean(&more),
                half_width(&more)
            )
        };
        let gbits: Vec<f64> = measured.iter().map(|one| one.gbits).collect();
        let (sender, both) = (column(|one| one.sender_s), column(|one| one.both_s));
        println!("{name:<6} {:8.2}   {sender}   {both}", mean(&gbits));
    }
    Ok(())
}
