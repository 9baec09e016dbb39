//! `festina lab run --real`, which needs a user who may make namespaces and open `/dev/net/tun`.

use serde_json::Value;

use crate::emulate_run::as_root_of_a_user_namespace;
use crate::harness::{folder, run};

/// Two streams in one network, a second each, with little other traffic.
const SHORT: &str = "experiment = \"g02-tables\"\nrepetitions = 1\n[parameters]\nrate = \"12Mbit/s\"\nrtt = \"50ms\"\n\
                     duration = \"1s\"\nelephants = 2\nmice_by = \"count\"\nmice = 4\nstream = [\"std\", \"m10\"]\n";

#[test]
fn the_kernels_tcp_is_measured_and_reported_like_a_simulation() {
    let folder = folder("lab-real");
    std::fs::write(folder.join("short.toml"), SHORT).expect("the folder can be written");
    let script = format!("cd {} && exec \"$FESTINA\" lab run short.toml --real --json", folder.display());
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("lab/short-real/report.html"), "{}", ended.stderr);
    let json: Value = serde_json::from_str(&ended.stdout).expect("standard output is one JSON document");
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 2, "{json}");
    for point in points {
        let value = |name: &str| point["values"][name]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: {point}"));
        // The one-way delay is 25 ms, the buffer of a stream that has just begun is small, and half a second is alone in the network.
        assert!((25.0..900.0).contains(&value("mean latency (ms)")), "{point}");
        assert!((1.0..12.0).contains(&value("throughput (Mbit/s)")), "{point}");
        let late_ms = value("p99 of the emulator's lateness (ms)");
        assert!(value("elephants (Mbit/s)") > 0.1 && late_ms > 0.0, "{point}");
        // On a machine that is busy, the mice of a second may not have run at all.
        assert!(value("mice (Mbit/s)") > 0.1 || late_ms > 3.0, "{point}");
        let in_buffer = point["values"].get("p90 of the time in the send buffer (ms)");
        assert_eq!(in_buffer.is_some(), point["parameters"]["stream"] == "m10", "{point}");
    }
    // Finished cells are not measured again: no measurement has the same figures twice.
    let script =
        format!("cd {} && exec timeout 20 \"$FESTINA\" lab run short.toml --real --jobs 1 --json", folder.display());
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let again = running.end();
    assert_eq!((again.code, again.stdout), (Some(0), ended.stdout), "{}", again.stderr);
}

/// Runs a plan with real sockets and returns its points; `None` if this user may make no namespaces.
fn points_of(test: &str, plan: &str) -> Option<Vec<Value>> {
    let folder = folder(test);
    std::fs::write(folder.join("short.toml"), plan).expect("the folder can be written");
    let script = format!("cd {} && exec \"$FESTINA\" lab run short.toml --real --json", folder.display());
    let ended = as_root_of_a_user_namespace(&script)?.end();
    // A check of so short a run may be broken by chance; a run that failed has no document.
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    Some(json["points"].as_array().expect("points").clone())
}

fn number(point: &Value, name: &str) -> f64 {
    point["values"][name]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: {point}"))
}

/// The shortest delay of a series in ms, and how many delays it has.
fn shortest_and_count(point: &Value, series: &str) -> (f64, u64) {
    let series = &point["series"][series];
    let pair = series["min_ms"].as_f64().zip(series["count"].as_u64());
    pair.unwrap_or_else(|| panic!("{series}: {point}"))
}

#[test]
fn thin_streams_cross_the_emulated_network_over_sockets_and_are_simulated_as_well() {
    let plan = "experiment = \"thin-latency\"\nrepetitions = 1\n[parameters]\nrtt = \"50ms\"\nloss = \"10%\"\nstreams = 8\n\
                duration = \"2s\"\nsender = [\"tcp-thin\", \"festina\", \"festina-encrypted\"]\n";
    let Some(points) = points_of("lab-real-thin", plan) else { return };
    assert_eq!(points.len(), 3);
    for point in &points {
        assert_eq!((number(point, "messages"), number(point, "missing messages")), (64.0, 0.0), "{point}");
        let (shortest_ms, count) = shortest_and_count(point, "delivery");
        // Nothing crosses the network in less than half a round trip.
        assert!(shortest_ms >= 25.0 && count == 64, "{point}");
        assert_eq!(shortest_and_count(point, "simulated delivery").1, 64, "{point}");
        // Each message and its acknowledgement crossed it, each with an IP header.
        assert!(number(point, "packets per message") > 1.5 && number(point, "bytes per message") > 150.0, "{point}");
        assert!(number(point, "p99 of the emulator's lateness (ms)") > 0.0, "{point}");
    }
}

#[test]
fn log_lines_reach_the_receiver_over_sockets_and_the_collectors_file() {
    let plan = "experiment = \"r15-syslog-loss\"\nrepetitions = 1\n[parameters]\nduration = \"2s\"\nloss = \"10%\"\nrtt = \"50ms\"\n\
                flows = 1\nsender = [\"udp\", \"tcp-thin\", \"pr-sctp\", \"festina-syslog\"]\n";
    let Some(points) = points_of("lab-real-lines", plan) else { return };
    assert_eq!(points.len(), 4);
    for point in &points {
        let sender = point["parameters"]["sender"].as_str().expect("a sender");
        let lines = number(point, "lines");
        assert!((250.0..600.0).contains(&lines), "200 a second: {point}");
        let (shortest_ms, count) = shortest_and_count(point, "all");
        assert!(shortest_ms >= 25.0 && count > 100, "{point}");
        assert!(number(point, "TCP Mbit/s") > 0.02, "{point}");
        match sender {
            "udp" => assert!(number(point, "lost %") > 2.0, "{point}"),
            "tcp-thin" => assert_eq!(number(point, "lost %"), 0.0, "{point}"),
            _ => assert_eq!(number(point, "important lines lost"), 0.0, "{point}"),
        }
        let is_simulated = !point["series"]["simulated all"].is_null();
        assert_eq!(is_simulated, sender != "festina-syslog", "{point}");
    }
}

#[test]
fn only_what_can_be_run_with_real_sockets_is() {
    let refused = run(&["lab", "run", "md1", "--real"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    let known = "there are thin-latency, r15-syslog-loss, r15-syslog-trace, r15-syslog-congestion, g02-table1, g02-table2, g02-table3, g02-tables";
    assert!(refused.stderr.contains(known), "{}", refused.stderr);
    let folder = folder("lab-real-objection");
    let plan = folder.join("hops.toml");
    std::fs::write(&plan, "experiment = \"r15-syslog-loss\"\n[parameters]\nhops = 3\n").expect("it can be written");
    let refused = run(&["lab", "run", &plan.to_string_lossy(), "--real"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("hops: with real sockets it can only be 1"), "{}", refused.stderr);
    assert_eq!(run(&["lab", "run", "g02-table1", "--real", "--capture", "x"]).code, Some(2));
}

#[test]
fn killed_at_any_moment_it_leaves_no_namespace_and_no_device() {
    let folder = folder("lab-real-kills");
    std::fs::write(folder.join("short.toml"), SHORT).expect("the folder can be written");
    // The kernel counts the network namespaces of a user namespace: if any of those that were made before were left, then
    // there would be no room for two more. Each run that is killed has two for each of two jobs.
    let script = format!(
        "cd {}
         for ms in 020 040 060 080 100 130 160 200 250 300 400 500 600 800; do
             \"$FESTINA\" lab run short.toml --real --jobs 2 --out killed &
             sleep 0.$ms; kill -KILL $!; wait $!
         done 2>/dev/null
         echo 3 > /proc/sys/user/max_net_namespaces
         for attempt in $(seq 300); do
             \"$FESTINA\" lab run short.toml --real --jobs 1 --out last && exit; sleep 0.1
         done",
        folder.display()
    );
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("last/short-real/report.html"), "{ended:?}");
}
