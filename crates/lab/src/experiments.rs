//! The experiments that the lab knows, one file each.

mod md1;

pub use md1::Md1;

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
pub const ALL: &[&dyn Experiment] = &[&Md1];

/// The experiment `name`, if there is one.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Scale};

    #[test]
    fn every_experiment_has_a_sound_plan_at_both_scales_and_a_name_of_its_own() {
        for (index, experiment) in ALL.iter().enumerate() {
            let name = experiment.name();
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
            assert!(ALL[..index].iter().all(|other| other.name() != name), "{name} is there twice");
            let points = |scale| Plan::own(*experiment, scale).points().len();
            assert!(points(Scale::Quick) <= points(Scale::Full), "{name}");
            for text in [experiment.title(), experiment.reference(), experiment.about()] {
                assert!(!text.trim().is_empty(), "{name}");
            }
        }
    }
}
