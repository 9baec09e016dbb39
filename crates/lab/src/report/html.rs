//! The report as a page.

use std::fmt::Write as _;

use super::document::{Checked, Compared, milliseconds, quantile_name};
use super::text::{comparison_rows, estimate, number};
use super::{Report, summary};
use crate::experiment::Experiment;
use crate::page::{document, escape};
use crate::plan::{More, Plan, Scale, Value, is_printable};
use crate::runner::CODE_VERSION;
use crate::summary::{QUANTILES, Results};

pub(super) fn page(report: &Report<'_>) -> String {
    let results = &report.results;
    let experiment = report.experiment;
    let mut body = format!("<h1>{}</h1>\n", escape(results.plan().title()));
    let _ = writeln!(
        body,
        "<p class=\"note\">{}, {}</p>",
        escape(experiment.name()),
        escape(experiment.description().reference)
    );
    let _ = writeln!(body, "<p class=\"lead\">{}</p>", escape(&summary::sentences(report).join(" ")));
    body += &summary::assumptions(report);
    for figure in &report.figures {
        let _ = writeln!(body, "<figure class=\"wide\">\n{figure}\n</figure>");
    }
    body += &checks(report);
    body += &comparisons(report);
    body += &folded("All delays", &delays(results));
    body += &folded("All other numbers", &values(results));
    body += "<h2>Plan and reproduction</h2>\n";
    for paragraph in experiment.description().about.split("\n\n") {
        let _ = writeln!(body, "<p>{}</p>", escape(paragraph));
    }
    let _ = writeln!(body, "<p>{}.</p>\n{}", escape(&results.plan().conditions()), parameters(report));
    body += &origin(report);
    let samples = if report.writes_samples {
        "Every delay that was kept is in <code>samples.csv</code>, how"
    } else {
        "With <code>--samples</code> every delay that was kept is written, too. How"
    };
    let _ = writeln!(
        body,
        "<p>{samples} many there were of each length of those that were only counted is in <code>tallies.csv</code>, every other \
         number of each run in <code>values.csv</code>, this page's numbers in <code>summary.json</code>. As a \
         plan:</p>\n<pre>{}</pre>",
        escape(&plan_text(experiment, results.plan()))
    );
    document(results.plan().title(), &body)
}

/// A part of the page that is shown on a click; nothing if it is empty.
fn folded(heading: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<details>\n<summary>{heading}</summary>\n{content}</details>\n")
}

/// A table of cells that are HTML already. The first `words` columns are aligned to the left.
pub(crate) fn table(heading: &[String], rows: &[Vec<String>], words: usize) -> String {
    let row = |cells: &[String], tag: &str| {
        let mut html = String::from("<tr>");
        for (column, cell) in cells.iter().enumerate() {
            let class = if column < words { " class=\"words\"" } else { "" };
            let _ = write!(html, "<{tag}{class}>{cell}</{tag}>");
        }
        html + "</tr>\n"
    };
    let body: String = rows.iter().map(|cells| row(cells, "td")).collect();
    let heading = row(heading, "th");
    format!("<div class=\"wide\"><table>\n<thead>\n{heading}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

/// A verdict in its colour.
pub(super) fn word(verdict: &str) -> String {
    format!("<span class=\"{}\">{}</span>", escape(&verdict.replace(' ', "-")), escape(verdict))
}

/// The checks with their verdicts, if there are any.
pub(super) fn checks_table(checks: &[Checked]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|Checked { statement, verdict, seen, .. }| vec![word(verdict), escape(statement), escape(seen)])
        .collect();
    table(&["", "expected", "observed"].map(str::to_owned), &rows, 3)
}

/// The table of published numbers and ours, if there are any, and why some differ.
pub(super) fn comparisons_table(comparisons: &[Compared]) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let mut rows = comparison_rows(comparisons).into_iter();
    let mut heading = rows.next().unwrap_or_default();
    heading.push("why".to_owned());
    let rows: Vec<Vec<String>> = rows
        .zip(comparisons)
        .map(|(row, comparison)| {
            let mut row: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
            row.pop();
            row.push(word(&comparison.verdict));
            let unexplained = if comparison.verdict == "missed" { "not known" } else { "" };
            row.push(format!(
                "<span class=\"why\">{}</span>",
                escape(comparison.why.as_deref().unwrap_or(unexplained))
            ));
            row
        })
        .collect();
    table(&heading, &rows, 1)
}

fn checks(report: &Report<'_>) -> String {
    let checks: Vec<Checked> = report.checks.iter().map(Checked::of).collect();
    if checks.is_empty() { String::new() } else { format!("<h2>Checks</h2>\n{}", checks_table(&checks)) }
}

fn comparisons(report: &Report<'_>) -> String {
    let comparisons: Vec<Compared> = report.scoreboard.iter().map(Compared::of).collect();
    if comparisons.is_empty() {
        return String::new();
    }
    format!("<h2>Published numbers and ours</h2>\n{}{MISSED_NOTE}", comparisons_table(&comparisons))
}

/// Meaning of the verdicts on published numbers.
pub(super) const MISSED_NOTE: &str = "<p class=\"note\">A published number is met if the whole 95% interval of ours lies within a \
     quarter of it, missed if it lies wholly outside, else undecided; an inequality, if the whole interval lies on its side. \
     Where one run was published, the interval holds the chance of that run too, and z says how many standard deviations of our \
     runs it lies above their mean. What a parameter was fitted to is shown, not scored.</p>\n";

fn delays(results: &Results) -> String {
    let mut heading = ["point", "series", "delays", "mean", "± 95%"].map(str::to_owned).to_vec();
    heading.extend(QUANTILES.map(quantile_name));
    heading.push("max".to_owned());
    let mut rows = Vec::new();
    for point in results.points() {
        for (name, series) in point.series() {
            let delay = |delay: Option<_>| delay.map_or("-".to_owned(), |delay| number(milliseconds(delay)));
            let mut row =
                vec![escape(&results.plan().label(point.point())), escape(name), series.all().count().to_string()];
            row.extend(estimate(series.mean_s(), 1_000.0));
            row.extend(series.quantiles().map(|(_, pooled, _)| delay(pooled)));
            row.push(delay(series.all().max()));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let note = "<p class=\"note\">In milliseconds. The interval is that of the mean over the repetitions (Student's t); \
                percentiles and maximum are over all repetitions together.</p>\n";
    format!("{}{note}", table(&heading, &rows, 2))
}

fn values(results: &Results) -> String {
    let mut rows = Vec::new();
    for point in results.points() {
        for (name, value) in point.values() {
            let mut row = vec![escape(&results.plan().label(point.point())), escape(name)];
            row.extend(estimate(value, 1.0));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    table(&["point", "number", "mean", "± 95%"].map(str::to_owned), &rows, 2)
}

fn parameters(report: &Report<'_>) -> String {
    let known = report.experiment.parameters();
    let tables = report.experiment.tables();
    let about = |name: &str| {
        let (kind, key) = (name.split('.').next().unwrap_or_default(), name.rsplit('.').next().unwrap_or_default());
        let table = tables.iter().find(|table| table.kind == kind);
        let keys = table.into_iter().flat_map(|table| &table.keys).find(|it| it.parameter.name == key);
        let parameter = known.iter().find(|parameter| parameter.name == name);
        parameter.or(keys.map(|key| &key.parameter)).map_or(String::new(), |parameter| escape(parameter.about))
    };
    let rows: Vec<Vec<String>> = report
        .results
        .plan()
        .told()
        .map(|(name, values)| {
            let values: Vec<String> = values.iter().map(|value| escape(&value.to_string())).collect();
            vec![(*name).to_owned(), values.join(", "), about(name)]
        })
        .collect();
    table(&["parameter", "value", "meaning"].map(str::to_owned), &rows, 3)
}

/// How to reproduce the same numbers.
fn origin(report: &Report<'_>) -> String {
    let plan = report.results.plan();
    let most = plan.more().map_or(plan.repetitions(), |more| more.repetitions);
    let seeds: Vec<String> =
        (0..most.min(SEEDS_SHOWN)).map(|repetition| plan.repetition_seed(repetition).to_string()).collect();
    let more = match most.saturating_sub(SEEDS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let mut text = format!(
        "<p>All random numbers derive from the seed {}; the repetitions' own seeds are {}{more}. The code that ran is \
         version <code>{CODE_VERSION}</code>.",
        plan.seed(),
        seeds.join(", "),
    );
    if let Some(command) = &report.command {
        let _ = write!(text, "{COMMAND_WAS}{}</code>.", escape(command));
    }
    text + "</p>\n"
}

const COMMAND_WAS: &str = " The command was <code>";

/// The command that an earlier page names, if it is of another plan than `command`: the number of seeds does not matter.
pub(super) fn other_command(page: &str, command: &str) -> Option<String> {
    let (_, rest) = page.rsplit_once(COMMAND_WAS)?;
    let (earlier, _) = rest.split_once("</code>")?;
    let plan = |command: &str| command.split(" --seeds ").next().unwrap_or_default().to_owned();
    (is_printable(earlier) && plan(earlier) != plan(&escape(command))).then(|| earlier.to_owned())
}

/// Maximum number of listed seeds.
const SEEDS_SHOWN: u32 = 30;

/// The plan that runs the same again.
pub(crate) fn plan_text(experiment: &dyn Experiment, plan: &Plan) -> String {
    let mut text = format!(
        "experiment = \"{}\"\nseed = {}\nrepetitions = {}\n",
        experiment.name(),
        plan.seed(),
        plan.repetitions()
    );
    let alone = plan.one_at_a_time();
    if !alone.is_empty() || !Plan::own(experiment, Scale::Full).one_at_a_time().is_empty() {
        let group = |names: &Vec<&str>| match names.as_slice() {
            [name] => format!("\"{name}\""),
            names => format!("[\"{}\"]", names.join("\", \"")),
        };
        let groups: Vec<String> = alone.iter().map(group).collect();
        let _ = writeln!(text, "one_at_a_time = [{}]", groups.join(", "));
    }
    text += "\n[parameters]\n";
    let mut table = "";
    for (name, values) in plan.told() {
        // Settings of a table appear in that table.
        let (of, name) = name.rsplit_once('.').unwrap_or(("", name));
        if of != table {
            table = of;
            let _ = writeln!(text, "\n[{of}]");
        }
        let _ = writeln!(text, "{name} = {}", toml_values(values));
    }
    if let Some(More { repetitions, only }) = plan.more() {
        let _ = writeln!(text, "\n[more]\nrepetitions = {repetitions}\n\n[more.parameters]");
        for (name, values) in only {
            let _ = writeln!(text, "\"{name}\" = {}", toml_values(values));
        }
    }
    text
}

/// One value, or a list of several, as a plan has them.
fn toml_values(values: &[Value]) -> String {
    let one = |value: &Value| if matches!(value, Value::Count(_)) { value.to_string() } else { format!("\"{value}\"") };
    match values {
        [value] => one(value),
        values => format!("[{}]", values.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}
