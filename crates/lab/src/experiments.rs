//! The experiments that the lab knows, one file each.

mod bulk;
mod bursts;
mod cost;
mod fairness_crowd;
mod first_message;
pub mod g02;
mod host_tcp;
mod linux_thin;
mod md1;
mod p06;
mod p06_table2;
mod p06_table3;
mod p10_congested;
mod p10_fig1;
mod p10_fig10;
mod p10_fig11;
mod p10_fig12;
mod p10_fig13;
mod p10_fig4;
mod p10_fig8;
mod p10_fig8a;
mod p10_fig8b;
mod p10_fig9;
mod p10_table1;
mod r12;
mod r12_fig3;
mod r12_fig4;
mod r12_fig7;
mod r12_sequences;
mod r15;
mod r15_buffering;
mod r15_classes;
mod r15_congestion;
mod r15_parking_lot;
mod r15_slow_start;
mod r15_syslog;
mod r15_tail_loss;
mod r15_web;
mod recovery_sequences;
mod reordering;
mod replay;
mod request_reply;
mod scenario;
mod thin_latency;
mod two_paths;
mod urgent;

pub use bulk::Bulk;
pub use bursts::Bursts;
pub use cost::Cost;
pub use fairness_crowd::FairnessCrowd;
pub use first_message::FirstMessage;
pub use g02::G02;
pub use host_tcp::HostTcp;
pub use linux_thin::LinuxThin;
pub use md1::Md1;
pub use p06_table2::P06Table2;
pub use p06_table3::P06Table3;
pub use p10_fig1::P10Fig1;
pub use p10_fig4::P10Fig4;
pub use p10_fig8a::P10Fig8a;
pub use p10_fig8b::P10Fig8b;
pub use p10_fig9::P10Fig9;
pub use p10_fig10::P10Fig10;
pub use p10_fig11::P10Fig11;
pub use p10_fig12::P10Fig12;
pub use p10_fig13::{P10Fig13, P10Fig14};
pub use p10_table1::P10Table1;
pub use r12_fig3::R12Fig3;
pub use r12_fig4::R12Fig4;
pub use r12_fig7::R12Fig7;
pub use r12_sequences::R12Sequences;
pub use r15_buffering::R15Buffering;
pub use r15_classes::R15Classes;
pub use r15_congestion::R15Congestion;
pub use r15_parking_lot::R15ParkingLot;
pub use r15_slow_start::R15SlowStart;
pub use r15_syslog::Syslog;
pub use r15_syslog::real as log_lines;
pub use r15_tail_loss::R15TailLoss;
pub use r15_web::R15Web;
pub use recovery_sequences::RecoverySequences;
pub use reordering::Reordering;
pub use replay::Replay;
pub use request_reply::RequestReply;
pub use scenario::Scenario;
pub use thin_latency::ThinLatency;
pub use two_paths::TwoPaths;
pub use urgent::Urgent;

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
pub const ALL: &[&dyn Experiment] = &[
    &Md1,
    &LinuxThin,
    &HostTcp,
    &ThinLatency,
    &Cost::COST,
    &Cost::REPAIR,
    &RequestReply,
    &FirstMessage,
    &RecoverySequences,
    &Bursts,
    &Reordering,
    &TwoPaths::PATHS,
    &TwoPaths::COMMON_LOSS,
    &TwoPaths::GAMES,
    &TwoPaths::HANDOVER,
    &TwoPaths::DESTINATIONS,
    &FairnessCrowd,
    &Bulk,
    &Urgent,
    &Replay,
    &Scenario,
    &P06Table2,
    &P06Table3,
    &P10Table1,
    &P10Fig1,
    &P10Fig4,
    &P10Fig8a,
    &P10Fig8b,
    &P10Fig9,
    &P10Fig10,
    &P10Fig11,
    &P10Fig12,
    &P10Fig13,
    &P10Fig14,
    &R12Fig3,
    &R12Fig4,
    &R12Fig7,
    &R12Sequences,
    &R15Classes,
    &R15SlowStart,
    &R15TailLoss,
    &R15Congestion,
    &R15Web,
    &R15ParkingLot,
    &R15Buffering,
    &Syslog::LOSS,
    &Syslog::TRACE,
    &Syslog::CONGESTION,
    &G02::TABLE1,
    &G02::TABLE2,
    &G02::TABLE3,
    &G02::FIG3,
    &G02::FIG4,
    &G02::FIG5,
    &G02::FIG6,
    &G02::FIG7,
    &G02::FIG8,
    &G02::FIG9,
    &G02::FIG10,
];

/// The experiment `name`, if there is one.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Scale};

    /// Whether an experiment stands for a figure or table of the papers.
    fn is_of_a_paper(experiment: &dyn Experiment) -> bool {
        ["p06-", "p10-", "r12-", "r15-", "g02-"].iter().any(|paper| experiment.name().starts_with(paper))
    }

    #[test]
    fn each_value_of_a_papers_plan_is_stated_chosen_or_fitted_and_nothing_else_is() {
        for experiment in ALL.iter().filter(|experiment| is_of_a_paper(**experiment)) {
            let name = experiment.name();
            for scale in [Scale::Full, Scale::Quick] {
                let untold = crate::assumption::untold(*experiment, &Plan::own(*experiment, scale));
                assert!(untold.is_empty(), "{name}: {untold:?}");
            }
            let parameters = experiment.parameters();
            for assumption in experiment.assumptions().iter().filter(|assumption| assumption.is_parameter) {
                assert!(parameters.iter().any(|it| it.name == assumption.subject), "{name}: {}", assumption.subject);
            }
            assert!(experiment.description().question.ends_with('?'), "{name}");
        }
    }

    #[test]
    fn every_experiment_has_a_sound_plan_at_both_scales_and_a_name_of_its_own() {
        for (index, experiment) in ALL.iter().enumerate() {
            let name = experiment.name();
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
            assert!(ALL[..index].iter().all(|other| other.name() != name), "{name} is there twice");
            let points = |scale| Plan::own(*experiment, scale).points().len();
            assert!(points(Scale::Quick) <= points(Scale::Full), "{name}");
            for text in
                [experiment.description().title, experiment.description().reference, experiment.description().about]
            {
                assert!(!text.trim().is_empty(), "{name}");
            }
        }
    }
}
