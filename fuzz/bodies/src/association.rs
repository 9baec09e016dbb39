//! Two real associations, the listeners behind them, and an attacker that sends to both: arbitrary bytes, forged
//! packets with the right tags, stolen and changed cookies, and genuine packets that are lost, repeated, reordered and
//! damaged.
//!
//! With any input: nothing panics, every sent packet is well-formed and small enough, one call releases a bounded
//! number of packets and events, data held for the application is bounded, no timer that was handled is still due, and
//! a closed association stays silent.

mod plan;
mod world;

use plan::Plan;
use world::World;

use crate::read;

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(data: &[u8]) {
    let Some(plan) = read::<Plan>(data) else { return };
    let mut world = World::new(&plan.setup);
    world.establish();
    for operation in &plan.operations {
        world.act(operation);
    }
    world.finish();
}
