//! The running collector: associations of relays, and a writer thread.
//!
//! The receiving tasks put lines into a queue. The writer thread takes the whole queue, writes it, waits for the disk, and answers, while
//! the queue fills again. The busier it is, the more lines share one wait, and a lone line only waits for its own sync. When the queue is
//! full, the transport's buffers fill, and then relays keep their lines. The same happens while Kafka is unavailable.

mod associations;
mod commit_queue;
mod compressing;
#[cfg(feature = "kafka")]
mod kafka;
mod outlet;
mod pipe;
mod reception;
mod recovery;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use festina::{BindError, Duration, Endpoint, ListenError};
use thiserror::Error;

use crate::collector::{self, BrokerOutput, Collector, CollectorCounters, FileOutput, Store};
use crate::config::{CollectorConfig, OutputConfig, OutputPlace};
use crate::descriptors;
use crate::disk::{Disk as _, RealDisk};
use crate::kafka_topic::KafkaTopic;
use crate::notice::Notice;
use crate::render::Format;
use crate::serve::{self, Pages};
use crate::snapshot::CollectorSnapshot;
use crate::state_lock::StateLock;
use crate::tls::TlsError;
use crate::transport;
use commit_queue::{CommitQueue, Work};
use compressing::Compressing;
use outlet::Outlet;
use reception::Reception;
use recovery::Room;

/// Pause of the writer after the disk failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Why a collector does not start.
#[derive(Debug, Error)]
pub enum CollectorStartError {
    /// The collector's state cannot be read or is in use, or its files cannot be prepared.
    #[error("cannot open the collector's state in {}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// The system's error.
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
        /// The system's error.
        source: io::Error,
    },
    /// Certificates or keys of an output cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The own key, or the certificates of relays, cannot be used.
    #[error(transparent)]
    Key(#[from] festina::security::StoredError),
    /// This program was built without Kafka.
    #[error("{0}")]
    Kafka(String),
    /// No thread can be started.
    #[error("cannot start the writer thread")]
    Thread(#[source] io::Error),
}

/// A collector at work. Dropping it stops it at once; [`stop`](Self::stop) is kinder.
pub struct RunningCollector {
    endpoint: Endpoint,
    queue: Arc<CommitQueue>,
    writer: Option<std::thread::JoinHandle<()>>,
    accepting: tokio::task::JoinHandle<()>,
    counters: Arc<Counters>,
    metrics: Option<SocketAddr>,
    stops: Arc<AtomicBool>,
}

/// The outputs that take part in each commit.
struct Outputs {
    state: PathBuf,
    files: Vec<FileOutput>,
    kafka: Option<(KafkaTopic, Format)>,
    /// The collector ends: nothing is waited for any more.
    stops: Arc<AtomicBool>,
    notice: Notice,
}

impl Outputs {
    fn open(&self) -> io::Result<(Collector, Store<RealDisk>)> {
        // After a failure even the directory may be missing.
        RealDisk.create_directory(&self.state)?;
        let broker = self.kafka.as_ref().map(|(topic, format)| self.broker(topic, *format)).transpose()?;
        collector::open_with_broker(RealDisk, &self.state, self.files.clone(), broker)
    }

    #[cfg(feature = "kafka")]
    fn broker(&self, topic: &KafkaTopic, format: Format) -> io::Result<BrokerOutput> {
        let mut new_name = [0; 16];
        getrandom::fill(&mut new_name).map_err(io::Error::other)?;
        let kafka = kafka::Kafka::new(topic.clone(), Arc::clone(&self.stops), self.notice.clone());
        Ok(BrokerOutput { broker: Box::new(kafka), format, new_name })
    }

    #[cfg(not(feature = "kafka"))]
    fn broker(&self, topic: &KafkaTopic, _: Format) -> io::Result<BrokerOutput> {
        Err(io::Error::other(topic.check().err().unwrap_or_default()))
    }

    /// What of these has a part in commits, and the others.
    fn new(config: CollectorConfig, notice: &Notice) -> Result<(Self, Vec<Outlet>), CollectorStartError> {
        let stops = Arc::new(AtomicBool::new(false));
        let mut outlets = Vec::new();
        let (mut files, mut kafka) = (Vec::new(), None);
        for OutputConfig { place, format } in config.outputs {
            match place {
                OutputPlace::File { path, rotate_bytes, compression, new_files } => {
                    files.push(FileOutput { template: path, format, rotate_bytes, compression, new_files });
                }
                OutputPlace::Stdout => outlets.push(Outlet::stdout(format, notice.clone())),
                OutputPlace::Forward(address, tls) => {
                    let stops = Arc::clone(&stops);
                    outlets.push(Outlet::forward(address, tls.as_ref(), format, notice.clone(), stops)?);
                }
                OutputPlace::Kafka(topic) => {
                    topic.check().map_err(CollectorStartError::Kafka)?;
                    kafka = Some((topic, format));
                }
            }
        }
        Ok((Self { state: config.state, files, kafka, stops, notice: notice.clone() }, outlets))
    }
}

impl RunningCollector {
    /// Starts a collector.
    ///
    /// # Errors
    /// If its memory, its files or a socket cannot be opened.
    pub async fn start(config: CollectorConfig, notice: Notice) -> Result<Self, CollectorStartError> {
        let (listen, metrics, allow) = (config.listen, config.metrics, config.allow.clone());
        let (security, state) = (config.security.clone(), config.state.clone());
        let state_failed = |source| CollectorStartError::State { path: state.clone(), source };
        let lock = StateLock::take(&state).await.map_err(state_failed)?;
        // Addresses that may be in use come before the files, which each start changes; those come before connections, which have one descriptor.
        let metrics = match metrics {
            Some(address) => {
                let bound = serve::bind(address).await;
                Some(bound.map_err(|source| CollectorStartError::Metrics { address, source })?)
            }
            None => None,
        };
        let protected = security.server(transport::settings(), &state, &notice)?;
        let endpoint = Endpoint::server(listen, protected).await?;
        let reception = Reception::new();
        let listener = endpoint.listen_with(transport::PORT, reception.options(allow))?;
        descriptors::raise_limit();
        let (outputs, outlets) = Outputs::new(config, &notice)?;
        let (collector, store) = match outputs.open() {
            Ok((collector, store)) => (Some(collector), Some(store)),
            // Kafka first has to report its last commit; the writer thread waits for it.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => (None, None),
            Err(source) => return Err(CollectorStartError::State { path: outputs.state, source }),
        };
        let queue = Arc::new(CommitQueue::new(collector, outlets, notice.clone()));
        let written = Mutex::new(CollectorSnapshot::default());
        let counters = Arc::new(Counters { written, reception: Arc::clone(&reception), queue: Arc::clone(&queue) });
        let served = metrics.as_ref().map(|metrics| metrics.address);
        metrics.into_iter().for_each(|metrics| serve::serve(metrics, Arc::<Counters>::clone(&counters)));
        let stops = Arc::clone(&outputs.stops);
        let writer = Writer {
            queue: Arc::clone(&queue),
            store,
            compressing: Compressing::start(Arc::clone(&stops), notice.clone()).map_err(CollectorStartError::Thread)?,
            outputs,
            counters: Arc::clone(&counters),
            before: CollectorCounters::default(),
            failures: 0,
            is_recovering: false,
            _lock: lock,
        };
        let writer = std::thread::Builder::new().name("syslog-writer".to_owned()).spawn(move || writer.run());
        let writer = Some(writer.map_err(CollectorStartError::Thread)?);
        let accepting = tokio::spawn(reception.accept(listener, Arc::clone(&queue)));
        Ok(Self { endpoint, queue, writer, accepting, counters, metrics: served, stops })
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
        self.counters.now()
    }

    /// Closes all files, and opens them again by their names when there are lines for them. Files that were moved are noticed without it.
    pub fn reopen_files(&self) {
        self.queue.reopen_files();
    }

    /// Commits the received lines, acknowledges them, and shuts down all associations.
    pub async fn stop(mut self) -> CollectorSnapshot {
        self.accepting.abort();
        self.queue.stop();
        self.stops.store(true, Ordering::Relaxed);
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
        self.queue.stop();
        self.stops.store(true, Ordering::Relaxed);
    }
}

/// The counters of the writer and of the tasks that receive.
struct Counters {
    written: Mutex<CollectorSnapshot>,
    reception: Arc<Reception>,
    queue: Arc<CommitQueue>,
}

impl Counters {
    fn now(&self) -> CollectorSnapshot {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (relays, refusals, not_passed_on) = self.queue.counts();
        let mut strangers = self.reception.counts();
        (strangers.refused, strangers.new_relays_refused) = (refusals.all, refusals.new_relays);
        CollectorSnapshot { relays, strangers, not_passed_on, ..written }
    }
}

impl Pages for Counters {
    fn metrics(&self) -> String {
        self.now().prometheus()
    }

    fn status(&self) -> String {
        serde_json::to_string(&self.now()).unwrap_or_default()
    }
}

/// The thread that writes.
struct Writer {
    queue: Arc<CommitQueue>,
    /// None until the outputs can be opened.
    store: Option<Store<RealDisk>>,
    compressing: Compressing,
    outputs: Outputs,
    counters: Arc<Counters>,
    /// Counts up to the last failure of an output.
    before: CollectorCounters,
    failures: u64,
    /// No line was committed since the last failure.
    is_recovering: bool,
    /// Until the thread ends, no other process may write the files.
    _lock: StateLock,
}

impl Writer {
    fn run(mut self) {
        if self.store.is_none() {
            self.begin_again("Kafka does not report its last commit", &Room::default());
        }
        self.compress();
        while let Some(work) = self.queue.wait_for_work() {
            let (commit, held) = match work {
                Work::Commit(commit, held) => (*commit, held),
                Work::Reopen => {
                    self.store.iter_mut().for_each(Store::reopen_files);
                    continue;
                }
            };
            let store = self.store.as_mut().expect("there is no work without it");
            let room = Room::for_commit(&commit, &self.outputs.state);
            let has_lines = commit.has_lines();
            match store.commit(commit) {
                Ok(answers) => {
                    // A relay that connects again causes a commit without lines, which shows nothing about the output.
                    if has_lines && std::mem::take(&mut self.is_recovering) {
                        (self.outputs.notice)("the output can be written again");
                    }
                    self.queue.answer(answers);
                    held.into_iter().for_each(outlet::Held::release);
                }
                Err(error) => self.begin_again(&error.to_string(), &room),
            }
            self.compress();
            self.publish();
        }
    }

    /// Hands rotated files to the compressing thread and records those that it has finished.
    fn compress(&mut self) {
        let Some(store) = &mut self.store else { return };
        let noted = self.compressing.take_done().iter().try_for_each(|path| store.compressed(path));
        self.compressing.add(store.take_jobs());
        if let Err(error) = noted {
            self.begin_again(&error.to_string(), &Room::default());
        }
    }

    /// Discards all state in memory after an output failed, waits until there is room for the failed commit, and opens the store again. Relays send
    /// unacknowledged lines again.
    fn begin_again(&mut self, problem: &str, room: &Room) {
        if self.outputs.stops.load(Ordering::Relaxed) {
            return self.queue.close();
        }
        if !std::mem::replace(&mut self.is_recovering, true) {
            (self.outputs.notice)(&format!("cannot write the output: {problem}; relays keep their lines; retrying"));
        }
        self.queue.close();
        self.failures += 1;
        if let Some(store) = self.store.take() {
            self.before.add(store.counters());
        }
        while !self.outputs.stops.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE_AFTER_FAILURE);
            let opened = room.check(&RealDisk).and_then(|()| self.outputs.open());
            if let Ok((collector, store)) = opened {
                self.store = Some(store);
                return self.queue.open(collector);
            }
        }
    }

    fn publish(&self) {
        let mut counters = self.before;
        if let Some(store) = &self.store {
            counters.add(store.counters());
        }
        let snapshot = CollectorSnapshot {
            reliable: counters.reliable,
            fresh: counters.fresh,
            duplicates: counters.duplicates,
            compressed: self.compressing.files(),
            compress_failures: self.compressing.failures(),
            brokered: counters.brokered,
            brokered_cut: counters.brokered_cut,
            commits: counters.commits,
            overflowed: counters.overflowed,
            refused_copies: counters.refused_copies,
            failures: self.failures,
            ..CollectorSnapshot::default()
        };
        *self.counters.written.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}
