//! How much may be written now: the limit for any non-blocking socket, whatever runtime or event loop drives it.

use std::io;

use festina_recovery::send_buffer::{DelayBudget, SendBufferLimit, Waits};
use festina_units::{Bandwidth, Duration, Instant};
use socket2::SockRef;

use crate::{Socket, TcpInfo, WaitHistogram, clock, kernel};

/// What was found to be free is used up to this long before the kernel is asked again.
const GRANT_MAX: Duration = Duration::from_millis(1);

/// What the kernel's millisecond clock may be off by: a tick of the slowest kernels.
const TICK_MAX: Duration = Duration::from_millis(10);

/// Decides how much may be written to a TCP socket, and how long what was written waited.
///
/// Order of use, with a socket that does not block:
///
/// 1. [`room`](Self::room) reports how much may be written. If that is nothing, wait until the socket is writable (`poll`,
///    `epoll`, level- or edge-triggered) and ask again. The kernel takes it for writable as soon as a packet fits.
///    An error or a hang-up of the socket is for the next write to report.
/// 2. Write at most so much, and report what the socket took with [`wrote`](Self::wrote).
///
/// All that goes out must be reported, or the times are wrong.
#[derive(Debug)]
pub struct Limiter {
    limit: SendBufferLimit,
    budget: Option<DelayBudget>,
    waits: Waits,
    histogram: WaitHistogram,
    written: u64,
    granted_bytes: u64,
    asked_at: Option<Instant>,
    info: TcpInfo,
    /// As the kernel has it.
    lowat_bytes: Option<u32>,
}

/// What may be written now.
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

    /// How much of `length_bytes` to write: all if it fits, and otherwise whole packets.
    #[must_use]
    pub fn admit(self, length_bytes: u64) -> u64 {
        length_bytes.min(self.bytes)
    }
}

/// The sender's share of the latency.
#[derive(Clone, Debug)]
pub struct SenderShare {
    /// How long what is unsent still has to wait at the present rate; `None` before the first round-trip time.
    pub waiting_time: Option<Duration>,
    /// How long the oldest unsent write has waited; `None` if all is sent.
    pub oldest: Option<Duration>,
    /// How long packets waited before they were first sent.
    pub waited: WaitHistogram,
    /// The share of the budget that a limit in time uses, in parts per million; `None` for other limits.
    pub budget_share_ppm: Option<u32>,
    /// What the kernel said last.
    pub info: TcpInfo,
}

impl Limiter {
    /// Limits what waits in the send buffer of `socket`, which must be connected. Turns Nagle's algorithm off and a cork open, since
    /// packets are aligned by whoever writes them.
    ///
    /// # Errors
    /// If this is no TCP socket, or the system cannot report what is unsent: anything but Linux, and Linux before 4.9.
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
            written: 0,
            granted_bytes: 0,
            asked_at: None,
            info,
            lowat_bytes: None,
        })
    }

    /// Changes the limit from now on.
    pub fn set_limit(&mut self, limit: SendBufferLimit) {
        self.limit = limit;
        self.budget = budget_of(limit);
        self.granted_bytes = 0;
        self.asked_at = None;
    }

    /// The most that the kernel sends at, for little jitter: it spaces packets evenly (`SO_MAX_PACING_RATE`).
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_pacing_max(&self, socket: &impl Socket, rate: Bandwidth) -> io::Result<()> {
        kernel::set_max_pacing_rate(socket, (rate.bits_per_second() / 8).max(1))
    }

    /// What may be written now. If that is nothing, the socket will be writable when a packet fits.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn room(&mut self, socket: &impl Socket) -> io::Result<Room> {
        let now = clock::now();
        let is_fresh = self.asked_at.is_some_and(|at| now.saturating_duration_since(at) < GRANT_MAX);
        let mss_bytes = u64::from(self.info.mss_bytes);
        if !is_fresh || self.granted_bytes < mss_bytes {
            self.ask(socket, now)?;
        }
        let mss_bytes = u64::from(self.info.mss_bytes);
        let room = Room { bytes: self.granted_bytes / mss_bytes * mss_bytes, mss_bytes: self.info.mss_bytes };
        if !room.is_open() {
            self.ring_when_a_packet_fits(socket)?;
        }
        Ok(room)
    }

    /// What to try on a connection that is gone: its next write reports why.
    pub(crate) fn one_packet(&self) -> Room {
        Room { bytes: self.info.mss_bytes.into(), mss_bytes: self.info.mss_bytes }
    }

    /// Asks the kernel, and learns what was sent since it was asked last.
    fn ask(&mut self, socket: &impl Socket, now: Instant) -> io::Result<()> {
        self.info = kernel::read_info(socket)?;
        self.asked_at = Some(now);
        self.learn(now);
        let unsent_max = self.unsent_packets_max(now) * u64::from(self.info.mss_bytes);
        self.granted_bytes = unsent_max.saturating_sub(self.info.notsent_bytes.into());
        Ok(())
    }

    /// What left since the kernel was asked last left by the time at which data was last sent.
    fn learn(&mut self, now: Instant) {
        let sent = self.written.saturating_sub(self.info.notsent_bytes.into());
        let left_at = now.saturating_sub(self.info.since_data_sent.saturating_sub(TICK_MAX));
        while let Some(wait) = self.waits.sent(left_at, sent) {
            let packets = wait.bytes.div_ceil(self.info.mss_bytes.into());
            let packets = u32::try_from(packets).unwrap_or(u32::MAX);
            self.histogram.record(wait.waited, packets);
            if let Some(budget) = &mut self.budget {
                budget.packets_left(wait.waited, packets);
            }
        }
    }

    /// Packets that may be unsent: one at least, which the kernel rings the bell with when it leaves. It has no other bell.
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

    /// The kernel takes a socket for writable when twice the unsent bytes are fewer than `TCP_NOTSENT_LOWAT`.
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

    /// The socket took `bytes`.
    pub fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
        self.granted_bytes = self.granted_bytes.saturating_sub(bytes);
        self.waits.written(clock::now(), self.written);
    }

    /// The sender's share of the latency, now and so far.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn sender_share(&mut self, socket: &impl Socket) -> io::Result<SenderShare> {
        let now = clock::now();
        self.ask(socket, now)?;
        Ok(SenderShare {
            waiting_time: self.info.waiting_time(),
            oldest: self.waits.oldest(now),
            waited: self.histogram.clone(),
            budget_share_ppm: self.budget.map(|budget| budget.share_ppm()),
            info: self.info,
        })
    }
}

fn budget_of(limit: SendBufferLimit) -> Option<DelayBudget> {
    match limit {
        SendBufferLimit::Target(budget) => Some(DelayBudget::new(budget)),
        SendBufferLimit::Bytes(_) | SendBufferLimit::MinBuf(_) => None,
    }
}
