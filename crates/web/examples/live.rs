//! A page that shows how late messages from and to a server are, over data channels and over a WebSocket on the same network:
//!
//! ```text
//! cargo run --release -p festina-web --example live
//! ```
//!
//! and open http://127.0.0.1:8080. The same behind a network of 100 ms that loses 5 % (needs root or user namespaces):
//!
//! ```text
//! festina emulate run --delay 50ms --loss 5% --server 'target/release/examples/live 10.77.0.2' -- chromium http://10.77.0.2:8080
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Html;
use axum::routing::{any, get, post};
use festina_web::{ChannelMessage, DataChannel, Peer, WebConfig, WebEndpoint};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};

const INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of a message.
const LENGTH: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: IpAddr = arguments.next().unwrap_or_else(|| "127.0.0.1".to_owned()).parse()?;
    let port = arguments.next().unwrap_or_else(|| "8080".to_owned()).parse()?;

    let endpoint = Arc::new(WebEndpoint::bind(SocketAddr::new(address, 0), WebConfig::default()).await?);
    let (browsers, closing) = (endpoint.clone(), endpoint.clone());
    tokio::spawn(async move {
        while let Some(peer) = browsers.accept().await {
            tokio::spawn(serve(peer));
        }
    });

    let pages = Router::new()
        .route("/", get(|| async { Html(include_str!("live.html")) }))
        .route(
            "/festina-web.js",
            get(|| async { ([(CONTENT_TYPE, "text/javascript")], include_str!("../js/festina-web.js")) }),
        )
        .route("/offer", post(answer))
        .route("/restart/{peer}", post(restart))
        .route("/socket", any(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(serve_socket) }))
        .with_state(endpoint);
    let listener = TcpListener::bind(SocketAddr::new(address, port)).await?;
    println!("http://{}", listener.local_addr()?);
    tokio::select! {
        served = async { axum::serve(listener, pages).await } => served?,
        _ = tokio::signal::ctrl_c() => closing.close().await,
    }
    Ok(())
}

/// The first line of the answer is the number by which the page names itself when it restarts ICE.
async fn answer(State(endpoint): State<Arc<WebEndpoint>>, offer: String) -> Result<String, (StatusCode, String)> {
    let (id, answer) = endpoint.answer(&offer).await.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    Ok(format!("{}\n{answer}", id.number()))
}

async fn restart(
    State(endpoint): State<Arc<WebEndpoint>>,
    Path(peer): Path<u64>,
    offer: String,
) -> Result<String, (StatusCode, String)> {
    endpoint.restart(peer, &offer).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

async fn serve(peer: Peer) {
    while let Some(channel) = peer.accept_channel().await {
        match channel.label() {
            "push" => drop(tokio::spawn(push(channel))),
            "up" | "up, repeated" => drop(tokio::spawn(tell_ages(channel))),
            _ => drop(tokio::spawn(echo(channel))),
        }
    }
}

async fn echo(channel: DataChannel) {
    while let Some(message) = channel.recv().await {
        if channel.send(message).await.is_err() {
            return;
        }
    }
}

/// Answers each message, which begins like those of [`text`], with its number and how old it was when it came.
async fn tell_ages(channel: DataChannel) {
    while let Some(message) = channel.recv().await {
        let bytes = message.into_bytes();
        let mut words = str::from_utf8(&bytes).unwrap_or_default().split(' ');
        let (Some(number), Some(Ok(sent))) = (words.next(), words.next().map(str::parse::<f64>)) else { continue };
        if channel.send(ChannelMessage::from(format!("{number} {:.3}", now() - sent))).await.is_err() {
            return;
        }
    }
}

async fn push(channel: DataChannel) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for number in 0_u64.. {
        ticks.tick().await;
        if channel.send(ChannelMessage::from(text(number))).await.is_err() {
            return;
        }
    }
}

async fn serve_socket(mut socket: WebSocket) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for number in 0_u64.. {
        ticks.tick().await;
        if socket.send(Message::text(text(number))).await.is_err() {
            return;
        }
    }
}

/// The number of a message and when it was sent.
fn text(number: u64) -> String {
    format!("{:<LENGTH$}", format!("{number} {:.3}", now()))
}

/// Milliseconds of the system's clock.
#[expect(clippy::disallowed_methods, reason = "the page compares its clock with that of the server")]
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}
