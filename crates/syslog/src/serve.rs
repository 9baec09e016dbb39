//! The counters over HTTP on a loopback address: `/metrics` for Prometheus, `/status` as JSON.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use festina_units::{Duration, duration};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Connections at the same time. One more takes the place of the one that has been open longest.
const CONNECTIONS_MAX: usize = 16;

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 4_096;

/// Time limit of a request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// Time limit of [`ask_status`].
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// Pause after a connection could not be accepted: the reason, too few descriptors for instance, lasts.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// The pages `/metrics` and `/status`, generated for each request.
pub(crate) trait Pages: Send + Sync + 'static {
    fn metrics(&self) -> String;
    fn status(&self) -> String;
}

/// A socket for the counters, and its address.
pub(crate) struct Served {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

/// Opens a socket for the counters.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<Served> {
    let listener = TcpListener::bind(address).await?;
    Ok(Served { address: listener.local_addr()?, listener })
}

/// Answers requests in a task of its own.
pub(crate) fn serve(Served { listener, .. }: Served, pages: Arc<dyn Pages>) {
    tokio::spawn(async move {
        let mut open = VecDeque::<AbortHandle>::new();
        loop {
            let Ok((connection, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                continue;
            };
            open.retain(|task| !task.is_finished());
            // Requests come at once. A connection that is silent must not hold up the next one.
            if open.len() >= CONNECTIONS_MAX
                && let Some(oldest) = open.pop_front()
            {
                oldest.abort();
            }
            let pages = Arc::clone(&pages);
            let task = tokio::spawn(async move {
                // A peer that asks too slowly gets no answer.
                let _ = tokio::time::timeout(REQUEST_TIME_MAX, answer(connection, &*pages)).await;
            });
            open.push_back(task.abort_handle());
        }
    });
}

async fn answer(mut connection: TcpStream, pages: &dyn Pages) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1_024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let length = connection.read(&mut buffer).await?;
        if length == 0 || request.len() + length > REQUEST_BYTES_MAX {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..length]);
    }
    let (status, kind, body) = match path_of(&request) {
        Some(b"/metrics") => ("200 OK", "text/plain; version=0.0.4", pages.metrics()),
        Some(b"/status") => ("200 OK", "application/json", pages.status()),
        _ => ("404 Not Found", "text/plain", "there are /metrics and /status\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await?;
    connection.shutdown().await
}

fn path_of(request: &[u8]) -> Option<&[u8]> {
    let mut words = request.split(|&byte| byte == b' ');
    words.next().filter(|method| *method == b"GET")?;
    words.next()
}

/// Asks a relay or a collector for `/status`.
///
/// # Errors
/// If nothing answers there in time, or not as they do.
pub async fn ask_status(address: SocketAddr) -> io::Result<String> {
    ask_within(address, ASK_TIME_MAX).await
}

async fn ask_within(address: SocketAddr, time_max: Duration) -> io::Result<String> {
    let answer = tokio::time::timeout(time_max, ask(address)).await;
    answer.unwrap_or_else(|_| {
        let problem = format!("there is no answer within {}", duration::display(time_max));
        Err(io::Error::new(io::ErrorKind::TimedOut, problem))
    })
}

async fn ask(address: SocketAddr) -> io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    connection.take(1 << 20).read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the program that listens there is no relay and no collector",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Pages for Nothing {
        fn metrics(&self) -> String {
            "nothing\n".to_owned()
        }

        fn status(&self) -> String {
            "{}".to_owned()
        }
    }

    #[tokio::test]
    async fn silent_connections_hold_up_no_request() {
        let served = bind("127.0.0.1:0".parse().expect("an address")).await.expect("a socket");
        let address = served.address;
        serve(served, Arc::new(Nothing));
        let mut silent = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.expect("it listens"));
        }
        // The limit of a request is longer.
        let asked = tokio::time::timeout(REQUEST_TIME_MAX / 2, ask_status(address)).await;
        assert_eq!(asked.expect("it is answered at once").expect("an answer"), "{}");
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let address = listener.local_addr().expect("an address");
        let error = ask_within(address, Duration::from_millis(20)).await.expect_err("there is no answer");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
