//! Deterministic network links: rate, delay, jitter, queue, loss, reordering, duplication, corruption.
//!
//! Nothing here knows a clock, a socket or a protocol: time, seed and packets come in, packets and the
//! next deadline come out. The same seed gives the same result, packet for packet, on every machine.
//!
//! - [`link`]: one direction of a network path, from [`LinkConfig`] to [`Link`]
//! - [`queue`]: what waits in front of a link's transmitter, and how much of it
//! - [`loss`]: which packets a link loses
//! - [`random`]: named random streams and the distributions that links draw from
//!
//! The simulator's event kernel and its topologies will stand beside these; the `emulate` crate runs
//! the same links on a real clock.
//!
//! ```
//! use festina_netsim::{Admission, Link, LinkConfig, LossModel};
//! use festina_units::{Duration, Instant, Probability};
//!
//! let config = LinkConfig {
//!     delay: Duration::from_millis(50),
//!     loss: LossModel::Exact(vec![1]),
//!     ..LinkConfig::default()
//! };
//! let mut link: Link<Vec<u8>> = Link::new(config, 1, "forward");
//! assert_eq!(link.send(Instant::ZERO, b"first".to_vec()), Admission::Accepted);
//! assert_eq!(link.send(Instant::ZERO, b"second".to_vec()), Admission::Lost);
//!
//! let arrival = link.poll_deadline().expect("one packet is under way");
//! assert_eq!(arrival, Instant::from_millis(50));
//! assert_eq!(link.poll_delivery(arrival), Some(b"first".to_vec()));
//! assert_eq!(link.poll_deadline(), None);
//! ```
#![forbid(unsafe_code)]

pub mod link;
pub mod loss;
pub mod queue;
pub mod random;

pub use link::{Admission, Jitter, JitterShape, Link, LinkConfig, LinkCounters, LinkPacket, Reordering};
pub use loss::{GilbertElliott, LossModel};
pub use queue::QueueLimit;
pub use random::RandomStream;
