//! Thin streams over two networks at once, with real sockets: Festina beside the kernel's MPTCP and TCP.
//!
//! - `networks`: two hosts that two emulated networks join, and the kernel's settings there
//! - `carriers`: a stream of messages over each contender's sockets
//!
//! Every contender has hosts and networks of its own, with the same parameters and the same seeds, and all run at the same time. So load on this
//! machine affects all of them.

mod carriers;
mod networks;

use std::sync::Arc;
use std::time::Duration;

use festina::PathPolicy;
use festina_units::Probability;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

pub use carriers::runtime;
use carriers::{Book, connect, drive};
use networks::Networks;
pub use networks::{Count, OUTAGE, has_mptcp};

/// The reason why a measurement failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What carries the messages. All start on the fast network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The kernel's TCP over the fast network alone.
    Tcp,
    /// The kernel's MPTCP with a subflow on each network.
    Mptcp {
        /// A minimum RTO of 50 ms, linear timeouts of thin streams, and a subflow that counts as stale after one timeout instead of four.
        is_tuned: bool,
        /// Whether the subflow on the slow network has the backup flag.
        is_backup: bool,
    },
    /// Festina without encryption.
    Festina(PathPolicy),
}

impl Contender {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Tcp,
        Self::Mptcp { is_tuned: false, is_backup: false },
        Self::Mptcp { is_tuned: false, is_backup: true },
        Self::Mptcp { is_tuned: true, is_backup: false },
        Self::Mptcp { is_tuned: true, is_backup: true },
        Self::Festina(PathPolicy::Repairs),
        Self::Festina(PathPolicy::Copies),
    ];

    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Tcp => "tcp, fast network alone".to_owned(),
            Self::Mptcp { is_tuned, is_backup } => {
                format!("mptcp{}{}", if is_tuned { ", tuned" } else { "" }, if is_backup { ", backup" } else { "" })
            }
            Self::Festina(policy) => format!("festina, {}", policy.name()),
        }
    }
}

/// The state of both networks.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Packets lost independently on each network and in each direction.
    pub loss: Probability,
    /// Whether the fast network fails for 3 s again and again. It loses nothing else then.
    pub has_outages: bool,
}

/// The streams of every contender.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Connections at the same time.
    pub streams: u32,
    /// Messages of each.
    pub messages: u32,
    /// The time from one message of a stream to the next.
    pub interval: Duration,
}

/// The result of a contender.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub contender: Contender,
    /// From write to read, in ascending order.
    pub delays: Vec<Duration>,
    /// Messages that did not arrive within a minute after the last was sent.
    pub missing: usize,
    /// Messages that arrived more than once.
    pub twice: usize,
    /// Packets of both ends, on the fast and on the slow network.
    pub sent: [Count; 2],
    /// How late the emulator delivered 99 of 100 packets at most.
    pub lateness: Duration,
}

impl Row {
    /// The delay that this share of a thousand messages did not exceed, in milliseconds.
    pub fn delay_ms(&self, per_mille: usize) -> f64 {
        let rank = (self.delays.len() * per_mille).div_ceil(1_000).max(1);
        self.delays.get(rank - 1).map_or(f64::NAN, |delay| delay.as_secs_f64() * 1e3)
    }
}

/// Measures all contenders at the same time. `seed` determines the losses.
///
/// # Errors
/// Without root's privileges, if the kernel has no MPTCP, or if a connection fails.
pub async fn measure(scenario: Scenario, scale: Scale, seed: u64) -> Result<Vec<Row>, Failure> {
    let mut running = JoinSet::new();
    let ready = Arc::new(Barrier::new(Contender::ALL.len()));
    for contender in Contender::ALL {
        let networks = Arc::new(Networks::create(contender, scenario, seed)?);
        running.spawn(run(contender, networks, scale, Arc::clone(&ready)));
    }
    let mut ended = Vec::new();
    while let Some(one) = running.join_next().await {
        ended.push(one??);
    }
    // Networks that are removed earlier would disturb the others.
    let mut rows: Vec<Row> = ended.into_iter().map(|(row, _)| row).collect();
    rows.sort_by_key(|row| Contender::ALL.iter().position(|contender| *contender == row.contender));
    Ok(rows)
}

async fn run(
    contender: Contender,
    networks: Arc<Networks>,
    scale: Scale,
    ready: Arc<Barrier>,
) -> Result<(Row, Arc<Networks>), Failure> {
    let book = Arc::new(Book::default());
    let senders = connect(contender, &networks, scale, &book).await?;
    ready.wait().await;
    let before = networks.sent();
    drive(senders, scale, &book).await?;
    let after = networks.sent();
    let (delays, missing, twice) = book.close(scale);
    let sent = [0, 1].map(|network| after[network] - before[network]);
    let row = Row { contender, delays, missing, twice, sent, lateness: networks.lateness() };
    Ok((row, networks))
}
