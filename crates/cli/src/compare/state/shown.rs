//! The presentation of state updates: a table, the figure, a page, JSON.

use std::time::Duration;

use festina_lab::figure::{DelayDistribution, FigureError};
use festina_models::statistics::DelayStatistics;
use serde_json::{Value, json};

use super::{Policy, StateOutcome};
use crate::compare::scenario::Scenario;

const COLUMNS: [&str; 9] = ["policy", "written", "arrived", "p50", "p90", "p99", "p99.9", "there", "back"];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
const NOTE: &str = "Ages are in ms, every millisecond of every receiver counts. A message costs packets there and back, heartbeats not counted.";

/// The text for the terminal.
pub(crate) fn text(scenario: &Scenario, outcomes: &[StateOutcome]) -> String {
    let rows: Vec<[String; 9]> =
        std::iter::once(COLUMNS.map(str::to_owned)).chain(outcomes.iter().map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let line = |row: &[String; 9]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let table = rows.iter().map(line).collect::<Vec<_>>().join("\n");
    format!("{}, as state updates, simulated\n\n{table}\n\n{NOTE}\n{}", scenario.summary(), finding(outcomes))
}

fn cells(outcome: &StateOutcome) -> [String; 9] {
    let [p50, p90, p99, p999] = QUANTILES.map(|quantile| milliseconds(outcome.ages.quantile(quantile)));
    let cost = outcome.cost.per_message(outcome.written);
    let [there, back] = [0, 1].map(|side| cost.map_or_else(|| "-".to_owned(), |cost| format!("{:.2}", cost[side])));
    let name = outcome.policy.name().to_owned();
    [name, outcome.written.to_string(), outcome.delivered.to_string(), p50, p90, p99, p999, there, back]
}

fn milliseconds(age: Option<Duration>) -> String {
    age.map_or_else(|| "-".to_owned(), |age| format!("{:.0}", age.as_secs_f64() * 1e3))
}

/// How old state is that replaces, compared with the first policy.
fn finding(outcomes: &[StateOutcome]) -> String {
    let replace = outcomes.iter().find(|outcome| outcome.policy == Policy::Replace);
    let found = outcomes.first().zip(replace).and_then(|(first, replace)| {
        let (ratio, packets) = (replace.p99_over(first)?, replace.packets_there()?);
        let (replace, first) = (replace.policy.name(), first.policy.name());
        Some(format!(
            "At the 99th percentile, the newest state is {ratio:.2} times as old with {replace} as with {first}, at {packets:.2} \
             packets for each update."
        ))
    });
    found.unwrap_or_else(|| "No state arrived.".to_owned())
}

/// The distributions of the ages as SVG.
pub(crate) fn figure(scenario: &Scenario, outcomes: &[StateOutcome]) -> Result<String, FigureError> {
    let mut distribution = DelayDistribution::new("How old the newest state is", &scenario.summary());
    for outcome in outcomes {
        distribution.curve(outcome.policy.name(), &outcome.ages);
    }
    let mut figure = distribution.figure();
    "age of the newest state at the receiver".clone_into(&mut figure.x.label);
    "share of the time with an older one".clone_into(&mut figure.y.label);
    figure.to_svg()
}

/// A page that needs nothing but itself.
pub(crate) fn page(scenario: &Scenario, outcomes: &[StateOutcome], figure: &str) -> String {
    let row = |tag: &str, cells: [String; 9]| {
        let cells = cells.map(|cell| format!("<{tag}>{cell}</{tag}>"));
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let head = row("th", COLUMNS.map(str::to_owned));
    let rows: String = outcomes.iter().map(|outcome| row("td", cells(outcome))).collect();
    let (summary, finding) = (scenario.summary(), finding(outcomes));
    let body = format!(
        r#"<h1>How old the newest state is</h1>
<p class="lead">{finding}</p>
<p>{summary}, simulated. Each message tells the state of the same thing, so only the newest matters.</p>
<figure class="wide">
{figure}
</figure>
<div class="wide even"><table>
<thead>
{head}</thead>
<tbody>
{rows}</tbody>
</table></div>
<p class="note">{NOTE}</p>
"#
    );
    festina_lab::page::document("state updates compared", &body)
}

/// The outcomes as one JSON document without a line feed at its end.
pub(crate) fn document(scenario: &Scenario, outcomes: &[StateOutcome]) -> serde_json::Result<String> {
    let results: Vec<Value> = outcomes.iter().map(result).collect();
    serde_json::to_string_pretty(&json!({ "scenario": scenario.summary(), "simulated": true, "results": results }))
}

fn result(outcome: &StateOutcome) -> Value {
    let ages: &DelayStatistics = &outcome.ages;
    let ms = |age: Option<Duration>| age.map(|age| age.as_secs_f64() * 1e3);
    let [p50, p90, p99, p99_9] = QUANTILES.map(|quantile| ms(ages.quantile(quantile)));
    json!({
        "policy": outcome.policy.name(),
        "updates_written": outcome.written,
        "updates_delivered": outcome.delivered,
        "age_ms": { "mean": ms(ages.mean()), "p50": p50, "p90": p90, "p99": p99, "p99_9": p99_9, "max": ms(ages.max()) },
        "packets_there": outcome.cost.packets_there,
        "packets_back": outcome.cost.packets_back,
        "bytes_there": outcome.cost.bytes_there,
        "bytes_back": outcome.cost.bytes_back,
        "packets_there_per_update": outcome.packets_there(),
    })
}
