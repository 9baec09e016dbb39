//! The limit for any non-blocking socket, independent of runtime and event loop.

use std::io;

use festina_recovery::send_buffer::{DelayBudget, SendBufferLimit, Waits};
use festina_units::{Bandwidth, Duration, Instant};
use socket2::SockRef;

use crate::{Socket, TcpInfo, WaitHistogram, clock, kernel};

/// Longest time for which granted room is used without asking the kernel again.
const GRANT_MAX: Duration = Duration::from_millis(1);

/// Time during which the kernel's answer stays valid except for data sent since. Whether data was sent shows in the
/// socket's writability, which is checked first.
const ANSWER_MAX: Duration = Duration::from_micros(100);

/// Writes within this time of the first one, up to a packet in size, are measured as one.
const MARK_MAX: Duration = Duration::from_micros(100);

/// Largest error of the kernel's millisecond clock: a tick of the slowest kernels.
const TICK_MAX: Duration = Duration::from_millis(10);

/// Decides how much may be written to a TCP socket, and measures how long written data waited.
///
/// Order of use, with a non-blocking socket:
///
/// 1. [`room`](Self::room) returns how much may be written. If no packet fits, wait until the socket is writable
///    (`poll`, `epoll`, level- or edge-triggered) and call it again. The kernel reports the socket as writable as soon
///    as a packet fits. An error or a hang-up of the socket is reported by the next write.
/// 2. Write at most that much, and report the number of bytes that the socket took with [`wrote`](Self::wrote).
///
/// Every write must be reported, otherwise the measured times are wrong.
#[derive(Debug)]
pub struct Limiter {
    limit: SendBufferLimit,
    budget: Option<DelayBudget>,
    waits: Waits,
    histogram: WaitHistogram,
    /// Packets that waited longer than the budget.
    late_packets: u64,
    written: u64,
    granted_bytes: u64,
    asked_at: Option<Instant>,
    /// No packet fitted at the last call: a caller that asks again was woken, so the kernel must be asked.
    must_ask: bool,
    mark: Option<Mark>,
    info: TcpInfo,
    /// The current `TCP_NOTSENT_LOWAT` of the socket.
    lowat_bytes: Option<u32>,
}

/// The amount that may be written now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes, a multiple of [`mss_bytes`](Self::mss_bytes); 0 if no packet fits.
    pub bytes: u64,
    /// Payload bytes of a packet at present. It changes with the path.
    pub mss_bytes: u32,
}

impl Room {
    /// Returns whether a packet fits.
    #[must_use]
    pub fn is_open(self) -> bool {
        self.bytes > 0
    }

    /// Returns how much of `length_bytes` to write: all if it fits, otherwise whole packets.
    #[must_use]
    pub fn admit(self, length_bytes: u64) -> u64 {
        length_bytes.min(self.bytes)
    }
}

/// The sender's share of the latency.
#[derive(Clone, Debug)]
pub struct SenderShare {
    /// How long the unsent data still has to wait at the present rate; `None` before the first round-trip time.
    pub waiting_time: Option<Duration>,
    /// How long the oldest unsent write has waited; `None` if everything has been sent.
    pub oldest: Option<Duration>,
    /// How long packets waited before their first transmission.
    pub waited: WaitHistogram,
    /// Exact number of packets that waited longer than the limit in time since it was set; `None` for other limits.
    pub late_packets: Option<u64>,
    /// The share of the budget in use with a limit in time, in parts per million; `None` for other limits.
    pub budget_share_ppm: Option<u32>,
    /// The last answer of the kernel.
    pub info: TcpInfo,
}

impl Limiter {
    /// Limits the send buffer of `socket`, which must be connected. Disables Nagle's algorithm and `TCP_CORK`, since
    /// the writer aligns packets.
    ///
    /// # Errors
    /// If this is not a TCP socket, or the system cannot report unsent data: systems other than Linux, and Linux before
    /// 4.9.
    pub fn new(socket: &impl Socket, limit: SendBufferLimit) -> io::Result<Self> {
        let info = kernel::read_info(socket)?;
        let socket = SockRef::from(socket);
        socket.set_tcp_nodelay(true)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_cork(false)?;
        Ok(Self {
            limit,
            budget: budget_of(limit),
            waits: Waits::new(),
            histogram: WaitHistogram::default(),
            late_packets: 0,
            written: 0,
            granted_bytes: 0,
            asked_at: None,
            must_ask: false,
            mark: None,
            info,
            lowat_bytes: None,
        })
    }

    /// Changes the limit from now on.
    pub fn set_limit(&mut self, limit: SendBufferLimit) {
        self.limit = limit;
        self.budget = budget_of(limit);
        self.late_packets = 0;
        self.granted_bytes = 0;
        self.asked_at = None;
    }

    /// Sets the maximum rate at which the kernel sends. It spaces packets evenly, for little jitter
    /// (`SO_MAX_PACING_RATE`).
    ///
    /// # Errors
    /// If the kernel rejects the option.
    pub fn set_pacing_max(&self, socket: &impl Socket, rate: Bandwidth) -> io::Result<()> {
        kernel::set_max_pacing_rate(socket, (rate.bits_per_second() / 8).max(1))
    }

    /// Returns how much may be written now. If no packet fits, the socket becomes writable when one does.
    ///
    /// # Errors
    /// If the kernel cannot be asked for the state of the socket.
    pub fn room(&mut self, socket: &impl Socket) -> io::Result<Room> {
        let now = clock::now();
        let age = self.asked_at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let is_used_up = self.granted_bytes < self.info.mss_bytes.into();
        let may_be_full = is_used_up && age < ANSWER_MAX && !self.must_ask;
        if age >= GRANT_MAX || is_used_up && !may_be_full {
            self.ask(socket, now)?;
        }
        let mss_bytes = u64::from(self.info.mss_bytes);
        let room = Room { bytes: self.granted_bytes / mss_bytes * mss_bytes, mss_bytes: self.info.mss_bytes };
        self.must_ask = !room.is_open();
        if self.must_ask {
            self.ring_when_a_packet_fits(socket)?;
        }
        Ok(room)
    }

    /// Returns the room to assume on a closed connection, whose next write reports the error.
    pub(crate) fn one_packet(&self) -> Room {
        Room { bytes: self.info.mss_bytes.into(), mss_bytes: self.info.mss_bytes }
    }

    /// Asks the kernel, and measures the data sent since the last time.
    fn ask(&mut self, socket: &impl Socket, now: Instant) -> io::Result<()> {
        self.info = kernel::read_info(socket)?;
        self.asked_at = Some(now);
        self.learn(now);
        let unsent_max = self.unsent_packets_max(now) * u64::from(self.info.mss_bytes);
        self.granted_bytes = unsent_max.saturating_sub(self.info.notsent_bytes.into());
        Ok(())
    }

    /// Measures the writes sent since the last answer: they were sent at the latest when data was last sent.
    fn learn(&mut self, now: Instant) {
        let sent = self.written.saturating_sub(self.info.notsent_bytes.into());
        let left_at = now.saturating_sub(self.info.since_data_sent.saturating_sub(TICK_MAX));
        while let Some(wait) = self.waits.sent(left_at, sent) {
            let packets = wait.bytes.div_ceil(self.info.mss_bytes.into());
            let packets = u32::try_from(packets).unwrap_or(u32::MAX);
            self.histogram.record(wait.waited, packets);
            if let Some(budget) = &mut self.budget {
                budget.packets_left(wait.waited, packets);
                self.late_packets += if wait.waited > budget.budget() { u64::from(packets) } else { 0 };
            }
        }
    }

    /// Number of packets that may be unsent. At least one, since the kernel signals only that an unsent packet was
    /// sent.
    fn unsent_packets_max(&self, now: Instant) -> u64 {
        let window = self.info.window();
        let allowed = match (self.limit, &self.budget) {
            (SendBufferLimit::Bytes(bytes), _) => {
                let buffered = u64::from(self.info.unacked_packets) * u64::from(self.info.mss_bytes);
                bytes.saturating_sub(buffered) / u64::from(self.info.mss_bytes)
            }
            (SendBufferLimit::MinBuf(min_buf), _) => min_buf.unsent_packets_max(window),
            (SendBufferLimit::Target(_), Some(budget)) => {
                budget.unsent_packets_max(window, self.info.window_time(), self.waits.oldest(now))
            }
            (SendBufferLimit::Target(_), None) => 1,
        };
        allowed.max(1)
    }

    /// The kernel reports a socket as writable when twice the unsent bytes are fewer than `TCP_NOTSENT_LOWAT`.
    pub(crate) fn ring_when_a_packet_fits(&mut self, socket: &impl Socket) -> io::Result<()> {
        let most_unsent = (self.unsent_packets_max(clock::now()) - 1).saturating_mul(self.info.mss_bytes.into());
        let lowat_bytes = u32::try_from(most_unsent.saturating_mul(2).saturating_add(1)).unwrap_or(u32::MAX);
        if self.lowat_bytes != Some(lowat_bytes) {
            #[cfg(target_os = "linux")]
            SockRef::from(socket).set_tcp_notsent_lowat(lowat_bytes)?;
            #[cfg(not(target_os = "linux"))]
            let _ = socket;
            self.lowat_bytes = Some(lowat_bytes);
        }
        Ok(())
    }

    /// Reports that the socket took `bytes`.
    pub fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
        self.granted_bytes = self.granted_bytes.saturating_sub(bytes);
        let now = clock::now();
        let (mss_bytes, begun) = (u64::from(self.info.mss_bytes), self.mark);
        let mark = begun.and_then(|mark| mark.with(now, bytes, mss_bytes)).unwrap_or(Mark { at: now, bytes });
        self.mark = Some(mark);
        self.waits.written(mark.at, self.written);
    }

    /// Returns the sender's share of the latency, at present and since the start.
    ///
    /// # Errors
    /// If the kernel cannot be asked for the state of the socket.
    pub fn sender_share(&mut self, socket: &impl Socket) -> io::Result<SenderShare> {
        let now = clock::now();
        self.ask(socket, now)?;
        Ok(SenderShare {
            waiting_time: self.info.waiting_time(),
            oldest: self.waits.oldest(now),
            waited: self.histogram.clone(),
            late_packets: self.budget.map(|_| self.late_packets),
            budget_share_ppm: self.budget.map(|budget| budget.share_ppm()),
            info: self.info,
        })
    }
}

/// Writes that are measured as one.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    bytes: u64,
}

impl Mark {
    /// Returns the mark including another write, if it still counts as one.
    fn with(self, now: Instant, bytes: u64, bytes_max: u64) -> Option<Self> {
        let bytes = self.bytes + bytes;
        let is_one = bytes <= bytes_max && now.saturating_duration_since(self.at) < MARK_MAX;
        is_one.then_some(Self { bytes, ..self })
    }
}

fn budget_of(limit: SendBufferLimit) -> Option<DelayBudget> {
    match limit {
        SendBufferLimit::Target(budget) => Some(DelayBudget::new(budget)),
        SendBufferLimit::Bytes(_) | SendBufferLimit::MinBuf(_) => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use festina_recovery::send_buffer::MinBuf;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        near.set_nonblocking(true).expect("a socket");
        (near, listener.accept().expect("it came").0)
    }

    fn limiter(near: &TcpStream) -> Limiter {
        let limit = SendBufferLimit::MinBuf(MinBuf { windows: 1, extra_packets: 0 });
        Limiter::new(near, limit).expect("this is Linux")
    }

    #[test]
    fn a_used_up_answer_is_not_requested_again_before_the_socket_is_checked() {
        let (mut near, mut far) = pair();
        let reader = std::thread::spawn(move || while far.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {});
        let mut limiter = limiter(&near);
        // On a busy machine an answer may expire in between, and the reader needs to run before there is room again.
        // The duration of the write is excluded.
        let was_spared = (0..1_000).any(|attempt| {
            std::thread::sleep(Duration::from_millis(attempt.min(5)));
            let room = limiter.room(&near).expect("open");
            let Ok(count) = near.write(&vec![0; usize::try_from(room.bytes).expect("small")]) else { return false };
            limiter.wrote(count as u64);
            limiter.asked_at = Some(clock::now());
            let asked_at = limiter.asked_at;
            let is_used_up = limiter.granted_bytes == 0 && room.is_open();
            let again = limiter.room(&near).expect("open");
            if !is_used_up || limiter.asked_at != asked_at {
                return false;
            }
            assert!(!again.is_open(), "nothing is granted twice");
            limiter.room(&near).expect("open");
            assert_ne!(limiter.asked_at, asked_at, "a repeated call gets a new answer");
            true
        });
        assert!(was_spared);
        drop(near);
        reader.join().expect("no panic");
    }

    #[test]
    fn packets_that_waited_longer_than_their_budget_are_counted_and_others_are_not() {
        let (mut near, far) = pair();
        let late_of = |near: &mut TcpStream, budget| {
            let mut limiter = Limiter::new(near, SendBufferLimit::Target(budget)).expect("this is Linux");
            near.write_all(&[0; 10]).expect("the buffer has room");
            limiter.wrote(10);
            limiter.sender_share(near).expect("open").late_packets
        };
        assert_eq!(late_of(&mut near, Duration::from_nanos(1)), Some(1));
        assert_eq!(late_of(&mut near, Duration::from_secs(60)), Some(0));
        assert_eq!(limiter(&near).sender_share(&near).expect("open").late_packets, None);
        drop(far);
    }

    #[test]
    fn small_writes_are_measured_by_the_packet_and_packets_by_themselves() {
        let begun = Mark { at: Instant::from_millis(1), bytes: 100 };
        let soon = Instant::from_millis(1) + Duration::from_micros(99);
        assert_eq!(begun.with(soon, 1_348, 1_448).map(|mark| (mark.at, mark.bytes)), Some((begun.at, 1_448)));
        assert!(begun.with(soon, 1_349, 1_448).is_none());
        assert!(begun.with(soon + Duration::from_micros(1), 100, 1_448).is_none());
        let (mut near, far) = pair();
        let mut limiter = limiter(&near);
        for _ in 0..1_000 {
            near.write_all(&[0; 10]).expect("the buffer has room");
            limiter.wrote(10);
        }
        // The kernel may hold the last writes back until earlier ones are acknowledged.
        let deadline = clock::now() + Duration::from_secs(20);
        let packets = loop {
            let share = limiter.sender_share(&near).expect("open");
            if share.info.notsent_bytes == 0 || clock::now() > deadline {
                break share.waited.packets();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // A loopback packet holds all writes, but a mark ends after 100 us: a slow machine needs more marks, never one
        // per write.
        assert!((1..500).contains(&packets), "{packets}");
        drop(far);
    }
}
