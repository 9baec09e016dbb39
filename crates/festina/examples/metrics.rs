//! An echo server whose counters Prometheus can read: those of its endpoint, and those of each of the first hundred associations.
//!
//! ```text
//! cargo run -p festina --features prometheus --example metrics -- 127.0.0.1:9899 127.0.0.1:9090
//! cargo run --release -- ping 127.0.0.1 -c 5
//! curl http://127.0.0.1:9090/metrics
//! ```
//!
//! A program with a web server of its own can serve the result of `page`.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use festina::{Association, DEFAULT_SCTP_PORT, Endpoint, Metrics, ServerConfig};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [messages, scrapes] = &arguments[..] else { return Err("usage: metrics ADDRESS METRICS_ADDRESS".into()) };
    let endpoint = Endpoint::server(messages.parse()?, ServerConfig::plain()).await?;
    let listener = endpoint.listen(DEFAULT_SCTP_PORT)?;
    let scrapes = TcpListener::bind(scrapes.parse::<SocketAddr>()?).await?;
    println!("listening on {}, metrics on http://{}/metrics", endpoint.local_addr(), scrapes.local_addr()?);

    let metrics = Metrics::default();
    metrics.show_endpoint(&endpoint);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics.clone()));
    tokio::spawn(serve(scrapes, Arc::new(registry)));

    while let Some(association) = listener.accept().await {
        // Beyond the limit an association counts with its endpoint alone.
        metrics.show_association(&association);
        tokio::spawn(echo(association));
    }
    Ok(())
}

async fn echo(association: Association) {
    while let Ok(Some(message)) = association.recv().await {
        if association.send(message).await.is_err() {
            return;
        }
    }
}

/// Answers each connection with the counters as they are then.
async fn serve(scrapes: TcpListener, registry: Arc<Registry>) {
    while let Ok((stream, _)) = scrapes.accept().await {
        let body = page(&registry);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\nConnection: close";
        let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        tokio::spawn(async move {
            let mut request = [0; 1_024];
            // There is one page, so the request is ignored.
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

/// All series in the text format of OpenMetrics.
fn page(registry: &Registry) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut page, registry);
    page
}
