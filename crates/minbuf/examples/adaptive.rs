//! A quality-adaptive sender that drops layers of a frame when the send buffer indicates that they would be late.
//!
//! A camera produces a frame every 40 ms, in four layers: the first is required, each of the others improves the
//! picture. Halfway through the run the path becomes four times as slow, which the example simulates with
//! `SO_MAX_PACING_RATE` over loopback; no privileges are needed. It runs twice, with a limit in time and with the
//! kernel's own send buffer, and prints how late frames were and how many layers arrived.
//!
//! ```sh
//! cargo run --release -p festina-minbuf --example adaptive
//! ```

use std::io;
use std::time::Duration;

use festina_minbuf::{MinBufStream, SendBufferLimit};
use festina_units::Bandwidth;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, interval};

const FRAMES: u32 = 250;
const FRAME_INTERVAL: Duration = Duration::from_millis(40);
const LAYERS: u8 = 4;
const LAYER_BYTES: usize = 8_000;
/// The rates of both halves of the run. All layers take 6.4 Mbit/s, the first alone 1.6 Mbit/s.
const RATES: [Bandwidth; 2] = [Bandwidth::from_bits_per_second(8_000_000), Bandwidth::from_bits_per_second(2_000_000)];
/// Time that frames may wait in the sender.
const BUDGET: Duration = Duration::from_millis(40);

/// Header of each layer: creation time of the frame in nanoseconds since the start, frame number, and layer number.
const HEADER_BYTES: usize = 8 + 4 + 1;

/// The core of the example: sends as many layers of a frame as can be sent in time, and returns their number.
async fn send_frame(stream: &mut MinBufStream, started: Instant, frame: Frame, adapts: bool) -> io::Result<u8> {
    let Frame { made_at, number } = frame;
    let mut bytes = vec![0; HEADER_BYTES + LAYER_BYTES];
    bytes[..8].copy_from_slice(&u64::try_from(made_at.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
    bytes[8..12].copy_from_slice(&number.to_be_bytes());
    for layer in 0..LAYERS {
        if layer > 0 && adapts {
            // The wait of this layer, and the age of the frame: late layers are worth less than the next frame.
            let waits = stream.sender_share()?.waiting_time.unwrap_or_default();
            if started.elapsed().saturating_sub(made_at) + waits > BUDGET {
                return Ok(layer);
            }
        }
        bytes[12] = layer;
        stream.write_all(&bytes).await?;
    }
    Ok(LAYERS)
}

/// A frame to send.
#[derive(Clone, Copy)]
struct Frame {
    /// Time since the start.
    made_at: Duration,
    number: u32,
}

/// Sorted delays of the first layers of all frames, and the number of layers that arrived.
struct Received {
    delays: Vec<Duration>,
    layers: u32,
}

async fn receive(mut stream: TcpStream, started: Instant) -> io::Result<Received> {
    let mut received = Received { delays: Vec::new(), layers: 0 };
    let mut bytes = vec![0; HEADER_BYTES + LAYER_BYTES];
    loop {
        match stream.read_exact(&mut bytes).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(received),
            result => result?,
        };
        let mut made_at = [0; 8];
        made_at.copy_from_slice(&bytes[..8]);
        received.layers += 1;
        if bytes[12] == 0 {
            received.delays.push(started.elapsed().saturating_sub(Duration::from_nanos(u64::from_be_bytes(made_at))));
        }
    }
}

/// A run of the camera.
async fn run(limit: SendBufferLimit, adapts: bool) -> io::Result<Received> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let socket = tokio::net::TcpSocket::new_v4()?;
    // As on a network; packets on loopback hold 64 KiB.
    socket2::SockRef::from(&socket).set_tcp_mss(1_448)?;
    let stream = socket.connect(listener.local_addr()?).await?;
    let started = Instant::now();
    let receiver = tokio::spawn(receive(listener.accept().await?.0, started));
    let mut stream = MinBufStream::new(stream, limit)?;
    let mut camera = interval(FRAME_INTERVAL);
    for number in 0..FRAMES {
        if number % (FRAMES / 2) == 0 {
            stream.set_pacing_max(RATES[usize::try_from(number / (FRAMES / 2)).unwrap_or(0).min(1)])?;
        }
        // The camera does not wait for the network: a frame is as old as its tick.
        let made_at = camera.tick().await.saturating_duration_since(started);
        send_frame(&mut stream, started, Frame { made_at, number }, adapts).await?;
    }
    stream.shutdown().await?;
    receiver.await?
}

fn print(name: &str, mut received: Received) {
    let (layers, frames) = (received.layers, received.delays.len());
    for (half, delays) in ["8 Mbit/s", "2 Mbit/s"].iter().zip(received.delays.chunks_mut(frames.div_ceil(2))) {
        delays.sort_unstable();
        let ms = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)].as_secs_f64() * 1e3;
        println!("{name:<26} {half}  frames late by p50 {:7.1}  p90 {:7.1}  max {:7.1} ms", ms(50), ms(90), ms(100));
    }
    println!("{name:<26} {layers} layers of {frames} frames arrived");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    print("limited, drops layers", run(SendBufferLimit::Target(BUDGET), true).await?);
    print("the kernel's buffer", run(SendBufferLimit::Bytes(u64::MAX), false).await?);
    Ok(())
}
