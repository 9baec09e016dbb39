//! The counters over HTTP on a loopback address: `/metrics` for Prometheus, `/status` as JSON.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use festina_units::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Requests that are answered at the same time.
const CONNECTIONS_MAX: usize = 16;

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 4_096;

/// How long a request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// What is served: `/metrics` and `/status`, made anew for each request.
pub(crate) trait Pages: Send + Sync + 'static {
    fn metrics(&self) -> String;
    fn status(&self) -> String;
}

/// Answers requests in a task of its own. Returns the address.
pub(crate) async fn serve(address: SocketAddr, pages: Arc<dyn Pages>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::spawn(async move {
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let Ok((connection, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let pages = Arc::clone(&pages);
            tokio::spawn(async move {
                // Who asks slowly or leaves gets no answer.
                let _ = tokio::time::timeout(REQUEST_TIME_MAX, answer(connection, &*pages)).await;
                drop(slot);
            });
        }
    });
    Ok(bound)
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
/// If nobody answers there, or not as they do.
pub async fn ask_status(address: SocketAddr) -> io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    connection.take(1 << 20).read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "whoever listens there is no relay and no collector")),
    }
}
