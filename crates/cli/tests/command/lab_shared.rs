//! `festina lab submit`, `work` and `status`: several processes in one folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::harness::{Ended, Running, festina, folder};

/// Sixteen runs, each long enough to be killed during it.
const PLAN: &str = "experiment = \"md1\"\nrepetitions = 8\n[parameters]\nload = [\"20%\", \"40%\"]\npackets = 60_000\n";
/// A plan that takes no time.
const SHORT: &str = "experiment = \"md1\"\nrepetitions = 2\n[parameters]\nload = [\"20%\", \"40%\"]\npackets = 3_000\n";
/// Every file that a run writes, apart from the runs.
const FILES: [&str; 5] = ["report.html", "report.txt", "summary.json", "values.csv", "figure-1.svg"];

fn lab(folder: &Path, arguments: &[&str]) -> Command {
    let mut all = vec!["lab"];
    all.extend(arguments);
    let mut command = festina(&all);
    command.current_dir(folder);
    command
}

fn lab_in(folder: &Path, arguments: &[&str]) -> Ended {
    Running::start(lab(folder, arguments)).end()
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::write(path, text).expect("the folder can be written");
}

/// The files of a report.
fn report(folder: &Path) -> Vec<Vec<u8>> {
    FILES.iter().map(|name| fs::read(folder.join(name)).expect(name)).collect()
}

/// The report of a single process.
fn alone(folder: &Path, plan: &str) -> Vec<Vec<u8>> {
    assert_eq!(lab_in(folder, &["run", plan, "--out", "alone", "--jobs", "1"]).code, Some(0));
    report(&folder.join("alone").join(Path::new(plan).file_stem().expect("it has a name")))
}

/// Names of files in the store with this end.
fn stored(store: &Path, end: &str) -> Vec<String> {
    let entries = fs::read_dir(store).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(end)).collect()
}

/// Whether the process has claimed a run.
fn has_claim(store: &Path, process: u32) -> bool {
    let read = |name: &String| fs::read_to_string(store.join(name)).unwrap_or_default();
    let is_its = |text: &str| text.split(' ').nth(3) == Some(process.to_string().as_str());
    let workers = stored(store, ".worker");
    let own = workers.iter().find(|name| is_its(&read(name))).and_then(|name| name.strip_suffix(".worker"));
    own.is_some_and(|own| stored(store, ".claim").iter().any(|claim| read(claim).starts_with(own)))
}

#[test]
fn a_killed_worker_loses_one_run_and_the_report_has_the_bytes_of_a_single_process() {
    let folder = folder("lab-killed");
    write(folder.join("mine.toml"), PLAN);
    let submitted = lab_in(&folder, &["submit", "mine.toml", "--out", "shared"]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    assert!(submitted.stdout.contains("lab work ") && submitted.stdout.contains(" --report\n"), "{submitted:?}");
    // The plan is the one that was submitted.
    write(folder.join("mine.toml"), SHORT);
    let store = folder.join("shared/mine/runs");
    let work = || Running::start(lab(&folder, &["work", "shared/mine", "--jobs", "1"]));
    let victim = work();
    while !has_claim(&store, victim.id()) {
        thread::sleep(Duration::from_millis(1));
    }
    victim.signal("-KILL");
    drop(victim);
    let finished = stored(&store, ".csv").len();
    assert_eq!(stored(&store, ".claim").len(), 1, "the killed worker had one run");
    let status = lab_in(&folder, &["status", "shared/mine"]);
    let expected = format!("runs: {finished} of 16 finished, 1 under way, {} free\nworker ", 15 - finished);
    assert!(status.code == Some(0) && status.stdout.starts_with(&expected), "{status:?}");
    assert!(status.stdout.contains("sign of life "), "{status:?}");

    let workers = [work(), work(), work()];
    for worker in workers {
        let ended = worker.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("; 0 of all 16 runs are missing"), "{ended:?}");
    }
    for end in [".claim", ".worker", ".unfinished"] {
        assert_eq!(stored(&store, end), Vec::<String>::new());
    }
    let reported = lab_in(&folder, &["work", "shared/mine", "--report", "--jobs", "1"]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
    write(folder.join("mine.toml"), PLAN);
    assert!(report(&folder.join("shared/mine")) == alone(&folder, "mine.toml"), "the bytes differ");
}

/// Puts an `sbatch` into the folder `bin` that runs this script.
fn fake_sbatch(folder: &Path, script: &str) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("the folder can be written");
    let path = bin.join("sbatch");
    write(&path, &format!("#!/bin/bash\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is a path"))
}

/// A name that ends every kind of quotes and directives.
const HOSTILE: &str = "a b'c\"d$(touch pwned)`touch pwned`\n#SBATCH --array=1-9\ntouch pwned;&-";

#[test]
fn scripts_for_slurm_are_well_formed_whatever_the_folder_is_called_and_do_the_work() {
    let folder = folder("lab-slurm");
    write(folder.join("mine.toml"), SHORT);
    let arguments = ["submit", "--slurm", "mine.toml", "--out", HOSTILE, "--tasks", "3", "--time", "90s"];
    let dry = lab_in(&folder, &[&arguments[..], &["--dry-run", "--sbatch=--partition=short"]].concat());
    assert_eq!((dry.code, dry.stderr.as_str()), (Some(0), ""), "{dry:?}");
    assert!(!folder.join(HOSTILE).exists(), "a dry run writes nothing");
    let scripts: Vec<&str> = dry.stdout.split("#!/bin/bash\n").skip(1).collect();
    assert_eq!(scripts.len(), 2);
    for (script, expected) in scripts.iter().zip(["#SBATCH --array=1-3\n", " --report"]) {
        // Slurm reads directives up to the first command.
        let (directives, command) = script.split_once("exec ").expect("it runs the command");
        assert!(directives.lines().all(|line| line.starts_with("#SBATCH --")), "{directives}");
        assert!(directives.contains("#SBATCH --time=2\n#SBATCH --mem=1024M\n"), "{directives}");
        assert!(directives.ends_with("#SBATCH --partition=short\n"), "{directives}");
        assert!(script.contains(expected) && command.contains(" lab work "), "{script}");
    }
    let all = folder.join("all.sh");
    write(&all, &dry.stdout);
    assert!(Command::new("bash").arg("-n").arg(&all).status().is_ok_and(|status| status.success()), "{}", dry.stdout);

    // Runs each script at once, in the folder in which it was submitted, and prints as a site may.
    let script = "printf '%s\\n' \"$*\" >>calls; for script; do :; done\n\
                  bash -n \"$script\" && bash \"$script\" >&2 || exit 1; echo 'Welcome'; echo '41;big'";
    let path = fake_sbatch(&folder, script);
    let mut command = lab(&folder, &arguments);
    command.env("PATH", path);
    let submitted = Running::start(command).end();
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    assert!(submitted.stdout.starts_with("Array 41 of 3 tasks, and the report as job 41."), "{submitted:?}");
    let shared = folder.join(HOSTILE).join("mine");
    let calls = fs::read_to_string(shared.join("calls")).expect("it was called");
    assert_eq!(calls, "--parsable work.sh\n--parsable --dependency=afterany:41 report.sh\n");
    assert!(shared.join("logs").is_dir(), "Slurm does not create it");
    assert!(!folder.join("pwned").exists() && !shared.join("pwned").exists());
    assert!(report(&shared) == alone(&folder, "mine.toml"), "the bytes differ");
}

#[test]
fn what_sbatch_refuses_or_prints_instead_of_a_number_is_told() {
    let folder = folder("lab-sbatch");
    write(folder.join("mine.toml"), SHORT);
    let cases = [
        (
            "echo 'sbatch: error: invalid partition' >&2; exit 1",
            "sbatch refused work.sh: sbatch: error: invalid partition",
        ),
        ("echo 'Submitted batch job 41'", "sbatch printed \"Submitted batch job 41\", and no number of a job"),
        (
            "case \"$*\" in *depend*) echo 'no more jobs' >&2; exit 1 ;; esac; echo 41",
            "array 41 is submitted without a report; `scancel 41` ends it: sbatch refused report.sh: no more jobs",
        ),
    ];
    for (script, expected) in cases {
        let mut command = lab(&folder, &["submit", "--slurm", "mine.toml"]);
        command.env("PATH", fake_sbatch(&folder, script));
        let failed = Running::start(command).end();
        assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
        assert!(failed.stderr.contains(expected), "{failed:?}");
    }
    let mut command = lab(&folder, &["submit", "--slurm", "mine.toml"]);
    command.env("PATH", folder.join("nowhere"));
    let failed = Running::start(command).end();
    assert!(failed.code == Some(1) && failed.stderr.contains("cannot start sbatch"), "{failed:?}");
}

#[test]
fn folders_that_cannot_be_worked_on_are_refused_in_one_line() {
    let folder = folder("lab-refused");
    write(folder.join("mine.toml"), SHORT);
    write(folder.join("one.csv"), "");
    fs::create_dir(folder.join("empty")).expect("the folder can be written");
    assert_eq!(lab_in(&folder, &["submit", "mine.toml"]).code, Some(0));
    assert_eq!(lab_in(&folder, &["submit", "mine.toml"]).code, Some(0), "again, to continue");
    let sweep = fs::read_to_string(folder.join("lab/mine/sweep.json")).expect("it was submitted");
    let code = sweep.split("\"code\": \"").nth(1).and_then(|rest| rest.split('"').next()).expect("it has a version");
    let digest = sweep.split("\"digest\": \"").nth(1).and_then(|rest| rest.split('"').next()).expect("it has a digest");
    for (name, text) in [
        ("cut", sweep[..sweep.len() / 2].to_owned()),
        ("form", sweep.replace("\"form\": 1", "\"form\": 2")),
        ("code", sweep.replace(code, "0\\u001b[31m0")),
        ("digest", sweep.replace(digest, "0000000000000000")),
    ] {
        fs::create_dir(folder.join(name)).expect("the folder can be written");
        write(folder.join(name).join("sweep.json"), &text);
    }
    write(folder.join("mine.toml"), &SHORT.replace("3_000", "4_000"));
    fs::create_dir(folder.join("pipe")).expect("the folder can be written");
    let made = Command::new("mkfifo").arg(folder.join("pipe/sweep.json")).status();
    assert!(made.is_ok_and(|status| status.success()), "a pipe can be made");
    let cases: [(&[&str], &str); 11] = [
        (&["work", "nowhere"], "there is no nowhere/sweep.json; `festina lab submit` makes the folder"),
        (&["status", "empty"], "there is no empty/sweep.json"),
        (&["work", "pipe"], "pipe/sweep.json is no file"),
        (&["work", "cut"], "cut/sweep.json is damaged: "),
        (&["work", "form"], "form/sweep.json has form 2 of another version of this command, not 1"),
        (&["work", "code"], "the plan in code was submitted with code 0\\u{1b}[31m0, and this command has code "),
        (&["status", "digest"], "the plan in digest has other runs than when it was submitted"),
        (&["submit", "mine.toml"], "another plan was submitted to lab/mine; choose another --out, or remove "),
        (&["submit", "mine.toml", "--real"], "--real measures this machine"),
        (&["submit", "--slurm", "mine.toml", "--sbatch=short"], "it is no option of sbatch in one line"),
        (
            &["submit", "--slurm", "md1", "--dry-run", "--out", "a%A"],
            "/a%A/md1 has '%' in its name, which Slurm replaces",
        ),
    ];
    for (arguments, expected) in cases {
        let refused = lab_in(&folder, arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{arguments:?}: {refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{arguments:?} said {}", refused.stderr);
    }
    assert_eq!(lab_in(&folder, &["work", "one.csv"]).code, Some(1), "a file is no folder");
}

#[test]
fn a_full_disk_is_told_and_the_next_worker_continues() {
    let folder = folder("lab-full");
    write(folder.join("mine.toml"), SHORT);
    assert_eq!(lab_in(&folder, &["submit", "mine.toml"]).code, Some(0));
    // A limit on the size of files causes an error of the write, as a full disk does: the runs are larger than a kilobyte.
    let command = format!("ulimit -f 1; exec '{}' lab work lab/mine --jobs 1", env!("CARGO_BIN_EXE_festina"));
    let mut limited = Command::new("bash");
    limited.args(["-c", &command]).current_dir(&folder);
    let output = limited.output().expect("bash is there");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot keep finished runs in lab/mine/runs: File too large"), "{stderr}");
    for end in ["", ".csv", ".claim", ".worker", ".unfinished"] {
        assert_eq!(stored(&folder.join("lab/mine/runs"), end), Vec::<String>::new());
    }
    let ended = lab_in(&folder, &["work", "lab/mine"]);
    assert!(ended.code == Some(0) && ended.stderr.contains("runs computed here: 4, kept in "), "{ended:?}");
}
