//! What a document shows of an experiment is what the experiment draws and counts today.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::Split;
use std::time::Duration;

use festina_lab::experiment::Experiment;
use festina_lab::experiments::{
    self, Bursts, Cost, RecoverySequences, Reordering, RequestReply, Scenario, ThinLatency,
};
use festina_lab::ledger::{self, Headline, Paper, Row, VERDICTS, page};
use festina_lab::plan::{Plan, PlanFile, Point, Scale};
use festina_lab::readings::Combination;
use festina_lab::runner::{self, BEAT, RunOptions};
use festina_lab::scenario::{Stack, ThinStream};
use festina_lab::summary::Results;
use festina_netsim::{Jitter, JitterShape};
use festina_recovery::backoff::Backoff;
use festina_recovery::profile::{ImmediateSack, LossDetection};
use festina_recovery::redundancy::Redundancy;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::CongestionControl;
use festina_units::{ByteCount, Probability};

use crate::scratch::Scratch;
use crate::seeds;

fn document(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)
}

/// All runs of `recovery-sequences`, kept below `store` for as long as the test runs.
fn sequences(store: &str) -> Results {
    let store = Scratch::new(store);
    let options = RunOptions { jobs: None, beat: BEAT, store: store.to_owned(), code_version: "test".to_owned() };
    let plan = Plan::own(&RecoverySequences, Scale::Full);
    runner::run(&RecoverySequences, &plan, &options, &|_| {}).expect("the store can be used")
}

fn value(point: &Point, name: &str) -> String {
    point.value(name).map_or_else(String::new, |value| value.to_string())
}

/// The names in code marks in the first column of the first table below `heading` in a document, each once, as they come.
fn names_in_table(path: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(document(path)).expect("the document is there");
    let (_, below) = text.split_once(heading).expect("the heading is there");
    let table = below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut names = Vec::new();
    for row in table {
        let first = row.split('|').nth(1).unwrap_or_default();
        names.extend(first.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    names.dedup();
    names
}

#[test]
fn the_tables_of_profiles_and_of_congestion_controls_in_the_documents_name_all_of_them() {
    let profiles: Vec<&str> = Profile::all().iter().map(|profile| profile.name()).collect();
    assert_eq!(names_in_table("profiles.md", "# The profiles\n"), profiles);
    assert_eq!(names_in_table("recovery.md", "\n## Cost of all profiles\n"), profiles);
    let mut sequences = names_in_table("recovery.md", "\nThe table shows the longest delay of a message ");
    sequences.retain(|name| !name.contains('+'));
    assert_eq!(sequences, profiles);
    let controls: Vec<&str> = CongestionControl::all().iter().map(|control| control.name()).collect();
    assert_eq!(names_in_table("congestion.md", "# Congestion control\n"), controls);
}

#[test]
fn the_plans_that_compare_the_profiles_leave_none_out() {
    let experiments: [&dyn Experiment; 6] =
        [&Bursts, &Cost::COST, &RecoverySequences, &Reordering, &RequestReply, &ThinLatency];
    for experiment in experiments {
        let plan = Plan::own(experiment, Scale::Full);
        let points = plan.points();
        let is_compared = |profile: &Profile| points.iter().any(|point| value(point, "sender") == profile.name());
        let missing: Vec<_> = Profile::all().iter().filter(|profile| !is_compared(profile)).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", experiment.name());
    }
}

#[test]
fn the_figures_in_the_document_on_recovery_are_those_that_the_experiment_draws() {
    let results = sequences("documents-figures");
    let figures = RecoverySequences.figures(&results);
    assert_eq!(figures.len(), results.points().len(), "each point has one");
    let drawn = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents-drawn");
    let mut shown = 0;
    let mut outdated = Vec::new();
    for (summary, figure) in results.points().iter().zip(figures) {
        let [sender, iat, lost] = ["sender", "iat", "lost"].map(|name| value(summary.point(), name));
        let name = format!("{}-{iat}-{lost}.svg", sender.replace('+', "-"));
        let Ok(in_document) = fs::read_to_string(document("recovery").join(&name)) else { continue };
        shown += 1;
        let svg = figure.to_svg().expect("it can be drawn");
        if svg != in_document {
            fs::create_dir_all(&drawn).expect("the folder for temporary files can be written to");
            fs::write(drawn.join(&name), svg).expect("the folder for temporary files can be written to");
            outdated.push(name);
        }
    }
    let files = fs::read_dir(document("recovery")).expect("the folder is there").count();
    assert_eq!(shown, files, "each figure in docs/recovery shows a point of the plan");
    assert!(outdated.is_empty(), "look at the new ones in {} and copy them: {outdated:?}", drawn.display());
}

#[test]
fn the_delays_in_the_document_on_recovery_are_those_that_the_experiment_measures() {
    let results = sequences("documents-delays");
    let text = fs::read_to_string(document("recovery.md")).expect("the document is there");
    let mut rows: Vec<(String, String)> = Vec::new();
    for summary in results.points() {
        let sender = value(summary.point(), "sender");
        let longest = summary.series().get("delivery").and_then(|delays| delays.all().max());
        let longest = longest.expect("messages are delivered").as_secs_f64() * 1e3;
        if rows.last().is_none_or(|(name, _)| *name != sender) {
            rows.push((sender.clone(), format!("| `{sender}` |")));
        }
        if let Some((_, row)) = rows.last_mut() {
            row.push_str(&format!(" {longest:.0} |"));
        }
    }
    let missing: Vec<&String> = rows.iter().map(|(_, row)| row).filter(|row| !text.contains(*row)).collect();
    assert!(missing.is_empty(), "docs/recovery.md does not have these rows:\n{missing:#?}");
}

/// How a stream fared.
struct Fared {
    /// The 99th and the 99.9th percentile of the delays.
    percentiles: [Duration; 2],
    /// Spurious retransmissions, except those bundled with other data.
    needless: usize,
}

impl Fared {
    fn of(stream: &ThinStream) -> Self {
        let run = stream.run(1);
        let truth = run.record.truth();
        let mut delays: Vec<Duration> = truth.messages.iter().filter_map(|message| message.delay()).collect();
        delays.sort_unstable();
        let needless = truth.retransmissions.iter().filter(|resent| resent.is_spurious() && !resent.cause.is_bundled());
        Self { percentiles: [990, 999].map(|share| delays[delays.len() * share / 1_000]), needless: needless.count() }
    }

    /// A message every 250 ms over a round trip of 100 ms with 5 % loss each way, SACKs delayed by 200 ms.
    fn on_lossy_path(mechanisms: Mechanisms, seconds: u64) -> Self {
        let loss = Probability::from_percent(5);
        Self::of(&stream(mechanisms, 250, seconds).with_loss(loss, loss))
    }

    /// A message every 20 ms over a round trip of 100 ms with a standard deviation of 20 ms and 1 % loss each way, in ten minutes.
    fn on_jittery_path(mechanisms: Mechanisms) -> Self {
        let loss = Probability::from_percent(1);
        let mut stream = stream(mechanisms, 20, 600).with_loss(loss, loss);
        for link in [&mut stream.forward, &mut stream.backward] {
            let std_dev = Duration::from_millis(20).mul_f64(std::f64::consts::FRAC_1_SQRT_2);
            link.jitter = Jitter { shape: JitterShape::Normal { std_dev }, keeps_order: false };
        }
        Self::of(&stream)
    }
}

fn stream(mechanisms: Mechanisms, interval_ms: u64, seconds: u64) -> ThinStream {
    let ms = Duration::from_millis;
    let (stack, size) = (Stack::sctp(mechanisms, ms(200)), ByteCount::from_bytes(100));
    ThinStream::periodic(stack, ms(interval_ms), size, Duration::from_secs(seconds), ms(100))
}

/// Spurious retransmissions of `petlund-2010` in ten hours, and with the age of the earliest outstanding packet subtracted.
const NEEDLESS: [usize; 2] = [25_648, 7_841];

/// Ten hours as in the document, or one hour with a tenth of the retransmissions.
#[test]
fn single_switches_do_what_the_document_on_recovery_says_of_them() {
    let text = fs::read_to_string(document("recovery.md")).expect("the document is there");
    let thousands = |number: usize| format!("{},{:03}", number / 1_000, number % 1_000);

    for needless in NEEDLESS {
        assert!(text.contains(&thousands(needless)), "{needless} needless retransmissions");
    }
    let hours = seeds::extent(1, 10_u64);
    let fared = |mechanisms| Fared::on_lossy_path(mechanisms, 3_600 * hours);

    let petlund = Profile::Petlund2010.mechanisms();
    let mut since_earliest_sent = petlund;
    since_earliest_sent.thin.timer_restart = TimerRestart::SinceEarliestSent;
    let mut exponential = petlund;
    exponential.thin.backoff = Backoff::Exponential;
    let [as_published, since_earliest_sent, exponential] = [petlund, since_earliest_sent, exponential].map(fared);
    assert_eq!(as_published.percentiles, since_earliest_sent.percentiles);
    assert_eq!(as_published.percentiles, exponential.percentiles);
    for (needless, in_document) in [as_published.needless, since_earliest_sent.needless].into_iter().zip(NEEDLESS) {
        if hours == 10 {
            assert_eq!(needless, in_document);
        } else {
            assert!(
                (needless * 10).abs_diff(in_document) * 10 < in_document,
                "{needless} in an hour, {in_document} in ten"
            );
        }
    }

    let festina = Profile::Festina.mechanisms();
    let mut without_bit = festina;
    without_bit.thin.immediate_sack = ImmediateSack::Never;
    let [with_bit, without_bit] = [festina, without_bit].map(|mechanisms| fared(mechanisms).percentiles[0]);
    assert_eq!([with_bit, without_bit].map(|p99| p99.as_millis()), [155, 300]);
}

#[test]
fn tolerance_of_reordering_does_what_the_document_on_recovery_says_of_it() {
    let text = words("recovery.md");
    let mut unsaid = Vec::new();
    for redundancy in [Redundancy::Off, Redundancy::BUNDLED] {
        let tolerant = Mechanisms { redundancy, ..Profile::Festina.mechanisms() };
        assert_eq!(tolerant.thin.loss_detection, LossDetection::Tolerant);
        let mut counting = tolerant;
        counting.thin.loss_detection = LossDetection::Counted;
        let [tolerant, counting] = [tolerant, counting].map(Fared::on_jittery_path);
        let p99_ms = |fared: &Fared| (fared.percentiles[0].as_secs_f64() * 1e3).round();
        let delays = match (p99_ms(&tolerant), p99_ms(&counting)) {
            (with, without) if with.total_cmp(&without).is_eq() => format!("p99 is {with} ms either way"),
            (with, without) => format!("p99 is {with} instead of {without} ms"),
        };
        let needless = format!("{} instead of {} needless", tolerant.needless, counting.needless);
        unsaid.extend([needless, delays].into_iter().filter(|said| !text.contains(said)));
    }
    assert!(unsaid.is_empty(), "docs/recovery.md does not say {unsaid:?}");
}

#[test]
fn the_scenario_in_the_document_is_at_most_40_lines_and_gives_its_figure_and_its_numbers() {
    let text = fs::read_to_string(document("lab.md")).expect("the document is there");
    let (_, below) = text.split_once("\n## Describe a scenario\n").expect("the heading is there");
    let (_, begun) = below.split_once("<<'PLAN'\n").expect("the plan begins");
    let (plan, _) = begun.split_once("\nPLAN\n").expect("the plan ends");
    assert!(plan.lines().count() <= 40, "{} lines", plan.lines().count());
    let plan = PlanFile::parse("lte.toml", plan).and_then(|file| file.plan(&Scenario, Scale::Full));
    let plan = plan.expect("the plan makes sense");
    let store = Scratch::new("documents-scenario");
    let options = RunOptions { jobs: None, beat: BEAT, store: store.to_owned(), code_version: "test".to_owned() };
    let results = runner::run(&Scenario, &plan, &options, &|_| {}).expect("the store can be used");
    let [summary] = results.points() else { panic!("nothing is swept") };
    let mut unsaid = Vec::new();
    for series in ["near", "far"] {
        let delays = summary.series()[series].all();
        assert_eq!(delays.count(), 27_500, "ten streams, 55 s, ten messages a second, five runs");
        for quantile in [0.5, 0.99] {
            let delay_ms = delays.quantile(quantile).expect("there are delays").as_secs_f64() * 1e3;
            let written = format!("{delay_ms:.1} ms");
            unsaid.extend((!below.contains(&written)).then(|| format!("{series}: {written}")));
        }
    }
    assert!(summary.values()["radio: packets marked %"].mean() > Some(0.0), "CoDel marks");
    let figures = Scenario.figures(&results);
    assert_eq!(figures.len(), 2, "one for each probe");
    let svg = figures[0].to_svg().expect("it can be drawn");
    let in_document = fs::read_to_string(document("scenario-lte.svg")).expect("the figure is there");
    if svg != in_document {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenario-lte.svg");
        fs::write(&new, &svg).expect("the folder for temporary files can be written to");
        panic!("look at the new one in {} and copy it; the document does not say {unsaid:?}", new.display());
    }
    assert!(unsaid.is_empty(), "the document does not say {unsaid:?}");
}

/// The rows of a file of tab-separated values, by the names of its columns.
fn rows(path: &str) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(document(path)).expect("the file is there");
    let mut lines = text.lines().map(|line| line.split('\t'));
    let head: Vec<&str> = lines.next().expect("the first line has the names").collect();
    let row = |cells: Split<'_, char>| head.iter().map(ToString::to_string).zip(cells.map(str::to_owned)).collect();
    lines.map(row).collect()
}

/// Number of rows with this value in a column.
fn count(rows: &[HashMap<String, String>], column: &str, value: &str) -> usize {
    rows.iter().filter(|row| row[column] == value).count()
}

/// The words of a document, with a space between each two.
fn words(path: &str) -> String {
    let text = fs::read_to_string(document(path)).expect("the document is there");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that a document has all these lines.
fn assert_has_lines(path: &str, expected: &[String]) {
    let text = fs::read_to_string(document(path)).expect("the document is there");
    let missing: Vec<&String> = expected.iter().filter(|line| !text.lines().any(|it| it == line.as_str())).collect();
    assert!(missing.is_empty(), "docs/{path} does not have these lines:\n{missing:#?}");
}

/// The rows of the ledger.
fn ledger() -> Vec<Row> {
    let text = fs::read_to_string(document("ledger.json")).expect("the file is there");
    ledger::row::parse(&text).expect("festina lab ledger wrote it")
}

/// How the documents of the ledger are written again without a run that takes long.
const UPDATE: &str = "run `festina lab ledger --only r12-sequences --docs docs`";

#[test]
fn the_ledger_has_the_statements_and_causes_of_the_experiments_and_no_cell_is_cut() {
    let rows = ledger();
    assert!(ledger::rows(&[], &rows) == rows, "{UPDATE}");
    let csv = fs::read_to_string(document("ledger.csv")).expect("the file is there");
    assert!(ledger::row::to_csv(&rows) == csv, "{UPDATE}");
    let cut: Vec<&Row> = rows.iter().filter(|row| row.ours.ends_with("...")).collect();
    assert!(cut.is_empty(), "{cut:#?}");
}

#[test]
fn no_row_of_the_ledger_is_of_other_checks() {
    let probe = |row: &Row| row.probe.split('-').next().unwrap_or_default().to_owned();
    let rows = ledger();
    let older = rows.iter().filter(|row| !row.probe.is_empty() && row.is_older(&probe(row)));
    let older: Vec<&Row> = older.collect();
    assert!(older.is_empty(), "run these experiments again: {older:#?}");
}

/// As `festina lab ledger --check`, which probes all experiments.
#[test]
fn the_rows_of_short_experiments_are_of_todays_code() {
    let rows = ledger();
    for name in ["p10-fig4", "r12-sequences", "r15-tail-loss"] {
        let experiment = experiments::find(name).expect("the experiment is there");
        let probe = runner::probe(experiment);
        let older: Vec<&Row> = rows.iter().filter(|row| row.experiment == name && row.is_older(&probe)).collect();
        assert!(older.is_empty(), "run `festina lab ledger --only {name} --docs docs`: {older:#?}");
    }
}

#[test]
fn the_pages_of_the_papers_show_their_claims_as_the_ledger_has_them() {
    let rows = ledger();
    for (name, table) in page::tables(&rows) {
        let text = fs::read_to_string(document(&name)).expect("the document is there");
        assert_eq!(page::with_table(&text, &table).as_deref(), Some(text.as_str()), "{name}: {UPDATE}");
    }
    let figures = Paper::ALL.into_iter().flat_map(|paper| page::headlines(&rows, paper));
    let figures: Vec<_> = figures.collect();
    // A claim that one number breaks is shown with a number that breaks it.
    let agrees = |headline: &Headline, row: &Row| {
        let before = row.ours.split_once(headline.label).map(|(before, _)| before);
        before.is_some_and(|before| before.ends_with("holds: ") || before.ends_with("met: "))
    };
    let broken = figures.iter().filter(|(headline, row)| row.verdict == "broken" && agrees(headline, row));
    let broken: Vec<&str> = broken.map(|(_, row)| row.statement.as_str()).collect();
    assert!(broken.is_empty(), "the figure beside these broken claims is one that meets them: {broken:#?}");
    let missing: Vec<&str> = figures
        .into_iter()
        // Rows of older code may have no figures.
        .filter(|(_, row)| !row.probe.is_empty())
        .filter(|(headline, row)| !headline.label.is_empty() && !row.ours.contains(headline.label))
        .map(|(_, row)| row.statement.as_str())
        .collect();
    assert!(missing.is_empty(), "the evidence has no figure for these claims: {missing:#?}");
}

#[test]
fn the_review_of_the_ledger_has_its_rows_in_its_order_and_the_page_counts_them() {
    let review = rows("ledger-review.tsv");
    let reviewed: Vec<_> = review.iter().map(|row| [&row["paper"], &row["section"], &row["statement"]]).collect();
    let rows = ledger();
    let papers: Vec<String> = rows.iter().map(|row| format!("{:?}", row.paper)).collect();
    let judged = rows.iter().zip(&papers).map(|(row, paper)| [paper, &row.section, &row.statement]);
    assert_eq!(reviewed, judged.collect::<Vec<_>>());
    let [yes, partly, no] = ["yes", "partly", "no"].map(|word| count(&review, "tests_it", word));
    assert_eq!(yes + partly + no, review.len());
    let counts =
        format!("Of {} statements {yes} are tested as they stand, {partly} partly, and {no} not at all.", review.len());
    assert!(words("ledger.md").contains(&counts), "{counts}");
}

#[test]
fn few_rows_of_the_ledger_are_not_tested_and_each_undecided_or_broken_one_says_why() {
    let rows = ledger();
    assert!(rows.iter().all(|row| VERDICTS.contains(&row.verdict.as_str())));
    assert!(rows.iter().filter(|row| row.verdict == "not tested").count() <= 11);
    let unexplained = rows.iter().filter(|row| row.reason.is_empty() != (row.verdict != "undecided"));
    let unexplained: Vec<&str> = unexplained.map(|row| row.statement.as_str()).collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    for row in rows.iter().filter(|row| row.verdict == "broken") {
        let cause = row.cause.to_lowercase();
        let is_guess = ["likely", "probably", "perhaps", "may be", "might"].iter().any(|word| cause.contains(word));
        assert!(!cause.is_empty() && !is_guess, "{:?}, {}: {cause}", row.paper, row.section);
    }
}

#[test]
fn the_page_on_the_ledger_counts_the_statements_that_hold_under_the_readings() {
    let rows = rows("readings.tsv");
    let counts = |combination: &Combination| {
        ["holds", "broken", "undecided"].map(|word| count(&rows, &combination.name(), word))
    };
    let chosen =
        |is_chosen: fn(&Combination) -> bool| Combination::all().into_iter().filter(is_chosen).collect::<Vec<_>>();
    let shown = chosen(|it| it.timer_restart == "cumulative" && it.sack_delay == "200ms");
    let lines = shown.iter().map(|combination| {
        let Combination { rtt_samples, timer_restart, timer_fix, sack_delay } = combination;
        let counts = counts(combination).map(|count| count.to_string()).join(" | ");
        format!("| {rtt_samples} | {timer_restart} | {timer_fix} | {sack_delay} | {counts} |")
    });
    assert_has_lines("ledger.md", &lines.collect::<Vec<_>>());
}
