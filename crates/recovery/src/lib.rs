//! Loss-recovery mechanisms for thin streams, as small pure decisions.
//!
//! A thin stream sends too few packets for fast retransmit to work, so that its losses wait for a
//! timeout. The mechanisms here shorten that wait. They know no protocol: times, counts and plain
//! sequence numbers come in, decisions come out, and the caller acts on them. There is no clock, no
//! random number and no allocation but the bounded lists of the detector and of the send buffer's meter.
//!
//! | room | the question that it answers |
//! |---|---|
//! | [`rtt`] | how long does a round trip take, and what is the RTO? |
//! | [`backoff`] | how long to wait after a timeout that was not answered? |
//! | [`thin`] | is the stream thin? |
//! | [`rate`] | how many bytes leave per round trip? |
//! | [`loss_rate`] | what share of the packets is lost, and is it rising? |
//! | [`fast_retransmit`] | do these miss indications prove a loss? |
//! | [`early_retransmit`] | how few duplicates prove a loss when little is in flight? |
//! | [`early_fast_retransmit`] | FreeBSD's timer before the timer: when, which chunks, what of cwnd? |
//! | [`rto_restart`] | what does a SACK do to the running timer? |
//! | [`probe`] | Festina's probe: when to ask, and what joins it? |
//! | [`tail_probe`] | TLP's tail probes: when, with what, and what was lost? |
//! | [`rack`] | is this packet lost, judged by time? |
//! | [`reordering`] | how long to wait for a packet that was overtaken? |
//! | [`redundancy`] | how often does a message ride along, does it get a copy, and when? |
//! | [`cadence`] | does a packet have to ask for its SACK? |
//! | [`early_copy`] | when does a chunk leave again that opens or ends an association? |
//! | [`loss_timer`] | what happens next if nothing comes, and when? |
//! | [`send_buffer`] | how much may wait in the send buffer? |
//! | [`windowed_min`] | what was the smallest value of late? |
//! | [`spurious`] | was that retransmission needed? |
//! | [`f_rto`] | was the timeout spurious? |
//! | [`undo`] | what to restore after a cut without a cause? |
//! | [`profile`] | which mechanisms go together under a name? |
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
//! // One packet leaves. If nothing is heard of it, a probe follows just after one round trip.
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
pub mod cadence;
pub mod early_copy;
pub mod early_fast_retransmit;
pub mod early_retransmit;
pub mod f_rto;
pub mod fast_retransmit;
pub mod loss_rate;
pub mod loss_timer;
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
