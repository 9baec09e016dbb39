//! The collector at work: associations of relays, and a thread that writes.
//!
//! The thread takes all messages that have come, writes their lines, waits for the disk, and answers: the busier it is, the more lines share
//! one wait. While it writes, its queue fills, then the transport's buffers, and then relays keep their lines.

mod outlet;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use festina::{Association, BindError, Duration, Endpoint, ListenError, Listener, Message};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::collector::{Collector, CollectorCounters, FileOutput, Peer};
use crate::config::{CollectorConfig, OutputPlace};
use crate::disk::{Disk as _, RealDisk};
use crate::relay::Notice;
use crate::serve::{self, Pages};
use crate::snapshot::CollectorSnapshot;
use crate::tls::TlsError;
use crate::transport;
use outlet::Outlet;

/// Batches of messages that wait for the writer.
const QUEUE: usize = 256;

/// Messages of one association taken at once.
const MESSAGES_AT_ONCE: usize = 64;

/// Bytes that are committed together.
const COMMIT_BYTES_MAX: usize = 4 << 20;

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

/// What the writer is told.
enum Event {
    Began(Peer, Association),
    Messages(Peer, Vec<Bytes>),
    Ended(Peer),
    Stop,
}

/// A collector at work. Dropping it stops it at once; [`stop`](Self::stop) is kinder.
pub struct RunningCollector {
    endpoint: Endpoint,
    events: mpsc::Sender<Event>,
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
        let collector = Collector::open(RealDisk, &state, files.clone())
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
        let (events_in, events) = mpsc::channel(QUEUE);
        let writer = Writer {
            collector,
            state,
            files,
            outlets,
            associations: BTreeMap::new(),
            snapshot: Arc::clone(&snapshot),
            before: CollectorCounters::default(),
            failures: 0,
            notice,
        };
        let writer = std::thread::Builder::new().name("syslog-writer".to_owned()).spawn(move || writer.run(events));
        let writer = Some(writer.map_err(CollectorStartError::Thread)?);
        let accepting = tokio::spawn(accept(listener, events_in.clone()));
        Ok(Self { endpoint, events: events_in, writer, accepting, snapshot, metrics })
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
        let _ = self.events.send(Event::Stop).await;
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

async fn accept(listener: Listener, events: mpsc::Sender<Event>) {
    let mut peers = 0;
    while let Some(association) = listener.accept().await {
        peers += 1;
        tokio::spawn(receive(Peer(peers), association, events.clone()));
    }
}

async fn receive(peer: Peer, association: Association, events: mpsc::Sender<Event>) {
    if events.send(Event::Began(peer, association.clone())).await.is_err() {
        return;
    }
    let mut messages = Vec::new();
    while association.recv_many(&mut messages, MESSAGES_AT_ONCE).await.is_ok() {
        let payloads = messages.drain(..).map(|message| message.payload).collect();
        if events.send(Event::Messages(peer, payloads)).await.is_err() {
            return;
        }
    }
    let _ = events.send(Event::Ended(peer)).await;
}

/// The thread that writes.
struct Writer {
    collector: Collector<RealDisk>,
    state: PathBuf,
    files: Vec<FileOutput>,
    outlets: Vec<Outlet>,
    associations: BTreeMap<Peer, Association>,
    snapshot: Arc<Mutex<CollectorSnapshot>>,
    /// What was counted before the disk failed.
    before: CollectorCounters,
    failures: u64,
    notice: Notice,
}

impl Writer {
    fn run(mut self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.blocking_recv() {
            let mut next = Some(event);
            let (mut bytes, mut stops) = (0, false);
            while let Some(event) = next {
                stops |= matches!(event, Event::Stop);
                bytes += self.take(event);
                next = if bytes < COMMIT_BYTES_MAX { events.try_recv().ok() } else { None };
            }
            if let Err(error) = self.commit() {
                self.begin_again(&error);
            }
            self.publish();
            if stops {
                return;
            }
        }
    }

    /// Takes an event. Returns how many bytes of messages it brought.
    fn take(&mut self, event: Event) -> usize {
        match event {
            Event::Began(peer, association) => {
                self.associations.insert(peer, association);
                0
            }
            Event::Ended(peer) => {
                self.collector.gone(peer);
                self.associations.remove(&peer);
                0
            }
            Event::Stop => 0,
            Event::Messages(peer, messages) => {
                let bytes = messages.iter().map(Bytes::len).sum();
                // Those of an association that was ended here count no more.
                if self.associations.contains_key(&peer) {
                    self.take_messages(peer, messages);
                }
                bytes
            }
        }
    }

    fn take_messages(&mut self, peer: Peer, messages: Vec<Bytes>) {
        for message in messages {
            match self.collector.handle(peer, message) {
                Ok(records) => self.outlets.iter_mut().for_each(|outlet| outlet.hold(&records)),
                Err(error) => {
                    (self.notice)(&format!("a relay is refused: {error}"));
                    self.collector.gone(peer);
                    if let Some(association) = self.associations.remove(&peer) {
                        association.abort("what the relay sent makes no sense");
                    }
                    return;
                }
            }
        }
    }

    fn commit(&mut self) -> io::Result<()> {
        for (peer, answer) in self.collector.commit()? {
            let Some(association) = self.associations.get(&peer) else { continue };
            // A relay that does not take its answers will get them as a welcome.
            if association.try_send(Message::new(answer)).is_err() {
                association.abort("the relay does not take answers");
            }
        }
        self.outlets.iter_mut().for_each(Outlet::release);
        Ok(())
    }

    /// The disk has failed: nothing in memory counts. Relays will send again what was not acknowledged.
    fn begin_again(&mut self, error: &io::Error) {
        (self.notice)(&format!(
            "the output cannot be written: {error}; relays keep their lines, and it is tried again"
        ));
        for (_, association) in std::mem::take(&mut self.associations) {
            association.abort("the collector cannot write");
        }
        self.outlets.iter_mut().for_each(Outlet::forget);
        self.failures += 1;
        add(&mut self.before, self.collector.counters());
        loop {
            std::thread::sleep(PAUSE_AFTER_FAILURE);
            // Not even that there is a directory is certain now.
            if let Ok(collector) = RealDisk
                .create_directory(&self.state)
                .and_then(|()| Collector::open(RealDisk, &self.state, self.files.clone()))
            {
                self.collector = collector;
                (self.notice)("the output can be written again");
                return;
            }
        }
    }

    fn publish(&self) {
        let mut counters = self.before;
        add(&mut counters, self.collector.counters());
        let snapshot = CollectorSnapshot {
            reliable: counters.reliable,
            fresh: counters.fresh,
            duplicates: counters.duplicates,
            commits: counters.commits,
            relays: self.collector.relays() as u64,
            failures: self.failures,
        };
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

fn add(sum: &mut CollectorCounters, more: &CollectorCounters) {
    sum.reliable.iter_mut().zip(more.reliable).for_each(|(sum, more)| *sum += more);
    sum.fresh.iter_mut().zip(more.fresh).for_each(|(sum, more)| *sum += more);
    sum.duplicates += more.duplicates;
    sum.commits += more.commits;
}
