//! What a limited send buffer costs: CPU time of the sending thread per gigabyte over loopback at full speed, beside plain writes.
//!
//! ```sh
//! cargo run --release -p festina-minbuf --example overhead -- 5 3 65536
//! ```
//!
//! The arguments: rounds, seconds for each measurement, bytes of each write.

use std::io;
use std::time::Duration;

use festina_minbuf::{MinBuf, MinBufStream, SendBufferLimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

#[derive(Clone, Copy)]
struct Measured {
    gigabytes: f64,
    cpu_s: f64,
    elapsed_s: f64,
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Writes for a while on a thread and a runtime of its own; the reader has another.
fn measure(limit: Option<SendBufferLimit>, lasts: Duration, write_bytes: usize) -> io::Result<Measured> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let reader = std::thread::spawn(move || -> io::Result<()> {
        runtime()?.block_on(async {
            listener.set_nonblocking(true)?;
            let (mut stream, _) = TcpListener::from_std(listener)?.accept().await?;
            let mut sink = vec![0; 1 << 20];
            while stream.read(&mut sink).await? > 0 {}
            Ok(())
        })
    });
    let measured = runtime()?.block_on(async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let block = vec![0; write_bytes];
        let (started, cpu_before, mut bytes) = (Instant::now(), cpu_time(), 0_u64);
        match limit {
            None => {
                let mut stream = stream;
                while started.elapsed() < lasts {
                    bytes += stream.write(&block).await? as u64;
                }
            }
            Some(limit) => {
                let mut stream = MinBufStream::new(stream, limit)?;
                while started.elapsed() < lasts {
                    bytes += stream.write(&block).await? as u64;
                }
            }
        }
        let (cpu_s, elapsed_s) = ((cpu_time() - cpu_before).as_secs_f64(), started.elapsed().as_secs_f64());
        let gigabytes = f64::from(u32::try_from(bytes / 1_000_000).unwrap_or(u32::MAX)) / 1_000.0;
        io::Result::Ok(Measured { gigabytes, cpu_s, elapsed_s })
    })?;
    reader.join().map_err(|_| io::Error::other("the reader panicked"))??;
    Ok(measured)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().ok());
    let mut next = |default| arguments.next().flatten().unwrap_or(default);
    let (rounds, seconds, write_bytes) = (next(5), next(2), usize::try_from(next(65_536)).unwrap_or(65_536));
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
    // In turn, so that what else the machine does meets all alike.
    for _ in 0..rounds {
        for ((_, limit), measured) in kinds.iter().zip(&mut measured) {
            measured.push(measure(*limit, Duration::from_secs(seconds), write_bytes)?);
        }
    }
    println!("writes of {write_bytes} bytes, medians of {rounds} rounds of {seconds} s");
    let per_gigabyte = |measured: &[Measured]| median(measured.iter().map(|one| one.cpu_s / one.gigabytes).collect());
    let plain = per_gigabyte(&measured[0]);
    for ((name, _), measured) in kinds.iter().zip(&measured) {
        let cost = per_gigabyte(measured);
        let rate = median(measured.iter().map(|one| one.gigabytes * 8.0 / one.elapsed_s).collect());
        println!("{name:<6} {rate:7.2} Gbit/s  {cost:.4} s of CPU per GB  {:+.1} %", (cost / plain - 1.0) * 100.0);
    }
    Ok(())
}
