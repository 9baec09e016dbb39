//! Two honest hosts that communicate over a bad link, and do everything that applications may do: send with every kind
//! of reliability, read slowly, change loss recovery, reset and add streams, shut down, abort, restart, move to another
//! UDP port, open from both sides at once. A middlebox may pad their packets with chunks that a receiver skips. With
//! some inputs, an attacker that knows the tags joins in.
//!
//! With any input:
//!
//! - what an association holds on the heap is bounded by its buffers;
//! - no host accuses the other of a violation of the protocol, unless there was an attacker;
//! - a reliable message between two incarnations that have not lost their state arrives exactly once, whole, and in the
//!   order of its stream;
//! - when the link recovers, everything is delivered, and when both shut down, both end, in bounded virtual time;
//! - no timer that was handled is still due, and the number of packets per second of virtual time is bounded;
//! - over a link that has recovered, messages need few packets;
//! - the same input gives the same packets at the same times.

mod heap;
mod host;
mod ledger;
mod network;
mod plan;
mod world;

pub use heap::Tagging;
use plan::Plan;
use world::World;

use crate::read;

/// One input out of this many is run twice.
const REPEATED: u64 = 64;

/// Runs one input.
///
/// # Panics
/// If an invariant is broken, or if the allocator of the program is not [`Tagging`].
pub fn run(data: &[u8]) {
    assert!(heap::is_counted(), "the allocator must be `Tagging`");
    let Some(plan) = read::<Plan>(data) else { return };
    let trace = World::run(&plan);
    if plan.seed % REPEATED == 0 {
        assert_eq!(trace, World::run(&plan), "the same input gave other packets");
    }
}
