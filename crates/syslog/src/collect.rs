//! The collector at work: associations of relays, and a thread that writes.
//!
//! The tasks that receive put lines on a desk. The thread takes all that is there, writes it, waits for the disk, and answers; meanwhile the
//! desk fills again: the busier it is, the more lines share one wait, and a lone line waits for none but its own. When the desk is full
//! the transport's buffers fill, and then relays keep their lines.

mod desk;
mod outlet;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use festina::{Association, BindError, Duration, Endpoint, ListenError, Listener};
use thiserror::Error;

use crate::collector::{self, CollectorCounters, FileOutput, Peer, Store};
use crate::config::{CollectorConfig, OutputPlace};
use crate::disk::{Disk as _, RealDisk};
use crate::relay::Notice;
use crate::serve::{self, Pages};
use crate::snapshot::CollectorSnapshot;
use crate::tls::TlsError;
use crate::transport;
use desk::Desk;
use outlet::Outlet;

/// Messages of one association taken at once.
const MESSAGES_AT_ONCE: usize = 64;

/// How long the writer waits after the disk failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Why a collector does not start.
#[derive(Debug, Error)]
pub enum CollectorStartError {
    /// What it remembers cannot be read, or its files not be prepared.
    #[error("cannot open what the collector remembers in {}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The address for relays.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The SCTP port is taken: impossible on an endpoint of its own.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The address of the counters is taken, or not ours.
    #[error("cannot serve the counters at {address}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Certificates or keys of an output cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No thread can be started.
    #[error("cannot start the thread that writes")]
    Thread(#[source] io::Error),
}

/// A collector at work. Dropping it stops it at once; [`stop`](Self::stop) is kinder.
pub struct RunningCollector {
    endpoint: Endpoint,
    desk: Arc<Desk>,
    writer: Option<std::thread::JoinHandle<()>>,
    accepting: tokio::task::JoinHandle<()>,
    snapshot: Arc<Mutex<CollectorSnapshot>>,
    metrics: Option<SocketAddr>,
}

impl RunningCollector {
    /// Starts a collector.
    ///
    /// # Errors
    /// If its memory, its files or a socket cannot be opened.
    pub async fn start(config: CollectorConfig, notice: Notice) -> Result<Self, CollectorStartError> {
        let mut files = Vec::new();
        let mut outlets = Vec::new();
        for output in config.outputs {
            match output.place {
                OutputPlace::File { path, rotate_bytes } => {
                    files.push(FileOutput { template: path, format: output.format, rotate_bytes });
                }
                OutputPlace::Stdout => outlets.push(Outlet::stdout(output.format)),
                OutputPlace::Forward(address, tls) => {
                    outlets.push(Outlet::forward(address, tls.as_ref(), output.format, notice.clone())?);
                }
            }
        }
        let state = config.state;
        let (collector, store) = collector::open(RealDisk, &state, files.clone())
            .map_err(|source| CollectorStartError::State { path: state.clone(), source })?;
        let snapshot = Arc::new(Mutex::new(CollectorSnapshot::default()));
        let metrics = match config.metrics {
            Some(address) => {
                let pages: Arc<dyn Pages> = Arc::new(CollectorPages(Arc::clone(&snapshot)));
                let served = serve::serve(address, pages).await;
                Some(served.map_err(|source| CollectorStartError::Metrics { address, source })?)
            }
            None => None,
        };
        let endpoint = Endpoint::bind(config.listen, transport::config()).await?;
        let listener = endpoint.listen(transport::PORT)?;
        let desk = Arc::new(Desk::new(collector, outlets, notice.clone()));
        let writer = Writer {
            desk: Arc::clone(&desk),
            store,
            state,
            files,
            snapshot: Arc::clone(&snapshot),
            before: CollectorCounters::default(),
            failures: 0,
            notice,
        };
        let writer = std::thread::Builder::new().name("syslog-writer".to_owned()).spawn(move || writer.run());
        let writer = Some(writer.map_err(CollectorStartError::Thread)?);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&desk)));
        Ok(Self { endpoint, desk, writer, accepting, snapshot, metrics })
    }

    /// The address for relays.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Where the counters are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The counters as they were a moment ago.
    pub fn snapshot(&self) -> CollectorSnapshot {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Commits what has come, answers, and ends all associations in good order.
    pub async fn stop(mut self) -> CollectorSnapshot {
        self.accepting.abort();
        self.desk.stop();
        if let Some(writer) = self.writer.take() {
            let _ = tokio::task::spawn_blocking(move || writer.join()).await;
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.endpoint.close()).await;
        self.snapshot()
    }
}

impl Drop for RunningCollector {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct CollectorPages(Arc<Mutex<CollectorSnapshot>>);

impl Pages for CollectorPages {
    fn metrics(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).prometheus()
    }

    fn status(&self) -> String {
        serde_json::to_string(&*self.0.lock().unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }
}

async fn accept(listener: Listener, desk: Arc<Desk>) {
    let mut peers = 0;
    while let Some(association) = listener.accept().await {
        peers += 1;
        tokio::spawn(receive(Peer(peers), association, Arc::clone(&desk)));
    }
}

async fn receive(peer: Peer, association: Association, desk: Arc<Desk>) {
    desk.wait_for_room().await;
    desk.begin(peer, &association);
    let mut messages = Vec::new();
    while association.recv_many(&mut messages, MESSAGES_AT_ONCE).await.is_ok() {
        desk.wait_for_room().await;
        if !desk.take(peer, messages.drain(..).map(|message| message.payload)) {
            return;
        }
    }
    desk.end(peer);
}

/// The thread that writes.
struct Writer {
    desk: Arc<Desk>,
    store: Store<RealDisk>,
    state: PathBuf,
    files: Vec<FileOutput>,
    snapshot: Arc<Mutex<CollectorSnapshot>>,
    /// What was counted before the disk failed.
    before: CollectorCounters,
    failures: u64,
    notice: Notice,
}

impl Writer {
    fn run(mut self) {
        while let Some((commit, held)) = self.desk.wait_for_work() {
            match self.store.commit(commit) {
                Ok(answers) => {
                    self.desk.answer(answers);
                    held.into_iter().for_each(outlet::Held::release);
                }
                Err(error) => self.begin_again(&error),
            }
            self.publish();
        }
    }

    /// The disk has failed: nothing in memory counts. Relays will send again what was not acknowledged.
    fn begin_again(&mut self, error: &io::Error) {
        (self.notice)(&format!(
            "the output cannot be written: {error}; relays keep their lines, and it is tried again"
        ));
        self.desk.close();
        self.failures += 1;
        self.before.add(self.store.counters());
        loop {
            std::thread::sleep(PAUSE_AFTER_FAILURE);
            // Not even that there is a directory is certain now.
            if let Ok((collector, store)) = RealDisk
                .create_directory(&self.state)
                .and_then(|()| collector::open(RealDisk, &self.state, self.files.clone()))
            {
                self.store = store;
                self.desk.open(collector);
                (self.notice)("the output can be written again");
                return;
            }
        }
    }

    fn publish(&self) {
        let mut counters = self.before;
        counters.add(self.store.counters());
        let snapshot = CollectorSnapshot {
            reliable: counters.reliable,
            fresh: counters.fresh,
            duplicates: counters.duplicates,
            commits: counters.commits,
            relays: self.desk.relays(),
            failures: self.failures,
        };
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}
