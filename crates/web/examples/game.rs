//! A game with players in browsers and native ones on one server: each has a dot and sees those of all, 30 times a second.
//!
//! ```text
//! cargo run --release -p festina-web --features axum --example game
//! cargo run --release -p festina-web --example game --features axum -- play 127.0.0.1:8081 SHA256:...
//! ```
//!
//! The first serves the page at http://127.0.0.1:8080 and native players at UDP port 8081; it prints the second, with its fingerprint. A native
//! player's dot moves in a circle. A position is two numbers from 0 to 1; the server sends everybody a line for each dot: its number and its position.
//! A state that was not delivered is replaced by the next.

use std::collections::BTreeMap;
use std::error::Error;
use std::f64::consts::TAU;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use festina::security::{Fingerprint, Identity};
use festina::{Association, ClientConfig, DEFAULT_SCTP_PORT, Duration, Endpoint, Message, ServerConfig};
use festina_web::{DataChannel, WebConfig, WebEndpoint};
use tokio::net::TcpListener;
use tokio::time::{Interval, MissedTickBehavior, interval};

const TICK: Duration = Duration::from_nanos(1_000_000_000 / 30);
/// The key of the state: an older one that is still on its way is abandoned.
const STATE: u64 = 1;

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => serve("127.0.0.1:8080".parse()?, "127.0.0.1:8081".parse()?).await,
        ["serve", pages, native] => serve(pages.parse()?, native.parse()?).await,
        ["play", server, fingerprint] => play(server.parse()?, fingerprint.parse()?).await,
        _ => Err("usage: game [serve PAGES NATIVE] | game play SERVER FINGERPRINT".into()),
    }
}

/// The dots by their numbers.
#[derive(Clone, Default)]
struct World(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: u64,
    dots: BTreeMap<u64, (f64, f64)>,
}

/// A player's dot, which goes with the player.
struct Dot {
    world: World,
    number: u64,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Dot {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.dots.insert(number, (0.5, 0.5));
        Dot { world: self.clone(), number }
    }

    /// The first line is the player's own number.
    fn text_for(&self, dot: &Dot) -> String {
        let lines =
            self.lock().dots.iter().map(|(number, (x, y))| format!("{number} {x:.4} {y:.4}\n")).collect::<String>();
        format!("{}\n{lines}", dot.number)
    }
}

impl Dot {
    /// Takes a player's position; others than from 0 to 1 are ignored.
    fn place(&self, text: &[u8]) {
        let mut numbers = str::from_utf8(text).unwrap_or_default().split(' ').map(str::parse::<f64>);
        if let (Some(Ok(x)), Some(Ok(y)), None) = (numbers.next(), numbers.next(), numbers.next())
            && (0.0..=1.0).contains(&x)
            && (0.0..=1.0).contains(&y)
        {
            self.world.lock().dots.insert(self.number, (x, y));
        }
    }
}

impl Drop for Dot {
    fn drop(&mut self) {
        self.world.lock().dots.remove(&self.number);
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// The newest state, in place of older ones.
fn state(text: String) -> Message {
    Message::new(text).unordered().replacing(STATE)
}

async fn serve(pages: SocketAddr, native: SocketAddr) -> Result<(), Fault> {
    let world = World::default();
    let listener = TcpListener::bind(pages).await?;
    let browsers = Arc::new(WebEndpoint::bind(SocketAddr::new(pages.ip(), 0), WebConfig::default()).await?);
    let identity = Identity::self_signed("game")?;
    let fingerprint = identity.fingerprint();
    let natives = Endpoint::server(native, ServerConfig::new(identity)).await?;
    println!("http://{}", listener.local_addr()?);
    println!("game play {} {fingerprint}", natives.local_addr());

    let (accepting, entering) = (natives.listen(DEFAULT_SCTP_PORT)?, world.clone());
    tokio::spawn(async move {
        while let Some(player) = accepting.accept().await {
            tokio::spawn(serve_native(player, entering.enter()));
        }
    });
    let router = Router::new()
        .route("/", get(|| async { Html(include_str!("game.html")) }))
        .merge(festina_web::signalling(browsers.clone()));
    let accepting = browsers.clone();
    tokio::spawn(async move {
        while let Some(peer) = accepting.accept().await {
            let dot = world.enter();
            tokio::spawn(async move {
                if let Some(channel) = peer.accept_channel().await {
                    serve_browser(channel, dot).await;
                }
            });
        }
    });
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served?,
        _ = tokio::signal::ctrl_c() => { tokio::join!(browsers.close(), natives.close()); }
    }
    Ok(())
}

async fn serve_browser(channel: DataChannel, dot: Dot) {
    let mut ticks = ticks();
    loop {
        tokio::select! {
            message = channel.recv() => match message {
                Some(message) => dot.place(&message.into_bytes()),
                None => return,
            },
            _ = ticks.tick() => {
                if channel.send_with(state(dot.world.text_for(&dot))).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn serve_native(player: Association, dot: Dot) {
    let mut ticks = ticks();
    loop {
        tokio::select! {
            message = player.recv() => match message {
                Ok(Some(message)) => dot.place(message.payload()),
                Ok(None) | Err(_) => return,
            },
            _ = ticks.tick() => {
                if player.send(state(dot.world.text_for(&dot))).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Moves a dot in a circle, and prints the number of dots once a second.
async fn play(server: SocketAddr, fingerprint: Fingerprint) -> Result<(), Fault> {
    let local: SocketAddr = if server.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
    let endpoint = Endpoint::client(local, ClientConfig::new(fingerprint)).await?;
    let association = endpoint.connect(server).await?;
    let (mut ticks, mut number, mut dots) = (ticks(), std::process::id(), 0);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                let angle = TAU * f64::from(number % 90) / 90.0;
                let (x, y) = (0.5 + 0.3 * angle.cos(), 0.5 + 0.3 * angle.sin());
                association.send(state(format!("{x:.4} {y:.4}"))).await?;
                if number % 30 == 0 {
                    println!("{dots} dots");
                }
                number = number.wrapping_add(1);
            }
            _ = tokio::signal::ctrl_c() => {
                association.shutdown().await?;
                return Ok(());
            }
            message = association.recv() => {
                let message = message?.ok_or("the server has ended the game")?;
                dots = message.payload().iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            }
        }
    }
}
