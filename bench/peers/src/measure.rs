//! CPU time of bulk transfer, and memory of idle associations.
//!
//! Both endpoints of an association live in this thread. On the direct path they are joined by lossless queues without delay, and
//! packets move in batches of [`BATCH_PACKETS`], as a driver would read them from a socket. On the other paths a wire delays
//! packets, may lose or reorder them, and each packet is answered before the next one is looked at, as Festina's driver does.
//! Virtual time stands still while anything can be done and otherwise jumps to the next deadline or arrival.

mod pair;
mod path;

use std::time::Duration;

use bytes::Bytes;
use pair::Pair;
pub use pair::{BATCH_PACKETS, STALL_TIME};
pub(crate) use path::Pipe;
pub use path::{Path, Wire};
use rustix::time::{ClockId, clock_gettime};

use crate::peer::{Message, Peer, Settings, Stack};

/// Messages sent over the direct path before the clock starts, so that slow start and first allocations are not measured.
const WARM_UP_MESSAGES: u64 = 2_000;
/// Virtual time for which a wire is used before the clock starts, unless the CPU time of the measurement is used up before.
const WARM_UP_TIME: Duration = Duration::from_millis(500);
/// Messages between two readings of the CPU clock. On a wire, whole round trips lie between them as well.
const MESSAGES_PER_READING: u64 = 1_000;
/// Messages over which allocations are counted on the direct path.
const MESSAGES_COUNTED: u64 = 20_000;
/// Messages over which allocations are counted on a wire, at least; whole round trips are.
const MESSAGES_COUNTED_ON_WIRE: u64 = 4_000;
/// Idle time of an association before its memory is measured: past the first heartbeat of every stack that sends any.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// User data of each message that an association exchanges before it goes idle.
const GREETING: &[u8] = &[0x5A; 100];

/// The outcome of one bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkSample {
    /// Messages delivered.
    pub messages: u64,
    /// User data delivered, in bytes.
    pub payload_bytes: u64,
    /// CPU time of this thread: both endpoints together, and the path.
    pub cpu: Duration,
    /// Virtual time that passed.
    pub time: Duration,
    /// Packets from the sender, and back to it; zero on a path without wire.
    pub packets: [u64; 2],
}

impl BulkSample {
    /// CPU seconds for each 10^9 bytes of user data.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    pub fn cpu_seconds_per_gigabyte(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.payload_bytes as f64 / 1e9)
    }

    /// Messages for each second of CPU time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    pub fn messages_per_cpu_second(&self) -> f64 {
        self.messages as f64 / self.cpu.as_secs_f64()
    }

    /// User data delivered in virtual time, in 10^6 bytes for each second; `None` if no time passed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    pub fn goodput_megabytes_per_second(&self) -> Option<f64> {
        (!self.time.is_zero()).then(|| self.payload_bytes as f64 / 1e6 / self.time.as_secs_f64())
    }

    /// Packets on the wire, both ways, for each message; `None` on a path without wire.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    pub fn packets_per_message(&self) -> Option<[f64; 2]> {
        (self.packets[0] > 0).then(|| self.packets.map(|packets| packets as f64 / self.messages as f64))
    }
}

/// Keeps the send buffer full of ordered, reliable messages of `message_bytes` on one stream until `cpu_target` of CPU time is used up, and counts
/// the messages delivered. `seed` determines the random events of a wire.
///
/// # Errors
/// The reason that stopped the transfer: the stack did not connect, refused a message, ended, delivered a message of another size, or delivered
/// nothing for [`STALL_TIME`].
pub fn bulk<S: Stack>(
    path: &Path,
    message_bytes: usize,
    seed: u64,
    cpu_target: Duration,
) -> Result<BulkSample, String> {
    let mut transfer = Transfer::<S::Peer>::warm::<S>(path, message_bytes, seed, cpu_target)?;
    let (time_before, packets_before) = (transfer.pair.now, transfer.packets());
    let start = thread_cpu_time();
    let mut messages = 0;
    let mut cpu = Duration::ZERO;
    while cpu < cpu_target {
        messages += transfer.run(MESSAGES_PER_READING)?;
        cpu = thread_cpu_time().saturating_sub(start);
    }
    let [to_far, to_near] = transfer.packets();
    Ok(BulkSample {
        messages,
        payload_bytes: messages * message_bytes as u64,
        cpu,
        time: transfer.pair.now - time_before,
        packets: [to_far - packets_before[0], to_near - packets_before[1]],
    })
}

/// Heap allocations of both endpoints together for each message of a bulk transfer. `allocations` reads the counter of the
/// global allocator.
///
/// # Errors
/// As [`bulk`].
#[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
pub fn allocations_per_message<S: Stack>(
    path: &Path,
    message_bytes: usize,
    cpu_target: Duration,
    allocations: fn() -> u64,
) -> Result<f64, String> {
    let mut transfer = Transfer::<S::Peer>::warm::<S>(path, message_bytes, 0, cpu_target)?;
    let before = allocations();
    let messages = transfer.run(if path.wire.is_none() { MESSAGES_COUNTED } else { MESSAGES_COUNTED_ON_WIRE })?;
    Ok((allocations() - before) as f64 / messages as f64)
}

/// An association with the message that it carries.
struct Transfer<P> {
    pair: Pair<P>,
    message: Message,
    round_trip: Duration,
}

impl<P: Peer> Transfer<P> {
    /// One that has left slow start, if that takes no more than `cpu_max` on a wire.
    fn warm<S: Stack<Peer = P>>(
        path: &Path,
        message_bytes: usize,
        seed: u64,
        cpu_max: Duration,
    ) -> Result<Self, String> {
        let payload = Bytes::from(vec![0x5A_u8; message_bytes]);
        let message = Message { stream: 0, ppid: 53, unordered: false, payload };
        let pair = Pair::over::<S>(path, seed)?;
        let mut transfer = Transfer { pair, message, round_trip: path.round_trip() };
        if path.wire.is_none() {
            transfer.run(WARM_UP_MESSAGES)?;
            return Ok(transfer);
        }
        let (start, until) = (thread_cpu_time(), transfer.pair.now + WARM_UP_TIME);
        while transfer.pair.now < until && thread_cpu_time().saturating_sub(start) < cpu_max {
            transfer.run(1)?;
        }
        Ok(transfer)
    }

    /// Delivers at least `messages_min` messages, in whole round trips, so that packets still on a wire do not distort the cost of one endpoint.
    fn run(&mut self, messages_min: u64) -> Result<u64, String> {
        self.pair.stream(&self.message, messages_min, self.round_trip)
    }

    /// Packets that the sender and the receiver have put on the wire.
    fn packets(&self) -> [u64; 2] {
        self.pair.pipes.as_ref().map_or([0; 2], |[to_far, to_near]| [to_far.packets, to_near.packets])
    }
}

/// Establishes `pairs` associations, lets each carry `messages` small messages in each direction and go idle, and returns the
/// bytes of live heap per endpoint, the factory's share included. `live_bytes` reads the counter of the global allocator.
///
/// # Panics
/// If an association does not connect or loses a message.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
pub fn idle_bytes_per_endpoint<S: Stack>(pairs: usize, messages: u64, live_bytes: fn() -> i64) -> f64 {
    let greeting = Message { stream: 0, ppid: 53, unordered: false, payload: Bytes::from_static(GREETING) };
    let before = live_bytes();
    let mut stack = S::new(&Settings::bulk());
    let mut idle = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        let exchanged = Pair::connect(&mut stack, None, 0, Duration::ZERO).and_then(|mut pair| {
            pair.transfer(&greeting, messages, messages)?;
            std::mem::swap(&mut pair.near, &mut pair.far);
            pair.transfer(&greeting, messages, messages)?;
            Ok(pair)
        });
        let mut pair = exchanged.unwrap_or_else(|error| panic!("{}: {error}", S::NAME));
        pair.rest(IDLE_TIME);
        idle.push((pair.near, pair.far));
    }
    let after = live_bytes();
    drop(idle);
    (after - before) as f64 / (pairs * 2) as f64
}

/// Makes the allocator keep the memory that a flight of packets frees for the next flight, as a driver that reuses its buffers would.
/// glibc would give it back to the kernel and fetch it again page by page in every round trip, which takes a seventh of the CPU time
/// over a wire; it stops doing so once a block of this size has been freed. Other allocators take no notice.
pub fn keep_freed_memory() {
    // Just below glibc's DEFAULT_MMAP_THRESHOLD_MAX: the largest block that moves its thresholds.
    const BYTES: usize = 31 << 20;
    drop(std::hint::black_box(vec![0_u8; BYTES]));
}

/// CPU time that this thread has used.
fn thread_cpu_time() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), u32::try_from(at.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{DcSctp, Festina, RtcSctp, SctpProto};

    fn transfers<S: Stack>() {
        let sample = bulk::<S>(&Path::direct(), 1_200, 1, Duration::from_millis(1)).expect("nothing is lost");
        assert!(sample.messages >= MESSAGES_PER_READING);
        assert_eq!(sample.payload_bytes, sample.messages * 1_200);
        assert!(sample.messages_per_cpu_second() > 0.0 && sample.cpu_seconds_per_gigabyte() > 0.0);
        assert_eq!((sample.goodput_megabytes_per_second(), sample.packets_per_message()), (None, None));
    }

    #[test]
    fn every_stack_carries_bulk_data_between_two_endpoints() {
        transfers::<DcSctp>();
        transfers::<RtcSctp>();
        transfers::<SctpProto>();
    }

    fn transfers_over_wires<S: Stack>() {
        for path in Path::all().into_iter().filter(|path| path.wire.is_some()) {
            let sample = bulk::<S>(&path, 1_200, 1, Duration::from_millis(1));
            let sample = sample.unwrap_or_else(|error| panic!("{} over {}: {error}", S::NAME, path.name));
            let window = f64::from(path.settings.receive_window_bytes) / 1e6;
            let goodput = sample.goodput_megabytes_per_second().expect("time passes on a wire");
            assert!(goodput > 0.0 && goodput * path.round_trip().as_secs_f64() <= window, "{}: {goodput}", S::NAME);
            let [there, back] = sample.packets_per_message().expect("a wire counts packets");
            assert!(there > 0.5 && back > 0.0, "{}: {there} packets there, {back} back", S::NAME);
        }
    }

    #[test]
    fn every_stack_carries_bulk_data_over_a_path_with_delay_loss_and_reordering() {
        transfers_over_wires::<Festina>();
        transfers_over_wires::<DcSctp>();
        transfers_over_wires::<RtcSctp>();
        transfers_over_wires::<SctpProto>();
    }

    #[test]
    fn idle_memory_is_shared_among_the_endpoints() {
        fn no_allocator() -> i64 {
            0
        }
        assert!(idle_bytes_per_endpoint::<DcSctp>(3, 4, no_allocator).abs() < f64::EPSILON);
        assert!(idle_bytes_per_endpoint::<RtcSctp>(3, 4, no_allocator).abs() < f64::EPSILON);
        assert!(idle_bytes_per_endpoint::<SctpProto>(3, 0, no_allocator).abs() < f64::EPSILON);
    }
}
