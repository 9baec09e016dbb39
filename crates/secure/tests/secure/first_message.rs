//! The first message over a link with losses, measured over many runs.

use std::ops::Range;

use festina_netsim::{LinkConfig, LossModel};
use festina_units::{Duration, Probability};

use crate::early::{resume, warm};
use crate::handshake::link;
use crate::seeds;
use crate::world::{Setup, World, tls, tls_early};

const MINUTE: Duration = Duration::from_secs(60);

/// Few runs say little about the tail.
const TAIL_RUNS_MIN: u64 = 10_000;

/// The figures of docs/secure-format.md: `TEST_SEEDS=0..5000 cargo test -p festina-secure --test secure
/// first_message -- --nocapture`.
fn seeds() -> Range<u64> {
    seeds::extent(0..300, 0..TAIL_RUNS_MIN)
}

fn lossy() -> LinkConfig {
    let loss = LossModel::Independent(Probability::from_percent(5));
    LinkConfig { delay: Duration::from_millis(50), loss, ..LinkConfig::default() }
}

/// The value that this many per mille of the sorted times do not exceed.
fn quantile(times: &[u64], per_mille: usize) -> u64 {
    times[(times.len() * per_mille).div_ceil(1_000).clamp(1, times.len()) - 1]
}

fn report(name: &str, mut times: Vec<u64>) -> [u64; 4] {
    times.sort_unstable();
    let quantiles = [500, 900, 990, 999].map(|per_mille| quantile(&times, per_mille));
    println!("{name}: p50, p90, p99, p99.9 = {quantiles:?} ms over {} runs", times.len());
    quantiles
}

#[test]
fn the_first_message_at_a_loss_of_5_percent() {
    let tls = tls();
    let (seeds, mut times) = (seeds(), Vec::new());
    let runs = seeds.end - seeds.start;
    for seed in seeds {
        let mut world = World::new(Setup::new(&tls, lossy(), seed));
        world.send(&[1; 100]);
        let (delivered, milliseconds) = world.run_until(MINUTE * 5, |world| world.messages() == 1);
        assert!(delivered, "seed {seed}: {:?}", world.client.failure());
        times.push(milliseconds);
    }
    let [p50, p90, p99, p999] = report("first message", times);
    assert!(p50 == 150 && p90 <= 400, "{p50} and {p90} ms");
    if runs >= TAIL_RUNS_MIN {
        assert!(p99 <= 500 && p999 <= 850, "{p99} and {p999} ms");
    }
}

#[test]
fn an_early_message_at_a_loss_of_5_percent() {
    let tls = tls_early();
    let (seeds, mut times) = (seeds(), Vec::new());
    let runs = seeds.end - seeds.start;
    for seed in seeds {
        warm(&tls, seed << 20 | 1);
        let mut world = resume(&tls, [lossy(), lossy()], seed);
        let arrived =
            |world: &World| world.served.iter().any(|served| !served.early.is_empty() || !served.received.is_empty());
        let (delivered, milliseconds) = world.run_until(MINUTE * 5, arrived);
        assert!(delivered, "seed {seed}: {:?}", world.client.failure());
        times.push(milliseconds);
    }
    let [p50, _, p99, _] = report("early message", times);
    assert_eq!(p50, 50);
    if runs >= TAIL_RUNS_MIN {
        assert!(p99 <= 300, "{p99} ms");
    }
}

#[test]
fn twelve_thousand_bytes_arrive_in_one_and_a_half_round_trips() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(&[1; 12_000]);
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
    assert_eq!((delivered, milliseconds), (true, 150));
}
