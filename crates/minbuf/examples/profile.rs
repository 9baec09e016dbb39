//! The load of Goel et al. 2002 (G02 §4.1) with the kernel's own TCP: a media stream beside elephants, mice and constant bit rate, and
//! how late its packets are.
//!
//! Both ends run on one machine, so that they have one clock, in two network namespaces that `festina emulate tun` joins:
//!
//! ```sh
//! cargo build --release -p festina-minbuf --example profile
//! P=target/release/examples/profile
//! ip netns exec far $P receive 10.77.0.2:7000 &
//! ip netns exec near $P send 10.77.0.2:7000 1,3 80 12
//! ```
//!
//! The arguments of `send`: the address, the limit (`std`, `A,B`, `50ms`, or `lowat:BYTES` for `TCP_NOTSENT_LOWAT` alone), seconds for
//! the whole profile, and the bottleneck's Mbit/s, of which constant bit rate takes a tenth.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use festina_minbuf::{MinBuf, MinBufStream, SendBufferLimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::{Instant, sleep, sleep_until};

/// What the media application writes at once: the payload of a packet with timestamps on Ethernet.
const MESSAGE_BYTES: usize = 1_448;
const ELEPHANTS: u32 = 15;
const MICE: u32 = 80;
const MOUSE_BYTES: usize = 20_000;
const CBR_BYTES: usize = 1_000;
/// When something begins or ends, in eightieths of the whole.
const ELEPHANTS_AT: [u32; 2] = [5, 60];
const MICE_AT: [u32; 2] = [20, 75];
const CBR_AT: [u32; 2] = [40, 75];

/// A connection whose congestion control is CUBIC, whatever the machine's default is.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    socket2::SockRef::from(&stream).set_tcp_congestion(b"cubic")?;
    Ok(stream)
}

fn clock() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Reads until the media stream has ended, and prints how late its packets were.
async fn receive(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let (sender, mut ended) = tokio::sync::mpsc::channel(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            delays = ended.recv() => {
                print(delays.unwrap_or_default());
                return Ok(());
            }
        };
        let (mut stream, sender) = (accepted, sender.clone());
        tokio::spawn(async move {
            let is_media = stream.read_u8().await.is_ok_and(|first| first == b'M');
            if !is_media {
                let mut sink = vec![0; 1 << 16];
                while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
                return;
            }
            let (mut delays, mut message) = (Vec::new(), vec![0; MESSAGE_BYTES]);
            while stream.read_exact(&mut message).await.is_ok() {
                let mut written_at = [0; 8];
                written_at.copy_from_slice(&message[..8]);
                delays.push(clock().saturating_sub(u64::from_be_bytes(written_at)));
            }
            let _ = sender.send(delays).await;
        });
    }
}

fn print(mut delays_ns: Vec<u64>) {
    delays_ns.sort_unstable();
    let count = delays_ns.len().max(1);
    let within = |ms: u64| delays_ns.partition_point(|&delay| delay <= ms * 1_000_000) as f64 / count as f64;
    let ms = |ns: u64| ns as f64 / 1e6;
    let quantile =
        |per_mille: usize| delays_ns.get((count * per_mille / 1000).min(count - 1)).map_or(0.0, |&ns| ms(ns));
    let mean = ms(delays_ns.iter().sum::<u64>()) / count as f64;
    println!(
        "{count} packets, within 200 ms {:.3}, within 500 ms {:.3}, mean {mean:.1} ms, p50 {:.1}, p90 {:.1}, p99 {:.1}",
        within(200),
        within(500),
        quantile(500),
        quantile(900),
        quantile(990)
    );
}

/// How the media stream is limited.
enum Limit {
    Kernel { lowat_bytes: Option<u32> },
    Limited(SendBufferLimit),
}

fn limit(text: &str) -> Option<Limit> {
    if text == "std" {
        return Some(Limit::Kernel { lowat_bytes: None });
    }
    if let Some(bytes) = text.strip_prefix("lowat:") {
        return Some(Limit::Kernel { lowat_bytes: Some(bytes.parse().ok()?) });
    }
    if let Some((windows, extra)) = text.split_once(',') {
        let min_buf = MinBuf { windows: windows.parse().ok()?, extra_packets: extra.parse().ok()? };
        return Some(Limit::Limited(SendBufferLimit::MinBuf(min_buf)));
    }
    festina_units::duration::parse(text).ok().map(|time| Limit::Limited(SendBufferLimit::Target(time)))
}

fn message() -> Vec<u8> {
    let mut message = vec![0; MESSAGE_BYTES];
    message[..8].copy_from_slice(&clock().to_be_bytes());
    message
}

async fn media(address: SocketAddr, limit: Limit, until: Instant) -> io::Result<String> {
    let mut stream = connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_u8(b'M').await?;
    let (started, mut messages) = (Instant::now(), 0_u32);
    let mut sender_share = String::new();
    match limit {
        Limit::Kernel { lowat_bytes } => {
            if let Some(bytes) = lowat_bytes {
                socket2::SockRef::from(&stream).set_tcp_notsent_lowat(bytes)?;
            }
            while Instant::now() < until {
                // The time is that of the first write that takes some of it.
                let taken = loop {
                    stream.writable().await?;
                    let message = message();
                    match stream.try_write(&message) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        result => break message[result?..].to_vec(),
                    }
                };
                stream.write_all(&taken).await?;
                messages += 1;
            }
            stream.shutdown().await?;
        }
        Limit::Limited(limit) => {
            let mut stream = MinBufStream::new(stream, limit)?;
            while Instant::now() < until {
                stream.writable().await?;
                stream.write_all(&message()).await?;
                messages += 1;
            }
            let waited = stream.sender_share()?.waited;
            let ms = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
            sender_share = format!(
                ", in the send buffer: mean {:.1} ms, p50 {:.1}, p90 {:.1}, p99 {:.1}",
                ms(waited.mean()),
                ms(waited.quantile(500)),
                ms(waited.quantile(900)),
                ms(waited.quantile(990))
            );
            stream.shutdown().await?;
        }
    }
    let bits = f64::from(messages) * MESSAGE_BYTES as f64 * 8.0;
    Ok(format!("{:.3} Mbit/s written{sender_share}", bits / started.elapsed().as_secs_f64() / 1e6))
}

async fn elephant(address: SocketAddr, until: Instant) -> io::Result<()> {
    let mut stream = connect(address).await?;
    let block = vec![b'E'; 1 << 16];
    let writing = async { while stream.write(&block).await.is_ok() {} };
    let _ = tokio::time::timeout_at(until, writing).await;
    // What still waits must not go on.
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))
}

async fn mouse(address: SocketAddr, until: Instant) -> io::Result<()> {
    let transfer = vec![b'm'; MOUSE_BYTES];
    while Instant::now() < until {
        let mut stream = connect(address).await?;
        stream.write_all(&transfer).await?;
        stream.shutdown().await?;
        // The receiver closes when it has read all.
        let _ = tokio::time::timeout_at(until, stream.read(&mut [0])).await;
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    }
    Ok(())
}

async fn constant_bit_rate(address: SocketAddr, bits_per_second: u64, until: Instant) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    let gap = Duration::from_nanos(CBR_BYTES as u64 * 8 * 1_000_000_000 / bits_per_second.max(1));
    let mut next = Instant::now();
    while next < until {
        sleep_until(next).await;
        // Nobody reads it.
        let _ = socket.send_to(&[0; CBR_BYTES], (address.ip(), address.port() + 1)).await;
        next += gap;
    }
    Ok(())
}

async fn send(address: SocketAddr, limit: Limit, lasts: Duration, mbits: u64) -> io::Result<()> {
    let started = Instant::now();
    let at = |eightieths: u32| started + lasts * eightieths / 80;
    for _ in 0..ELEPHANTS {
        let [from, until] = ELEPHANTS_AT.map(at);
        tokio::spawn(async move {
            sleep_until(from).await;
            elephant(address, until).await
        });
    }
    for number in 0..MICE {
        let [from, until] = MICE_AT.map(at);
        tokio::spawn(async move {
            sleep_until(from + Duration::from_millis(number.into())).await;
            mouse(address, until).await
        });
    }
    let [from, until] = CBR_AT.map(at);
    tokio::spawn(async move {
        sleep_until(from).await;
        constant_bit_rate(address, mbits * 100_000, until).await
    });
    println!("{}", media(address, limit, at(80)).await?);
    // What is in the buffer still has to leave.
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let usage = || io::Error::other("profile receive ADDRESS, or profile send ADDRESS LIMIT SECONDS MBITS");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match texts.as_slice() {
        ["receive", address] => receive(address.parse().map_err(|_| usage())?).await,
        ["send", address, text, seconds, mbits] => {
            let address = address.parse().map_err(|_| usage())?;
            let (seconds, mbits) = (seconds.parse().map_err(|_| usage())?, mbits.parse().map_err(|_| usage())?);
            send(address, limit(text).ok_or_else(usage)?, Duration::from_secs(seconds), mbits).await
        }
        _ => Err(usage()),
    }
}
