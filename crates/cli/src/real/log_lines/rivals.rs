//! Greedy TCP flows that share the bottleneck.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::super::hosts::server_address;
use super::course::Course;

const PORT: u16 = 7_000;
/// What a flow writes at once, and the size of a read.
const BLOCK_BYTES: usize = 1 << 16;

/// Where the receiver takes the flows.
pub(super) async fn listen() -> Result<TcpListener> {
    TcpListener::bind(server_address(PORT)).await.context("cannot listen")
}

/// Reads all flows, and counts what arrives while there are lines. Never ends by itself.
pub(super) async fn read(listener: TcpListener, course: Arc<Course>, bytes: Arc<AtomicU64>) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await.context("cannot accept")?;
        let (course, bytes) = (Arc::clone(&course), Arc::clone(&bytes));
        tokio::spawn(async move {
            let mut buffer = vec![0; BLOCK_BYTES];
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                if course.is_under_way() {
                    bytes.fetch_add(read as u64, Ordering::Relaxed);
                }
            }
        });
    }
}

/// Starts `count` flows, which end at the given time.
pub(super) fn start(count: u64, ends: Instant) -> JoinSet<Result<()>> {
    let mut flows = JoinSet::new();
    for _ in 0..count {
        flows.spawn(async move {
            let mut stream = TcpStream::connect(server_address(PORT)).await.context("a flow cannot connect")?;
            SockRef::from(&stream).set_tcp_congestion(b"reno")?;
            let block = vec![0; BLOCK_BYTES];
            let writing = async {
                loop {
                    stream.write_all(&block).await?;
                }
            };
            let outcome: Result<Result<(), std::io::Error>, _> = timeout_at(ends, writing).await;
            if let Ok(outcome) = outcome {
                outcome.context("a flow ended early")?;
            }
            // What still waits must not go on.
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            Ok(())
        });
    }
    flows
}
