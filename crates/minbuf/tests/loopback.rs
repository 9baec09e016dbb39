//! Real sockets over loopback: the backlog is limited, writers are woken, nothing is polled by time.
#![cfg(target_os = "linux")]

use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use festina_minbuf::{Limiter, MinBuf, MinBufStream, SendBufferLimit};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(20);
/// Time during which no other cause wakes a writer.
const QUIET: Duration = Duration::from_millis(300);

const M10: SendBufferLimit = SendBufferLimit::MinBuf(MinBuf { windows: 1, extra_packets: 0 });
const M13: SendBufferLimit = SendBufferLimit::MinBuf(MinBuf { windows: 1, extra_packets: 3 });
const M20: SendBufferLimit = SendBufferLimit::MinBuf(MinBuf { windows: 2, extra_packets: 0 });
const TARGET: SendBufferLimit = SendBufferLimit::Target(Duration::from_millis(50));

async fn pair(limit: SendBufferLimit) -> (MinBufStream, TcpStream) {
    let (near, far) = plain_pair().await;
    (MinBufStream::new(near, limit).expect("this is Linux"), far)
}

async fn plain_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let socket = TcpSocket::new_v4().expect("a socket");
    // As on a network; packets on loopback hold 64 KiB.
    socket2::SockRef::from(&socket).set_tcp_mss(1448).expect("a socket");
    let near = socket.connect(address).await.expect("it listens");
    (near, listener.accept().await.expect("it came").0)
}

/// Bytes `0, 1, 2 …` of a stream.
fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|index| u8::try_from(index % 251).expect("small")).collect()
}

#[tokio::test]
async fn every_byte_arrives_under_every_limit() {
    for limit in [M10, M13, M20, TARGET, SendBufferLimit::Bytes(100_000)] {
        let (mut near, mut far) = pair(limit).await;
        let total = 3_000_000;
        let writer = tokio::spawn(async move {
            near.write_all(&pattern(0, total)).await.expect("the peer reads");
            near.shutdown().await.expect("it is open");
            near
        });
        let mut received = Vec::new();
        timeout(LONG, far.read_to_end(&mut received)).await.expect("in time").expect("no error");
        assert!(received == pattern(0, total), "{limit:?}: {} bytes", received.len());
        drop(writer.await.expect("no panic"));
    }
}

/// Fills the buffers of a connection whose peer does not read; returns bytes written.
async fn fill(near: &mut MinBufStream) -> usize {
    let (mut written, block) = (0, vec![0; 65_536]);
    while let Ok(count) = timeout(QUIET, near.write(&block)).await {
        written += count.expect("the connection is up");
    }
    written
}

#[tokio::test]
async fn the_backlog_stays_within_the_papers_formula() {
    for (limit, windows, extra) in [(M10, 1, 0), (M13, 1, 3), (M20, 2, 0)] {
        let (mut near, mut far) = pair(limit).await;
        // Reading late closes the window, so that data has to wait.
        let reader = tokio::spawn(async move {
            let mut block = vec![0; 65_536];
            while far.read(&mut block).await.is_ok_and(|count| count > 0) {
                sleep(Duration::from_millis(1)).await;
            }
        });
        let block = vec![0; 65_536];
        for _ in 0..100 {
            let before = near.sender_share().expect("open").info;
            let written = timeout(LONG, near.write(&block)).await.expect("it is woken").expect("open");
            let after = near.sender_share().expect("open").info;
            // cwnd may have changed between the kernel's answer and ours.
            let cwnd = u64::from(before.cwnd_packets.max(after.cwnd_packets));
            let limit_packets = windows * cwnd + extra.min(cwnd) + u64::from(after.sacked_packets);
            let allowed = limit_packets.saturating_sub(after.unacked_packets.into()).max(limit_packets.min(cwnd)) + 1;
            let unsent = u64::from(after.notsent_bytes.div_ceil(after.mss_bytes));
            assert!(unsent <= allowed, "{limit:?}: {unsent} of {allowed} after {written}, {after:?}");
        }
        reader.abort();
    }
}

#[tokio::test]
async fn a_waiting_writer_resumes_when_the_peer_reads() {
    for limit in [M10, M13, M20, TARGET] {
        let (mut near, mut far) = pair(limit).await;
        let filled = fill(&mut near).await;
        let reader = tokio::spawn(async move {
            let mut received = vec![0; filled + 1_000_000];
            far.read_exact(&mut received).await.expect("all comes");
        });
        timeout(LONG, near.write_all(&vec![0; 1_000_000])).await.expect("it is woken").expect("the peer reads");
        timeout(LONG, reader).await.expect("in time").expect("no panic");
    }
}

/// Wake-ups of a writer whose peer does not read: the kernel's window probes, and growth of its buffer.
const WAKE_UPS_MAX: usize = 50;

#[tokio::test]
async fn a_writer_sleeps_while_nothing_is_sent() {
    for limit in [M10, M13, M20, TARGET] {
        let (mut near, mut far) = pair(limit).await;
        fill(&mut near).await;
        let (block, mut polls) = (vec![0; 65_536], 0);
        let writing = std::future::poll_fn(|cx| {
            polls += 1;
            while let Poll::Ready(written) = Pin::new(&mut near).poll_write(cx, &block) {
                assert!(written.expect("the connection is up") > 0);
            }
            Poll::<()>::Pending
        });
        assert!(timeout(QUIET, writing).await.is_err());
        assert!(polls <= WAKE_UPS_MAX, "{limit:?}: {polls} polls");
        let reader = tokio::spawn(async move { while far.read(&mut [0; 4096]).await.is_ok_and(|count| count > 0) {} });
        let room = timeout(LONG, near.writable()).await.expect("it is woken").expect("open");
        assert!(room.is_open());
        reader.abort();
    }
}

#[tokio::test]
async fn a_reset_connection_is_reported_as_an_error() {
    let (mut near, far) = pair(M13).await;
    fill(&mut near).await;
    socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(far);
    let block = vec![0; 100_000];
    let error = timeout(LONG, async {
        loop {
            if let Err(error) = near.write(&block).await {
                return error;
            }
        }
    })
    .await
    .expect("it is reported");
    assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{error}");
}

#[tokio::test]
async fn waiting_time_is_measured() {
    let (mut near, mut far) = pair(TARGET).await;
    near.write_all(&pattern(0, 200_000)).await.expect("open");
    let mut received = vec![0; 200_000];
    far.read_exact(&mut received).await.expect("all comes");
    sleep(Duration::from_millis(50)).await;
    let share = near.sender_share().expect("open");
    assert_eq!((share.oldest, share.info.notsent_bytes), (None, 0));
    assert!(share.waited.packets() >= 200_000 / u64::from(share.info.mss_bytes), "{}", share.waited.packets());
    assert!(share.waited.longest() < LONG);
    assert!(share.budget_share_ppm.is_some());
}

#[tokio::test]
async fn paced_data_arrives_no_faster_than_the_pace() {
    let (mut near, mut far) = pair(M20).await;
    let rate = festina_units::Bandwidth::from_bits_per_second(40_000_000);
    near.set_pacing_max(rate).expect("Linux has it");
    let started = tokio::time::Instant::now();
    let writer = tokio::spawn(async move {
        near.write_all(&vec![0; 2_000_000]).await.expect("open");
        near
    });
    let mut received = vec![0; 2_000_000];
    timeout(LONG, far.read_exact(&mut received)).await.expect("in time").expect("all comes");
    // 0.4 s at the pace; its first packets may be sent at once.
    assert!(started.elapsed() >= Duration::from_millis(200), "{:?}", started.elapsed());
    drop(writer.await.expect("no panic"));
}

#[test]
fn other_event_loops_use_the_descriptor() {
    use rustix::event::{PollFd, PollFlags, poll};
    use std::io::{Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut near = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (mut far, _) = listener.accept().expect("it came");
    near.set_nonblocking(true).expect("a socket");
    let total = 2_000_000;
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        far.read_to_end(&mut received).map(|_| received)
    });
    let mut limiter = Limiter::new(&near, M13).expect("this is Linux");
    let (data, mut written) = (pattern(0, total), 0);
    while written < total {
        let room = limiter.room(&near).expect("open");
        if !room.is_open() {
            poll(&mut [PollFd::new(&near, PollFlags::OUT)], None).expect("it is woken");
            continue;
        }
        let end = (written + usize::try_from(room.bytes).expect("small")).min(total);
        match near.write(&data[written..end]) {
            Ok(count) => {
                limiter.wrote(count as u64);
                written += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&near, PollFlags::OUT)], None).expect("it is woken");
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(near);
    assert!(reader.join().expect("no panic").expect("no error") == data);
}

#[test]
fn sockets_other_than_tcp_are_refused() {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    assert!(Limiter::new(&udp, M13).is_err());
}
