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

#![no_main]

#[path = "common/chunks.rs"]
mod chunks;
#[path = "common/forge.rs"]
mod forge;
#[path = "dialogue/heap.rs"]
mod heap;
#[path = "dialogue/host.rs"]
mod host;
#[path = "dialogue/ledger.rs"]
mod ledger;
#[path = "dialogue/network.rs"]
mod network;
#[path = "dialogue/plan.rs"]
mod plan;
#[path = "common/settings.rs"]
mod settings;
#[path = "dialogue/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

use plan::Plan;
use world::World;

#[global_allocator]
static ALLOCATOR: heap::Tagging = heap::Tagging;

/// One input out of this many is run twice.
const REPEATED: u64 = 64;

fuzz_target!(|plan: Plan| {
    let trace = World::run(&plan);
    if plan.seed % REPEATED == 0 {
        assert_eq!(trace, World::run(&plan), "the same input gave other packets");
    }
});
