//! Every policy of partial reliability between Festina and each stack that runs in this process, in virtual time: ordered and unordered, as DATA and,
//! where the peer supports it, as I-DATA, with and without stream resets, in both roles. `festina_bench_peers::simulation::conversation` lists the
//! checks.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use festina_bench_peers::simulation::conversation::{Plan, Tally, hold};
use festina_bench_peers::stack::{DcSctp, Festina, RtcSctp, SctpProto};
use festina_bench_peers::{PartiallyReliable, Policy, Settings, Stack};
use festina_netsim::{LinkConfig, LossModel, RandomStream, Reordering};
use festina_sctp::{Config, Expiry};
use festina_units::Probability;

use crate::seeds;

/// Conversations in each role of each cell. Links with odd seeds corrupt packets.
const SEEDS_SHORT: Range<u64> = 1..2;
const SEEDS_FULL: Range<u64> = 0..3;
/// Messages with policies in each part of a conversation.
const MESSAGES: u32 = 80;
const LOSSES_PERCENT: [u32; 3] = [0, 5, 20];
/// So that more important messages evict others.
const SEND_BUFFER_SMALL_BYTES: usize = 8 << 10;

const SHORT: Policy = Policy::Lifetime(Duration::from_millis(30));
const LONG: Policy = Policy::Lifetime(Duration::from_millis(150));

/// A policy of Festina's messages, with what the peer does meanwhile.
struct Case {
    name: &'static str,
    policies: &'static [Policy],
    peer_policies: &'static [Policy],
}

const RETRANSMISSIONS: &[Policy] =
    &[Policy::Retransmissions(0), Policy::Retransmissions(1), Policy::Retransmissions(2)];
const LIFETIMES: &[Policy] = &[SHORT, LONG];
const CASES: [Case; 8] = [
    Case { name: "reliable", policies: &[Policy::Reliable], peer_policies: &[Policy::Reliable] },
    Case { name: "lifetime", policies: LIFETIMES, peer_policies: LIFETIMES },
    Case { name: AT_ONCE, policies: LIFETIMES, peer_policies: LIFETIMES },
    Case { name: WHEN_MISSING, policies: LIFETIMES, peer_policies: LIFETIMES },
    Case { name: "retransmissions", policies: RETRANSMISSIONS, peer_policies: RETRANSMISSIONS },
    Case {
        name: PRIORITY,
        policies: &[Policy::Priority(1), Policy::Priority(3), Policy::Priority(0), Policy::Priority(2)],
        peer_policies: RETRANSMISSIONS,
    },
    Case { name: "replacing", policies: &[Policy::Replacing(1)], peer_policies: LIFETIMES },
    Case {
        name: "mixed",
        policies: &[SHORT, Policy::Retransmissions(0), Policy::Replacing(1), LONG, Policy::Retransmissions(1)],
        peer_policies: &[SHORT, Policy::Retransmissions(0), LONG],
    },
];
const AT_ONCE: &str = "lifetime, at once";
const WHEN_MISSING: &str = "lifetime, when missing";
const PRIORITY: &str = "priority";

/// What a row of the table has in common.
#[derive(Clone, Copy)]
struct Row {
    unordered: bool,
    interleaving: bool,
    resets: bool,
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.unordered { "unordered" } else { "ordered" };
        let framing = if self.interleaving { "I-DATA" } else { "DATA" };
        let resets = if self.resets { "resets" } else { "no resets" };
        write!(formatter, "{order}, {framing}, {resets}")
    }
}

fn link(loss_percent: u32, seed: u64) -> LinkConfig {
    let mut random = RandomStream::new(seed, "link");
    let hold_back = Duration::from_millis(1 + random.below(40));
    LinkConfig {
        delay: Duration::from_millis(10),
        loss: LossModel::Independent(Probability::from_percent(loss_percent)),
        reordering: Reordering { probability: Probability::from_percent(3), hold_back },
        duplication: Probability::from_percent(2),
        corruption: if seed.is_multiple_of(2) { Probability::ZERO } else { Probability::from_percent(3) },
        ..LinkConfig::default()
    }
}

fn config(case: &Case, row: Row) -> Config {
    let mut config = Festina::config(&Settings::interop());
    config.interleaving = row.interleaving;
    match case.name {
        AT_ONCE => config.partial_reliability.expiry = Expiry::AtOnce,
        WHEN_MISSING => config.partial_reliability.expiry = Expiry::WhenMissing,
        _ => {}
    }
    if case.name == PRIORITY {
        config.limits.send_buffer_bytes = SEND_BUFFER_SMALL_BYTES;
        config.limits.send_low_water_bytes = SEND_BUFFER_SMALL_BYTES / 2;
    }
    config
}

/// Holds the conversations of a cell, in both roles.
fn cell<S: Stack<Peer: PartiallyReliable>>(
    stack: &dyn Fn(Row) -> S,
    case: &Case,
    row: Row,
    loss_percent: u32,
) -> Result<Tally, String> {
    let mut sum = Tally::default();
    for seed in seeds::extent(SEEDS_SHORT, SEEDS_FULL) {
        for festina_connects in [false, true] {
            let plan = Plan {
                link: link(loss_percent, seed),
                seed,
                unordered: row.unordered,
                resets: row.resets,
                policies: case.policies.to_vec(),
                peer_policies: case.peer_policies.to_vec(),
                messages: MESSAGES,
            };
            let (mut own, mut others) = (Festina::with_config(config(case, row)), stack(row));
            let (festina, peer) = if festina_connects {
                (own.client(Duration::ZERO), others.server(Duration::ZERO))
            } else {
                (own.server(Duration::ZERO), others.client(Duration::ZERO))
            };
            let tally = hold(festina, peer, &plan)
                .map_err(|error| format!("seed {seed}, festina connects {festina_connects}: {error}"))?;
            sum = sum + tally;
        }
    }
    Ok(sum)
}

/// Holds all conversations with a stack, and prints a row for each policy.
fn all_policies_work_with<S: Stack<Peer: PartiallyReliable>>(stack: &dyn Fn(Row) -> S, framings: &[bool]) {
    let mut failures = Vec::new();
    for case in &CASES {
        let (mut cells, mut passed, mut sum) = (0, 0, Tally::default());
        for bits in 0..4 {
            for &interleaving in framings {
                let row = Row { unordered: bits & 1 != 0, resets: bits & 2 != 0, interleaving };
                for loss_percent in LOSSES_PERCENT {
                    cells += 1;
                    match cell(stack, case, row, loss_percent) {
                        Ok(tally) => {
                            passed += 1;
                            sum = sum + tally;
                        }
                        Err(error) => failures.push(format!("{}, {row}, {loss_percent}%: {error}", case.name)),
                    }
                }
            }
        }
        let framings = if framings.len() > 1 { "DATA, I-DATA" } else { "DATA" };
        let given_up: u64 = sum.abandoned.iter().sum();
        println!(
            "| {} | {} | {framings} | {passed} of {cells} | {} | {given_up} and {} | {} |",
            S::NAME,
            case.name,
            sum.delivered,
            sum.missing,
            sum.resets
        );
        assert_eq!(given_up > 0, case.policies != [Policy::Reliable], "{}: {sum:?}", case.name);
    }
    assert!(failures.is_empty(), "{}: {} cells failed\n{}", S::NAME, failures.len(), failures.join("\n"));
}

#[test]
fn every_policy_works_with_dcsctp() {
    all_policies_work_with(
        &|row| DcSctp::tuned(&Settings::interop(), |options| options.enable_message_interleaving = row.interleaving),
        &[false, true],
    );
}

#[test]
fn every_policy_works_with_rtc_sctp() {
    all_policies_work_with(&|_| RtcSctp::new(&Settings::interop()), &[false]);
}

#[test]
fn every_policy_works_with_sctp_proto() {
    all_policies_work_with(&|_| SctpProto::new(&Settings::interop()), &[false]);
}
