//! `festina lab list` and `festina lab show`: what there is, and how long it takes.

use std::fmt::Write as _;

use clap::Args;
use festina_lab::assumption::Assumption;
use festina_lab::experiment::{Description, Experiment};
use festina_lab::experiments;
use festina_lab::plan::{Key, Kind, Parameter, Plan, Scale, Table, definition};
use serde_json::{Value, json};

use super::Ground;
use super::durations::{self, Durations};
use crate::output::{folded, folded_behind};
use crate::usage::UsageError;

/// Arguments of `festina lab show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The name of an experiment, or a plan in a file whose name ends in .toml
    #[arg(value_name = "NAME|FILE.toml")]
    name: String,
    /// Print its plan and nothing else, as a start for a plan of your own
    #[arg(long)]
    plan: bool,
}

/// Arguments of `festina lab list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print a JSON array; durations are seconds of one thread
    #[arg(long)]
    json: bool,
}

/// All experiments, one after another, each with its durations.
pub(super) fn list(arguments: &ListArgs) -> String {
    if arguments.json {
        let experiments = experiments::ALL.iter().map(|experiment| {
            let Description { name, title, reference, .. } = experiment.description();
            let (quick_s, full_s) = durations::of(name).map(|known| (known.quick_s, known.full_s)).unzip();
            json!({ "name": name, "title": title, "source": reference, "quick_s": quick_s, "full_s": full_s })
        });
        return format!("{:#}", Value::Array(experiments.collect()));
    }
    let width = experiments::ALL.iter().map(|experiment| experiment.name().len()).max().unwrap_or(0);
    let line = |name: &str, quick: &str, full: &str, what: &str| {
        let columns = format!("{name:<width$}  {quick:>6}  {full:>6}  ");
        folded_behind(&columns, what, columns.len()) + "\n"
    };
    let mut text = line("EXPERIMENT", "QUICK", "FULL", "DESCRIPTION; SOURCE");
    for experiment in experiments::ALL {
        let Description { name, title, reference, .. } = experiment.description();
        let [quick, full] = match durations::of(name) {
            Some(Durations { quick_s, full_s }) => [quick_s, full_s].map(durations::rounded),
            None => ["?", "?"].map(str::to_owned),
        };
        text += &line(name, &quick, &full, &format!("{title}; {reference}"));
    }
    let note = format!(
        "\nTimes are those of one thread on {}: divide by the processors that run. QUICK is with --quick, FULL the scale of the publication.",
        durations::processor()
    );
    text + &folded(&note, 0)
}

/// The description of one experiment, or its plan alone; or what a plan sets and checks.
pub(super) fn show(arguments: &ShowArgs) -> Result<String, UsageError> {
    if arguments.name.ends_with(".toml") {
        return explained(&arguments.name);
    }
    let experiment = super::named(&arguments.name)?;
    let plan = definition::values(experiment.description().plan);
    Ok(if arguments.plan { plan.to_owned() } else { format!("{}\nIts own plan:\n\n{plan}", about(experiment)) })
}

/// Describes a plan: its runs, the meaning and range of each parameter, and its checks.
fn explained(path: &str) -> Result<String, UsageError> {
    let (experiment, plan, _) = super::plan(path, Scale::Full, Ground::Simulator)?;
    let (_, quick, _) = super::plan(path, Scale::Quick, Ground::Simulator)?;
    let count = |plan: &Plan| plan.points().iter().map(|point| u64::from(plan.repetitions_of(point))).sum::<u64>();
    let runs = format!("{} runs of {} points, with --quick {} runs", count(&plan), plan.points().len(), count(&quick));
    let mut text = folded(&format!("{path}: {}\nexperiment {}: {runs}\n", plan.title(), experiment.name()), 2);
    text += "\nIt sets:\n";
    let parameters = plan.parameters();
    for (name, values) in plan.told() {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        let known = parameters.iter().find(|parameter| parameter.name == *name);
        let meaning =
            known.map_or_else(String::new, |Parameter { about, kind, .. }| format!("{about}; {}", expected(kind)));
        text += &folded(&format!("  {name} = {}: {meaning}\n", values.join(", ")), 4);
    }
    Ok(text + &checked(&plan))
}

/// What a plan checks, one sentence a line.
fn checked(plan: &Plan) -> String {
    let mut text = String::new();
    for check in plan.checks() {
        let under = if check.under.is_empty() { String::new() } else { format!(" ({})", check.under) };
        let cells = if check.cells.len() == 1 { String::new() } else { format!(" [{} cells]", check.cells.len()) };
        text += &folded(&format!("  {}{under}{cells}\n", check.says), 4);
    }
    if text.is_empty() { text } else { format!("\nIt checks:\n{text}") }
}

/// What a parameter can be, with its range.
fn expected(kind: &Kind) -> String {
    kind.range().map_or_else(|| kind.to_string(), |range| format!("{kind}, {range}"))
}

fn about(experiment: &dyn Experiment) -> String {
    let Description { name, title, reference, .. } = experiment.description();
    let mut text = folded(&format!("{name}: {title}\n{reference}\n"), 2);
    if let Some(Durations { quick_s, full_s }) = durations::of(name) {
        let [quick, full] = [quick_s, full_s].map(durations::rounded);
        let processor = durations::processor();
        text += &folded(&format!("Takes {quick} with --quick, {full} without, with one thread on {processor}.\n"), 2);
    }
    let _ = write!(text, "\n{}\n\nA plan can set:\n", folded(experiment.description().about, 0));
    for Parameter { name, about, kind } in experiment.parameters() {
        text += &folded(&format!("  {name}: {about}; {}\n", expected(&kind)), 4);
    }
    for Table { kind, about, keys } in experiment.tables() {
        text += &folded(&format!("\nAny number of tables [{kind}.NAME], {about}:\n"), 0);
        for Key { parameter: Parameter { name, about, kind }, default } in keys {
            text += &folded(&format!("  {name}: {about}; {}; {default} if left out\n", expected(&kind)), 4);
        }
    }
    let assumptions = experiment.assumptions();
    if !assumptions.is_empty() {
        text += "\nWhere its values come from:\n";
    }
    for Assumption { subject, values, origin, .. } in assumptions {
        let values = if values.is_empty() { String::new() } else { format!(" {}", values.join(", ")) };
        text += &folded(&format!("  {}: {subject}{values}: {}\n", origin.word(), origin.note()), 4);
    }
    text + &checked(&Plan::own(experiment, Scale::Full))
}
