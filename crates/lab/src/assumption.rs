//! Sources of a plan's values: stated by the paper, chosen, or fitted to a result.

use crate::experiment::Experiment;
use crate::plan::{Plan, Value};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The publication states it; where.
    Stated(&'static str),
    /// The publication is silent, or the value is varied to show its influence; with the reason.
    Chosen(&'static str),
    /// It was set so that a published result comes out; which. Such results are shown, not scored.
    Fitted(&'static str),
}

impl Origin {
    /// As reports have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stated(_) => "stated",
            Self::Chosen(_) => "chosen",
            Self::Fitted(_) => "fitted",
        }
    }

    /// The section, the reason, or the result that it was fitted to.
    pub fn note(self) -> &'static str {
        match self {
            Self::Stated(note) | Self::Chosen(note) | Self::Fitted(note) => note,
        }
    }
}

/// Where values of a parameter come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// The parameter, or a property that no plan can set.
    pub subject: &'static str,
    /// The values that this applies to, as [`Value`] prints them; an empty list means all others.
    pub values: &'static [&'static str],
    /// Whether a plan can set it.
    pub is_parameter: bool,
    /// Where they come from.
    pub origin: Origin,
}

/// The publication states the values of a parameter in this section.
pub const fn stated(parameter: &'static str, section: &'static str) -> Assumption {
    Assumption::new(parameter, Origin::Stated(section))
}

/// The values of a parameter were chosen for this reason.
pub const fn chosen(parameter: &'static str, why: &'static str) -> Assumption {
    Assumption::new(parameter, Origin::Chosen(why))
}

/// The values of a parameter were fitted to this.
pub const fn fitted(parameter: &'static str, to: &'static str) -> Assumption {
    Assumption::new(parameter, Origin::Fitted(to))
}

impl Assumption {
    const fn new(subject: &'static str, origin: Origin) -> Self {
        Self { subject, values: &[], is_parameter: true, origin }
    }

    /// Says it of these values only.
    #[must_use]
    pub const fn of(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }

    /// Says it of something that no plan can set.
    #[must_use]
    pub const fn beside_the_plan(self) -> Self {
        Self { is_parameter: false, ..self }
    }
}

/// Returns the origin of a parameter's value: the experiment's entry for this value, or otherwise for all others.
pub fn origin_of(assumptions: &[Assumption], parameter: &str, value: &Value) -> Option<Origin> {
    let text = value.to_string();
    let of_parameter = || assumptions.iter().filter(|it| it.is_parameter && it.subject == parameter);
    let named = of_parameter().find(|it| it.values.contains(&text.as_str()));
    named.or_else(|| of_parameter().find(|it| it.values.is_empty())).map(|it| it.origin)
}

/// Returns the values of a plan without an origin; all of them if the experiment has none.
pub fn untold(experiment: &dyn Experiment, plan: &Plan) -> Vec<String> {
    let assumptions = experiment.assumptions();
    let values = plan.sweep().iter().flat_map(|(name, values)| values.iter().map(move |value| (*name, value)));
    let untold = values.filter(|(name, value)| origin_of(&assumptions, name, value).is_none());
    untold.map(|(name, value)| format!("{name} {value}")).collect()
}
