//! A well-behaved peer of the endpoint under attack, and the permitted effects of an attack on it.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use festina::{Association, Endpoint, Message, ServerConfig};
use tokio::runtime::Runtime;

use crate::pings::{RoundTrips, ping};
use crate::resident::resident_bytes;
use crate::victim::{CLOSE, Report, Victim};

/// Round trips measured without an attack, and the minimum during one.
const QUIET_PINGS: usize = 200;

/// Memory shared by all associations of the endpoint, and packets being processed, in addition to the limit per association: the buffers of received
/// packets, at most 2.4 MB, and a batch of 16 datagrams of maximum size.
const SHARED_BYTES: u64 = (2_400 << 10) + (1 << 20);

/// Overhead of the system's allocator: half of the held bytes, and its reserve.
const RESIDENT_RESERVE_BYTES: u64 = 4 << 20;

/// A busy machine may add this to the median of the round trips, and five times as much to the worst tenth of them.
const DELAY_FLOOR: Duration = Duration::from_millis(20);

/// One attack at a time: they take all that a machine has.
static ALONE: Mutex<()> = Mutex::new(());

/// An endpoint under attack and one association with it.
pub(crate) struct Friend {
    victim: Victim,
    association: Association,
    runtime: Runtime,
    quiet: RoundTrips,
    before: Report,
    resident_before: Option<u64>,
    _alone: MutexGuard<'static, ()>,
}

impl Friend {
    /// Starts the endpoint and looks at it while all is quiet.
    pub(crate) fn of_endpoint(config: ServerConfig) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let victim = Victim::start(config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let association = runtime.block_on(async {
            let endpoint = Endpoint::server("127.0.0.1:0".parse().unwrap(), ServerConfig::plain()).await.unwrap();
            endpoint.connect(victim.address).await.unwrap()
        });
        let (quiet, answer) = runtime.block_on(ping(&association, |pings| pings >= QUIET_PINGS));
        let before = Report::from_bytes(answer.payload());
        let resident_before = resident_bytes(victim.pid()).map(|(now, _)| now);
        Self { victim, association, runtime, quiet, before, resident_before, _alone: alone }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.victim.address
    }

    /// Asserts that the endpoint stays within its bounds until the attackers are done: at most `bytes_max` held for them, and round trips about as
    /// long as before. Returns the bytes received meanwhile.
    pub(crate) fn endure(&self, name: &str, attackers: Vec<JoinHandle<()>>, bytes_max: u64) -> u64 {
        let over = |pings| pings >= QUIET_PINGS && attackers.iter().all(JoinHandle::is_finished);
        let (attacked, answer) = self.runtime.block_on(ping(&self.association, over));
        let after = Report::from_bytes(answer.payload());
        for attacker in attackers {
            attacker.join().unwrap();
        }
        let received = after.bytes_received - self.before.bytes_received;
        let (held, bytes_max) = (after.peak_bytes - self.before.live_bytes, bytes_max + SHARED_BYTES);
        let resident = self.resident_before.zip(resident_bytes(self.victim.pid()));
        let grown = resident.map(|(before, (_, most))| most - before);
        let resident_max = bytes_max + bytes_max / 2 + RESIDENT_RESERVE_BYTES;
        println!(
            "{name}: {held} of {bytes_max} bytes held, {grown:?} of {resident_max} resident, {received} received; {attacked:?}, \
             {:?} when quiet",
            self.quiet
        );
        assert!(held <= bytes_max, "{held} bytes are held, and {bytes_max} are allowed");
        assert!(grown.is_none_or(|grown| grown <= resident_max), "{grown:?} bytes more are resident");
        let (median_max, worst_max) =
            (self.quiet.median * 10 + DELAY_FLOOR, self.quiet.worst_tenth * 10 + 5 * DELAY_FLOOR);
        assert!(attacked.median <= median_max, "{attacked:?}, {:?} when quiet", self.quiet);
        assert!(attacked.worst_tenth <= worst_max, "{attacked:?}, {:?} when quiet", self.quiet);
        received
    }

    /// Requests a report from the endpoint.
    pub(crate) fn report(&self) -> Report {
        let (_, answer) = self.runtime.block_on(ping(&self.association, |pings| pings > 0));
        Report::from_bytes(answer.payload())
    }

    /// Asserts that the endpoint closes gracefully.
    pub(crate) fn close(mut self, patience: Duration) {
        self.runtime.block_on(async {
            self.association.send(Message::new(CLOSE)).await.unwrap();
            self.association.closed().await;
        });
        let status = self.victim.ended(patience).expect("the endpoint closes in time");
        assert!(status.success(), "{status}");
    }
}
