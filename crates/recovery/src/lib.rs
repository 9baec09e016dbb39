//! Loss-recovery mechanisms for thin streams, as small pure decisions.
//!
//! A thin stream sends too few packets for fast retransmit to work, so its losses wait for a timeout. The mechanisms
//! here shorten that wait. They are independent of the protocol: times, counts and plain sequence numbers come in,
//! decisions come out, and the caller acts on them. There are no clocks, no random numbers and no allocations except
//! for the bounded lists of the detector, of the send buffer's meter and of presumed losses.
//!
//! | module | question that it answers |
//! |---|---|
//! | [`rtt`] | how long are a round trip and the RTO? |
//! | [`backoff`] | how long to wait after an unanswered timeout? |
//! | [`thin`] | is the stream thin? |
//! | [`rate`] | how many bytes are sent per round trip? |
//! | [`bursts`] | do losses come in a row, and how far away is a copy safe? |
//! | [`loss_rate`] | which share of the packets is lost, and is it rising? |
//! | [`presumed_loss`] | was a packet lost, or overtaken by a copy of its data? |
//! | [`fast_retransmit`] | do these miss indications prove a loss? |
//! | [`early_retransmit`] | how few duplicates prove a loss when little is in flight? |
//! | [`early_fast_retransmit`] | FreeBSD's early timer: when does it expire, for which chunks, and with which effect on cwnd? |
//! | [`rto_restart`] | how does a SACK change the running timer? |
//! | [`probe`] | Festina's probe: when is it sent, and which chunks does it carry? |
//! | [`tail_probe`] | TLP's tail probes: when, with which contents, and did it repair a loss? |
//! | [`rack`] | is this packet lost, judged by time? |
//! | [`reordering`] | how long to wait for an overtaken packet? |
//! | [`redundancy`] | how is a chunk protected, does a message get a copy, and when? |
//! | [`cadence`] | does a packet have to request its SACK? |
//! | [`early_copy`] | when is a chunk that opens or ends an association copied? |
//! | [`loss_timer`] | what happens next if no acknowledgement arrives, and when? |
//! | [`send_buffer`] | how much may wait in the send buffer? |
//! | [`windowed_min`] | what minimum did a value have recently? |
//! | [`spurious`] | was that retransmission needed? |
//! | [`f_rto`] | was the timeout spurious? |
//! | [`undo`] | what to restore after a spurious cut of the window? |
//! | [`profile`] | which mechanisms belong to a named profile? |
//!
//! Sources: RFC 9260, RFC 4015, RFC 4138, RFC 5827, RFC 7765, RFC 8985; P06 is Pedersen et al. 2006, P10 is Petlund et al.
//! 2010, R15 is Rajiullah 2015, G02 is Goel et al. 2002.
//!
//! ```
//! use festina_recovery::{
//!     backoff::ExpirySeries,
//!     loss_timer::{self, TimerDecision},
//!     profile::Profile,
//!     rtt::RttEstimator,
//!     thin::ThinDetector,
//! };
//! use festina_units::{Duration, Instant};
//!
//! let mechanisms = Profile::Festina.mechanisms();
//! let (mut rtt, mut detector) = (RttEstimator::new(Duration::from_secs(1)), ThinDetector::new());
//! for _ in 0..30 {
//!     rtt.sample(Duration::from_millis(100));
//! }
//!
//! // One packet is sent. If it is not acknowledged, a probe follows just after one round trip.
//! let now = Instant::from_secs(7);
//! detector.packet_sent(now, 1, true);
//! let rules = mechanisms.rules(detector.is_thin(mechanisms.thin_detection, rtt.srtt()));
//! let series = ExpirySeries::default();
//! let rto_max = Duration::from_secs(60);
//! let timeout_at = now + loss_timer::timeout_interval(rules, &rtt, &series, rto_max);
//! let next = loss_timer::decide(rules, &rtt, &series, |_| now, timeout_at);
//! assert_eq!(next, TimerDecision::Probe { at: now + Duration::from_millis(105) });
//! ```
#![forbid(unsafe_code)]

pub mod backoff;
pub mod bursts;
pub mod cadence;
pub mod early_copy;
pub mod early_fast_retransmit;
pub mod early_retransmit;
pub mod f_rto;
pub mod fast_retransmit;
pub mod loss_rate;
pub mod loss_timer;
pub mod presumed_loss;
pub mod probe;
pub mod profile;
pub mod rack;
pub mod rate;
pub mod redundancy;
pub mod reordering;
pub mod rto_restart;
pub mod rtt;
pub mod send_buffer;
pub mod spurious;
pub mod tail_probe;
pub mod thin;
pub mod undo;
pub mod windowed_min;

pub use profile::{Mechanisms, Profile};
