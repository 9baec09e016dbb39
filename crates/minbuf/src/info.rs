//! The kernel's state of a TCP connection: `struct tcp_info` of Linux's `linux/tcp.h`.

use std::io;

use festina_recovery::send_buffer::Window;
use festina_units::Duration;

/// Size including `tcpi_delivery_rate`, available since Linux 4.9.
const BYTES_MIN: usize = 168;

/// The fields of `struct tcp_info` that concern a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Payload bytes of a full segment.
    pub mss_bytes: u32,
    /// cwnd, in segments.
    pub cwnd_packets: u32,
    /// Segments sent and not cumulatively acknowledged.
    pub unacked_packets: u32,
    /// Number of these that are selectively acknowledged.
    pub sacked_packets: u32,
    /// Number of these that are considered lost.
    pub lost_packets: u32,
    /// Number of retransmissions since the connection was established.
    pub retransmissions: u32,
    /// Bytes in the send buffer that have never been sent.
    pub notsent_bytes: u32,
    /// The smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// The kernel's windowed minimum of the round-trip time; zero before the first sample.
    pub rtt_min: Duration,
    /// Time since a segment with data was last sent, with the resolution of a millisecond or of the kernel's tick.
    pub since_data_sent: Duration,
    /// Pacing rate in bytes per second, whether or not pacing is in use; [`u64::MAX`] if there is none.
    pub pacing_bytes_per_second: u64,
    /// Recent delivery rate in bytes per second.
    pub delivery_bytes_per_second: u64,
    /// Whether that rate was limited by the application and not by the network.
    pub is_delivery_app_limited: bool,
}

impl TcpInfo {
    /// Parses the kernel's structure.
    ///
    /// # Errors
    /// If it ends before `tcpi_delivery_rate`: the kernel is older than Linux 4.9.
    pub fn parse(bytes: &[u8]) -> io::Result<Self> {
        if bytes.len() < BYTES_MIN {
            let problem =
                "this kernel does not report the unsent bytes of a send buffer; Linux 4.9 or later is required";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        let u32_at = |offset: usize| {
            let mut field = [0; 4];
            field.copy_from_slice(&bytes[offset..offset + 4]);
            u32::from_ne_bytes(field)
        };
        let u64_at = |offset: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[offset..offset + 8]);
            u64::from_ne_bytes(field)
        };
        let micros_at = |offset| Duration::from_micros(u32_at(offset).into());
        Ok(Self {
            mss_bytes: u32_at(16).max(1),
            cwnd_packets: u32_at(80),
            unacked_packets: u32_at(24),
            sacked_packets: u32_at(28),
            lost_packets: u32_at(32),
            retransmissions: u32_at(100),
            notsent_bytes: u32_at(144),
            srtt: micros_at(68),
            // The kernel reports `u32::MAX` before the first sample.
            rtt_min: if u32_at(148) == u32::MAX { Duration::ZERO } else { micros_at(148) },
            since_data_sent: Duration::from_millis(u32_at(44).into()),
            pacing_bytes_per_second: u64_at(104),
            delivery_bytes_per_second: u64_at(160),
            // The first bit of a bit field in the eighth byte.
            is_delivery_app_limited: bytes[7] & if cfg!(target_endian = "little") { 1 } else { 0x80 } != 0,
        })
    }

    /// Returns the inputs for a limit in packets.
    #[must_use]
    pub fn window(&self) -> Window {
        Window {
            cwnd_packets: self.cwnd_packets,
            outstanding_packets: self.unacked_packets,
            sacked_packets: self.sacked_packets,
        }
    }

    /// Returns the smoothed round-trip time, if there is one.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        (!self.srtt.is_zero()).then_some(self.srtt)
    }

    /// Returns the time in which a window is sent: the round-trip time, or longer if the sender is paced. `None` before
    /// the first round-trip time.
    #[must_use]
    pub fn window_time(&self) -> Option<Duration> {
        let window_bytes = u128::from(self.cwnd_packets) * u128::from(self.mss_bytes);
        let paced_ns = window_bytes * 1_000_000_000 / u128::from(self.pacing_bytes_per_second.max(1));
        Some(self.rtt()?.max(Duration::from_nanos(u64::try_from(paced_ns).unwrap_or(u64::MAX))))
    }

    /// Returns the sending rate in bytes per second: a window per [`window_time`](Self::window_time), or the recent
    /// delivery rate if that was less and limited by the network. `None` before the first round-trip time.
    #[must_use]
    pub fn sending_bytes_per_second(&self) -> Option<u64> {
        let window_bytes = u128::from(self.cwnd_packets) * u128::from(self.mss_bytes);
        let per_window = window_bytes * 1_000_000_000 / self.window_time()?.as_nanos().max(1);
        let per_window = u64::try_from(per_window).unwrap_or(u64::MAX);
        let delivered = self.delivery_bytes_per_second;
        Some(if delivered == 0 || self.is_delivery_app_limited { per_window } else { per_window.min(delivered) })
    }

    /// Returns how long the unsent data still has to wait at the present rate: the sender's share of the latency.
    /// `None` before the first round-trip time.
    #[must_use]
    pub fn waiting_time(&self) -> Option<Duration> {
        let nanos =
            u128::from(self.notsent_bytes) * 1_000_000_000 / u128::from(self.sending_bytes_per_second()?.max(1));
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(fields: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 232];
        for &(offset, value) in fields {
            bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn every_field_is_read_from_its_place() {
        let bytes = raw(&[
            (16, 1448),
            (24, 12),
            (28, 3),
            (32, 2),
            (44, 8),
            (68, 50_000),
            (80, 20),
            (100, 5),
            (144, 2896),
            (148, 40_000),
            (160, 90_000),
        ]);
        let info = TcpInfo::parse(&bytes).expect("it is long enough");
        assert_eq!((info.mss_bytes, info.cwnd_packets, info.unacked_packets, info.sacked_packets), (1448, 20, 12, 3));
        assert_eq!((info.lost_packets, info.retransmissions, info.notsent_bytes), (2, 5, 2896));
        assert_eq!((info.srtt, info.rtt_min), (Duration::from_millis(50), Duration::from_millis(40)));
        assert_eq!((info.since_data_sent, info.delivery_bytes_per_second), (Duration::from_millis(8), 90_000));
        assert_eq!(info.window(), Window { cwnd_packets: 20, outstanding_packets: 12, sacked_packets: 3 });
    }

    #[test]
    fn unsent_bytes_wait_for_their_size_over_the_rate() {
        let window = TcpInfo {
            mss_bytes: 1000,
            cwnd_packets: 10,
            srtt: Duration::from_millis(100),
            pacing_bytes_per_second: u64::MAX,
            ..TcpInfo::default()
        };
        assert_eq!(window.sending_bytes_per_second(), Some(100_000));
        let waiting = TcpInfo { notsent_bytes: 5_000, ..window };
        assert_eq!(waiting.waiting_time(), Some(Duration::from_millis(50)));
        let paced = TcpInfo { pacing_bytes_per_second: 25_000, ..waiting };
        assert_eq!(paced.window_time(), Some(Duration::from_millis(400)));
        assert_eq!(paced.waiting_time(), Some(Duration::from_millis(200)));
        // A slower network counts, an application without data to send does not.
        let slower = TcpInfo { delivery_bytes_per_second: 50_000, ..waiting };
        assert_eq!(slower.waiting_time(), Some(Duration::from_millis(100)));
        assert_eq!(TcpInfo { is_delivery_app_limited: true, ..slower }.waiting_time(), Some(Duration::from_millis(50)));
        assert_eq!(TcpInfo { srtt: Duration::ZERO, ..waiting }.waiting_time(), None);
    }

    #[test]
    fn an_old_kernel_is_named_as_such() {
        let error = TcpInfo::parse(&[0; 104]).expect_err("it is too short");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("4.9"), "{error}");
    }
}
