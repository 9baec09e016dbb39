//! An endpoint without tokio: a runtime of one thread for each endpoint, whose descriptors and pauses `async-io` watches.
//!
//! `cargo run -p festina --example runtime`

use std::error::Error;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use async_io::{Async, Timer, block_on};
use festina::runtime::{Direction, Runtime, Task, Watched, WatchedSocket};
use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig};

/// A thread for each task.
#[derive(Debug)]
struct Threads;

impl Runtime for Threads {
    fn spawn(&self, task: Task) {
        thread::spawn(|| block_on(task));
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        thread::spawn(work);
    }

    fn sleep(&self, delay: Duration) -> Task {
        Box::pin(async move {
            Timer::after(delay).await;
        })
    }

    fn watch_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn WatchedSocket>> {
        Ok(Box::new(Watch(Async::new_nonblocking(socket)?)))
    }

    fn watch_descriptor(&self, descriptor: OwnedFd) -> io::Result<Box<dyn Watched>> {
        Ok(Box::new(Watch(Async::new_nonblocking(descriptor)?)))
    }
}

#[derive(Debug)]
struct Watch<T>(Async<T>);

impl<T: AsFd + std::fmt::Debug + Send + Sync> Watched for Watch<T> {
    fn poll_ready(&self, direction: Direction, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match direction {
            Direction::Read => self.0.poll_readable(context),
            Direction::Write => self.0.poll_writable(context),
        }
    }

    fn try_io(&self, _: Direction, operation: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        operation()
    }
}

impl<T: AsFd> AsFd for Watch<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let answer = block_on(echoed("make haste slowly"))?;
    println!("{answer}");
    Ok(())
}

/// Sends a message to an echo on this host. Returns the answer.
async fn echoed(text: &'static str) -> Result<String, Box<dyn Error>> {
    let runtime = Arc::new(Threads);
    let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::plain().with_runtime(runtime.clone())).await?;
    let listener = server.listen(DEFAULT_SCTP_PORT)?;
    thread::spawn(move || {
        block_on(async move {
            let association = listener.accept().await.expect("the endpoint is open");
            while let Ok(Some(message)) = association.recv().await {
                association.send(message).await.expect("the client is there");
            }
        });
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::plain().with_runtime(runtime)).await?;
    // By name, which is looked up in a thread of its own.
    let association = client.connect(format!("localhost:{}", server.local_addr().port())).await?;
    association.send(Message::new(text)).await?;
    let answer = association.recv().await?.ok_or("the server has gone")?;
    association.shutdown().await?;
    client.close().await;
    Ok(String::from_utf8(answer.into_payload().to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_echoed_without_tokio() {
        for _ in 0..20 {
            assert_eq!(block_on(echoed("make haste slowly")).unwrap(), "make haste slowly");
        }
    }
}
