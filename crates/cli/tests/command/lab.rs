//! `festina lab` with the experiment that is quickest.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Ended, Running, festina, folder};

fn lab_in(folder: &Path, arguments: &[&str]) -> Ended {
    let mut all = vec!["lab"];
    all.extend(arguments);
    let mut command = festina(&all);
    command.current_dir(folder);
    Running::start(command).end()
}

/// A plan that takes no time.
const SHORT: &str = "experiment = \"md1\"\nrepetitions = 2\n[parameters]\nload = [\"20%\", \"40%\"]\npackets = 3_000\n";

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the folder can be written");
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).expect("the file was written")
}

#[test]
fn the_list_names_every_experiment_and_its_source() {
    let listed = lab_in(&folder("lab-list"), &["list"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
    assert!(
        listed.stdout.contains("md1  Waiting time in front of a busy link; Pollaczek and Khinchine"),
        "{}",
        listed.stdout
    );
}

/// What was said on standard error, but for the remark that a system without fonts gets no pictures. Continuous integration
/// has fonts.
fn complaints(stderr: &str) -> String {
    let is_remark = |line: &&str| line.contains("the system has no font") && std::env::var_os("CI").is_none();
    stderr.lines().filter(|line| !is_remark(line)).collect()
}

#[test]
fn a_quick_run_prints_its_numbers_and_writes_a_report_and_the_list_of_reports() {
    let folder = folder("lab-quick");
    let ran = lab_in(&folder, &["run", "md1", "--quick"]);
    assert_eq!((ran.code, complaints(&ran.stderr)), (Some(0), String::new()), "{ran:?}");
    for expected in ["published", "holds   The higher the load", "load 80%", "lab/md1-quick/report.html"] {
        assert!(ran.stdout.contains(expected), "{expected} is missing in\n{}", ran.stdout);
    }
    let run = folder.join("lab/md1-quick");
    assert!(read(run.join("report.html")).contains(read(run.join("figure-1.svg")).trim()), "the figure is on the page");
    assert_eq!(read(run.join("samples.csv")).lines().count(), 1 + 3 * 10 * 10_000);
    assert!(read(run.join("samples.csv")).starts_with("load,repetition,series,sent_ns,delay_ns\n30%,1,waiting,"));
    assert!(read(folder.join("lab/index.html")).contains("href=\"md1-quick/report.html\""));
}

#[test]
fn a_plan_of_ones_own_gives_the_same_json_whatever_the_threads_or_shards() {
    let folder = folder("lab-own-plan");
    write(&folder, "mine.toml", SHORT);
    let one = lab_in(&folder, &["run", "mine.toml", "--json", "-", "--jobs", "1", "--out", "one"]);
    let json: Value = serde_json::from_str(&one.stdout).expect("standard output is one JSON document");
    assert_eq!((&json["experiment"], &json["repetitions"]), (&"md1".into(), &2.into()));
    assert!(one.stderr.contains("The report is one/mine/report.html"), "{}", one.stderr);

    let four = lab_in(&folder, &["run", "mine.toml", "--json", "four.json", "--jobs", "4", "--out", "four"]);
    assert_eq!(four.code, one.code);
    assert_eq!(read(folder.join("four.json")), one.stdout);

    let first = lab_in(&folder, &["run", "mine.toml", "--shard", "1/2", "--out", "parts"]);
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), ""), "{first:?}");
    assert!(first.stderr.contains("part 1/2 is done") && first.stderr.contains("2 of all 4 runs"), "{}", first.stderr);
    let second = lab_in(&folder, &["run", "mine.toml", "--shard", "2/2", "--out", "parts", "--json", "-"]);
    assert_eq!(second.stdout, one.stdout);
}

#[test]
fn seeds_set_the_number_of_repetitions() {
    let folder = folder("lab-seeds");
    write(&folder, "mine.toml", SHORT);
    let ran = lab_in(&folder, &["run", "mine.toml", "--seeds", "5", "--json", "-"]);
    let json: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(json["repetitions"], 5);
    assert_eq!(json["points"][0]["series"]["waiting"]["count"], 15_000);
}

#[test]
fn a_check_tells_its_verdicts_and_fails_if_one_is_broken() {
    let folder = folder("lab-check");
    let held = lab_in(&folder, &["check", "md1", "--quick"]);
    assert_eq!((held.code, complaints(&held.stderr)), (Some(0), String::new()), "{held:?}");
    assert_eq!(held.stdout.lines().filter(|line| line.starts_with("holds ")).count(), 3, "{}", held.stdout);

    // A hundred packets are far too few to meet the closed form.
    let text = "experiment = \"md1\"\nrepetitions = 1\n[parameters]\nload = \"90%\"\npackets = 100\n";
    write(&folder, "few.toml", text);
    for command in ["check", "run"] {
        let broken = lab_in(&folder, &[command, "few.toml"]);
        assert_eq!(broken.code, Some(1), "{broken:?}");
        assert!(broken.stdout.contains("broken  At every load the mean"), "{}", broken.stdout);
        assert!(broken.stdout.contains("skipped The higher the load"), "{}", broken.stdout);
        assert!(complaints(&broken.stderr).starts_with("festina: "), "{}", broken.stderr);
        assert!(broken.stderr.contains("broken"), "{}", broken.stderr);
    }
    assert!(read(folder.join("lab/few/report.html")).contains(">broken<"), "a broken check is reported all the same");
}

#[test]
fn bad_plans_and_names_get_one_line_and_code_two() {
    let folder = folder("lab-bad-plans");
    write(&folder, "unit.toml", &SHORT.replace("[\"20%\", \"40%\"]", "20"));
    write(&folder, "key.toml", &format!("sed = 1\n{SHORT}"));
    write(&folder, "name.toml", "experiment = \"md2\"\n");
    let cases: [(&[&str], &str); 8] = [
        (&["run", "unit.toml"], "unit.toml:4:8: load: 20 has no unit; expected a share in quotes such as \"5%\""),
        (&["run", "key.toml"], "key.toml:1:1: unknown key `sed`, expected one of `experiment`"),
        (&["check", "name.toml"], "name.toml:1:14: unknown experiment \"md2\"; expected one of"),
        (&["run", "missing.toml"], "cannot read the plan missing.toml"),
        (&["run", "md2"], "there is no experiment \"md2\"; there are"),
        (&["run", "md1", "--shard", "3/2"], "write for example \"1/4\""),
        (&["run", "md1", "--seeds", "0"], "0 is not in 1..=10000"),
        (&["run", "md1", "--jobs", "0"], "0 is not in 1..=1024"),
    ];
    for (arguments, expected) in cases {
        let refused = lab_in(&folder, arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{arguments:?}: {refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{arguments:?} said {}", refused.stderr);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_a_failure() {
    let folder = folder("lab-no-folder");
    write(&folder, "file", "");
    let failed = lab_in(&folder, &["run", "md1", "--quick", "--out", "file"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("cannot keep finished runs in file/md1-quick/runs"), "{}", failed.stderr);
}
