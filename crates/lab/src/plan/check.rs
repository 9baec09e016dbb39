//! Checks that a plan declares: a sentence, a test, and the cells in which it must hold.
//!
//! ```toml
//! [[check]]
//! says = "With CoDel the p99 of thin streams is below that of drop-tail at every round-trip time."
//! each = { rtt = "all" }                 # a cell for each value of the plan
//! test = "ratio('delay'.p99{discipline=codel}, 'delay'.p99{discipline=drop-tail}) < 1"
//! ```
//!
//! - `each`: parameters with `"all"`, `"all but 15%"`, `"all but festina*"`, `"from 2s"`, `"up to 2s"`, `"below 2s"`, `"first"`, `"largest"`, `"rising"`, `"steps"` (from one value to
//!   the `$next` larger one) or a list; other names stand for texts.
//!   A key of several names, `"kind, limit"`, has a list of lists
//! - `for`: the same; a check of its own for each
//! - `at`: parameters with one value; parameters that stand nowhere have the first of the plan
//! - `except`: values that a cell must not have all together
//! - `test`, `cell`: one or several in each cell; `$name` is replaced in all texts, `{over}` and `{under}` in `cell` by the means of a ratio; a part of
//!   the cell in brackets is left out if there are none
//!   In `cell`, `$cell` stands for the values of the cell's parameters
//! - `together = "geometric mean"`: one cell, of the geometric mean of all in each repetition
//! - `[let]`: names for parts of tests, in which variables are replaced, too
//! - `delays_min`: means, maxima and shares of fewer delays, and quantiles beyond which not every repetition has one, say nothing

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::error::{PlanError, Source};
use super::expression::{self, Expression};
use super::parameter::{Kind, Parameter, Value};
use super::raw::{RawCheck, RawPlan, RawSharedChecks, Setting, Settings};
use super::shared;
use super::tables::interned;
use crate::evidence::Bound;

/// The most checks of a plan.
const CHECKS_MAX: usize = 200;
/// The most cells of all checks of a plan together.
const CELLS_MAX: usize = 20_000;
/// The most characters of a text after its variables are replaced.
const CHARS_MAX: usize = 2_000;

/// The most names within each other.
const NAMES_DEPTH_MAX: usize = 4;

/// A check as the plan declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredCheck {
    /// The statement.
    pub says: String,
    /// The name by which the ledger finds it; empty if no paper says it.
    pub id: String,
    /// Under which reading of the paper; empty if there is one only.
    pub under: &'static str,
    /// Where it must hold.
    pub cells: Vec<DeclaredCell>,
    /// It is about the geometric mean over all cells in each repetition.
    pub is_of_mean: bool,
}

/// A cell of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredCell {
    /// Its name.
    pub name: String,
    /// The number that is judged.
    pub number: Expression,
    /// Its bound.
    pub bound: Bound,
    /// The fewest delays of a series that say anything.
    pub delays_min: u64,
}

/// The variables of a cell and their texts.
type Bindings = Vec<(String, String)>;

/// The plan in which checks are read.
pub(super) struct Scope<'p> {
    pub(super) source: &'p Source,
    pub(super) parameters: &'p [Parameter],
    pub(super) sweep: &'p [(&'static str, Vec<Value>)],
}

/// The checks of a file, with a cell for each combination of values.
///
/// # Errors
/// If a name, a value or a test makes no sense, or if there are too many.
pub(super) fn checks(scope: &Scope<'_>, plan: &RawPlan) -> Result<Vec<DeclaredCheck>, PlanError> {
    let mut checks = Vec::new();
    let mut cells = 0;
    let shared: Vec<SharedChecks> = plan.shared_checks.iter().map(|of| scope.shared(of)).collect::<Result<_, _>>()?;
    let shared = shared.iter().flat_map(|file| file.check.iter().map(|check| (check, &file.names)));
    for (raw, names) in shared.chain(plan.check.iter().map(|check| (check, &plan.names))) {
        for outer in scope.combinations(&raw.each_check)? {
            // A reading that the plan does not have is not judged.
            if !raw.under.is_empty() && !scope.has(&outer) {
                continue;
            }
            let check = scope.check(raw, names, &outer)?;
            cells += check.cells.len();
            checks.push(check);
            if checks.len() > CHECKS_MAX || cells > CELLS_MAX {
                let problem = format!("the plan has more than {CHECKS_MAX} checks or {CELLS_MAX} cells of checks");
                return Err(scope.source.error(&raw.says.span(), problem));
            }
        }
    }
    Ok(checks)
}

/// A file of checks.
#[derive(Deserialize)]
struct SharedChecks {
    check: Vec<RawCheck>,
    #[serde(default, rename = "let")]
    names: BTreeMap<String, String>,
}

impl Scope<'_> {
    fn shared(&self, raw: &RawSharedChecks) -> Result<SharedChecks, PlanError> {
        let (name, place) = (raw.file.get_ref(), raw.file.span());
        let file = shared::FILES.iter().find(|(known, _)| known == name);
        let (_, text) =
            file.ok_or_else(|| self.source.error(&place, format!("no shared file is called \"{name}\"")))?;
        let read: SharedChecks =
            toml::from_str(text).map_err(|error| self.source.error(&place, format!("{name}.toml: {error}")))?;
        let SharedChecks { check, names } = read;
        let with = |check: RawCheck| {
            let (mut each, mut each_check) = (raw.each.clone(), raw.each_check.clone());
            each.extend(check.each);
            each_check.extend(check.each_check);
            let under = if check.under.is_empty() { raw.under.clone() } else { check.under };
            RawCheck { under, each, each_check, ..check }
        };
        Ok(SharedChecks { check: check.into_iter().map(with).collect(), names })
    }

    fn check(
        &self,
        raw: &RawCheck,
        names: &BTreeMap<String, String>,
        outer: &Bindings,
    ) -> Result<DeclaredCheck, PlanError> {
        let place = |problem: String| self.source.error(&raw.says.span(), problem);
        let (tests, cell_names) = (texts(&raw.test), raw.cell.as_ref().map(texts).unwrap_or_default());
        if tests.is_empty() || !(cell_names.is_empty() || cell_names.len() == tests.len()) {
            let problem = "test and cell must be texts in quotes, or lists of as many texts".to_owned();
            return Err(self.source.error(&raw.test.span(), problem));
        }
        let mut cells = Vec::new();
        for inner in self.combinations(&raw.each)? {
            if self.is_excepted(raw, &inner)? {
                continue;
            }
            if cells.len() > CELLS_MAX {
                return Err(place(format!("the check has more than {CELLS_MAX} cells")));
            }
            let bindings = [outer.as_slice(), inner.as_slice()].concat();
            for (number, (test, test_place)) in tests.iter().enumerate() {
                let told = |problem: String| self.source.error(test_place, format!("test: {problem}"));
                let context = Context { scope: self, settings: self.settings(raw, &bindings)? };
                let test = named(test, names).and_then(|test| replaced(&test, &bindings)).map_err(told)?;
                let (expression, bound) = expression::parse(&test, &context).map_err(told)?;
                let name = match cell_names.get(number) {
                    Some((name, place)) => {
                        let of_cell =
                            inner.iter().filter(|(name, _)| self.parameter(name).is_some()).cloned().collect();
                        let cell = ("cell".to_owned(), default_name(&of_cell).trim_end_matches(':').to_owned());
                        let bindings = [bindings.as_slice(), &[cell]].concat();
                        replaced(name, &bindings).map_err(|problem| self.source.error(place, problem))?
                    }
                    None => default_name(&inner),
                };
                cells.push(DeclaredCell { name, number: expression, bound, delays_min: raw.delays_min });
            }
        }
        let says = replaced(raw.says.get_ref(), outer).map_err(place)?;
        let id = replaced(&raw.id, outer).map_err(place)?;
        let under = interned(&replaced(&raw.under, outer).map_err(place)?);
        Ok(DeclaredCheck { says, id, under, cells, is_of_mean: raw.together.is_some() })
    }

    /// Whether a cell has all the values that the check excepts.
    fn is_excepted(&self, raw: &RawCheck, bindings: &Bindings) -> Result<bool, PlanError> {
        let mut has_all = !raw.except.is_empty();
        for (name, setting) in &raw.except {
            let text = text_of(setting).and_then(|text| self.value(name.get_ref(), &text));
            let text = text.map_err(|problem| self.source.error(&setting.span(), problem))?;
            has_all &= bindings.contains(&(name.get_ref().clone(), text));
        }
        Ok(has_all)
    }

    /// The settings that all numbers of a cell have unless its test says otherwise.
    fn settings(&self, raw: &RawCheck, bindings: &Bindings) -> Result<Bindings, PlanError> {
        let of_cell = bindings.iter().filter(|(name, _)| self.parameter(name).is_some()).cloned();
        let mut settings: Bindings = of_cell.collect();
        for (name, setting) in &raw.at {
            let place = |problem| self.source.error(&setting.span(), problem);
            let text = replaced(&text_of(setting).map_err(place)?, bindings).map_err(place)?;
            let value = self.value(name.get_ref(), &text).map_err(place)?;
            settings.retain(|(known, _)| known != name.get_ref());
            settings.push((name.get_ref().clone(), value));
        }
        Ok(settings)
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Whether the plan has these values of its parameters.
    fn has(&self, bindings: &Bindings) -> bool {
        let is_there = |(name, text): &(String, String)| match self.sweep.iter().find(|(known, _)| known == name) {
            Some((_, values)) => values.iter().any(|value| value.to_string() == *text),
            None => true,
        };
        bindings.iter().all(is_there)
    }

    /// The value as results have it.
    fn value(&self, name: &str, text: &str) -> Result<String, String> {
        self.value_of(name, text).map(|value| value.to_string())
    }

    fn value_of(&self, name: &str, text: &str) -> Result<Value, String> {
        let Some(parameter) = self.parameter(name) else {
            let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
            return Err(format!("unknown parameter \"{name}\"; expected one of {}", known.join(", ")));
        };
        let value = match (&parameter.kind, text.parse::<i64>()) {
            (Kind::Count(_), Ok(number)) => parameter.kind.value_of_integer(number),
            _ => parameter.kind.value_of_text(text, self.source.folder()),
        };
        value.map_err(|problem| format!("{name}: {problem}"))
    }

    /// Every combination of the values that variables have, in the order of the file; the last varies fastest.
    fn combinations(&self, variables: &Settings) -> Result<Vec<Bindings>, PlanError> {
        let mut ordered: Vec<_> = variables.iter().collect();
        ordered.sort_by_key(|(name, _)| name.span().start);
        let mut combinations: Vec<Bindings> = vec![Vec::new()];
        for (name, setting) in ordered {
            let values = self.values(name.get_ref(), setting)?;
            if combinations.len() * values.len() > CELLS_MAX {
                let problem = format!("the check has more than {CELLS_MAX} cells");
                return Err(self.source.error(&setting.span(), problem));
            }
            combinations = combinations
                .iter()
                .flat_map(|before| values.iter().map(move |value| [before.as_slice(), value.as_slice()].concat()))
                .collect();
        }
        Ok(combinations)
    }

    /// What a variable, or several that vary together, can be.
    fn values(&self, name: &str, setting: &Spanned<Setting>) -> Result<Vec<Bindings>, PlanError> {
        let place = |problem: String| self.source.error(&setting.span(), problem);
        if let Setting::List(list) = setting.get_ref() {
            return list.iter().map(|element| self.bound_to(name, element)).collect();
        }
        let text = text_of(setting).map_err(place)?;
        let swept = self.sweep.iter().find(|(known, _)| *known == name);
        let Some((_, values)) = swept else {
            return Err(place(format!("{name} is no parameter, so it needs a list of texts")));
        };
        let one = |value: &Value| vec![(name.to_owned(), value.to_string())];
        let some = |values: &[Value]| Ok(values.iter().map(one).collect());
        let rising = rising(values);
        match text.as_str() {
            "all" => return some(values),
            "first" => return some(&values[..values.len().min(1)]),
            "rising" => return some(&rising),
            "largest" => return some(&rising[rising.len().saturating_sub(1)..]),
            "steps" => {
                let step = |pair: &[Value]| [one(&pair[0]), vec![("next".to_owned(), pair[1].to_string())]].concat();
                return Ok(rising.windows(2).map(step).collect());
            }
            _ => {}
        }
        let compared = |text: &str| self.value_of(name, text.trim()).map_err(place);
        let wanted: Vec<Value> = if let Some(others) = text.strip_prefix("all but ") {
            let (starts, others): (Vec<&str>, Vec<&str>) =
                others.split(',').map(str::trim).partition(|it| it.ends_with('*'));
            let others: Vec<Value> = others.into_iter().map(compared).collect::<Result<_, _>>()?;
            let starts_so = |value: &str| starts.iter().any(|start| value.starts_with(start.trim_end_matches('*')));
            let is_left = |value: &Value| !others.contains(value) && !starts_so(&value.to_string());
            values.iter().copied().filter(is_left).collect()
        } else if let Some(least) = text.strip_prefix("from ") {
            let least = magnitude(&compared(least)?);
            values.iter().copied().filter(|value| magnitude(value) >= least).collect()
        } else if let Some(most) = text.strip_prefix("up to ") {
            let most = magnitude(&compared(most)?);
            values.iter().copied().filter(|value| magnitude(value) <= most).collect()
        } else if let Some(bound) = text.strip_prefix("below ") {
            let bound = magnitude(&compared(bound)?);
            values.iter().copied().filter(|value| magnitude(value) < bound).collect()
        } else {
            let expected = "\"all\", \"all but ..\", \"from ..\", \"up to ..\", \"below ..\", \"first\", \"largest\", \"rising\", \"steps\" or a list";
            return Err(place(format!("\"{text}\" is unknown; expected {expected}")));
        };
        some(&wanted)
    }

    /// An element of a list: the value of one variable, or of each of several.
    fn bound_to(&self, names: &str, element: &Spanned<Setting>) -> Result<Bindings, PlanError> {
        let place = |problem: String| self.source.error(&element.span(), problem);
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let texts = match element.get_ref() {
            Setting::List(list) => list.iter().map(text_of).collect::<Result<Vec<String>, String>>(),
            _ => text_of(element).map(|text| vec![text]),
        };
        let texts = texts.map_err(place)?;
        if texts.len() != names.len() {
            return Err(place(format!("{} values for {} names", texts.len(), names.len())));
        }
        let pair = |(name, text): (&str, String)| {
            let text = if self.parameter(name).is_some() { self.value(name, &text)? } else { text };
            Ok((name.to_owned(), text))
        };
        names.into_iter().zip(texts).map(pair).collect::<Result<Bindings, String>>().map_err(place)
    }
}

/// Values in rising order; words stay as they are.
fn rising(values: &[Value]) -> Vec<Value> {
    let mut values = values.to_vec();
    values.sort_by_key(magnitude);
    values
}

fn magnitude(value: &Value) -> u128 {
    match value {
        Value::Duration(value) => value.as_nanos(),
        Value::Bandwidth(value) => u128::from(value.bits_per_second()),
        Value::Bytes(value) => u128::from(value.bytes()),
        Value::Probability(value) => u128::from(value.ppb()),
        Value::Count(value) => u128::from(*value),
        Value::Choice(_) | Value::Recording(_) | Value::Trace(_) => 0,
    }
}

/// One text or several, each with its place.
fn texts(setting: &Spanned<Setting>) -> Vec<(String, std::ops::Range<usize>)> {
    let text = |setting: &Spanned<Setting>| Some((text_of(setting).ok()?, setting.span()));
    match setting.get_ref() {
        Setting::List(list) => list.iter().map(text).collect::<Option<_>>().unwrap_or_default(),
        _ => text(setting).into_iter().collect(),
    }
}

fn text_of(setting: &Spanned<Setting>) -> Result<String, String> {
    match setting.get_ref() {
        Setting::Text(text) => Ok(text.clone()),
        Setting::Integer(number) => Ok(number.to_string()),
        other => Err(format!("it cannot be {other}; expected a text in quotes or a whole number")),
    }
}

/// A test with the parts that its names stand for.
fn named(test: &str, names: &BTreeMap<String, String>) -> Result<String, String> {
    let mut test = test.to_owned();
    // The longer of two names that begin alike comes first. A part may have names in it; those that name each other in a circle stay as they are.
    for (name, part) in (0..NAMES_DEPTH_MAX).flat_map(|_| names.iter().rev()) {
        if test.len().max(part.len()) > CHARS_MAX {
            return Err(format!("a text has more than {CHARS_MAX} characters"));
        }
        test = test.replace(&format!("${name}"), part);
    }
    Ok(test)
}

/// The text with the values of its variables.
fn replaced(text: &str, bindings: &Bindings) -> Result<String, String> {
    let mut longest_first: Vec<_> = bindings.iter().collect();
    longest_first.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        let Some((name, value)) = longest_first.iter().find(|(name, _)| behind.starts_with(name.as_str())) else {
            let known: Vec<&str> = bindings.iter().map(|(name, _)| name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("unknown variable in \"${}\"; known here: {known}", short(behind)));
        };
        replaced += before;
        replaced += value;
        rest = &behind[name.len()..];
        if replaced.len() > CHARS_MAX {
            break;
        }
    }
    replaced += rest;
    if replaced.len() > CHARS_MAX {
        return Err(format!("a text has more than {CHARS_MAX} characters"));
    }
    Ok(replaced)
}

fn short(text: &str) -> String {
    text.chars().take(20).collect()
}

/// The values of a cell in words.
fn default_name(bindings: &Bindings) -> String {
    let words: Vec<String> = bindings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if words.is_empty() { "measured:".to_owned() } else { words.join(", ") + ":" }
}

/// A cell in which a test is read.
struct Context<'s> {
    scope: &'s Scope<'s>,
    settings: Bindings,
}

impl expression::Settings for Context<'_> {
    fn defaults(&self) -> Bindings {
        self.settings.clone()
    }

    fn value(&self, parameter: &str, text: &str) -> Result<String, String> {
        self.scope.value(parameter, text)
    }

    fn number(&self, parameter: &str) -> Option<f64> {
        let of_cell = self.settings.iter().find(|(name, _)| name == parameter);
        let (_, swept) = self.scope.sweep.iter().find(|(name, _)| *name == parameter)?;
        match of_cell {
            Some((_, text)) => self.scope.value_of(parameter, text).ok()?.as_number(),
            None => swept.first()?.as_number(),
        }
    }
}
