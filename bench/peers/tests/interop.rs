//! Interoperability in virtual time: see `festina_bench_peers::simulation` for what is checked in each run.

use std::time::Duration;

use festina_bench_peers::link::{Impairment, LinkCounts};
use festina_bench_peers::simulation::{Ending, Outcome, Scenario, run};
use festina_bench_peers::stack::{DcSctp, Festina, RtcSctp, SctpProto};
use festina_bench_peers::{Settings, Stack};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Runs with each loss rate.
const SEEDS: u64 = 250;

fn impairment(loss_percent: u32) -> Impairment {
    Impairment {
        loss_percent,
        duplicate_percent: 2,
        reorder_percent: 3,
        hold_back_max: Duration::from_millis(40),
        delay: Duration::from_millis(10),
    }
}

/// Mostly small messages. Now and then one up to 1 MB, smaller the more packets are lost, for the time it takes.
fn sizes(random: &mut Xoshiro256PlusPlus, loss_percent: u32) -> Vec<usize> {
    let large_max = match loss_percent {
        0 => 1_000_000,
        1 => 300_000,
        5 => 100_000,
        _ => 20_000,
    };
    let mut below = |limit: u64| usize::try_from(random.next_u64() % limit).unwrap_or(0);
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
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let endings = endings::<C, S>();
    let choice = usize::try_from(random.next_u64() % endings.len() as u64).unwrap_or(0);
    let ending = endings[choice];
    let client_sends = sizes(&mut random, loss_percent);
    let server_sends =
        if ending == Ending::ClientShutsDownEarly { Vec::new() } else { sizes(&mut random, loss_percent) };
    Scenario {
        impairment: impairment(loss_percent),
        seed,
        unordered: seed % 2 == 1,
        client_sends,
        server_sends,
        ending,
    }
}

/// Runs `seeds` scenarios with each of the loss rates and demands that all of them succeed, and that the links did to
/// packets what they were asked to.
fn all_runs_succeed<C: Stack, S: Stack>(seeds: u64) {
    for loss_percent in [0, 1, 5, 20] {
        let mut failures = Vec::new();
        let mut packets = LinkCounts::default();
        let (mut messages, mut late_aborts) = (0, 0);
        for seed in 0..seeds {
            let (mut clients, mut servers) = (C::new(&Settings::interop()), S::new(&Settings::interop()));
            let scenario = scenario::<C, S>(loss_percent, seed);
            match run(&mut clients, &mut servers, &scenario) {
                Ok(Outcome { packets: counts, messages: count, late_abort, .. }) => {
                    late_aborts += u64::from(late_abort);
                    packets.sent += counts.sent;
                    packets.lost += counts.lost;
                    packets.duplicated += counts.duplicated;
                    packets.reordered += counts.reordered;
                    messages += count;
                }
                Err(error) => failures.push(format!("seed {seed}, {:?}: {error}", scenario.ending)),
            }
        }
        assert!(
            failures.is_empty(),
            "client {}, server {}, {loss_percent} % loss: {} of {seeds} runs failed\n{}",
            C::NAME,
            S::NAME,
            failures.len(),
            failures.iter().take(6).cloned().collect::<Vec<_>>().join("\n")
        );
        assert!(messages > seeds && packets.duplicated > 0 && packets.reordered > 0);
        assert_eq!(packets.lost > 0, loss_percent > 0);
        // It takes the loss of several packets in a row.
        let late_aborts_max = if loss_percent == 20 { seeds / 20 } else { 0 };
        assert!(late_aborts <= late_aborts_max, "{late_aborts} late aborts at {loss_percent} % loss");
    }
}

#[test]
fn festina_understands_itself() {
    all_runs_succeed::<Festina, Festina>(SEEDS);
}

#[test]
fn festina_connects_to_dcsctp() {
    all_runs_succeed::<Festina, DcSctp>(SEEDS);
}

#[test]
fn festina_accepts_dcsctp() {
    all_runs_succeed::<DcSctp, Festina>(SEEDS);
}

#[test]
fn festina_connects_to_rtc_sctp() {
    all_runs_succeed::<Festina, RtcSctp>(SEEDS);
}

#[test]
fn festina_accepts_rtc_sctp() {
    all_runs_succeed::<RtcSctp, Festina>(SEEDS);
}

#[test]
fn festina_connects_to_sctp_proto() {
    all_runs_succeed::<Festina, SctpProto>(SEEDS);
}

#[test]
fn festina_accepts_sctp_proto() {
    all_runs_succeed::<SctpProto, Festina>(SEEDS);
}

/// Shows that the harness finds no fault where there is none of Festina's to find.
#[test]
fn the_peers_understand_themselves() {
    all_runs_succeed::<DcSctp, DcSctp>(40);
    all_runs_succeed::<RtcSctp, RtcSctp>(40);
    all_runs_succeed::<SctpProto, SctpProto>(40);
}
