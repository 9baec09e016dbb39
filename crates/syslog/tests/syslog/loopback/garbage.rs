//! Garbage on the port of a collector beside a relay at work.

use festina::security::Trust;
use festina::{ClientConfig, ConnectOptions, Endpoint, Message};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::time::Instant;

use super::*;
use crate::seeds;

/// Packets and associations; `TEST_SEEDS=0..10000` is for 10,000 of them.
const GARBAGE: u64 = 500;
const GARBAGE_FULL: u64 = 2_000;

/// One of this number is an association.
const ASSOCIATION_ONE_IN: u64 = 5;

const LINES: usize = 1_000;
const LINE_EVERY: Duration = Duration::from_millis(5);

/// The SCTP port of collectors.
const PORT: u16 = 6_514;

fn random_bytes(random: &mut Xoshiro256PlusPlus, bytes_max: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(1 + random.next_u64() % bytes_max).expect("small")];
    random.fill_bytes(&mut bytes);
    bytes
}

/// A datagram: noise, or something with the header of an SCTP packet.
fn datagram(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = random_bytes(random, 600);
    if random.next_u64().is_multiple_of(2) && bytes.len() > 16 {
        bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
        bytes[4..8].fill(0);
        bytes[8..12].fill(0);
        // INIT, COOKIE ECHO and their like.
        bytes[12] %= 16;
    }
    bytes
}

/// Connects, sends messages, some with the first byte of a relay's, and goes.
async fn associate(endpoint: &Endpoint, collector: SocketAddr, random: &mut Xoshiro256PlusPlus) -> bool {
    let options = ConnectOptions::default().peer_port(PORT).handshake_timeout(Duration::from_secs(1));
    let Ok(association) = endpoint.connect_with(collector, options).await else { return false };
    for _ in 0..random.next_u64() % 4 {
        let mut message = random_bytes(random, 300);
        message[0] %= 10;
        let _ = association.try_send(Message::new(message));
    }
    if random.next_u64().is_multiple_of(2) {
        tokio::time::sleep(Duration::from_millis(2)).await;
        association.abort("enough");
    }
    true
}

/// Sends this much garbage within the time that the lines take. Returns how many associations there were.
async fn litter(mode: Mode, collector: SocketAddr, count: u64) -> u64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let socket = UdpSocket::bind(any_address()).expect("a socket");
    let config = match mode {
        Mode::Encrypted => ClientConfig::new(Trust::deciding(|_| true)),
        Mode::Plain => ClientConfig::plain(),
    };
    let endpoint = Endpoint::client(any_address(), config).await.expect("a socket");
    let (begin, whole) = (Instant::now(), LINE_EVERY * u32::try_from(LINES).expect("small"));
    let mut associations = 0;
    for number in 0..count {
        let due = whole.mul_f64(number as f64 / count as f64);
        if begin.elapsed() < due {
            tokio::time::sleep_until(begin + due).await;
        }
        if number % ASSOCIATION_ONE_IN == 0 {
            associations += u64::from(associate(&endpoint, collector, &mut random).await);
        } else {
            let _ = socket.send_to(&datagram(&mut random), collector);
        }
    }
    associations
}

/// Sends lines, and returns how long each took from the program to the file.
async fn delays(directory: &Directory, relay: &RunningRelay, begin: Instant) -> Vec<Duration> {
    let before = directory.output().len();
    let mut stream = TcpStream::connect(relay.inputs()[1].expect("an address")).expect("it listens");
    let sending = tokio::spawn(async move {
        let mut tick = tokio::time::interval(LINE_EVERY);
        for _ in 0..LINES {
            tick.tick().await;
            writeln!(stream, "<11>{}", begin.elapsed().as_micros()).expect("it is sent");
        }
    });
    let (mut delays, mut read, end) = (Vec::new(), before, Instant::now() + 4 * PATIENCE);
    while delays.len() < LINES {
        assert!(Instant::now() < end, "{} lines of {LINES}", delays.len());
        tokio::time::sleep(Duration::from_millis(1)).await;
        let text = directory.output();
        let Some((whole, _)) = text[read..].rsplit_once('\n') else { continue };
        let now = begin.elapsed();
        for line in whole.lines() {
            let sent = line.strip_prefix("<11>").expect("a line of this test").parse().expect("a time");
            delays.push(now.saturating_sub(Duration::from_micros(sent)));
        }
        read += whole.len() + 1;
    }
    sending.await.expect("it is sent");
    delays.sort_unstable();
    delays
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_port_of_a_collector_keeps_no_line_from_it() {
    for mode in MODES {
        garbage_beside_a_relay(mode).await;
    }
}

async fn garbage_beside_a_relay(mode: Mode) {
    let directory = Directory::new();
    let collector = collector_in(mode, &directory.0, any_address()).await;
    let relay = relay_in(mode, &directory.0, collector.local_addr()).await;
    until("the relay is connected", || relay.snapshot().paths.connected).await;
    let begin = Instant::now();
    let alone = delays(&directory, &relay, begin).await;
    let count = seeds::extent(GARBAGE, GARBAGE_FULL);
    let (beside, associations) =
        tokio::join!(delays(&directory, &relay, begin), litter(mode, collector.local_addr(), count));
    let p99 = |delays: &[Duration]| delays[delays.len() * 99 / 100];
    println!(
        "{mode:?}: p99 {:?} alone, {:?} beside {count} pieces with {associations} associations",
        p99(&alone),
        p99(&beside)
    );
    let strangers = collector.snapshot().strangers;
    println!("{strangers:?}");
    assert!(associations * 2 > count / ASSOCIATION_ONE_IN && strangers.refused > 0, "{associations} {strangers:?}");
    assert!(relay.snapshot().paths.connected, "{:?}", relay.snapshot());
    let last = relay.stop(PATIENCE).await;
    assert!(last.adds_up() && last.delivered == 2 * LINES as u64, "{last:?}");
    collector.stop().await;
}
