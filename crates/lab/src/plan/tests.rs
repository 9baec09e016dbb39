use super::*;
use crate::experiment::{Check, Description};
use crate::experiments;
use crate::samples::Samples;
use crate::summary::Results;
use festina_units::{Bandwidth, ByteCount, Duration, Probability};

/// An experiment with a parameter of every kind.
struct Every;

impl Experiment for Every {
    fn description(&self) -> Description {
        Description {
            name: "every",
            title: "Every kind of parameter",
            reference: "none",
            about: "nothing",
            plan: r#"
experiment = "every"
repetitions = 5
[parameters]
rtt = ["100ms", "200ms"]
rate = "10Mbit/s"
buffer = "64KiB"
loss = "5%"
packets = 100
profile = ["new", "old"]
replay = "none"
[quick]
repetitions = 2
parameters.rtt = "50ms"
"#,
            question: "",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, kind| Parameter { name, about: "", kind };
        let bits = Bandwidth::from_bits_per_second;
        vec![
            parameter("rtt", Kind::Duration(Duration::ZERO..=Duration::from_secs(10))),
            parameter("rate", Kind::Bandwidth(bits(1_000)..=bits(1_000_000_000))),
            parameter("buffer", Kind::Bytes(ByteCount::from_bytes(1)..=ByteCount::from_bytes(1 << 30))),
            parameter("loss", Kind::Probability(Probability::ZERO..=Probability::from_percent(50))),
            parameter("packets", Kind::Count(1..=1_000)),
            parameter("profile", Kind::Choice(&["new", "old"])),
            parameter("replay", Kind::Recording),
        ]
    }

    fn run(&self, _point: &Point, _seed: u64) -> Samples {
        Samples::new()
    }

    fn checks(&self, _results: &Results) -> Vec<Check> {
        Vec::new()
    }
}

fn read(text: &str, scale: Scale) -> Result<Plan, PlanError> {
    let file = PlanFile::parse("my.toml", text)?;
    file.plan(file.experiment(&[&Every])?, scale)
}

/// Returns the error of a plan whose third line, the only one in `[parameters]`, is `line`.
fn complaint(line: &str) -> String {
    let text = format!("experiment = \"every\"\n[parameters]\n{line}\n");
    read(&text, Scale::Full).expect_err(line).to_string()
}

#[test]
fn a_plan_gives_typed_points_of_which_the_last_parameter_varies_fastest() {
    let plan = Plan::own(&Every, Scale::Full);
    assert_eq!(plan.swept().collect::<Vec<_>>(), ["rtt", "profile"]);
    let points = plan.points();
    let labels: Vec<String> = points.iter().map(|point| plan.label(point)).collect();
    let expected =
        ["rtt 100ms, profile new", "rtt 100ms, profile old", "rtt 200ms, profile new", "rtt 200ms, profile old"];
    assert_eq!(labels, expected);
    let point = &points[0];
    assert_eq!(point.duration("rtt"), Duration::from_millis(100));
    assert_eq!(point.bandwidth("rate"), Bandwidth::from_bits_per_second(10_000_000));
    assert_eq!(point.bytes("buffer"), ByteCount::from_bytes(65_536));
    assert_eq!(point.probability("loss"), Probability::from_percent(5));
    assert_eq!((point.count("packets"), point.choice("profile")), (100, "new"));
    assert_eq!(point.line(), "rtt=100ms rate=10Mbit/s buffer=64KiB loss=5% packets=100 profile=new replay=none");
}

#[test]
fn quick_scale_replaces_what_the_quick_part_names() {
    let plan = Plan::own(&Every, Scale::Quick);
    assert_eq!((plan.repetitions(), plan.points().len()), (2, 2));
    assert_eq!(plan.points()[0].duration("rtt"), Duration::from_millis(50));
    assert_eq!(Plan::own(&Every, Scale::Full).repetitions(), 5);
}

#[test]
fn what_a_plan_leaves_out_is_as_in_the_experiments_own_and_what_it_says_counts_at_both_scales() {
    let text =
        "experiment = \"every\"\ntitle = \"Mine\"\nseed = 9\nparameters.rtt = \"1s\"\nparameters.profile = \"old\"\n";
    for (scale, repetitions) in [(Scale::Full, 5), (Scale::Quick, 2)] {
        let plan = read(text, scale).expect("it makes sense");
        assert_eq!((plan.title(), plan.seed(), plan.repetitions()), ("Mine", 9, repetitions));
        let points = plan.points();
        assert_eq!((points.len(), points[0].duration("rtt")), (1, Duration::from_secs(1)));
        assert_eq!(plan.label(&points[0]), "the only point");
    }
}

#[test]
fn repetitions_have_seeds_of_their_own_that_depend_on_the_plans_seed() {
    let plan = Plan::own(&Every, Scale::Full);
    let other = read("experiment = \"every\"\nseed = 2\n", Scale::Full).expect("it makes sense");
    let seeds: BTreeSet<u64> =
        (0..100).flat_map(|repetition| [plan.repetition_seed(repetition), other.repetition_seed(repetition)]).collect();
    assert_eq!(seeds.len(), 200);
}

#[test]
fn a_value_that_makes_no_sense_is_told_with_its_place_and_what_was_expected() {
    let cases = [
        ("rtt = 100", "my.toml:3:7: rtt: 100 has no unit; expected a duration with its unit such as \"250ms\""),
        ("rtt = \"100\"", "my.toml:3:7: rtt: \"100\" is not a duration"),
        ("rtt = \"11s\"", "my.toml:3:7: rtt: 11s makes no sense here; expected 0s to 10s"),
        ("rate = \"10MB/s\"", "my.toml:3:8: rate: \"10MB/s\" is not a bandwidth"),
        ("rate = 0.5", "my.toml:3:8: rate: it cannot be the bare fraction 0.5; expected a bandwidth"),
        ("rate = \"0bit/s\"", "my.toml:3:8: rate: 0bit/s makes no sense here; expected 1kbit/s to 1Gbit/s"),
        ("buffer = \"64 apples\"", "my.toml:3:10: buffer: \"64 apples\" is not"),
        ("loss = \"150%\"", "my.toml:3:8: loss: \"150%\" is too large for a probability"),
        ("loss = \"60%\"", "my.toml:3:8: loss: 60% makes no sense here; expected 0% to 50%"),
        ("loss = true", "my.toml:3:8: loss: it cannot be true; expected a share in quotes such as \"5%\""),
        ("packets = \"7\"", "my.toml:3:11: packets: \"7\" is in quotes; expected a whole number"),
        ("packets = -7", "my.toml:3:11: packets: -7 is below zero; expected a whole number"),
        ("packets = 0", "my.toml:3:11: packets: 0 makes no sense here; expected 1 to 1000"),
        ("packets = 2026-01-01", "my.toml:3:11: packets: it cannot be a table or a date; expected a whole number"),
        ("profile = \"odd\"", "my.toml:3:11: profile: \"odd\" is unknown; expected one of \"new\", \"old\""),
        ("profile = 3", "my.toml:3:11: profile: 3 is a number; expected one of \"new\", \"old\""),
        ("rtt = [\"1s\", \"x\"]", "my.toml:3:14: rtt: \"x\" is not a duration"),
        ("rtt = [\"1s\", [\"2s\"]]", "my.toml:3:14: rtt: it cannot be a list; expected a duration"),
        (
            "rtt = []",
            "my.toml:3:7: rtt has no value; expected a duration with its unit such as \"250ms\" or a list of these",
        ),
        ("rtt = [\"1s\", \"1000ms\"]", "my.toml:3:14: rtt is to be 1s twice; expected each value once"),
        ("rtt.low = \"1s\"", "my.toml:3:1: rtt: it cannot be a table or a date"),
        (
            "speed = 3",
            "my.toml:3:1: unknown parameter \"speed\"; expected one of rtt, rate, buffer, loss, packets, profile, replay",
        ),
    ];
    for (line, expected) in cases {
        let complaint = complaint(line);
        assert!(complaint.starts_with(expected), "{line}\n  said     {complaint}\n  expected {expected}");
    }
}

#[test]
fn a_plan_of_the_wrong_form_is_told_with_its_place_and_what_was_expected() {
    let cases = [
        (
            "experiment = \"every\"\nsped = 1\n",
            "my.toml:2:1: unknown key `sped`, expected one of `experiment`, `title`",
        ),
        (
            "experiment = \"every\"\n[quick]\nseed = 1\n",
            "my.toml:3:1: unknown key `seed`, expected one of `repetitions`, `parameters`, `links`, `flows`, `probes`",
        ),
        ("experiment = \"evry\"\n", "my.toml:1:14: unknown experiment \"evry\"; expected one of every"),
        ("experiment = 3\n", "my.toml:1:14: invalid type: integer `3`, expected a string"),
        ("seed = 3\n", "my.toml:1:1: missing key `experiment`"),
        ("experiment = \"every\"\nparameters = 3\n", "my.toml:2:14: invalid type: integer `3`, expected a map"),
        ("experiment = \"every\"\nseed = -1\n", "my.toml:2:8: seed cannot be -1; expected a whole number from 0 to"),
        ("experiment = \"every\"\nseed = \"1\"\n", "my.toml:2:8: seed cannot be \"1\"; expected a whole number"),
        (
            "experiment = \"every\"\nrepetitions = 0\n",
            "my.toml:2:15: repetitions cannot be 0; expected a whole number from 1 to 10000",
        ),
        ("experiment = \"every\"\n\nseed = \n", "my.toml:3:8: "),
        ("experiment = \"every\"\nseed = 1\nseed = 2\n", "my.toml:3:1: duplicate key"),
    ];
    for (text, expected) in cases {
        let complaint = read(text, Scale::Full).expect_err(text).to_string();
        assert!(complaint.starts_with(expected), "{text}\n  said     {complaint}\n  expected {expected}");
        assert!(!complaint.contains('\n'), "{complaint}");
    }
}

#[test]
fn a_mistake_in_the_quick_part_is_told_at_full_scale_too() {
    let text = "experiment = \"every\"\n[quick.parameters]\nrtt = 3\n";
    let error = read(text, Scale::Full).expect_err("a unit is missing");
    assert_eq!((error.line(), error.column()), (3, 7));
    assert!(error.problem().contains("has no unit"));
}

#[test]
fn a_sweep_without_end_is_refused() {
    let rtts: Vec<String> = (1..=1_000).map(|ms| format!("\"{ms}ms\"")).collect();
    let packets: Vec<String> = (1..=1_000).map(|count| count.to_string()).collect();
    let (rtts, packets) = (rtts.join(","), packets.join(","));
    let text = format!("experiment = \"every\"\n[parameters]\nrtt = [{rtts}]\npackets = [{packets}]\n");
    let complaint = read(&text, Scale::Full).expect_err("two million points").to_string();
    assert_eq!(complaint, "my.toml:3:7: the sweep has 2000000 points; expected at most 100000");

    let text = format!("experiment = \"every\"\nrepetitions = 1000\n[quick.parameters]\nrtt = [{rtts}]\n");
    assert!(read(&text, Scale::Full).is_ok(), "only the quick scale sweeps");
    let complaint = read(&text, Scale::Quick).expect_err("two million runs").to_string();
    assert_eq!(complaint, "my.toml:4:7: points times repetitions are 2000000 runs; expected at most 1000000");
}

#[test]
fn repetitions_stay_within_their_limits() {
    let mut plan = Plan::own(&Every, Scale::Full);
    assert_eq!((plan.set_repetitions(0), plan.repetitions()), (1, 1));
    assert_eq!((plan.set_repetitions(u32::MAX), plan.repetitions()), (REPETITIONS_MAX, REPETITIONS_MAX));
    let rtts: Vec<String> = (1..=500).map(|ms| format!("\"{ms}ms\"")).collect();
    let text = format!("experiment = \"every\"\nparameters.rtt = [{}]\n", rtts.join(","));
    let mut wide = read(&text, Scale::Full).expect("a sound plan");
    assert_eq!(wide.set_repetitions(5_000), 1_000, "a thousand points, a million runs");
    assert!(experiments::find("every").is_none(), "this experiment is for tests only");
}

#[test]
fn parameters_swept_one_at_a_time_depart_from_their_first_value_alone() {
    let text = "experiment = \"every\"\none_at_a_time = [\"rtt\", \"loss\"]\n\
                [parameters]\nrtt = [\"1s\", \"2s\", \"3s\"]\nloss = [\"1%\", \"2%\"]\n";
    let plan = read(text, Scale::Full).expect("a sound plan");
    let points = plan.points();
    let labels: Vec<String> = points
        .iter()
        .filter(|point| point.choice("profile") == "new")
        .map(|point| format!("{} {}", point.duration("rtt").as_secs(), point.probability("loss")))
        .collect();
    assert_eq!(labels, ["1 1%", "1 2%", "2 1%", "3 1%"]);
    assert_eq!(points.len(), 8, "the profile is combined with all");
    let error =
        read("experiment = \"every\"\none_at_a_time = [\"rtd\"]\n", Scale::Full).expect_err("no such parameter");
    assert_eq!(
        error.to_string(),
        "my.toml:2:18: unknown parameter \"rtd\"; expected one of rtt, rate, buffer, loss, packets, profile, replay"
    );
}

#[test]
fn parameters_of_one_group_depart_together_and_those_of_two_groups_do_not() {
    let text = "experiment = \"every\"\none_at_a_time = [[\"rtt\", \"loss\"], [\"rtt\", \"packets\"]]\n[parameters]\n\
                rtt = [\"1s\", \"2s\"]\nloss = [\"1%\", \"2%\"]\npackets = [1, 2]\nprofile = \"new\"\n";
    let plan = read(text, Scale::Full).expect("a sound plan");
    let label = |point: &Point| {
        let [rtt, loss] = [point.duration("rtt").as_secs().to_string(), point.probability("loss").to_string()];
        format!("{rtt} {loss} {}", point.count("packets"))
    };
    let labels: Vec<String> = plan.points().iter().map(label).collect();
    assert_eq!(labels, ["1 1% 1", "1 1% 2", "1 2% 1", "2 1% 1", "2 1% 2", "2 2% 1"]);
    let error = read("experiment = \"every\"\none_at_a_time = [[1]]\n", Scale::Full).expect_err("no name");
    let said = "my.toml:2:19: 1 is no parameter; expected a name in quotes, or a list of names";
    assert_eq!(error.to_string(), said);
}

/// A capture of one datagram with this many bytes.
fn write_capture(path: &std::path::Path, bytes: usize) {
    let file = std::fs::File::create(path).expect("the folder can be written");
    let mut writer = festina_trace::PcapngWriter::new(file).expect("written");
    let interface = writer.add_interface("only").expect("written");
    let address = "127.0.0.1:9".parse().expect("an address");
    let packet = festina_trace::ip::encapsulate_udp(address, address, &vec![0; bytes]).expect("short");
    writer.write_packet(interface, festina_units::Instant::ZERO, &packet, None).expect("written");
}

#[test]
fn a_capture_is_found_from_the_plans_folder_read_and_told_apart_by_its_content() {
    let folder = std::env::temp_dir().join(format!("festina-lab-recording-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    write_capture(&folder.join("game.pcapng"), 40);
    write_capture(&folder.join("other.pcapng"), 41);
    write_capture(&folder.join("empty.pcapng"), 0);
    std::fs::write(folder.join("bad.pcapng"), "no capture").expect("written");
    let plan = |name: &str| {
        let text = format!("experiment = \"every\"\n[parameters]\nreplay = \"{name}\"\n");
        let file = PlanFile::parse(&folder.join("my.toml").display().to_string(), &text)?;
        file.plan(&Every, Scale::Full)
    };
    let points = ["game.pcapng", "other.pcapng"].map(|name| plan(name).expect("a sound capture").points().remove(0));
    let recording = points[0].recording("replay").expect("the plan names one");
    assert_eq!(recording.flows()[0].writes[0].size, ByteCount::from_bytes(40));
    let digests = points.map(|point| point.line().rsplit('#').next().map(str::to_owned));
    assert_ne!(digests[0], digests[1]);

    for (name, expected) in [
        ("missing.pcapng", "missing.pcapng cannot be replayed: No such file"),
        ("bad.pcapng", "this is neither a pcap nor a pcapng file; expected a capture file"),
        ("empty.pcapng", "it holds no TCP, UDP or SCTP data"),
        ("a,b.pcapng", "rename the file"),
    ] {
        let error = plan(name).expect_err(name);
        assert_eq!((error.line(), error.column()), (3, 10), "{name}");
        assert!(error.problem().contains(expected), "{error}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn some_points_are_run_more_often_but_not_at_quick_scale_nor_if_all_are_set() {
    let text = "experiment = \"every\"\nrepetitions = 4\nparameters.rtt = [\"100ms\", \"200ms\", \"1s\"]\n\
                [more]\nrepetitions = 9\nparameters.rtt = [\"200ms\", \"1s\"]\n";
    let mut plan = read(text, Scale::Full).expect("it makes sense");
    let often = |plan: &Plan| plan.points().iter().map(|point| plan.repetitions_of(point)).collect::<Vec<_>>();
    assert_eq!(often(&plan), [4, 4, 9, 9, 9, 9]);
    assert!(plan.conditions().contains("4 runs of each point (9 where rtt 200ms or 1s), full scale"));
    let again = read(&crate::report::html::plan_text(&Every, &plan), Scale::Full).expect("it makes sense");
    assert_eq!((again.more(), often(&again)), (plan.more(), vec![4, 4, 9, 9, 9, 9]));
    plan.set_repetitions(3);
    assert_eq!(often(&plan), [3; 6]);
    let quick = "experiment = \"every\"\n[more]\nrepetitions = 9\nparameters.rtt = \"50ms\"\n";
    assert_eq!(often(&read(quick, Scale::Quick).expect("it makes sense")), [2, 2]);
}

#[test]
fn what_is_run_more_often_is_checked() {
    let cases = [
        ("repetitions = 9", "missing key `parameters`"),
        ("repetitions = 9\nparameters.rtt = \"11s\"", "my.toml:4:18: rtt: 11s makes no sense here"),
        ("repetitions = 9\nparameters.speed = 1", "my.toml:4:12: unknown parameter \"speed\""),
        ("repetitions = 5\nparameters.rtt = \"1s\"", "my.toml:3:15: more: 5 repetitions are no more than the 5 of all"),
        ("repetitions = 9\nparameters.rtt = \"3s\"", "my.toml:4:18: more: no point has rtt 3s; expected "),
        ("repetitions = 9\nparameters = {}", "my.toml:3:15: more: it names no parameter"),
    ];
    for (lines, expected) in cases {
        let error = read(&format!("experiment = \"every\"\n[more]\n{lines}\n"), Scale::Full).expect_err(lines);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// The checks of a plan of [`Every`] that ends with `text`.
fn checks(text: &str) -> Result<Vec<DeclaredCheck>, PlanError> {
    let plan = format!("experiment = \"every\"\nparameters.rtt = [\"100ms\", \"50ms\", \"2s\"]\n{text}");
    read(&plan, Scale::Full).map(|plan| plan.checks().to_vec())
}

#[test]
fn a_check_has_a_cell_for_each_combination_of_its_values() {
    let names = |each: &str| -> Vec<String> {
        let text = format!("[[check]]\nsays = \"s\"\neach = {{ {each} }}\ntest = \"'a' < 1\"\n");
        checks(&text).expect(each)[0].cells.iter().map(|cell| cell.name.clone()).collect()
    };
    assert_eq!(names("rtt = \"all\""), ["rtt 100ms:", "rtt 50ms:", "rtt 2s:"]);
    assert_eq!(names("rtt = \"rising\""), ["rtt 50ms:", "rtt 100ms:", "rtt 2s:"]);
    assert_eq!(names("rtt = \"steps\""), ["rtt 50ms, next 100ms:", "rtt 100ms, next 2s:"]);
    assert_eq!(names("rtt = \"all but 2000ms, 50ms\""), ["rtt 100ms:"]);
    assert_eq!(names("rtt = \"from 100ms\""), ["rtt 100ms:", "rtt 2s:"]);
    assert_eq!(names("rtt = \"below 100ms\""), ["rtt 50ms:"]);
    assert_eq!([names("rtt = \"first\""), names("rtt = \"largest\"")], [["rtt 100ms:"], ["rtt 2s:"]]);
    let pairs = "profile = \"all\", \"what, least\" = [[\"x\", 1], [\"y\", 2]]";
    assert_eq!(names(pairs).len(), 4);
    assert_eq!(names(pairs)[1], "profile new, what y, least 2:");
    let text =
        "let.twice = \"2 * '$what'\"\n[[check]]\nsays = \"s\"\neach = { what = [\"a\"] }\ntest = \"$twice - 1 < 1\"\n";
    assert_eq!(checks(text).expect("sound")[0].cells[0].number.measured()[0].name, "a");
    let text = "[[check]]\nfor = { rtt = [\"50ms\", \"1s\"] }\nid = \"at-$rtt\"\nsays = \"At $rtt.\"\nat = { loss = \"5%\" }\n\
                each = { profile = \"all\" }\nexcept = { profile = \"old\" }\ncell = [\"$profile\", \"b\"]\n\
                test = [\"'x'.p99{packets=7} < 1\", \"'x' > 2\"]\n";
    let checks = checks(text).expect("sound");
    assert_eq!([checks[0].id.as_str(), checks[1].says.as_str()], ["at-50ms", "At 1s."]);
    let cells: Vec<&str> = checks[1].cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(cells, ["new", "b"], "the other profile is excepted");
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let measured = checks[1].cells[0].number.measured()[0];
    let expected = [("rtt", "1s"), ("profile", "new"), ("loss", "5%"), ("packets", "7")];
    assert_eq!(measured.settings, expected.map(|(name, value)| setting(name, value)));
}

#[test]
fn a_check_that_makes_no_sense_is_told_with_its_place_and_what_was_expected() {
    let cases = [
        ("test = \"'a' << 1\"", "my.toml:5:8: test: \"< 1\" at character 6 of the test; expected a number"),
        ("test = \"'a'{rtd=1s} < 1\"", "my.toml:5:8: test: unknown parameter \"rtd\"; expected one of rtt, rate"),
        ("test = \"'a'{loss=60%} < 1\"", "my.toml:5:8: test: loss: 60% makes no sense here; expected 0% to 50%"),
        ("test = \"$a < 1\"\n[let]\na = \"$b\"\nb = \"$a\"", "my.toml:5:8: test: unknown variable in \"$"),
        ("test = \"'$x' < 1\"", "my.toml:5:8: test: unknown variable in \"$x' < 1\"; known here: none"),
        ("test = 3", "my.toml:5:8: test: the end at character 2 of the test; expected a bound"),
        ("test = [true]", "my.toml:5:8: test and cell must be texts in quotes, or lists of as many texts"),
        ("test = \"'a' < 1\"\nat = { lss = \"1%\" }", "my.toml:6:14: unknown parameter \"lss\"; expected one of rtt"),
        (
            "test = \"'a' < 1\"\neach = { lss = \"all\" }",
            "my.toml:6:16: lss is no parameter, so it needs a list of texts",
        ),
        ("test = \"'a' < 1\"\neach = { rtt = \"some\" }", "my.toml:6:16: \"some\" is unknown; expected \"all\", "),
        ("test = \"'a' < 1\"\neach = { \"a, b\" = [\"x\"] }", "my.toml:6:20: 1 values for 2 names"),
        ("test = \"'a' < 1\"\nech = 1", "my.toml:6:1: unknown key `ech`, expected one of `says`"),
    ];
    for (text, expected) in cases {
        let complaint = checks(&format!("[[check]]\nsays = \"s\"\n{text}\n")).expect_err(text).to_string();
        assert!(complaint.starts_with(expected), "{text}\n  said     {complaint}\n  expected {expected}");
    }
    let complaint = checks("[definition]\nreference = \"x\"\n").expect_err("only an experiment has one").to_string();
    assert!(complaint.contains("only the plan of an experiment has a [definition]"), "{complaint}");
}

#[test]
fn checks_without_end_are_refused() {
    let many: Vec<String> = (0..300).map(|number| format!("\"{number}\"")).collect();
    let many = many.join(", ");
    let text = format!("[[check]]\nsays = \"s\"\neach = {{ a = [{many}], b = [{many}] }}\ntest = \"'a' < 1\"\n");
    let complaint = checks(&text).expect_err("90,000 cells").to_string();
    assert!(complaint.contains("the check has more than 20000 cells"), "{complaint}");
    let text = format!("[[check]]\nsays = \"s\"\nfor = {{ a = [{many}] }}\ntest = \"'a' < 1\"\n");
    let complaint = checks(&text).expect_err("300 checks").to_string();
    assert!(complaint.contains("the plan has more than 200 checks"), "{complaint}");
    let long = "x".repeat(1_000);
    let text = format!("[[check]]\nsays = \"$a$a$a\"\nfor = {{ a = [\"{long}\"] }}\ntest = \"'a' < 1\"\n");
    let complaint = checks(&text).expect_err("3,000 characters").to_string();
    assert!(complaint.contains("a text has more than 2000 characters"), "{complaint}");
}

#[test]
fn nothing_that_a_terminal_or_xml_cannot_have_gets_into_titles_or_messages() {
    for title in ["a\\u001b[31mb", "a\\u0000", "a\\uFFFE", "a\\nb", "a\\u0085"] {
        let error = read(&format!("experiment = \"every\"\ntitle = \"{title}\"\n"), Scale::Full).expect_err(title);
        assert_eq!((error.line(), error.column()), (2, 9), "{title}");
        assert!(error.problem().starts_with("the title has a control character in it"), "{error}");
    }
    let error =
        read("experiment = \"every\"\nparameters.profile = \"a\\u001b[31m\"\n", Scale::Full).expect_err("unknown");
    assert!(error.problem().contains("a\\u{1b}[31m") && is_printable(&error.to_string()), "{error:?}");
    let german = read("experiment = \"every\"\ntitle = \"Über <&> 50%\"\n", Scale::Full).expect("it is printable");
    assert_eq!(german.title(), "Über <&> 50%");
}

#[test]
fn numbers_beyond_all_integers_are_told_as_they_are() {
    for number in ["9223372036854775808", "99999999999999999999", "-9223372036854775809"] {
        let error = read(&format!("experiment = \"every\"\nseed = {number}\n"), Scale::Full).expect_err(number);
        assert!(error.problem().starts_with(&format!("seed cannot be {number}; expected")), "{error}");
    }
}

#[test]
fn an_empty_name_of_a_trace_is_told_as_such() {
    assert_eq!(LinkTrace::load(std::path::Path::new(""), "").expect_err("there is no name"), "the name is empty");
    let problem = LinkTrace::load(std::path::Path::new(""), "a\u{1b}").expect_err("no terminal shows it");
    assert!(problem.contains("a control character in it"), "{problem}");
}

#[test]
fn a_shared_check_keeps_its_readings() {
    let plan = Plan::own(experiments::find("r15-syslog-congestion").expect("it is there"), Scale::Full);
    let checks = plan.checks().iter().filter(|check| check.id == "not-clearly");
    assert_eq!(checks.map(|check| check.under).collect::<Vec<_>>(), ["lines of 90 bytes", "lines of 250 bytes"]);
}
