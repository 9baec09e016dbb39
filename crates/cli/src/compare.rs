//! The machinery of `festina compare`: the same thin streams over the same bad network, once per loss-recovery profile and
//! all profiles at the same time.
//!
//! - [`scenario`]: the streams and the network
//! - [`run`]: all profiles from the handshakes to the last message; `rig` holds one profile's endpoints and network,
//!   `recorder` the received messages
//! - [`simulated`]: the same in the simulator
//! - [`state`]: the streams as state updates, simulated: how old is the newest state that the receiver has?
//! - [`outcome`]: the results of one profile; [`totals`]: sums of packets and bytes
//! - [`report`], [`bars`], [`html`] and [`json`]: its presentation
//! - [`capture`]: the packets, as pcapng

pub(crate) mod bars;
pub(crate) mod capture;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod outcome;
mod progress;
pub(crate) mod recorder;
pub(crate) mod report;
pub(crate) mod rig;
pub(crate) mod run;
pub(crate) mod scenario;
mod simulated;
pub(crate) mod state;
mod totals;
