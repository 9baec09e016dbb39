//! A game server as engines write it: one thread, one loop, 60 frames a second, and nothing in it waits but for the next frame.
//!
//! ```text
//! cargo run --release -p festina --example frames
//! cargo run --release -p festina --example frames -- 600
//! ```
//!
//! Twenty clients on a second thread connect over loopback, encrypted: they know the server by the fingerprint of its key. Each sends its input in
//! every frame of its own; the server moves the players and sends each client where all of them are. A position that is not sent yet is replaced by a
//! newer one, and none is repeated once it is 100 ms old. Halfway through, the server ends all associations; the clients come back by themselves.
//! The number is that of the frames.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::thread;

use festina::blocking::{Association, Endpoint, Link, LinkEvent, LinkState};
use festina::security::{Identity, Trust};
use festina::{
    ClientConfig, ConnectOptions, DEFAULT_SCTP_PORT, Duration, Instant, Message, ServerConfig, TryRecvError, now,
};

const CLIENTS: usize = 20;
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
const FRAMES: u32 = 300;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Sleeps until the next frame, and counts the frames that began late.
struct Clock {
    next: Instant,
    late: u32,
}

impl Clock {
    fn new() -> Self {
        Self { next: now(), late: 0 }
    }

    fn wait_for_frame(&mut self) {
        self.next = self.next.saturating_add(FRAME);
        let left = self.next.saturating_duration_since(now());
        if left.is_zero() {
            self.late += 1;
            self.next = now();
        }
        thread::sleep(left);
    }
}

/// A client as the server sees it.
struct Player {
    association: Association,
    position: (i32, i32),
}

impl Player {
    /// Applies every input that has come. Returns their number, or `None` if the client is gone.
    fn read_inputs(&mut self) -> Option<u32> {
        let mut inputs = 0;
        loop {
            match self.association.try_recv() {
                Ok(Some(input)) => {
                    if let [x, y] = **input.payload() {
                        self.position.0 += i32::from(x) - 1;
                        self.position.1 += i32::from(y) - 1;
                    }
                    inputs += 1;
                }
                Err(TryRecvError::Empty) => return Some(inputs),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

/// Result of a run.
#[derive(Debug)]
struct Summary {
    players_most: usize,
    inputs: u32,
    late_frames: u32,
    states_per_client: Vec<u32>,
    comebacks: u32,
}

/// The server's loop.
fn serve(server: &Endpoint, frames: u32) -> Result<(usize, u32, u32)> {
    let listener = server.listen(DEFAULT_SCTP_PORT)?;
    let mut players: BTreeMap<u64, Player> = BTreeMap::new();
    let (mut clock, mut most, mut inputs) = (Clock::new(), 0, 0);
    for frame in 0..frames {
        if frame == frames / 2 {
            players.values().for_each(|player| player.association.abort("the next round begins"));
        }
        while let Some(association) = listener.try_accept() {
            players.insert(association.id(), Player { association, position: (0, 0) });
        }
        players.retain(|_, player| player.read_inputs().map(|count| inputs += count).is_some());
        most = most.max(players.len());
        let mut state = String::new();
        for (id, player) in &players {
            state.push_str(&format!("{id} {} {}\n", player.position.0, player.position.1));
        }
        for player in players.values() {
            let lifetime = Duration::from_millis(100);
            let message = Message::new(state.clone()).unordered().with_lifetime(lifetime).replacing(1);
            // A client that has just left takes no more.
            let _left = player.association.try_send(message);
        }
        clock.wait_for_frame();
    }
    Ok((most, inputs, clock.late))
}

/// The clients' loop: connects them all at once, and plays until the server ends.
fn play(server: SocketAddr, trust: Trust, frames: u32) -> Result<(Vec<u32>, u32)> {
    let endpoint = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::new(trust))?;
    let mut links: Vec<Link> = (0..CLIENTS).map(|_| endpoint.link(server, ConnectOptions::default())).collect();
    let (mut states, mut downs) = (vec![0; CLIENTS], 0);
    let mut clock = Clock::new();
    for frame in 0..frames {
        for (link, states) in links.iter_mut().zip(&mut states) {
            for event in link.update() {
                match event {
                    LinkEvent::Message(_) => *states += 1,
                    LinkEvent::Down { .. } => downs += 1,
                    // An input of a previous session is worth nothing in the next one.
                    _ => {}
                }
            }
            let direction = if frame % 2 == 0 { vec![2_u8, 1] } else { vec![1, 2] };
            // While the link is not up, no input is taken.
            let _down = link.send(direction);
        }
        clock.wait_for_frame();
    }
    links.iter_mut().for_each(Link::end);
    while links.iter().any(|link| link.state() != LinkState::Ended) {
        links.iter_mut().for_each(|link| drop(link.update()));
        clock.wait_for_frame();
    }
    Ok((states, downs))
}

fn run(frames: u32) -> Result<Summary> {
    let identity = Identity::self_signed("game.example")?;
    let trust = Trust::fingerprints([identity.fingerprint()]);
    let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::new(identity))?;
    let address = server.local_addr();
    let clients = thread::spawn(move || play(address, trust, frames));
    let (players_most, inputs, late_frames) = serve(&server, frames)?;
    let (states_per_client, comebacks) = clients.join().map_err(|_| "the clients' thread panicked")??;
    server.close(Duration::from_secs(5))?;
    Ok(Summary { players_most, inputs, late_frames, states_per_client, comebacks })
}

fn main() -> Result<()> {
    let frames = std::env::args().nth(1).map_or(Ok(FRAMES), |frames| frames.parse())?;
    let Summary { players_most, inputs, late_frames, states_per_client, comebacks } = run(frames)?;
    println!("{players_most} players, {frames} frames ({late_frames} began late), {inputs} inputs");
    let least = states_per_client.iter().min().unwrap_or(&0);
    let most = states_per_client.iter().max().unwrap_or(&0);
    println!("states received per client: {least} to {most}; {comebacks} times a client had to connect again");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_clients_play_for_two_seconds() {
        let summary = run(120).unwrap();
        assert_eq!(summary.players_most, CLIENTS, "{summary:?}");
        assert!(summary.inputs >= 20 * 20, "{summary:?}");
        assert!(summary.states_per_client.iter().all(|states| *states >= 10), "{summary:?}");
        assert!(summary.comebacks >= 10, "{summary:?}");
    }

    #[test]
    fn the_text_has_none_of_the_word() {
        let word = ["as", "ync"].concat();
        assert!(!include_str!("frames.rs").contains(&word));
    }
}
