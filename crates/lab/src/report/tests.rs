use super::document::Compared;
use super::*;
use crate::evidence::Bound;
use crate::experiments::{Md1, ThinLatency};
use crate::plan::{Plan, PlanFile, Point, Scale};
use crate::samples::{Sample, Samples};
use crate::summary::PointSummary;
use std::time::Duration;

use festina_units::Instant;
use serde_json::json;

/// Results of `md1` at one point with two repetitions, in each of them one packet waited for `wait_us`.
fn results(wait_us: u64, share_without_wait: f64) -> Results {
    let text = "experiment = \"md1\"\ntitle = \"Link <& wait\"\nrepetitions = 2\n[parameters]\nload = \"50%\"\n";
    let plan =
        PlanFile::parse("p.toml", text).and_then(|file| file.plan(&Md1, Scale::Full)).expect("the plan makes sense");
    let points = plan.points().into_iter().map(|point| summary(point, wait_us, share_without_wait)).collect();
    Results::new(plan, points)
}

fn summary(point: Point, wait_us: u64, share_without_wait: f64) -> PointSummary {
    let mut samples = Samples::new();
    samples.record("waiting", Sample { sent_at: Instant::ZERO, delay: Duration::from_micros(wait_us) });
    samples.set("share without wait", share_without_wait);
    let mut summary = PointSummary::new(point);
    summary.add(&samples);
    summary.add(&samples);
    summary
}

fn report(wait_us: u64, share_without_wait: f64) -> Report<'static> {
    Report::new(&Md1, results(wait_us, share_without_wait)).expect("the figure can be drawn")
}

#[test]
fn numbers_as_published_hold_and_others_are_shown_as_missed() {
    // 1250 bytes take 1 ms at 10 Mbit/s; at a load of one half the closed form says half of that.
    let good = report(500, 0.5);
    assert!(good.holds(), "{}", good.text());
    assert!(!good.html().contains("class=\"missed\">"), "nothing is missed");

    let bad = report(700, 0.5);
    assert!(!bad.holds());
    assert_eq!(bad.broken().count(), 1);
    let page = bad.html();
    assert!(page.contains("<span class=\"broken\">broken</span>"));
    assert!(
        page.contains("<td>500.0</td><td></td><td>700.0</td><td>0</td><td>2</td><td>µs</td><td>+40.0%</td>"),
        "{page}"
    );
    assert!(
        page.contains("<span class=\"missed\">missed</span></td><td><span class=\"why\">not known</span></td>"),
        "{page}"
    );
    assert!(bad.text().contains("+40.0%     missed"), "{}", bad.text());
    assert!(bad.checks_text().contains("broken     At every load the mean waiting time"), "{}", bad.checks_text());
}

#[test]
fn the_table_on_a_terminal_shows_what_a_message_costs_beside_the_delays() {
    let plan = Plan::own(&ThinLatency, Scale::Quick);
    let mut samples = Samples::new();
    samples.tally("delivery", Duration::from_millis(50));
    samples.set("packets per message", 1.25);
    samples.set("bytes per message", 222.0);
    let mut summary = PointSummary::new(plan.points()[0].clone());
    summary.add(&samples);
    let report = Report::new(&ThinLatency, Results::new(plan, vec![summary])).expect("the figure can be drawn");
    let text = report.text();
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("point ")).take(2).collect();
    let [headings, row] = lines[..] else { panic!("no table in {text}") };
    assert!(headings.ends_with("max  packets per message  bytes per message"), "{text}");
    let numbers: Vec<&str> = row.split_whitespace().rev().take(2).collect();
    assert_eq!(numbers, ["222.0", "1.250"], "{text}");
}

#[test]
fn the_page_holds_the_figure_and_the_plan_escapes_text_and_loads_nothing() {
    let report = report(500, 0.5);
    let page = report.html();
    assert!(page.contains(report.figures[0].trim()));
    assert!(page.contains("<h1>Link &lt;&amp; wait</h1>"));
    assert!(page.contains("load = &quot;50%&quot;\npackets = 50000\n"), "{page}");
    assert!(["src=", "href=", "url(", "@import", "<script"].iter().all(|load| !page.contains(load)));
}

#[test]
fn the_plan_on_the_page_runs_the_same_again() {
    let page = report(500, 0.5).html();
    let (_, rest) = page.split_once("<pre>").expect("a plan");
    let (plan, _) = rest.split_once("</pre>").expect("its end");
    let plan = plan.replace("&quot;", "\"");
    let again = PlanFile::parse("again.toml", &plan).and_then(|file| file.plan(&Md1, Scale::Full)).expect("a plan");
    assert_eq!(again.sweep(), results(500, 0.5).plan().sweep());
    assert_eq!((again.seed(), again.repetitions()), (1, 2));
}

#[test]
fn the_page_names_seeds_code_version_and_command() {
    let plan = results(500, 0.5).plan().clone();
    let page = report(500, 0.5).with_command("festina lab run \"a&b.toml\"".to_owned()).html();
    for repetition in 0..2 {
        assert!(page.contains(&plan.repetition_seed(repetition).to_string()), "{page}");
    }
    assert!(page.contains(crate::runner::CODE_VERSION));
    assert!(page.contains("The command was <code>festina lab run &quot;a&amp;b.toml&quot;</code>"), "{page}");
}

#[test]
fn published_numbers_of_what_was_not_run_are_counted_in_the_terminal_and_listed_on_the_page() {
    let plan = results(500, 0.5).plan().clone();
    let points = plan.points().into_iter().map(PointSummary::new).collect();
    let report = Report::new(&Md1, Results::new(plan, points)).expect("the figure can be drawn");
    let text = report.text();
    assert!(text.contains("\npublished numbers of points that were not run: 2\n"), "{text}");
    assert!(!text.contains("not run  "), "{text}");
    assert_eq!(report.html().matches("<td>not run</td>").count(), 2);
}

#[test]
fn the_plan_on_the_page_says_what_is_swept_one_at_a_time() {
    let text = "experiment = \"md1\"\none_at_a_time = [\"load\", [\"rate\", \"packets\"]]\n";
    let plan = PlanFile::parse("p.toml", text).and_then(|file| file.plan(&Md1, Scale::Full)).expect("a sound plan");
    let points = plan.points().into_iter().map(|point| summary(point, 500, 0.5)).collect();
    let report = Report::new(&Md1, Results::new(plan, points)).expect("the figure can be drawn");
    assert!(report.html().contains("one_at_a_time = [&quot;load&quot;, [&quot;rate&quot;, &quot;packets&quot;]]"));
}

#[test]
fn the_json_tells_parameters_delays_and_verdicts() {
    let json: serde_json::Value = serde_json::from_str(&report(700, 0.5).json().expect("JSON")).expect("JSON");
    assert_eq!((&json["experiment"], &json["scale"]), (&"md1".into(), &"full".into()));
    assert_eq!((&json["checks_held"], &json["checks_broken"]), (&1.into(), &1.into()));
    let point = &json["points"][0];
    assert_eq!(point["parameters"]["load"], json!({ "value": 50.0, "unit": "%" }));
    assert_eq!(point["parameters"]["rate"], json!({ "value": 10_000_000.0, "unit": "bit/s" }));
    assert_eq!(point["parameters"]["packet"], json!({ "value": 1_250.0, "unit": "B" }));
    assert_eq!(point["parameters"]["packets"], 50_000);
    let waiting = &point["series"]["waiting"];
    assert_eq!((&waiting["count"], &waiting["mean_ms"]["half_width_95"]), (&2.into(), &0.0.into()));
    assert_eq!(waiting["max_ms"].to_string(), "0.7");
    let quantiles: Vec<&String> = waiting["quantiles_ms"].as_object().expect("quantiles").keys().collect();
    assert_eq!(quantiles, ["p50", "p90", "p99", "p99.9"]);
    assert_eq!(json["comparisons"][0]["verdict"], "missed");
    assert_eq!(json["checks"][0]["verdict"], "broken");
}

#[test]
fn durations_are_milliseconds_in_json_whichever_unit_the_plan_has() {
    let text = "experiment = \"thin-latency\"\n[parameters]\nduration = \"1m\"\niat = [\"1.5ms\", \"2s\"]\nsender = \"rack\"\n";
    let file = PlanFile::parse("p.toml", text).and_then(|file| file.plan(&ThinLatency, Scale::Quick));
    let plan = file.expect("the plan makes sense");
    let points = plan.points().into_iter().map(PointSummary::new).collect();
    let report = Report::new(&ThinLatency, Results::new(plan, points)).expect("the figure can be drawn");
    let json: serde_json::Value = serde_json::from_str(&report.json().expect("JSON")).expect("JSON");
    let of = |place: usize, name: &str| json["points"][place]["parameters"][name].clone();
    let ms = |value: f64| json!({ "value": value, "unit": "ms" });
    assert_eq!([of(0, "duration"), of(0, "iat"), of(1, "iat")], [60_000.0, 1.5, 2_000.0].map(ms));
    assert_eq!(of(0, "sender"), "rack");
}

#[test]
fn published_inequalities_are_numbers_in_json_and_text_in_tables() {
    let entry = |bound| Compared::of(&Entry::inequality("ratio", "ms", bound, None));
    let shown = [Bound::LessThan(1.0), Bound::MoreThan(0.5), Bound::Within(2.0, 3.0)].map(|bound| {
        let json = serde_json::to_value(entry(bound)).expect("JSON");
        let read: Compared = serde_json::from_value(json.clone()).expect("it was written so");
        (json["more_than"].as_f64(), json["less_than"].as_f64(), text::comparison_rows(&[read])[1][1].clone())
    });
    let text = ["< 1.00", "> 0.500", "2.00 to 3.00"].map(str::to_owned);
    let [less, more, within] = text;
    assert_eq!(shown, [(None, Some(1.0), less), (Some(0.5), None, more), (Some(2.0), Some(3.0), within)]);
}

#[test]
fn recordings_of_real_sockets_have_the_form_of_todays_summaries() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation");
    let files = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let recordings: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    assert_eq!(recordings.len(), 4);
    for path in recordings {
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("the file can be read")).expect("JSON");
        for point in json["points"].as_array().expect("points") {
            assert!(point["parameters"]["rtt"]["value"].is_f64(), "{}: {point}", path.display());
        }
    }
}

/// An empty folder, and options with a store in it.
fn folder_of(test: &str) -> (PathBuf, RunOptions) {
    let folder = std::env::temp_dir().join(format!("festina-lab-report-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    let (store, code_version) = (folder.join("runs"), "1".to_owned());
    let options = RunOptions { jobs: None, beat: crate::runner::BEAT, store, code_version };
    (folder, options)
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn figures_and_halves_of_files_of_an_earlier_run_go_and_files_of_others_stay() {
    let (folder, options) = folder_of("earlier");
    let earlier = ["figure-2.svg", "figure-12.png", "tallies.csv", "samples.parquet", "report.txt.unfinished"];
    for name in earlier.into_iter().chain(["figure-mine.svg", "notes.unfinished"]) {
        fs::write(folder.join(name), "earlier").expect("it can be written");
    }
    report(500, 0.5).write(&folder, &options).expect("it can be written");
    let mut names = listed(&folder);
    names.retain(|name| name != "figure-1.png");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    let expected = "figure-1.svg figure-mine.svg notes.unfinished report.html report.txt runs summary.json values.csv";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn a_report_that_cannot_be_written_whole_leaves_the_earlier_one_as_it_was() {
    let (folder, options) = folder_of("whole");
    report(500, 0.5).write(&folder, &options).expect("it can be written");
    let before: Vec<String> = listed(&folder);
    let read = || fs::read_to_string(folder.join(SUMMARY)).expect("it was written");
    let summary = read();
    // As if the disk were full when the last file is written.
    fs::create_dir_all(folder.join("report.html.unfinished/x")).expect("it can be made");
    report(700, 0.5).write(&folder, &options).expect_err("a folder is in the way");
    assert_eq!(read(), summary);
    fs::remove_dir_all(folder.join("report.html.unfinished")).expect("it can be removed");
    assert_eq!(listed(&folder), before);
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_mean_that_meets_its_bound_is_undecided_after_one_run_and_if_its_interval_does_not() {
    let verdict = |waits_us: &[u64]| {
        let point = results(500, 0.5).points()[0].point().clone();
        let mut summary = PointSummary::new(point);
        for wait_us in waits_us {
            let mut samples = Samples::new();
            samples.record("waiting", Sample { sent_at: Instant::ZERO, delay: Duration::from_micros(*wait_us) });
            summary.add(&samples);
        }
        let results = Results::new(results(500, 0.5).plan().clone(), vec![summary]);
        let report = Report::new(&Md1, results).expect("the figure can be drawn");
        let check = report.checks().iter().find(|check| check.statement.contains("mean waiting time"));
        let check = check.expect("the plan declares it");
        (check.verdict.word(), check.verdict.seen().to_owned())
    };
    assert_eq!(verdict(&[505, 495, 500]).0, "holds");
    // The same mean: the closed form says 500.
    let (word, seen) = verdict(&[400, 600, 500]);
    assert_eq!(word, "undecided", "{seen}");
    let (word, seen) = verdict(&[500]);
    assert!(word == "undecided" && seen.contains("one run, no interval"), "{word}: {seen}");
}

#[test]
fn links_in_the_index_are_percent_encoded() {
    let (folder, _) = folder_of("links");
    for name in ["a#b?c", "%s%n", "ü&x"] {
        fs::create_dir_all(folder.join(name)).expect("a folder for temporary files");
        let json = report(500, 0.5).json().expect("JSON");
        fs::write(folder.join(name).join(SUMMARY), json).expect("it can be written");
    }
    let page = fs::read_to_string(write_index(&folder).expect("the folder can be read")).expect("it was written");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    for link in [
        "<a href=\"a%23b%3Fc/report.html\">a#b?c</a>",
        "<a href=\"%25s%25n/report.html\">%s%n</a>",
        "<a href=\"%C3%BC%26x/report.html\">ü&amp;x</a>",
    ] {
        assert!(page.contains(link), "{link}: {page}");
    }
}

#[test]
fn of_reports_that_end_together_the_index_has_all() {
    let (folder, _) = folder_of("together");
    let json = report(500, 0.5).json().expect("JSON");
    for round in 0..20 {
        std::thread::scope(|scope| {
            for run in 0..6 {
                let (folder, json) = (&folder, &json);
                scope.spawn(move || {
                    let own = folder.join(format!("{round}-{run}"));
                    fs::create_dir_all(&own).expect("it can be made");
                    fs::write(own.join(SUMMARY), json).expect("it can be written");
                    write_index(folder).expect("the folder can be read");
                });
            }
        });
        let page = fs::read_to_string(folder.join(INDEX)).expect("it was written");
        assert_eq!(page.matches("<h2>").count(), 6 * (round + 1));
    }
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn the_index_lists_each_run_with_its_verdicts() {
    let folder = std::env::temp_dir().join(format!("festina-lab-index-{}", std::process::id()));
    for (name, wait_us) in [("b-run", 500), ("a-run", 700), ("broken", 0)] {
        fs::create_dir_all(folder.join(name)).expect("a folder for temporary files");
        let json = if wait_us == 0 { "{}".to_owned() } else { report(wait_us, 0.5).json().expect("JSON") };
        fs::write(folder.join(name).join(SUMMARY), json).expect("it can be written");
    }
    let path = write_index(&folder).expect("the folder can be read");
    let page = fs::read_to_string(path).expect("the page was written");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    let (a, b) = (page.find("a-run/report.html").expect("a link"), page.find("b-run/report.html").expect("a link"));
    assert!(a < b, "by name");
    assert!(page.contains("<span class=\"broken\">1 broken</span>, <span class=\"holds\">1 hold</span>"), "{page}");
    assert_eq!(page.matches("<h2>").count(), 2, "a section for each run");
    assert!(
        page.contains("<td>500.0</td><td></td><td>700.0</td><td>0</td><td>2</td><td>µs</td><td>+40.0%</td>"),
        "its numbers are there: {page}"
    );
    assert!(page.contains("<span class=\"holds\">holds</span>"), "its checks are there: {page}");
    assert!(!page.contains("broken/report.html"), "reports without a summary are left out");
}

#[test]
fn a_label_is_given_even_if_nothing_is_swept() {
    let text = report(500, 0.5).text();
    assert!(
        text.starts_with("md1: Link <& wait\nrate 10Mbit/s, packet 1250B, load 50%, packets 50000, 2 runs"),
        "{text}"
    );
    assert!(text.contains("\nthe only point  waiting"), "{text}");
    assert_eq!(Plan::own(&Md1, Scale::Full).swept().collect::<Vec<_>>(), ["load"]);
}
