//! An echo server whose counters Prometheus can read, in its text format and without another crate.
//!
//! ```text
//! cargo run -p festina --example metrics -- 127.0.0.1:9899 127.0.0.1:9090
//! curl http://127.0.0.1:9090/metrics
//! ```

use std::error::Error;
use std::fmt::Write;
use std::net::SocketAddr;

use festina::{Association, Config, DEFAULT_SCTP_PORT, Endpoint, Message};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [messages, scrapes] = &arguments[..] else { return Err("usage: metrics ADDRESS METRICS_ADDRESS".into()) };
    let endpoint = Endpoint::bind(messages.parse()?, Config::default()).await?;
    let listener = endpoint.listen(DEFAULT_SCTP_PORT)?;
    let scrapes = TcpListener::bind(scrapes.parse::<SocketAddr>()?).await?;
    println!("listening on {}, metrics on http://{}/metrics", endpoint.local_addr(), scrapes.local_addr()?);
    tokio::spawn(serve(scrapes, endpoint.clone()));
    while let Some(association) = listener.accept().await {
        tokio::spawn(echo(association));
    }
    Ok(())
}

async fn echo(association: Association) {
    while let Ok(message) = association.recv().await {
        if association.send(Message::new(message.payload).on_stream(message.stream)).await.is_err() {
            return;
        }
    }
}

/// Answers each connection with the counters as they are then.
async fn serve(scrapes: TcpListener, endpoint: Endpoint) {
    while let Ok((stream, _)) = scrapes.accept().await {
        let body = metrics(&endpoint);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
        let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        tokio::spawn(async move {
            let mut request = [0; 1_024];
            // Whatever was asked for, there is one answer.
            let _ = stream.readable().await.and_then(|()| stream.try_read(&mut request));
            let mut left = answer.as_bytes();
            while !left.is_empty() && stream.writable().await.is_ok() {
                match stream.try_write(left) {
                    Ok(written) => left = left.get(written..).unwrap_or_default(),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        });
    }
}

/// The endpoint's counters in Prometheus' text format.
fn metrics(endpoint: &Endpoint) -> String {
    let stats = endpoint.stats();
    let values = [
        ("associations", "gauge", "Associations now.", stats.associations),
        ("packets_sent_total", "counter", "SCTP packets sent.", stats.packets_sent),
        ("sent_bytes_total", "counter", "Bytes of those packets.", stats.bytes_sent),
        ("packets_received_total", "counter", "SCTP packets received.", stats.packets_received),
        ("received_bytes_total", "counter", "Bytes of those packets.", stats.bytes_received),
        ("packets_dropped_total", "counter", "Packets received without effect.", stats.packets_dropped),
        ("associations_refused_total", "counter", "Peers refused for want of room.", stats.associations_refused),
        ("accept_queue_overflows_total", "counter", "Handshakes left to be repeated.", stats.accept_queue_overflows),
        ("receive_errors_total", "counter", "Receiving failed.", stats.receive_errors),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in values {
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP festina_{name} {help}\n# TYPE festina_{name} {kind}\nfestina_{name} {value}\n");
    }
    text
}
