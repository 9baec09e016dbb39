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
    let line = listed.stdout.lines().find(|line| line.starts_with("md1 ")).expect("md1 is listed");
    assert!(line.contains("  Waiting time in front of a busy link;"), "{line}");
    let words: Vec<&str> = listed.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("busy link; Pollaczek and Khinchine"), "{words:?}");
}

#[test]
fn the_list_can_be_json() {
    let listed = lab_in(&folder("lab-list-json"), &["list", "--json"]);
    let list: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let md1 = list.as_array().and_then(|list| list.iter().find(|one| one["name"] == "md1")).expect("it is listed");
    assert!(md1["title"].is_string() && md1["source"].is_string() && md1["full_s"].is_f64(), "{md1}");
}

#[test]
fn the_list_and_what_is_shown_of_an_experiment_fit_eighty_columns_and_say_how_long_it_takes() {
    let folder = folder("lab-columns");
    let listed = lab_in(&folder, &["list"]).stdout;
    let shown = lab_in(&folder, &["show", "scenario"]).stdout;
    let (shown, plan) = shown.split_once("Its own plan:").expect("the plan comes last");
    let too_long: Vec<&str> = listed.lines().chain(shown.lines()).filter(|line| line.chars().count() > 80).collect();
    assert!(too_long.is_empty(), "{too_long:#?}");
    assert!(plan.contains("experiment = \"scenario\""), "{plan}");
    let times = listed.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    assert!(times.clone().count() > 40);
    for line in times {
        assert!(line.split_whitespace().any(|word| ["s", "min", "h"].contains(&word)), "{line}");
    }
    assert!(shown.contains(" with --quick, "), "{shown}");
}

#[test]
fn an_experiment_is_shown_with_what_a_plan_can_set_and_its_plan_can_be_run() {
    let folder = folder("lab-show");
    let shown = lab_in(&folder, &["show", "replay"]);
    for expected in
        ["Each flow of the capture", "  rtt: the round-trip time; a duration", "\nexperiment = \"replay\"\n"]
    {
        assert!(shown.stdout.contains(expected), "{expected} is missing in\n{}", shown.stdout);
    }
    let scenario = lab_in(&folder, &["show", "scenario"]).stdout;
    for expected in [
        "Any number of tables [flows.NAME]",
        "  rtt: the round-trip time without queues; 0 for that of the links; a duration",
    ] {
        assert!(scenario.contains(expected), "{expected} is missing in\n{scenario}");
    }
    write(&folder, "own.toml", &lab_in(&folder, &["show", "md1", "--plan"]).stdout);
    assert_eq!(lab_in(&folder, &["check", "own.toml", "--quick"]).code, Some(0));
    for (typed, advice) in
        [("thin-latancy", "did you mean thin-latency?"), ("game", "a plan of your own is a file FILE.toml")]
    {
        let unknown = lab_in(&folder, &["show", typed]);
        let expected = format!(
            "festina: there is no experiment \"{typed}\", festina lab list names them all; {advice} (see `festina lab show --help`)\n"
        );
        assert_eq!((unknown.code, unknown.stderr), (Some(2), expected));
    }
}

/// Standard error without the remark that a system without fonts gets no pictures. Continuous integration
/// has fonts.
fn complaints(stderr: &str) -> String {
    let is_remark = |line: &&str| line.contains("the system has no font") && std::env::var_os("CI").is_none();
    stderr.lines().filter(|line| !is_remark(line)).collect()
}

#[test]
fn a_quick_run_prints_its_numbers_and_writes_a_report_and_the_list_of_reports() {
    let folder = folder("lab-quick");
    let ran = lab_in(&folder, &["run", "md1", "--quick", "--samples"]);
    assert_eq!((ran.code, complaints(&ran.stderr)), (Some(0), String::new()), "{ran:?}");
    for expected in ["published", "holds      The higher the load", "load 80%", "lab/md1-quick/report.html"] {
        assert!(ran.stdout.contains(expected), "{expected} is missing in\n{}", ran.stdout);
    }
    let run = folder.join("lab/md1-quick");
    assert!(read(run.join("report.html")).contains(read(run.join("figure-1.svg")).trim()), "the figure is on the page");
    assert_eq!(read(run.join("samples.csv")).lines().count(), 1 + 3 * 20 * 10_000);
    assert!(read(run.join("samples.csv")).starts_with("load,repetition,series,sent_ns,delay_ns\n30%,1,waiting,"));
    assert!(read(folder.join("lab/index.html")).contains("href=\"md1-quick/report.html\""));
}

#[test]
fn a_plan_of_ones_own_gives_the_same_json_for_any_number_of_threads() {
    let folder = folder("lab-own-plan");
    write(&folder, "mine.toml", SHORT);
    let one = lab_in(&folder, &["run", "mine.toml", "--json", "--jobs", "1", "--out", "one"]);
    let json: Value = serde_json::from_str(&one.stdout).expect("standard output is one JSON document");
    assert_eq!((&json["experiment"], &json["repetitions"]), (&"md1".into(), &2.into()));
    assert!(one.stderr.contains("The report is one/mine/report.html"), "{}", one.stderr);

    let four = lab_in(&folder, &["run", "mine.toml", "--json", "--jobs", "4", "--out", "four"]);
    assert_eq!((four.code, four.stdout), (one.code, one.stdout));
}

#[test]
fn a_run_continues_the_work_of_others_and_its_report_can_be_viewed() {
    let folder = folder("lab-view");
    assert_eq!(lab_in(&folder, &["submit", "md1", "--quick"]).code, Some(0));
    let first = lab_in(&folder, &["work", "lab/md1-quick", "--runs", "15"]);
    assert!(
        first.code == Some(0)
            && first.stderr.contains("runs computed here: 15, kept in ")
            && first.stderr.contains("; 45 of all 60 runs are missing"),
        "{first:?}"
    );
    let nothing = lab_in(&folder, &["view"]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("there is no report in lab"), "{nothing:?}");
    let whole = lab_in(&folder, &["run", "md1", "--quick"]);
    assert_eq!(whole.stdout, lab_in(&folder, &["run", "md1", "--quick"]).stdout);
    for arguments in [&["view"][..], &["view", "md1-quick"]] {
        let viewed = lab_in(&folder, arguments);
        assert!(viewed.code == Some(0) && viewed.stdout.contains("holds      The higher the load"), "{viewed:?}");
        assert!(viewed.stdout.ends_with("The report is lab/md1-quick/report.html.\n"), "{viewed:?}");
    }
}

#[test]
fn an_interrupted_run_says_how_many_runs_are_kept_and_the_same_command_continues() {
    let folder = folder("lab-interrupted");
    write(&folder, "mine.toml", &SHORT.replace("repetitions = 2", "repetitions = 1_000").replace("3_000", "300_000"));
    for arguments in [&[][..], &["--json"]] {
        let command = ["lab", "run", "mine.toml", "--jobs", "1"];
        let mut command = festina(&[&command[..], arguments].concat());
        command.current_dir(&folder);
        let store = folder.join("lab/mine/runs");
        let is_run = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "csv");
        let finished = || std::fs::read_dir(&store).map_or(0, |entries| entries.flatten().filter(is_run).count());
        let before = finished();
        let running = Running::start(command);
        while finished() < before + 2 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        running.interrupt();
        let ended = running.ended();
        assert_eq!(ended.code, Some(130), "{ended:?}");
        let expected = " of 2000 runs are finished and kept in lab/mine/runs; the same command continues after them";
        assert!(ended.stderr.contains("interrupted: ") && ended.stderr.contains(expected), "{}", ended.stderr);
        if arguments.is_empty() {
            assert_eq!(ended.stdout, "");
        } else {
            let json: Value = serde_json::from_str(&ended.stdout).expect("JSON says so, too");
            assert!(json["error"].as_str().is_some_and(|error| error.contains(expected)), "{json}");
        }
        let names = std::fs::read_dir(&store).expect("the store").flatten().map(|entry| entry.file_name());
        let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(!names.iter().any(|name| name.ends_with(".worker") || name.ends_with(".claim")), "{names:?}");
    }
}

#[test]
fn samples_of_an_experiment_without_single_delays_draw_a_note() {
    let folder = folder("lab-no-samples");
    let ran = lab_in(&folder, &["run", "host-tcp", "--quick", "--samples"]);
    assert!(ran.stderr.contains("samples.csv is empty: this experiment records no single delays"), "{ran:?}");
}

#[test]
fn a_report_that_replaces_that_of_another_plan_of_its_name_says_so() {
    let folder = folder("lab-names");
    for other in ["a", "b"] {
        std::fs::create_dir_all(folder.join(other)).expect("the folder can be written");
        write(&folder, &format!("{other}/mine.toml"), SHORT);
    }
    for (plan, expected) in [("a/mine.toml", false), ("a/mine.toml", false), ("b/mine.toml", true)] {
        let seeds = if expected { "2" } else { "3" };
        let ran = lab_in(&folder, &["run", plan, "--seeds", seeds]);
        let said = "the report in lab/mine replaces that of another plan of this name: festina lab run a/mine.toml";
        assert_eq!(ran.stderr.contains(said), expected, "{plan}: {ran:?}");
    }
}

#[test]
fn the_ledger_is_json_as_its_help_says() {
    let folder = folder("lab-ledger");
    // The ledger has no statements of this experiment, so nothing is run.
    let ledger = lab_in(&folder, &["ledger", "--only", "md1", "--quick"]);
    let rows: Value = serde_json::from_str(&ledger.stdout).unwrap_or_else(|error| panic!("{error}: {ledger:?}"));
    assert!(rows.as_array().is_some_and(|rows| rows.len() > 100), "{rows}");
    let help = lab_in(&folder, &["ledger", "--help"]).stdout.replace('\n', " ");
    assert!(help.contains("as JSON") && !help.contains("tab-separated"), "{help}");
}

#[test]
fn seeds_set_the_number_of_repetitions() {
    let folder = folder("lab-seeds");
    write(&folder, "mine.toml", SHORT);
    let ran = lab_in(&folder, &["run", "mine.toml", "--seeds", "5", "--json"]);
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
    let text = "experiment = \"md1\"\nrepetitions = 20\n[parameters]\nload = \"90%\"\npackets = 100\n";
    write(&folder, "few.toml", text);
    let once = lab_in(&folder, &["check", "few.toml", "--seeds", "1"]);
    assert_eq!(once.code, Some(3), "none is broken, and one is not tested: {once:?}");
    assert!(once.stdout.contains("undecided  At every load the mean"), "{}", once.stdout);
    for command in ["check", "run"] {
        let broken = lab_in(&folder, &[command, "few.toml"]);
        assert_eq!(broken.code, Some(1), "{broken:?}");
        assert!(broken.stdout.contains("broken     At every load the mean"), "{}", broken.stdout);
        assert!(broken.stdout.contains("not tested The higher the load"), "{}", broken.stdout);
        assert!(complaints(&broken.stderr).starts_with("festina: "), "{}", broken.stderr);
        assert!(broken.stderr.contains("broken"), "{}", broken.stderr);
    }
    assert!(read(folder.join("lab/few/report.html")).contains(">broken<"), "a broken check is reported all the same");
}

#[test]
fn a_check_that_tests_too_little_says_so_and_ends_with_code_three() {
    let folder = folder("lab-untested");
    // The only point of this plan has neither both senders nor the round-trip times that the checks speak of.
    let text = "experiment = \"r15-tail-loss\"\n[parameters]\nsender = \"rfc9260\"\nrtt = \"20ms\"\nlength = 5\nlost = 1\n\
                delayed_ack = \"0ms\"\n";
    write(&folder, "little.toml", text);
    let ended = lab_in(&folder, &["check", "little.toml"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("checks were tested, too few to say that the shape holds"), "{}", ended.stderr);
    assert_eq!(complaints(&ended.stderr).lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stdout.contains("not tested "), "{}", ended.stdout);
}

#[test]
fn bad_plans_and_names_get_one_line_and_code_two() {
    let folder = folder("lab-bad-plans");
    write(&folder, "unit.toml", &SHORT.replace("[\"20%\", \"40%\"]", "20"));
    write(&folder, "key.toml", &format!("sed = 1\n{SHORT}"));
    write(&folder, "name.toml", "experiment = \"md2\"\n");
    let beyond = "seed = 9223372036854775808\n";
    for (name, start) in
        [("title.toml", "title = \"a\\u001b[31m\"\n"), ("beyond.toml", beyond), ("..toml", ""), ("...toml", "")]
    {
        write(&folder, name, &format!("{start}{SHORT}"));
    }
    let cases: [(&[&str], &str); 12] = [
        (&["run", "title.toml"], "title.toml:1:9: the title has a control character in it"),
        (&["run", "beyond.toml"], "beyond.toml:1:8: seed cannot be 9223372036854775808; expected a whole number from"),
        (&["run", "..toml"], "the plan ..toml has a name that the folder of its report cannot have; rename it"),
        (&["submit", "...toml"], "the plan ...toml has a name that the folder of its report cannot have; rename it"),
        (&["run", "unit.toml"], "unit.toml:4:8: load: 20 has no unit; expected a share in quotes such as \"5%\""),
        (&["run", "key.toml"], "key.toml:1:1: unknown key `sed`, expected one of `experiment`"),
        (&["check", "name.toml"], "name.toml:1:14: unknown experiment \"md2\"; expected one of"),
        (&["run", "missing.toml"], "cannot read the plan missing.toml"),
        (&["run", "md2"], "there is no experiment \"md2\", festina lab list"),
        (&["submit", "md1", "--slurm", "--tasks", "1001"], "1001 is not from 1 to 1000"),
        (&["run", "md1", "--seeds", "0"], "0 is not from 1 to 10000"),
        (&["run", "md1", "--jobs", "0"], "0 is not from 1 to 1024"),
    ];
    for (arguments, expected) in cases {
        let refused = lab_in(&folder, arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{arguments:?}: {refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{arguments:?} said {}", refused.stderr);
    }
}

/// A replay of a few seconds, of `capture`.
fn replay_of(capture: &str) -> String {
    format!(
        "experiment = \"replay\"\nrepetitions = 1\n[parameters]\ncapture = \"{capture}\"\nflows = 1\n\
         sender = [\"festina\", \"tcp-new-reno\"]\nduration = \"10s\"\n"
    )
}

#[test]
fn packets_are_captured_and_a_capture_is_replayed() {
    let folder = folder("lab-capture");
    write(&folder, "mine.toml", &replay_of("none"));
    for point in ["1", "2"] {
        let ran = lab_in(&folder, &["run", "mine.toml", "--capture", "packets", "--capture-point", point]);
        let expected = format!("are in packets/mine-point{point}-sender-receiver.pcapng");
        assert!(ran.stderr.contains(&expected), "{ran:?}");
    }
    write(&folder, "again.toml", &replay_of("packets/mine-point1-sender-receiver.pcapng"));
    let again = lab_in(&folder, &["run", "again.toml", "--json"]);
    let json: Value = serde_json::from_str(&again.stdout).expect("JSON");
    // The same messages travel over either stack, independent of the captured transport.
    let messages = |point: usize| json["points"][point]["values"]["messages"]["mean"].as_f64().expect("a number");
    assert!(messages(0) > 5.0, "{json}");
    assert!((messages(0) - messages(1)).abs() < 0.5, "{json}");
    let page = read(folder.join("lab/again/report.html"));
    assert!(page.contains("The command was <code>festina lab run again.toml</code>"), "{page}");
}

#[test]
fn captures_that_cannot_be_are_told_with_code_two() {
    let folder = folder("lab-no-capture");
    write(&folder, "mine.toml", &replay_of("none"));
    write(&folder, "missing.toml", &replay_of("gone.pcap"));
    let cases: [(&[&str], &str); 5] = [
        (&["run", "md1", "--quick", "--capture", "p"], "the experiment md1 has no packets to capture"),
        (&["run", "mine.toml", "--capture", "p", "--capture-link", "up"], "there is no link \"up\"; there are sender>"),
        (&["run", "mine.toml", "--capture", "p", "--capture-point", "3"], "no point 3 to capture; the plan has 2"),
        (&["run", "mine.toml", "--capture-point", "1"], "--capture <DIR>"),
        (&["run", "missing.toml"], "missing.toml:4:11: capture: gone.pcap cannot be replayed: No such file"),
    ];
    for (arguments, expected) in cases {
        let refused = lab_in(&folder, arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{arguments:?} said {}", refused.stderr);
    }
}

#[test]
fn pruning_removes_runs_of_other_code_only() {
    let folder = folder("lab-prune");
    write(&folder, "mine.toml", SHORT);
    lab_in(&folder, &["run", "mine.toml"]);
    write(&folder, "lab/mine/runs/0000000000000000.csv", "festina lab run, form 2; md1; x=1; seed 1; code 0\nend\n");
    let pruned = lab_in(&folder, &["prune"]);
    assert_eq!(
        (pruned.code, pruned.stdout.as_str()),
        (Some(0), "Finished runs removed: 1, together 54B\n"),
        "{pruned:?}"
    );
    assert_eq!(std::fs::read_dir(folder.join("lab/mine/runs")).expect("the store").count(), 4);
    assert_eq!(lab_in(&folder, &["prune", "--out", "nowhere"]).code, Some(1));
}

#[test]
fn a_folder_that_cannot_be_written_is_a_failure() {
    let folder = folder("lab-no-folder");
    write(&folder, "file", "");
    let failed = lab_in(&folder, &["run", "md1", "--quick", "--out", "file"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("cannot keep finished runs in file/md1-quick/runs"), "{}", failed.stderr);
}

#[test]
fn a_new_plan_can_be_run_as_it_is_and_is_never_overwritten() {
    let folder = folder("lab-new");
    let written = lab_in(&folder, &["new", "mine.toml"]);
    assert_eq!(written.code, Some(0), "{written:?}");
    assert!(written.stdout.contains("festina lab run mine.toml --quick"), "{}", written.stdout);
    let plan = read(folder.join("mine.toml"));
    assert!(plan.contains("[flows.thin]") && plan.contains("# "), "{plan}");
    let short =
        plan.replace("\"20s\"", "\"3s\"").replace("start = \"2s\"", "start = \"1s\"").replace("\"5s\"", "\"1s\"");
    write(&folder, "mine.toml", &short);
    let ran = lab_in(&folder, &["run", "mine.toml", "--quick"]);
    assert_eq!((ran.code, complaints(&ran.stderr)), (Some(0), String::new()), "{ran:?}");
    for expected in ["discipline codel", "thin", "bulk: goodput Mbit/s", "bottleneck: packets dropped %"] {
        assert!(ran.stdout.contains(expected), "{expected} is missing in\n{}", ran.stdout);
    }
    assert!(folder.join("lab/mine-quick/figure-3.svg").exists(), "delays, and the queue of either discipline");
    let again = lab_in(&folder, &["new", "mine.toml"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("mine.toml exists already and was not changed"), "{}", again.stderr);
    assert_eq!(read(folder.join("mine.toml")), short);
    assert!(lab_in(&folder, &["new", "mine"]).stderr.contains("write mine.toml"));
}

#[test]
fn a_plan_of_ones_own_is_explained_and_its_checks_are_judged() {
    let folder = folder("lab-own-checks");
    let plan = "experiment = \"thin-latency\"\nrepetitions = 5\nparameters.sender = [\"festina\", \"rfc9260\"]\n\
                [[check]]\nsays = \"The tail is shorter.\"\ntest = \"ratio('delivery'.p99, 'delivery'.p99{sender=rfc9260}) < 0.5\"\n\
                [[check]]\nsays = \"Nothing is late.\"\neach = { sender = \"all\" }\ntest = \"'delivery'.max < 1\"\n\
                [[check]]\nsays = \"Nothing is misspelt.\"\ntest = \"'dely'.max < 1\"\n";
    write(&folder, "late.toml", plan);
    let shown = lab_in(&folder, &["show", "late.toml"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let text = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in
        ["experiment thin-latency:", "sender = festina, rfc9260:", "250ms\", 1ms to 10s", "Nothing is late. [2 cells]"]
    {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let ran = lab_in(&folder, &["run", "late.toml", "--quick"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let summary = read(folder.join("lab/late-quick/summary.json"));
    for expected in ["no series of delays is called 'dely'; measured: delivery", "sender festina: "] {
        assert!(summary.contains(expected), "{expected} is missing in\n{summary}");
    }
    let verdict = |says: &str| {
        let (_, rest) = summary.split_once(&format!("\"{says}\"")).expect(says);
        rest.split('"').nth(3).map(str::to_owned)
    };
    let verdicts = ["The tail is shorter.", "Nothing is late.", "Nothing is misspelt."].map(verdict);
    assert_eq!(verdicts, ["holds", "broken", "not tested"].map(|word| Some(word.to_owned())));

    write(&folder, "late.toml", &plan.replace("< 0.5", "<< 0.5"));
    let refused = lab_in(&folder, &["show", "late.toml"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("late.toml:6:8: test: \"< 0.5\" at character"), "{}", refused.stderr);
    let own = lab_in(&folder, &["show", "r12-fig3", "--plan"]);
    assert!(own.stdout.contains("[quick]") && !own.stdout.contains("[definition]"), "{}", own.stdout);
}

#[test]
fn a_bad_trace_is_refused_with_its_line_by_plans_and_by_the_emulator() {
    let folder = folder("lab-trace");
    write(&folder, "bad.trace", "1\n2\nthree\n");
    let plan = "experiment = \"scenario\"\n[links.air]\ntrace = \"bad.trace\"\n[flows.a]\n";
    write(&folder, "air.toml", plan);
    let ran = lab_in(&folder, &["run", "air.toml"]);
    assert_eq!(ran.code, Some(2));
    let problem = "bad.trace: line 3: \"three\" is no time; expected a whole number of milliseconds";
    assert!(
        ran.stderr.contains("air.toml:3:9: links.air.trace: the trace ") && ran.stderr.contains(problem),
        "{}",
        ran.stderr
    );
    let mut command =
        festina(&["emulate", "udp", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--trace", "bad.trace"]);
    command.current_dir(&folder);
    let emulated = Running::start(command).end();
    assert_eq!(emulated.code, Some(2));
    assert!(emulated.stderr.contains(problem), "{}", emulated.stderr);
}

#[test]
fn a_plan_that_may_take_much_memory_is_announced_and_one_that_no_machine_could_hold_is_refused_before_it_starts() {
    let folder = folder("lab-memory");
    let plan = |duration: &str| {
        format!(
            "experiment = \"p10-fig8a\"\nrepetitions = 1\n[parameters]\nduration = \"{duration}\"\ninterval = \"1ms\"\n"
        )
    };
    write(&folder, "large.toml", &plan("2200s"));
    let announced = lab_in(&folder, &["submit", "large.toml"]);
    let warning = announced.stderr.lines().next().unwrap_or_default();
    assert!(
        warning.starts_with("warning: this plan may take about 1.1 GB of memory: 1.1 GB for a run of "),
        "{announced:?}"
    );
    write(&folder, "short.toml", SHORT);
    assert!(!lab_in(&folder, &["run", "short.toml", "--jobs", "1"]).stderr.contains("memory"));
    let text = "experiment = \"scenario\"\n[parameters]\nduration = \"86400s\"\n[links.wire]\n[flows.a]\ncount = 1000\ninterval = \"1ms\"\n";
    write(&folder, "boundless.toml", text);
    let refused = lab_in(&folder, &["run", "boundless.toml"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("would take about") && refused.stderr.contains("of memory; expected at most 69 GB"),
        "{refused:?}"
    );
}
