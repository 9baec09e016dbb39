//! What a document shows of an experiment is what the experiment draws and counts today.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use festina_lab::experiment::Experiment;
use festina_lab::experiments::RecoverySequences;
use festina_lab::plan::{Plan, Point, Scale};
use festina_lab::runner::{self, Outcome, RunOptions, Shard};
use festina_lab::scenario::{Stack, ThinStream};
use festina_lab::summary::Results;
use festina_recovery::backoff::Backoff;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::{Mechanisms, Profile};
use festina_units::{ByteCount, Probability};

fn document(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)
}

/// A folder of this name for temporary files, empty.
fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder for temporary files can be emptied");
    }
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    folder
}

/// All runs of `recovery-sequences`, kept below `store` for as long as the test runs.
fn sequences(store: &str) -> Results {
    let options =
        RunOptions { jobs: None, shard: Shard::WHOLE, store: scratch(store), code_version: "test".to_owned() };
    let plan = Plan::own(&RecoverySequences, Scale::Full);
    match runner::run(&RecoverySequences, &plan, &options, &|_| {}).expect("the store can be used") {
        Outcome::Complete(results) => *results,
        Outcome::Partial { missing, .. } => panic!("{missing} runs are missing"),
    }
}

fn value(point: &Point, name: &str) -> String {
    point.value(name).map_or_else(String::new, |value| value.to_string())
}

#[test]
fn the_figures_in_the_document_on_recovery_are_those_that_the_experiment_draws() {
    let results = sequences("documents-figures");
    let figures = RecoverySequences.figures(&results);
    assert_eq!(figures.len(), results.points().len(), "each point has one");
    let drawn = scratch("documents-drawn");
    let mut shown = 0;
    let mut outdated = Vec::new();
    for (summary, figure) in results.points().iter().zip(figures) {
        let [sender, iat, lost] = ["sender", "iat", "lost"].map(|name| value(summary.point(), name));
        let name = format!("{}-{iat}-{lost}.svg", sender.replace('+', "-"));
        let Ok(in_document) = fs::read_to_string(document("recovery").join(&name)) else { continue };
        shown += 1;
        let svg = figure.to_svg().expect("it can be drawn");
        if svg != in_document {
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

/// How a message every 250 ms fares over a round trip of 100 ms with 5 % loss each way and SACKs delayed by 200 ms, in ten hours.
struct Fared {
    /// The 99th and the 99.9th percentile of the delays.
    percentiles: [Duration; 2],
    /// Retransmissions that were needless, those left out that rode along with others.
    needless: usize,
}

fn fared(mechanisms: Mechanisms) -> Fared {
    let ms = Duration::from_millis;
    let stack = Stack::sctp(mechanisms, ms(200));
    let loss = Probability::from_percent(5);
    let stream = ThinStream::periodic(stack, ms(250), ByteCount::from_bytes(100), Duration::from_secs(36_000), ms(100));
    let run = stream.with_loss(loss, loss).run(1);
    let truth = run.record.truth();
    let mut delays: Vec<Duration> = truth.messages.iter().filter_map(|message| message.delay()).collect();
    delays.sort_unstable();
    let needless = truth.retransmissions.iter().filter(|resent| resent.is_spurious() && !resent.cause.is_bundled());
    Fared { percentiles: [990, 999].map(|share| delays[delays.len() * share / 1_000]), needless: needless.count() }
}

#[test]
fn single_switches_do_what_the_document_on_recovery_says_of_them() {
    let text = fs::read_to_string(document("recovery.md")).expect("the document is there");
    let thousands = |number: usize| format!("{},{:03}", number / 1_000, number % 1_000);

    let petlund = Profile::Petlund2010.mechanisms();
    let mut since_earliest_sent = petlund;
    since_earliest_sent.thin.timer_restart = TimerRestart::SinceEarliestSent;
    let mut exponential = petlund;
    exponential.thin.backoff = Backoff::Exponential;
    let [as_published, since_earliest_sent, exponential] = [petlund, since_earliest_sent, exponential].map(fared);
    assert_eq!(as_published.percentiles, since_earliest_sent.percentiles);
    assert_eq!(as_published.percentiles, exponential.percentiles);
    for needless in [as_published.needless, since_earliest_sent.needless] {
        assert!(text.contains(&thousands(needless)), "{needless} needless retransmissions");
    }

    let festina = Profile::Festina.mechanisms();
    let mut without_bit = festina;
    without_bit.thin.immediate_sack = false;
    let [with_bit, without_bit] = [festina, without_bit].map(|mechanisms| fared(mechanisms).percentiles[0]);
    assert_eq!([with_bit, without_bit].map(|p99| p99.as_millis()), [155, 300]);
}
