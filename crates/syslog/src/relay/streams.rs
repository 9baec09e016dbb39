//! Lines over TCP, with or without TLS, and over standard input.
//!
//! Connections need descriptors, and so do the relay's own files. Their number is therefore limited over all inputs. When all are in use, one that
//! has been idle for a minute is closed for a new one; otherwise the new one is refused and counted.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use festina_units::Duration;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::intake::{Incoming, Intake, Rate, count};
use crate::clock;
use crate::framing::{Framer, Framing, FramingError};
use crate::notice::Notice;

/// Maximum number of lines of a stream that are handed over together.
const BATCH_LINES: usize = 1_024;

/// Time limit of the TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// Idle time in microseconds after which a new connection may replace one.
const IDLE_US: u64 = 60_000_000;

/// Pause after a connection could not be accepted, since the cause, such as too few descriptors, lasts.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Keepalive probes: time until the first, interval, and number of unanswered ones.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(10), 6);

/// All TCP connections of a relay.
pub(super) struct Connections {
    max: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_number: BTreeMap<u64, Arc<Activity>>,
}

struct Activity {
    /// When bytes came last; `u64::MAX` while lines are handed over.
    last_us: AtomicU64,
    evicted: Notify,
}

/// The place of one connection among all.
struct Slot {
    connections: Arc<Connections>,
    number: u64,
    activity: Arc<Activity>,
}

impl Connections {
    /// Room for this many connections.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// Takes a place, that of a connection which is idle if need be; `None` if there is none.
    fn admit(self: &Arc<Self>, now_us: u64) -> Option<Slot> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_number.len() >= self.max {
            let last_us = |activity: &Activity| activity.last_us.load(Ordering::Relaxed);
            let (&idlest, activity) = open.by_number.iter().min_by_key(|(_, activity)| last_us(activity))?;
            if last_us(activity).saturating_add(IDLE_US) > now_us {
                return None;
            }
            activity.evicted.notify_one();
            open.by_number.remove(&idlest);
        }
        let number = open.next;
        open.next += 1;
        let activity = Arc::new(Activity { last_us: AtomicU64::new(now_us), evicted: Notify::new() });
        open.by_number.insert(number, Arc::clone(&activity));
        Some(Slot { connections: Arc::clone(self), number, activity })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.open.lock().unwrap_or_else(PoisonError::into_inner).by_number.remove(&self.number);
    }
}

/// An input that accepts connections.
pub(super) struct StreamInput {
    pub(super) listener: TcpListener,
    pub(super) framing: Framing,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) lines_per_second_max: Option<u32>,
    pub(super) connections: Arc<Connections>,
    pub(super) notice: Notice,
}

impl StreamInput {
    /// Accepts connections and reads them in tasks of their own, until the relay stops.
    pub(super) async fn accept(self, intake: Intake) {
        let name = self.listener.local_addr().map_or_else(|_| "tcp".to_owned(), |address| format!("tcp {address}"));
        // Otherwise the system takes urgent data out of the streams (RFC 6093 §4), also before a connection is accepted.
        let _ = sockopt::set_socket_oobinline(&self.listener, true);
        loop {
            let accepted = tokio::select! {
                () = intake.stopping() => return,
                accepted = self.listener.accept() => accepted,
            };
            let (connection, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(times) = count(&intake.counters.accept_errors) {
                        (self.notice)(&format!("{name} cannot accept a connection ({times} times so far): {error}"));
                    }
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                    continue;
                }
            };
            let Some(slot) = self.connections.admit(clock::steady_us()) else {
                if let Some(times) = count(&intake.counters.refused_connections) {
                    let max = self.connections.max;
                    (self.notice)(&format!(
                        "{name} refuses a connection ({times} so far): all {max} are open and in use; a higher limit of descriptors (LimitNOFILE) allows more"
                    ));
                }
                continue;
            };
            // Without keepalive a connection with a vanished peer ends only when another needs its place.
            let _ = keep_alive(&connection);
            // It may be older than the setting of the listener.
            let _ = sockopt::set_socket_oobinline(&connection, true);
            let source = Bytes::from(from.ip().to_string());
            let framer = Framer::new(self.framing, intake.bytes_max());
            let rate = Rate::new(self.lines_per_second_max);
            let stream = Stream { framer, source, rate, slot: Some(slot), notice: Arc::clone(&self.notice) };
            let (tls, intake) = (self.tls.clone(), intake.clone());
            tokio::spawn(async move {
                let Some(tls) = tls else { return stream.read(ReadToTheEnd(connection), intake).await };
                let accepted = tokio::time::timeout(HANDSHAKE_TIME_MAX, tls.accept(connection)).await;
                // TLS itself reports the refusal to the peer.
                if let Ok(Ok(connection)) = accepted {
                    stream.read(connection, intake).await;
                }
            });
        }
    }
}

/// A connection that is read until nothing is left. tokio's own takes a read that fills less than the buffer for the last one, and waits for more; but
/// a read also ends at urgent data.
struct ReadToTheEnd(TcpStream);

impl AsyncRead for ReadToTheEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|length| buffer.advance(length))),
            }
        }
    }
}

fn keep_alive(connection: &TcpStream) -> rustix::io::Result<()> {
    let (idle, interval, probes) = KEEPALIVE;
    sockopt::set_socket_keepalive(connection, true)?;
    sockopt::set_tcp_keepidle(connection, idle)?;
    sockopt::set_tcp_keepintvl(connection, interval)?;
    sockopt::set_tcp_keepcnt(connection, probes)
}

/// A stream of lines.
struct Stream {
    framer: Framer,
    source: Bytes,
    rate: Rate,
    /// `None` if it is no connection.
    slot: Option<Slot>,
    notice: Notice,
}

/// Reads standard input.
pub(super) async fn read_stdin(intake: Intake, rate: Rate, notice: Notice) {
    let framer = Framer::new(Framing::Newline, intake.bytes_max());
    let stream = Stream { framer, source: Bytes::from_static(b"stdin"), rate, slot: None, notice };
    stream.read(tokio::io::stdin(), intake).await;
}

impl Stream {
    /// Reads until the stream ends or fails, must make room for another, or the relay stops. Bytes available by then are still read, and an
    /// unfinished line counts.
    async fn read(mut self, mut bytes: impl AsyncRead + Unpin, intake: Intake) {
        let activity = self.slot.as_ref().map(|slot| Arc::clone(&slot.activity));
        let note = |us| activity.iter().for_each(|activity| activity.last_us.store(us, Ordering::Relaxed));
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = tokio::select! {
                biased;
                read = bytes.read(&mut buffer) => read.unwrap_or_default(),
                () = evicted(activity.as_deref()) => 0,
                () = intake.stopping() => 0,
            };
            note(u64::MAX);
            self.framer.push(&buffer[..length]);
            let handed = self.hand_over(length == 0, &intake).await;
            note(clock::steady_us());
            if length == 0 || !handed {
                return;
            }
        }
    }

    /// Hands over all complete lines of the framer. Returns whether to continue reading.
    async fn hand_over(&mut self, ended: bool, intake: &Intake) -> bool {
        let (received_us, arrived_us) = (clock::date_us(), clock::steady_us());
        let mut lines = Vec::new();
        let mut error: Option<FramingError> = None;
        while let Some(frame) = if ended { self.framer.finish() } else { self.framer.next_frame() } {
            let frame = match frame {
                Ok(frame) => frame,
                Err(problem) => {
                    error = Some(problem);
                    break;
                }
            };
            if !self.rate.allows(&self.source, arrived_us) {
                intake.counters.shed_rate.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let source = self.source.clone();
            lines.push(Incoming { source, line: frame.bytes, cut: frame.cut, received_us, arrived_us });
            if lines.len() >= BATCH_LINES && !intake.wait(std::mem::take(&mut lines)).await {
                return false;
            }
        }
        if let Some(error) = error
            && let Some(times) = count(&intake.counters.framing_errors)
        {
            let source = String::from_utf8_lossy(&self.source);
            (self.notice)(&format!(
                "the connection from {source} is closed, and its last data are lost ({times} times so far): {error}"
            ));
        }
        (lines.is_empty() || intake.wait(lines).await) && error.is_none()
    }
}

/// Another connection takes the place of this one.
async fn evicted(activity: Option<&Activity>) {
    match activity {
        Some(activity) => activity.evicted.notified().await,
        None => std::future::pending().await,
    }
}

/// Binds the socket of an input.
pub(super) async fn bind(address: std::net::SocketAddr) -> io::Result<(TcpListener, std::net::SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_beyond_the_limit_is_refused_until_another_is_idle_or_over() {
        let connections = Connections::new(2);
        let (first, second) = (connections.admit(0).expect("room"), connections.admit(1).expect("room"));
        assert!(connections.admit(IDLE_US - 1).is_none());
        first.activity.last_us.store(u64::MAX, Ordering::Relaxed);
        // The first hands lines over, so the second has to go.
        let third = connections.admit(IDLE_US + 1).expect("the second is idle");
        assert!(connections.admit(IDLE_US + 2).is_none());
        drop(second);
        assert!(connections.admit(IDLE_US + 2).is_none(), "it had no place any more");
        drop(third);
        assert!(connections.admit(IDLE_US + 2).is_some());
    }
}
