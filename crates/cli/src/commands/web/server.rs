//! The server of the page: data channels, a WebSocket and the files.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::header::CONTENT_TYPE;
use axum::response::Html;
use axum::routing::{any, get};
use axum::serve::ListenerExt as _;
use festina_web::{ChannelMessage, DataChannel, Peer, WebEndpoint};
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Emulated, WebArgs};
use crate::commands::GOODBYE_MAX;

const INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of a message.
const LENGTH: usize = 100;

/// The server.
pub(super) struct Server {
    listener: TcpListener,
    endpoint: Arc<WebEndpoint>,
    pages: Router,
}

impl Server {
    pub(super) fn new(arguments: &WebArgs, listener: TcpListener, endpoint: WebEndpoint, emulated: Emulated) -> Self {
        let endpoint = Arc::new(endpoint);
        let network = serde_json::json!({
            "roundTripMs": 2e3 * arguments.delay.as_secs_f64(),
            "loss": arguments.loss.to_string(),
            "burstMs": arguments.burst.map(|burst| 1e3 * burst.as_secs_f64()),
            "datagrams": emulated != Emulated::Nothing,
            "connections": emulated == Emulated::Everything,
        });
        let network = network.to_string();
        let pages = Router::new()
            .route("/", get(|| async { Html(include_str!("page.html")) }))
            .route("/network", get(|| async move { ([(CONTENT_TYPE, "application/json")], network) }))
            .route("/socket", any(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(serve_socket) }))
            .merge(festina_web::signalling(endpoint.clone()));
        Self { listener, endpoint, pages }
    }

    /// Serves until `end`, then closes all associations.
    pub(super) async fn serve(self, end: impl Future<Output = ()>) -> Result<()> {
        let Self { listener, endpoint, pages } = self;
        let browsers = endpoint.clone();
        tokio::spawn(async move {
            while let Some(peer) = browsers.accept().await {
                tokio::spawn(serve_peer(peer));
            }
        });
        // With Nagle's algorithm messages of the WebSocket would wait for acknowledgements.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        tokio::select! {
            served = async { axum::serve(listener, pages).await } => served?,
            () = end => drop(timeout(GOODBYE_MAX, endpoint.close()).await),
        }
        Ok(())
    }
}

async fn serve_peer(peer: Peer) {
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
    let mut ticks = ticks();
    for number in 0_u64.. {
        ticks.tick().await;
        if channel.send(ChannelMessage::from(text(number))).await.is_err() {
            return;
        }
    }
}

async fn serve_socket(mut socket: WebSocket) {
    let mut ticks = ticks();
    let mut number = 0_u64;
    loop {
        tokio::select! {
            // Receiving answers pings and the browser's goodbye.
            received = socket.recv() => match received {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            _ = ticks.tick() => {
                if socket.send(Message::text(text(number))).await.is_err() {
                    return;
                }
                number += 1;
            }
        }
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
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
