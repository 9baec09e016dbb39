//! The running relay: inputs, policy, spool, and two associations with each collector. One of the two carries the unrepeated lines, so that their
//! losses and delays never hold up an important line.
//!
//! A single task handles lines, messages of collectors and a timer in turn. After each turn it sends as much as there is room for.

mod activation;
mod channel;
mod copies;
mod datagrams;
mod engine;
mod following;
mod fresh;
mod gathering;
mod input;
mod intake;
mod queue;
mod streams;
mod way;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use festina::{Association, BindError, Duration, Endpoint};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::clock;
use crate::config::{Input, InputKind, RelayConfig};
use crate::descriptors;
use crate::disk::RealDisk;
use crate::notice::Notice;
use crate::policy::Policy;
use crate::positions::{self, Positions};
use crate::sender::{Sender, SenderLimits, renew_identity};
use crate::serve::{self, Pages};
use crate::snapshot::RelaySnapshot;
use crate::spool::UNWRITTEN_PEAK_BYTES;
use crate::state_lock::StateLock;
use crate::transport;
use engine::Engine;
use following::{Follower, Reports};
use input::{OpenInput, Reading, Resumed};
use intake::{InputCounters, Intake, StopInputs};
use streams::Connections;
use way::Way;

/// Disk space reserved for lines that were taken just before the disk became full, and for partly filled blocks.
const RESERVE_BYTES: usize = 2 * UNWRITTEN_PEAK_BYTES;

/// Why a relay does not start.
#[derive(Debug, Error)]
pub enum RelayStartError {
    /// The spool cannot be opened, or another process uses it.
    #[error("cannot open the spool in {}", path.display())]
    Spool {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An input cannot be opened.
    #[error("cannot open the input {what}")]
    Input {
        /// The input.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The address of the counters is in use, or is not an address of this machine.
    #[error("cannot serve the counters at {address}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The socket for the collector cannot be opened.
    #[error("cannot open a socket for the collector")]
    Socket(#[from] BindError),
    /// The own key, or the certificates of collectors, cannot be used.
    #[error(transparent)]
    Key(#[from] festina::security::StoredError),
    /// The system provides no random numbers.
    #[error("the system provides no random numbers")]
    Random,
}

/// A running relay. Dropping it stops it at once; [`stop`](Self::stop) shuts it down gracefully.
pub struct RunningRelay {
    stop: Option<oneshot::Sender<Duration>>,
    stop_inputs: StopInputs,
    task: JoinHandle<()>,
    policies: mpsc::Sender<Policy>,
    snapshot: Arc<Mutex<RelaySnapshot>>,
    inputs: Vec<Option<SocketAddr>>,
    metrics: Option<SocketAddr>,
}

impl RunningRelay {
    /// Starts a relay.
    ///
    /// # Errors
    /// If the spool, an input or a socket cannot be opened. A collector that does not answer is no error: lines are spooled.
    pub async fn start(config: RelayConfig, notice: Notice) -> Result<Self, RelayStartError> {
        let spool_failed = |source| RelayStartError::Spool { path: config.state.clone(), source };
        let lock = StateLock::take(&config.state).await.map_err(spool_failed)?;
        // Everything that may be in use is opened before the spool, which each start changes.
        let (connections_in, connections) = mpsc::channel(1);
        let (fresh_connections_in, fresh_connections) = mpsc::channel(1);
        let ways = ways(&config, &connections_in, &fresh_connections_in, &notice).await?;
        let (opened, inputs) = open_inputs(&config, &notice).await?;
        let snapshot = Arc::new(Mutex::new(RelaySnapshot::default()));
        let metrics = match config.metrics {
            Some(address) => {
                let bound = serve::bind(address).await;
                Some(bound.map_err(|source| RelayStartError::Metrics { address, source })?)
            }
            None => None,
        };

        let mut sender = open_spool(&config)?;
        if sender.damaged() > 0 {
            notice(&format!(
                "{} spooled lines are missing: files were removed, emptied or truncated; missing lines will count as lost",
                sender.damaged()
            ));
        }
        sender.keep_reserve(RESERVE_BYTES);
        let counters = Arc::new(InputCounters::default());
        let (intake, taking) = Intake::new(config.message_bytes_max, Arc::clone(&counters));
        let (positions, resumed) = resume_files(&config, &sender, &notice, &counters).map_err(spool_failed)?;
        let mut resumed = resumed.into_iter();
        let limit = descriptors::raise_limit();
        let places = descriptors::connections_max(limit, config.inputs.len(), resumed.len());
        let reading = Reading { intake, notice: &notice, connections: Connections::new(places) };
        for (input, opened) in config.inputs.iter().zip(opened) {
            let resumed = if matches!(input.kind, InputKind::File(_)) { resumed.next() } else { None };
            let started = reading.start(opened, input.lines_per_second_max, resumed);
            started.map_err(|source| RelayStartError::Input { what: name_of(&input.kind), source })?;
        }
        drop(reading);
        for way in ways {
            tokio::spawn(way.connect());
        }
        let served = metrics.as_ref().map(|metrics| metrics.address);
        metrics.into_iter().for_each(|metrics| serve::serve(metrics, Arc::new(RelayPages(Arc::clone(&snapshot)))));
        let (stop_in, stop) = oneshot::channel();
        let (policies_in, policies) = mpsc::channel(1);
        let engine = Engine::new(sender, positions, config.policy, counters, Arc::clone(&snapshot), notice);
        let intake::Taking { lines, files, queue, stop: stop_inputs } = taking;
        let sources = engine::Sources { lines, files, queue, connections, fresh_connections, policies, stop };
        let running = engine.run(sources, config.spool.sync_every);
        let task = tokio::spawn(async move {
            running.await;
            drop(lock);
        });
        Ok(Self { stop: Some(stop_in), stop_inputs, task, policies: policies_in, snapshot, inputs, metrics: served })
    }

    /// Returns the addresses on which inputs listen, in the order of the file; `None` for inputs without one.
    pub fn inputs(&self) -> &[Option<SocketAddr>] {
        &self.inputs
    }

    /// Returns the address of the counters.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Returns the latest counters.
    pub fn snapshot(&self) -> RelaySnapshot {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Applies a new policy to lines received from now on.
    pub async fn reload(&self, policy: Policy) {
        // A stopped relay needs no policy.
        let _ = self.policies.send(policy).await;
    }

    /// Stops taking lines, waits up to `patience` for lines under way, and keeps the rest in the spool. Returns the final counters.
    pub async fn stop(mut self, patience: Duration) -> RelaySnapshot {
        self.stop_inputs.stop().await;
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(patience);
        }
        let _ = (&mut self.task).await;
        self.snapshot()
    }
}

/// Gives the spool of a stopped relay a new identity, as [`renew_identity`] does.
///
/// # Errors
/// If a relay runs with this spool, if it has no readable identity, or if a new one cannot be written.
pub fn take_new_identity(config: &RelayConfig) -> Result<(), RelayStartError> {
    let id = random_id()?;
    let renewed = StateLock::try_take(&config.state).and_then(|_lock| renew_identity(&RealDisk, &config.state, id));
    renewed.map_err(|source| RelayStartError::Spool { path: config.state.clone(), source })
}

fn random_id() -> Result<[u8; 16], RelayStartError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| RelayStartError::Random)?;
    Ok(id)
}

/// Opens the spool, which counts this start.
fn open_spool(config: &RelayConfig) -> Result<Sender<RealDisk>, RelayStartError> {
    let limits = SenderLimits {
        bytes_max: config.spool.bytes_max,
        age_max: config.spool.age_max,
        window_lines_max: SenderLimits::WINDOW_LINES_MAX,
    };
    Sender::open(&RealDisk, &config.state, limits, &config.routing(), random_id()?, clock::steady_us())
        .map_err(|source| RelayStartError::Spool { path: config.state.clone(), source })
}

/// Opens the sockets of all inputs. Returns their addresses, too.
async fn open_inputs(
    config: &RelayConfig,
    notice: &Notice,
) -> Result<(Vec<OpenInput>, Vec<Option<SocketAddr>>), RelayStartError> {
    let (mut opened, mut addresses) = (Vec::new(), Vec::new());
    for Input { kind, .. } in &config.inputs {
        let input = OpenInput::new(kind, notice).await;
        let (input, address) = input.map_err(|source| RelayStartError::Input { what: name_of(kind), source })?;
        opened.push(input);
        addresses.push(address);
    }
    Ok((opened, addresses))
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct RelayPages(Arc<Mutex<RelaySnapshot>>);

impl Pages for RelayPages {
    fn metrics(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).prometheus()
    }

    fn status(&self) -> String {
        serde_json::to_string(&*self.0.lock().unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }
}

/// Opens the files to follow, each at its stored position.
fn resume_files(
    config: &RelayConfig,
    sender: &Sender<RealDisk>,
    notice: &Notice,
    counters: &InputCounters,
) -> io::Result<(Positions<RealDisk>, Vec<Resumed>)> {
    let paths: Vec<&PathBuf> = config
        .inputs
        .iter()
        .filter_map(|input| if let InputKind::File(path) = &input.kind { Some(path) } else { None })
        .collect();
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let positions = Positions::open(&RealDisk, &config.state, &names, positions::this_boot())?;
    let mut resumed = Vec::new();
    for (index, path) in paths.into_iter().enumerate() {
        let (bytes_max, now_us) = (config.message_bytes_max, clock::steady_us());
        let reports = Reports { notice: notice.clone(), losses: Arc::clone(&counters.file_losses) };
        let follower = match positions.get(index) {
            Some(entry) => {
                let spooled = sender.lines_from(&entry.numbers, &input::source_of(path))?;
                Follower::resume(path, bytes_max, &entry.position, spooled, reports, now_us)
            }
            None => Follower::new(path, bytes_max, reports, now_us),
        };
        resumed.push(Resumed { index, follower });
    }
    Ok((positions, resumed))
}

fn name_of(kind: &InputKind) -> String {
    match kind {
        InputKind::Unix(path, _) => format!("unix {}", path.display()),
        InputKind::File(path) => format!("file {}", path.display()),
        InputKind::Udp(address, _) => format!("udp {address}"),
        InputKind::Tcp(address, _) => format!("tcp {address}"),
        InputKind::Tls(address, ..) => format!("tls {address}"),
        InputKind::Stdin => "stdin".to_owned(),
    }
}

/// The two associations with each collector: one for important lines and one for fresh ones.
async fn ways(
    config: &RelayConfig,
    important_in: &mpsc::Sender<(usize, Association)>,
    fresh_in: &mpsc::Sender<(usize, Association)>,
    notice: &Notice,
) -> Result<Vec<Way>, RelayStartError> {
    let mut ways = Vec::new();
    for (index, &collector) in config.collectors.iter().enumerate() {
        let any = if collector.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let any = any.parse().expect("an address");
        let client = config.security.client(&config.state, collector, notice)?;
        let endpoint = Endpoint::client(any, client.protect(transport::for_important(config.redundancy))).await?;
        let (connections, notice) = (important_in.clone(), notice.clone());
        ways.push(Way { index, collector, client: client.clone(), endpoint, connections, notice });
        let endpoint = Endpoint::client(any, client.protect(transport::for_fresh())).await?;
        // The association for important lines reports everything about the collector.
        let silent: Notice = Arc::new(|_: &str| {});
        ways.push(Way { index, collector, client, endpoint, connections: fresh_in.clone(), notice: silent });
    }
    Ok(ways)
}
