//! Interoperability in virtual time: `festina_bench_peers::simulation` lists the checks of each run.

use std::ops::Range;

use festina_bench_peers::simulation::{Ending, Outcome, Scenario, run};
use festina_bench_peers::stack::{DcSctp, Festina, RtcSctp, SctpProto};
use festina_bench_peers::{Settings, Stack};
use festina_netsim::{LinkConfig, LossModel, RandomStream, Reordering};
use festina_units::{Duration, Probability};

use crate::seeds;

/// Longest time for which a packet is held back, so that later ones overtake it.
const HOLD_BACK_MS_MAX: u64 = 40;

/// Packets are lost, duplicated, held back and, for half of the seeds, damaged.
fn link(loss_percent: u32, seed: u64, random: &mut RandomStream) -> LinkConfig {
    let hold_back = Duration::from_millis(1 + random.below(HOLD_BACK_MS_MAX));
    LinkConfig {
        delay: Duration::from_millis(10),
        loss: LossModel::Independent(Probability::from_percent(loss_percent)),
        reordering: Reordering { probability: Probability::from_percent(3), hold_back },
        duplication: Probability::from_percent(2),
        corruption: if seed % 4 < 2 { Probability::ZERO } else { Probability::from_percent(3) },
        ..LinkConfig::default()
    }
}

/// Mostly small messages. Now and then one up to 1 MB, smaller the more packets are lost, for the time it takes.
fn sizes(random: &mut RandomStream, loss_percent: u32) -> Vec<usize> {
    let large_max = match loss_percent {
        0 => 1_000_000,
        1 => 300_000,
        5 => 100_000,
        _ => 20_000,
    };
    let mut below = |limit: u64| usize::try_from(random.below(limit)).unwrap_or(0);
    let count = below(40);
    let mut sizes: Vec<usize> = (0..count)
        .map(|_| match below(20) {
            0..=4 => 1 + below(8),
            5..=13 => 1 + below(300),
            14..=18 => 1 + below(3_000),
            _ => 1 + below(20_000),
        })
        .collect();
    if below(12) == 0 {
        sizes.push(large_max);
    }
    sizes
}

fn endings<C: Stack, S: Stack>() -> Vec<Ending> {
    let mut endings = vec![Ending::ClientShutsDown, Ending::ServerShutsDown, Ending::BothShutDown];
    if C::SHUTDOWN_DRAINS {
        endings.push(Ending::ClientShutsDownEarly);
    }
    if C::CAN_ABORT {
        endings.push(Ending::ClientAborts);
    }
    if S::CAN_ABORT {
        endings.push(Ending::ServerAborts);
    }
    endings
}

fn scenario<C: Stack, S: Stack>(loss_percent: u32, seed: u64) -> Scenario {
    let mut random = RandomStream::new(seed, "scenario");
    let endings = endings::<C, S>();
    let choice = usize::try_from(random.below(endings.len() as u64)).unwrap_or(0);
    let ending = endings[choice];
    let client_sends = sizes(&mut random, loss_percent);
    let server_sends =
        if ending == Ending::ClientShutsDownEarly { Vec::new() } else { sizes(&mut random, loss_percent) };
    Scenario {
        link: link(loss_percent, seed, &mut random),
        seed,
        unordered: seed % 2 == 1,
        client_sends,
        server_sends,
        ending,
    }
}

/// Runs `seeds` scenarios with each of the loss rates. Checks that all succeed and that the links lost, reordered and
/// duplicated packets as configured.
fn all_runs_succeed<C: Stack, S: Stack>(seeds: Range<u64>) {
    let runs = seeds.end - seeds.start;
    for loss_percent in [0, 1, 5, 20] {
        let mut failures = Vec::new();
        let (mut lost, mut duplicated, mut reordered, mut damaged) = (0, 0, 0, 0);
        let (mut messages, mut late_aborts) = (0, 0);
        for seed in seeds.clone() {
            let (mut clients, mut servers) = (C::new(&Settings::interop()), S::new(&Settings::interop()));
            let scenario = scenario::<C, S>(loss_percent, seed);
            match run(&mut clients, &mut servers, &scenario) {
                Ok(Outcome { links, messages: count, late_abort, .. }) => {
                    late_aborts += u64::from(late_abort);
                    for counters in links {
                        lost += counters.lost;
                        duplicated += counters.duplicated;
                        reordered += counters.reordered;
                        damaged += counters.corrupted;
                    }
                    messages += count;
                }
                Err(error) => failures.push(format!("seed {seed}, {:?}: {error}", scenario.ending)),
            }
        }
        assert!(
            failures.is_empty(),
            "client {}, server {}, {loss_percent} % loss: {} of {runs} runs failed\n{}",
            C::NAME,
            S::NAME,
            failures.len(),
            failures.iter().take(6).cloned().collect::<Vec<_>>().join("\n")
        );
        assert!(messages > runs && duplicated > 0 && reordered > 0 && damaged > 0);
        assert_eq!(lost > 0, loss_percent > 0);
        // It takes a packet that is overtaken by SHUTDOWN COMPLETE, or by what caused it, on top of the loss.
        let late_aborts_max = runs / 100;
        assert!(late_aborts <= late_aborts_max, "{late_aborts} late aborts at {loss_percent} % loss");
    }
}

/// The runs with each loss rate.
fn all_seeds() -> Range<u64> {
    seeds::extent(0..40, 0..250)
}

#[test]
fn festina_understands_itself() {
    all_runs_succeed::<Festina, Festina>(all_seeds());
}

#[test]
fn festina_connects_to_dcsctp() {
    all_runs_succeed::<Festina, DcSctp>(all_seeds());
}

#[test]
fn festina_accepts_dcsctp() {
    all_runs_succeed::<DcSctp, Festina>(all_seeds());
}

#[test]
fn festina_connects_to_rtc_sctp() {
    all_runs_succeed::<Festina, RtcSctp>(all_seeds());
}

#[test]
fn festina_accepts_rtc_sctp() {
    all_runs_succeed::<RtcSctp, Festina>(all_seeds());
}

#[test]
fn festina_connects_to_sctp_proto() {
    all_runs_succeed::<Festina, SctpProto>(all_seeds());
}

#[test]
fn festina_accepts_sctp_proto() {
    all_runs_succeed::<SctpProto, Festina>(all_seeds());
}

/// Shows that the harness finds no fault where there is none of Festina's to find.
#[test]
fn the_peers_understand_themselves() {
    all_runs_succeed::<DcSctp, DcSctp>(0..40);
    all_runs_succeed::<RtcSctp, RtcSctp>(0..40);
    all_runs_succeed::<SctpProto, SctpProto>(0..40);
}
