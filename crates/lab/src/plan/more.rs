//! Points that are run more often than the others, such as those that show rare events.

use std::fmt;

use super::error::PlanError;
use super::{Parameter, PlanFile, Point, Value};

/// Some points of a plan, and their number of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct More {
    /// Number of runs of such a point.
    pub repetitions: u32,
    /// Such a point has one of these values of each of these parameters.
    pub only: Vec<(&'static str, Vec<Value>)>,
}

impl More {
    /// Whether the point is one of them.
    pub fn holds(&self, point: &Point) -> bool {
        self.only.iter().all(|(name, values)| point.value(name).is_some_and(|value| values.contains(&value)))
    }

    /// The experiment's own wish for a plan with fewer values; `None` if that has none of these points.
    pub(super) fn within(mut self, sweep: &[(&'static str, Vec<Value>)]) -> Option<Self> {
        let has_some = self.only.iter_mut().all(|(name, values)| {
            let swept = sweep.iter().find(|(known, _)| known == name);
            let swept = swept.map(|(_, values)| values.as_slice()).unwrap_or_default();
            values.retain(|value| swept.contains(value));
            !values.is_empty()
        });
        has_some.then_some(self)
    }
}

/// As `50 where load 90%`.
impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_one = |(name, values): &(&str, Vec<Value>)| {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            format!("{name} {}", values.join(" or "))
        };
        let only: Vec<String> = self.only.iter().map(of_one).collect();
        write!(f, "{} where {}", self.repetitions, only.join(", "))
    }
}

impl PlanFile {
    /// Returns the file's section about points that are run more often than `repetitions` times.
    ///
    /// # Errors
    /// If it names no parameter, an unknown one, an invalid value, one that no point of `sweep` has, or no greater number.
    pub(super) fn more(
        &self,
        parameters: &[Parameter],
        repetitions: u32,
        sweep: Option<&[(&'static str, Vec<Value>)]>,
    ) -> Result<Option<More>, PlanError> {
        let Some(more) = &self.raw.more else { return Ok(None) };
        let only = self.values(parameters, &more.parameters)?;
        let place = more.repetitions.span();
        if only.is_empty() {
            return Err(self
                .source
                .error(&place, "more: it names no parameter; expected those of some points".to_owned()));
        }
        let often = self.repetitions(Some(&more.repetitions))?.unwrap_or(0);
        if often <= repetitions {
            let problem = format!("more: {often} repetitions are no more than the {repetitions} of all points");
            return Err(self.source.error(&place, problem));
        }
        for (key, setting) in &more.parameters {
            let of = |list: &[(&'static str, Vec<Value>)]| -> Vec<Value> {
                list.iter().filter(|(name, _)| name == key.get_ref()).flat_map(|(_, values)| values.clone()).collect()
            };
            let Some(swept) = sweep.map(of) else { continue };
            if let Some(absent) = of(&only).into_iter().find(|value| !swept.contains(value)) {
                let swept = swept.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
                let problem = format!("more: no point has {} {absent}; expected {swept}", key.get_ref());
                return Err(self.source.error(&setting.span(), problem));
            }
        }
        Ok(Some(More { repetitions: often, only }))
    }
}
