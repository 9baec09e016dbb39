//! What many experiments have in common: transports by their settings, and the thin stream over a path.
//!
//! - [`Stack`]: which transport carries a stream, and how it is set
//! - [`ThinStream`]: one stream of small messages over one path, and the truth about it

mod stack;
mod thin_stream;

pub use stack::{Stack, StreamRecord, Traffic};
pub use thin_stream::{StreamRun, ThinStream};
