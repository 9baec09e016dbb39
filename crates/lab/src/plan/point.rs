//! One combination of a sweep.

use std::fmt::Write as _;

use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use super::{LinkTrace, Recording, Value};

/// A value for each of an experiment's parameters.
///
/// The getters are for the experiment that declared the parameters. They panic if the experiment asks for a parameter
/// that it did not declare, or declared with another kind: that is a bug of the experiment, not of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    values: Vec<(&'static str, Value)>,
}

impl Point {
    /// A point from values in the order in which the experiment declares them.
    pub(super) fn new(values: Vec<(&'static str, Value)>) -> Self {
        Self { values }
    }

    /// All values in the order in which the experiment declares them.
    pub fn values(&self) -> &[(&'static str, Value)] {
        &self.values
    }

    /// The value of the parameter `name`, if there is such a parameter.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The duration `name`.
    pub fn duration(&self, name: &str) -> Duration {
        match self.declared(name) {
            Value::Duration(value) => value,
            other => panic!("{name} was declared as a duration, not {other:?}"),
        }
    }

    /// The bandwidth `name`.
    pub fn bandwidth(&self, name: &str) -> Bandwidth {
        match self.declared(name) {
            Value::Bandwidth(value) => value,
            other => panic!("{name} was declared as a bandwidth, not {other:?}"),
        }
    }

    /// The size `name`.
    pub fn bytes(&self, name: &str) -> ByteCount {
        match self.declared(name) {
            Value::Bytes(value) => value,
            other => panic!("{name} was declared as a size, not {other:?}"),
        }
    }

    /// The probability or share `name`.
    pub fn probability(&self, name: &str) -> Probability {
        match self.declared(name) {
            Value::Probability(value) => value,
            other => panic!("{name} was declared as a probability, not {other:?}"),
        }
    }

    /// The whole number `name`.
    pub fn count(&self, name: &str) -> u64 {
        match self.declared(name) {
            Value::Count(value) => value,
            other => panic!("{name} was declared as a count, not {other:?}"),
        }
    }

    /// The word `name`.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.declared(name) {
            Value::Choice(value) => value,
            other => panic!("{name} was declared as a choice, not {other:?}"),
        }
    }

    /// The capture `name`, if the plan names one.
    pub fn recording(&self, name: &str) -> Option<Recording> {
        match self.declared(name) {
            Value::Recording(value) => value,
            other => panic!("{name} was declared as a recording, not {other:?}"),
        }
    }

    /// The trace `name`, if the plan names one.
    pub fn trace(&self, name: &str) -> Option<LinkTrace> {
        match self.declared(name) {
            Value::Trace(value) => value,
            other => panic!("{name} was declared as a trace, not {other:?}"),
        }
    }

    /// The names of the tables of a kind, in the order of the plan.
    pub fn tables(&self, kind: &str) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for (whole, _) in &self.values {
            let table = whole.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
            if let Some((name, _)) = table.and_then(|rest| rest.split_once('.'))
                && names.last() != Some(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// All values in one line, `name=value` with blanks between: equal points, equal lines. Captures and traces count by
    /// their contents.
    pub fn line(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.values {
            let _ = write!(line, "{}{name}={value}", if line.is_empty() { "" } else { " " });
            if let Value::Recording(Some(recording)) = value {
                let _ = write!(line, "#{}", recording.digest());
            }
            if let Value::Trace(Some(trace)) = value {
                let _ = write!(line, "#{}", trace.digest());
            }
        }
        line
    }

    fn declared(&self, name: &str) -> Value {
        self.value(name).unwrap_or_else(|| panic!("the experiment declares the parameter {name} before it reads it"))
    }
}
