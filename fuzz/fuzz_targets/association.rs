//! Two real associations, the listeners behind them, and an attacker that sends to both: arbitrary bytes, forged
//! packets with the right tags, stolen and changed cookies, and genuine packets that are lost, repeated, reordered and
//! damaged.
//!
//! With any input: nothing panics, every sent packet is well-formed and small enough, one call releases a bounded
//! number of packets and events, data held for the application is bounded, no timer that was handled is still due, and
//! a closed association stays silent.

#![no_main]

#[path = "common/chunks.rs"]
mod chunks;
#[path = "common/forge.rs"]
mod forge;
#[path = "association/plan.rs"]
mod plan;
#[path = "common/settings.rs"]
mod settings;
#[path = "association/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;

use plan::Plan;
use world::World;

fuzz_target!(|plan: Plan| {
    let mut world = World::new(&plan.setup);
    world.establish();
    for operation in &plan.operations {
        world.act(operation);
    }
    world.finish();
});
