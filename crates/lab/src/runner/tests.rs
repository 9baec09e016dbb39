mod sharing;

use std::fs;
use std::sync::Mutex;

use super::*;
use crate::experiment::Description;
use crate::experiments::{Md1, Replay};
use crate::plan::{Parameter, PlanFile, Scale};
use crate::report::Report;
use crate::summary::PointSummary;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("festina-lab-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is a folder for temporary files");
        Self(folder)
    }

    fn options(&self) -> RunOptions {
        let store = self.0.join("runs");
        RunOptions { jobs: Some(1), beat: BEAT, store, code_version: "1".to_owned() }
    }

    fn stored(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("runs")).expect("the store is there");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two points, three repetitions, short.
fn small() -> Plan {
    let text = "experiment = \"md1\"\nrepetitions = 3\n[parameters]\nload = [\"30%\", \"80%\"]\npackets = 200\n";
    PlanFile::parse("small.toml", text).and_then(|file| file.plan(&Md1, Scale::Full)).expect("it makes sense")
}

fn complete(plan: &Plan, options: &RunOptions) -> Results {
    run(&Md1, plan, options, &|_| {}).expect("the store can be used")
}

/// Everything written about the run, by name.
fn written(test: &str, plan: &Plan, jobs: usize) -> Vec<(String, Vec<u8>)> {
    let folder = Folder::new(test);
    let options = RunOptions { jobs: Some(jobs), ..folder.options() };
    let report = Report::new(&Md1, complete(plan, &options)).expect("the figure can be drawn");
    let out = folder.0.join("out");
    report.with_samples().write(&out, &options).expect("the folder can be written");
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&out)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            (path.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(&path).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// Delivery delays of one short stream over each stack, which are tallied.
fn short_replay() -> Plan {
    let text =
        "experiment = \"replay\"\nrepetitions = 2\n[parameters]\nflows = 2\nduration = \"20s\"\nloss = \"10%\"\n";
    PlanFile::parse("short.toml", text).and_then(|file| file.plan(&Replay, Scale::Full)).expect("it makes sense")
}

#[test]
fn what_is_measured_from_without_is_kept_and_a_failure_ends_the_run_with_its_point() {
    let folder = Folder::new("from-without");
    let (plan, options) = (small(), folder.options());
    let failing = |point: &Point, seed: u64| match point.value("load") {
        Some(load) if load.to_string() == "30%" => Ok(Md1.run(point, seed)),
        _ => Err(MeasureError::from("no such device")),
    };
    let error = run_with(&Md1, &plan, &options, &failing, &|_| {}).expect_err("the second point fails");
    assert_eq!(error.to_string(), "cannot measure load 80%");
    assert_eq!(std::error::Error::source(&error).map(ToString::to_string).as_deref(), Some("no such device"));
    assert_eq!(folder.stored().len(), 3, "the first point is kept");
    let seen = Mutex::new(Vec::new());
    let measured = |point: &Point, seed: u64| {
        seen.lock().expect("nothing panicked").push(plan.label(point));
        Ok(Md1.run(point, seed))
    };
    run_with(&Md1, &plan, &options, &measured, &|_| {}).expect("nothing fails");
    assert_eq!(seen.into_inner().expect("nothing panicked"), ["load 80%"; 3], "only the missing runs");
}

#[test]
fn one_thread_and_three_write_the_same_bytes_about_protocols() {
    let [one, three] = [("replay-one", 1), ("replay-three", 3)].map(|(test, jobs)| {
        let folder = Folder::new(test);
        let options = RunOptions { jobs: Some(jobs), ..folder.options() };
        let results = run(&Replay, &short_replay(), &options, &|_| {}).expect("the store can be used");
        Report::new(&Replay, results)
            .expect("the figure can be drawn")
            .with_samples()
            .write(&folder.0, &options)
            .expect("written");
        let read = |name: &str| fs::read_to_string(folder.0.join(name)).expect(name);
        ["report.html", "summary.json", "tallies.csv", "values.csv", "figure-1.svg"].map(read)
    });
    assert!(one[2].lines().count() > 50, "delays are tallied");
    assert!(one == three, "the bytes depend on the number of threads");
}

#[test]
fn every_sample_is_written_on_request_only_and_an_old_file_of_them_is_removed() {
    let folder = Folder::new("samples");
    let options = RunOptions { jobs: Some(1), ..folder.options() };
    let out = folder.0.join("out");
    for is_wanted in [true, false] {
        let report = Report::new(&Md1, complete(&small(), &options)).expect("the figure can be drawn");
        let report = if is_wanted { report.with_samples() } else { report };
        report.write(&out, &options).expect("the folder can be written");
        assert_eq!(out.join("samples.csv").exists(), is_wanted);
        assert!(out.join("values.csv").exists());
    }
}

/// The test runs in debug and in release, here and elsewhere: each must come to these bytes. They change if the simulator's
/// link, its random numbers or the form of the files does.
#[test]
fn the_bytes_are_those_of_every_build_and_machine() {
    let files = written("golden", &small(), 2);
    let hashes = ["samples.csv", "values.csv", "summary.json"].map(|name| {
        let (_, bytes) = files.iter().find(|(file, _)| file == name).expect(name);
        let mut hash = Fnv1a::default();
        hash.add(bytes);
        format!("{name} {:016x}", hash.value())
    });
    assert_eq!(
        hashes,
        ["samples.csv 97aff13c5c559db7", "values.csv f92cbe93b66cc40b", "summary.json aef2b911718f060b"]
    );
}

#[test]
fn one_thread_and_four_write_the_same_bytes_at_quick_scale() {
    let plan = Plan::own(&Md1, Scale::Quick);
    let (one, four) = (written("one", &plan, 1), written("four", &plan, 4));
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    let mut expected = vec!["figure-1.svg", "report.html", "report.txt", "samples.csv", "summary.json", "values.csv"];
    if !matches!(crate::png::from_svg("<svg/>"), Err(crate::png::PngError::NotBuilt | crate::png::PngError::NoFont)) {
        expected.insert(0, "figure-1.png");
    }
    if cfg!(feature = "parquet") {
        expected.push("samples.parquet");
        expected.sort_unstable();
    }
    assert_eq!(names, expected);
    for ((name, one), (_, four)) in one.iter().zip(&four) {
        assert!(one == four, "{name} differs");
    }
}

#[test]
fn the_link_waits_as_theory_says_at_quick_scale() {
    let folder = Folder::new("theory");
    let results = complete(&Plan::own(&Md1, Scale::Quick), &folder.options());
    let report = Report::new(&Md1, results).expect("the figure can be drawn");
    assert!(report.holds(), "{}", report.text());
}

#[test]
fn what_is_in_the_store_is_not_run_again() {
    let folder = Folder::new("resume");
    let options = folder.options();
    let fresh = complete(&small(), &options);
    let stored = folder.stored();
    assert_eq!(stored.len(), 6);
    // A marked run shows whether it was used; a broken one must be run again.
    let text = fs::read_to_string(&stored[0]).expect("a stored run");
    let marked = text.replacen("value,share without wait,0.", "value,share without wait,7.", 1);
    let lines = &marked[..marked.trim_end().rfind('\n').expect("several lines") + 1];
    let mut hash = Fnv1a::default();
    hash.add(lines.as_bytes());
    fs::write(&stored[0], format!("{lines}end {:016x}\n", hash.value())).expect("it can be written");
    let whole = fs::read_to_string(&stored[1]).expect("a stored run");
    fs::write(&stored[1], &whole[..whole.len() / 2]).expect("it can be written");

    let resumed = complete(&small(), &options);
    let shares = |results: &Results| -> Vec<f64> {
        results.points().iter().flat_map(|point| point.values()["share without wait"].values().to_vec()).collect()
    };
    assert_eq!(shares(&fresh).iter().zip(shares(&resumed)).filter(|(fresh, resumed)| **fresh != *resumed).count(), 1);
    assert!(shares(&resumed).iter().any(|share| *share >= 7.0), "the marked run was taken up");
    assert_eq!(fs::read_to_string(&stored[1]).expect("a stored run"), whole, "the broken run was run anew");
}

#[test]
fn runs_of_other_code_are_not_taken_up() {
    let folder = Folder::new("code");
    complete(&small(), &folder.options());
    complete(&small(), &RunOptions { code_version: "2".to_owned(), ..folder.options() });
    assert_eq!(folder.stored().len(), 12);
}

#[test]
fn pruning_removes_runs_of_other_code_and_leftovers_only() {
    let folder = Folder::new("prune");
    complete(&small(), &folder.options());
    let kept = folder.stored();
    complete(&small(), &RunOptions { code_version: "2".to_owned(), ..folder.options() });
    let leftover = folder.0.join("runs/0123456789abcdef.csv.00000000000000aa.unfinished");
    fs::write(&leftover, "festina l").expect("it can be written");
    // What other programs write into folders of this name.
    let others = ["notes.txt", "a.csv", "0123456789abcdef.csv", "b.unfinished", "0123456789abcdef.claim", "c.worker"];
    for name in others {
        fs::write(folder.0.join("runs").join(name), "epoch,loss\n1,0.5\n").expect("it can be written");
    }
    fs::create_dir(folder.0.join("runs/d.csv")).expect("it can be made");
    let pruned = prune(&folder.0.join("runs"), "1").expect("the store can be read");
    assert_eq!(pruned.files, 7);
    assert!(pruned.bytes > 1_000);
    let left = folder.stored();
    assert!(kept.iter().all(|path| left.contains(path)));
    assert_eq!(left.len(), kept.len() + others.len() + 1, "files of others stay: {left:?}");
    assert_eq!(prune(&folder.0.join("runs"), "1").expect("the store can be read"), Pruned::default());
}

#[test]
fn what_a_killed_process_left_half_written_is_removed_by_the_next_run() {
    let folder = Folder::new("half-written");
    complete(&small(), &folder.options());
    let name = "runs/0123456789abcdef.csv.00000000000000aa.unfinished";
    for (name, text) in [(name, "festina lab run"), ("runs/mine.unfinished", "mine")] {
        fs::write(folder.0.join(name), text).expect("it can be written");
    }
    complete(&small(), &folder.options());
    assert!(!folder.0.join(name).exists(), "no process has that worker's file");
    assert!(folder.0.join("runs/mine.unfinished").exists(), "files of others stay");
}

#[cfg(unix)]
#[test]
fn a_folder_or_a_pipe_in_place_of_a_run_is_told_by_its_name() {
    let folder = Folder::new("no-file");
    complete(&small(), &folder.options());
    let run = folder.stored().remove(0);
    for command in ["mkdir", "mkfifo"] {
        fs::remove_file(&run).or_else(|_| fs::remove_dir(&run)).expect("the folder is ours");
        let made = std::process::Command::new(command).arg(&run).status().expect("systems have it");
        assert!(made.success(), "{command}");
        let error = super::run(&Md1, &small(), &folder.options(), &|_| {}).expect_err("it is in the way");
        let source = std::error::Error::source(&error).expect("it has a cause").to_string();
        assert_eq!(source, format!("{} is no file", run.display()), "{command}");
        assert_eq!(prune(&folder.0.join("runs"), "1").expect("the store can be read"), Pruned::default());
    }
}

#[test]
fn progress_counts_up_to_the_number_of_runs() {
    let folder = Folder::new("progress");
    let told = Mutex::new(Vec::new());
    let options = RunOptions { jobs: Some(3), ..folder.options() };
    run(&Md1, &small(), &options, &|progress| told.lock().expect("no test panics").push(progress)).expect("it runs");
    let mut told = told.into_inner().expect("no test panics");
    told.sort_by_key(|progress| progress.done);
    assert!(told.iter().map(|progress| progress.done).eq(1..=6));
    assert!(told.iter().all(|progress| progress.total == 6));
}

#[test]
fn a_store_that_cannot_be_made_is_told() {
    let folder = Folder::new("no-store");
    let file = folder.0.join("file");
    fs::write(&file, "").expect("it can be written");
    let options = RunOptions { store: file.join("runs"), ..folder.options() };
    let error = run(&Md1, &small(), &options, &|_| {}).expect_err("a file is in the way");
    assert!(error.to_string().starts_with("cannot keep finished runs in "), "{error}");
}

/// `md1` whose first point claims not to be random.
struct Settled;

impl Experiment for Settled {
    fn description(&self) -> Description {
        Md1.description()
    }

    fn parameters(&self) -> Vec<Parameter> {
        Md1.parameters()
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        Md1.run(point, seed)
    }

    fn is_random(&self, point: &Point) -> bool {
        point.probability("load").as_fraction() > 0.5
    }
}

#[test]
fn a_point_in_which_nothing_is_random_is_run_once_and_the_others_as_often_as_the_plan_says() {
    let folder = Folder::new("settled");
    let results = run(&Settled, &small(), &folder.options(), &|_| {}).expect("the store can be used");
    let counts: Vec<usize> =
        results.points().iter().map(|point| point.series()["waiting"].mean_s().values().len()).collect();
    assert_eq!(counts, [1, 3]);
    assert_eq!(folder.stored().len(), 4);
}

#[test]
fn points_that_are_run_more_often_have_the_same_seeds_as_the_others_and_further_ones() {
    let text = "experiment = \"md1\"\nrepetitions = 3\n[parameters]\nload = [\"30%\", \"80%\"]\npackets = 200\n\
                [more]\nrepetitions = 5\nparameters.load = \"80%\"\n";
    let plan =
        PlanFile::parse("more.toml", text).and_then(|file| file.plan(&Md1, Scale::Full)).expect("it makes sense");
    let folder = Folder::new("more");
    let results = complete(&plan, &folder.options());
    let often: Vec<u32> = results.points().iter().map(PointSummary::repetitions).collect();
    assert_eq!(often, [3, 5]);
    let before = folder.stored();
    complete(&small(), &folder.options());
    assert_eq!((before.len(), folder.stored()), (8, before), "the plan without it finds all its runs");
}
