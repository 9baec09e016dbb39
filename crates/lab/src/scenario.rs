//! Set-ups shared by experiments: transports by their settings, and the thin stream over a path.
//!
//! - [`Stack`]: the transport of a stream, with its settings
//! - [`ThinStream`]: one stream of small messages over one path, and the truth about it
//! - [`petlund`](Group): the transports that P10 compares; [`Congested`]: thin streams with its web traffic
//! - [`MediaProfile`]: a media stream over TCP with elephants, mice and constant bit rate
//! - [`Readings`]: lksctp under each reading of points that the papers leave open, and [`Fault`]s that the checks must notice
//! - [`Competition`]: streams that share a bottleneck, and the share of each
//! - `contended`: bottlenecks in a row with greedy TCP flows; `mixture`: messages of mixed importance with them; `log_lines`: log lines of
//!   two classes over any transport
//! - [`GameReplay`]: machines that replay game traffic side by side
//! - `server`: flows to many clients, each over its own path, as captured at both ends; `flaw`: deliberately flawed captures
//! - [`Retransmissions`]: retransmissions counted and timed by ordinal, cause and need

pub(crate) mod bottleneck;
mod captured;
mod congested;
pub(crate) mod contended;
pub(crate) mod fairness;
pub(crate) mod fate;
mod flaw;
mod game;
mod kernel;
pub(crate) mod log_lines;
pub(crate) mod looks;
mod media;
pub(crate) mod mixture;
mod petlund;
mod retransmissions;
mod sender;
pub(crate) mod server;

pub use captured::Captured;
pub use congested::{Congested, CongestedRun, WebTraffic};
pub use fairness::{Competition, Competitor, Outcome, Share};
pub(crate) use flaw::CaptureFlaw;
pub use game::{GameReplay, MachineRun};
pub use kernel::{Fault, Readings, Version};
pub use log_lines::{Line, LineFate};
pub use media::{CrossTraffic, Media, MediaProfile, MediaRun, Split};
pub use petlund::{Group, TimerFix};
pub use retransmissions::{
    CAUSES, Ordinal, Retransmissions, WAITS, cause_name, note_waits, record_retransmissions, tally_retransmissions,
};
pub(crate) use sender::Sender;

pub use festina_models::stack::{Stack, StreamRecord, Traffic};
pub use festina_models::thin_stream::{StreamRun, ThinStream};
