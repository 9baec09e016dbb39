//! `festina emulate run`, which needs a user who may make namespaces and open `/dev/net/tun`.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use festina_netsim::RandomStream;
use festina_trace::PacketReader;

use crate::harness::{Ended, PATIENCE, Running, config_home, festina, folder, run};

/// Runs a shell script as root of a user namespace with its own network; `None` where the system does not permit that.
pub(crate) fn as_root_of_a_user_namespace(script: &str) -> Option<Running> {
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", script]);
        command.env("FESTINA", env!("CARGO_BIN_EXE_festina")).env("XDG_CONFIG_HOME", config_home());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    if !unshared("exec 3<>/dev/net/tun").output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "continuous integration may make network namespaces");
        println!("this user may not make network namespaces: nothing to test");
        return None;
    }
    Some(Running::start(unshared(script)))
}

/// Runs `festina emulate run` with these arguments, as a shell reads them, to its end.
fn emulate_run(arguments: &str) -> Option<Ended> {
    Some(as_root_of_a_user_namespace(&format!("\"$FESTINA\" emulate run {arguments}"))?.end())
}

/// A number of seconds that no other process of this machine sleeps, so that a sleeping process is found again.
fn unique_sleep(test: u32) -> String {
    format!("600.{}{test}", std::process::id())
}

/// Processes of this machine in whose command line this stands.
fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("a system with processes").flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    // The script that starts the commands names them as well.
    lines.filter(|line| line.contains(text) && !line.starts_with("unshare ") && !line.contains("$FESTINA")).collect()
}

#[expect(clippy::disallowed_methods, reason = "the kernel takes its time to end processes")]
pub(crate) fn assert_that_none_is_left(text: &str) {
    let began_at = Instant::now();
    loop {
        let left = processes_with(text);
        if left.is_empty() {
            return;
        }
        assert!(began_at.elapsed() < PATIENCE, "{left:?}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_reaches_its_server_through_the_network_and_the_report_says_what_that_did() {
    let Some(ended) = emulate_run(
        "--delay 10ms --lose 4 --server '\"$FESTINA\" listen 10.77.0.2 --echo --plain' \
         --client '\"$FESTINA\" ping $FESTINA_SERVER -c 5 -i 20ms --plain'",
    ) else {
        return;
    };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("5 messages sent, 5 received"), "{}", ended.stdout);
    assert!(ended.stderr.contains("10.77.0.1 to 10.77.0.2"), "{}", ended.stderr);
    let lost = ended.stderr.lines().find(|line| line.starts_with("lost ")).expect("a line about losses");
    assert_eq!(lost.split_whitespace().collect::<Vec<_>>(), ["lost", "1", "0"]);
    let least = ended.stderr.lines().find(|line| line.starts_with("least delay")).expect("a line about delays");
    assert!(least.ends_with("10.000        10.000"), "{least}");
}

#[test]
fn programs_read_the_report_as_json_and_the_packets_of_both_ends_as_a_capture() {
    let folder = folder("emulate-run-capture");
    let (report, packets) = (folder.join("report.json"), folder.join("packets.pcapng"));
    let Some(ended) = emulate_run(&format!(
        "--delay 30ms --lose 0 --json --report {} --pcap {} --server '\"$FESTINA\" listen 10.77.0.2 --echo --plain' \
         --client '\"$FESTINA\" ping $FESTINA_SERVER -c 3 -i 1ms --plain'",
        report.display(),
        packets.display()
    )) else {
        return;
    };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = fs::read(report).expect("the report is there");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("it is JSON");
    assert_eq!(report["there"]["lost"], 1);
    assert_eq!(report["back"]["delay_ms_min"], 30.0);
    assert!(report["lateness"]["deliveries"].as_u64() > Some(0), "{report}");

    let file = fs::File::open(packets).expect("the capture is there");
    let mut capture = PacketReader::new(std::io::BufReader::new(file)).expect("it is a capture");
    let mut count = 0;
    while let Some(packet) = capture.next_packet().expect("it is whole") {
        assert_eq!(packet.data.first(), Some(&0x45), "an IPv4 packet");
        count += 1;
    }
    // Each packet is seen where it enters and, unless it is lost, where it leaves. Packets under way at the end have not left.
    let number = |way: &str, what: &str| report[way][what].as_u64().expect("a number");
    let expected = |what| number("there", what) + number("back", what);
    assert_eq!(count, expected("packets_offered") + expected("packets_delivered"));
}

/// What `festina perf` with these flags measures through a slow network with a long queue.
fn perf(flags: &str) -> Option<serde_json::Value> {
    let ended = emulate_run(&format!(
        "--rate 4Mbit/s --delay 10ms --queue 500p --server '\"$FESTINA\" perf -s -1' \
         --client '\"$FESTINA\" perf -c $FESTINA_SERVER --idle 500ms -t 3 --json {flags}'"
    ))?;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    Some(serde_json::from_str(&ended.stdout).expect("it is JSON"))
}

#[test]
fn perf_measures_what_the_network_carries_and_what_the_load_adds_to_a_thin_stream() {
    for (flags, ways) in [("", &["there"][..]), ("-R -i 1", &["back"]), ("--bidir -P 2", &["there", "back"])] {
        let Some(result) = perf(flags) else { return };
        for way in ["there", "back"] {
            let rate = result[way]["bits_per_second"].as_f64();
            assert_eq!(rate.is_some(), ways.contains(&way), "{flags}: {result}");
            // What headers leave of 4 Mbit/s; a busy machine carries less.
            assert!(rate.is_none_or(|rate| (0.4e6..4e6).contains(&rate)), "{flags}: {result}");
        }
        let [idle, loaded] = ["thin_idle", "thin_loaded"].map(|phase| &result[phase]);
        assert!(idle["ms_p50"].as_f64() >= Some(20.0), "the delay of both ways: {result}");
        assert!(idle["sent"].as_u64() >= Some(2) && loaded["sent"].as_u64() >= Some(2), "{result}");
        assert_eq!(loaded["sent"], loaded["returned"], "{result}");
        // Half a thousand packets take a second, and long queues must be noticed.
        assert!(result["added_ms"].as_f64() > Some(60.0), "{flags}: {result}");
        assert!(["C", "D", "F"].iter().any(|grade| result["grade"] == *grade), "{flags}: {result}");
    }
}

#[test]
fn perf_has_a_port_for_the_thin_stream_and_for_each_association_of_the_load() {
    let (mut server, port) = (Running::start(festina(&["perf", "-s", "-1", "-B", "127.0.0.1:0"])), "127.0.0.1:");
    let line = server.stderr_line();
    let (_, port) = line.split_once(port).expect("it says where it is");
    let packets = folder("perf-ports").join("packets.pcapng");
    let path = packets.to_str().expect("a path");
    let measured =
        run(&["perf", "-c", &format!("127.0.0.1:{port}"), "--idle", "50ms", "-t", "1s", "-P", "2", "--pcap", path]);
    assert_eq!(measured.code, Some(0), "{measured:?}");
    assert_eq!(server.end().code, Some(0));

    let file = fs::File::open(packets).expect("the capture is there");
    let mut capture = PacketReader::new(std::io::BufReader::new(file)).expect("it is a capture");
    let mut ports = BTreeSet::new();
    while let Some(packet) = capture.next_packet().expect("it is whole") {
        // Behind the 20 bytes of an IPv4 header without options.
        ports.extend([20, 22].map(|at| u16::from_be_bytes([packet.data[at], packet.data[at + 1]])));
    }
    assert_eq!(ports.len(), 1 + 3, "the server's port and those of the client: {ports:?}");
}

#[test]
fn perf_without_a_server_ends_with_what_is_wrong() {
    let Some(ended) = emulate_run("-- \"$FESTINA\" perf -c 10.77.0.2 --timeout 300ms") else { return };
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("festina: the measurement failed: "), "{}", ended.stderr);
    let refused = run(&["perf"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(run(&["perf", "-s", "-c", "127.0.0.1"]).code, Some(2));
}

#[test]
fn the_hosts_speak_ipv6_and_say_nothing_of_their_own_accord() {
    let Some(ended) = emulate_run(
        "--delay 1ms --server '\"$FESTINA\" listen \"[fd77::2]:9899\" --echo' \
         -- \"$FESTINA\" ping '[fd77::2]:9899' -c 3 -i 1ms",
    ) else {
        return;
    };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("3 messages sent, 3 received"), "{}", ended.stdout);
    let Some(silent) = emulate_run("-- sleep 0.2") else { return };
    assert!(silent.stderr.contains("no packet passed"), "{}", silent.stderr);
}

#[test]
fn the_exit_code_is_that_of_the_client() {
    for (command, code, complaint) in [
        ("-- sh -c 'exit 7'", 7, ""),
        ("--client 'kill -TERM $$'", 128 + 15, ""),
        ("-- ./no-such-program", 127, "cannot run ./no-such-program"),
        ("-- /dev/null", 126, "cannot run /dev/null"),
        ("--server 'exit 3' -- true", 1, "the server ended with exit code 3 before it listened"),
    ] {
        let Some(ended) = emulate_run(command) else { return };
        assert_eq!(ended.code, Some(code), "{command}: {ended:?}");
        assert!(ended.stderr.contains(complaint), "{command}: {}", ended.stderr);
    }
}

#[test]
fn processes_that_would_outlive_the_client_end_with_it() {
    let nap = unique_sleep(1);
    let Some(ended) = emulate_run(&format!("--client 'setsid sleep {nap} & sleep {nap} & echo begun; exit 3'")) else {
        return;
    };
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "begun\n"), "{ended:?}");
    assert_that_none_is_left(&nap);
}

#[test]
fn the_end_of_the_time_ends_the_commands() {
    let nap = unique_sleep(2);
    let Some(ended) = emulate_run(&format!("--time 300ms --server 'sleep {nap}' -- sleep {nap}")) else { return };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_that_none_is_left(&nap);
}

/// How often, and when at the latest after its start, the command is killed.
const KILLS: u32 = 50;
const KILL_AFTER_MAX: Duration = Duration::from_millis(120);

#[test]
fn killed_at_any_moment_it_leaves_no_process_no_namespace_and_no_device() {
    let nap = unique_sleep(3);
    let mut random = RandomStream::new(14, "kills");
    let moments: Vec<String> = (0..KILLS)
        .map(|_| random.below(u64::try_from(KILL_AFTER_MAX.as_micros()).expect("short")))
        .map(|us| format!("0.{us:06}"))
        .collect();
    // The kernel counts the network namespaces of a user namespace, also those without processes: if any of those that were
    // made before the last run were left, with the TUN device in it, then there would be no room for its two.
    let script = format!(
        "for moment in {}; do
             \"$FESTINA\" emulate run --server 'exec sleep {nap}' --client 'setsid sleep {nap} & sleep {nap}' &
             sleep $moment; kill -KILL $!; wait $!
         done 2>/dev/null
         echo 3 > /proc/sys/user/max_net_namespaces
         for attempt in $(seq 600); do
             \"$FESTINA\" emulate run -- cat /proc/net/dev && exit; sleep 0.1
         done",
        moments.join(" ")
    );
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("festina0"), "the last run had room for its namespaces: {ended:?}");
    assert_that_none_is_left(&nap);
}

#[test]
fn a_user_who_may_not_is_told_why_in_one_line() {
    let refused = "max_user_namespaces";
    let script = format!(
        "echo 0 > /proc/sys/user/{refused}
         exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$FESTINA\" emulate run -- true"
    );
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let ended = running.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.starts_with("festina: network namespaces take root's privileges"), "{}", ended.stderr);
    assert!(ended.stderr.contains("run it as root"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1);
}

#[test]
fn a_command_is_needed_and_one_way_to_name_it() {
    for arguments in [&["emulate", "run"][..], &["emulate", "run", "--client", "true", "--", "true"]] {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1);
    }
}
