//! `festina lab run --real`, which needs a user who may make namespaces and open `/dev/net/tun`.

use serde_json::Value;

use crate::emulate_run::as_root_of_a_user_namespace;
use crate::harness::{folder, run};

/// Two streams in one network, a second each, with little other traffic.
const SHORT: &str = "experiment = \"g02-tables\"\nrepetitions = 1\n[parameters]\nrate = \"12Mbit/s\"\nrtt = \"50ms\"\n\
                     duration = \"1s\"\nelephants = 2\nmice = 4\nstream = [\"std\", \"m10\"]\n";

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
        assert!(value("elephants (Mbit/s)") > 0.1 && value("mice (Mbit/s)") > 0.1, "{point}");
        assert!(value("p99 of the emulator's lateness (ms)") > 0.0, "{point}");
        let in_buffer = point["values"].get("p90 of the time in the send buffer (ms)");
        assert_eq!(in_buffer.is_some(), point["parameters"]["stream"] == "m10", "{point}");
    }
    // Finished cells are not measured again.
    let script =
        format!("cd {} && exec timeout 2 \"$FESTINA\" lab run short.toml --real --jobs 1 --json", folder.display());
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let again = running.end();
    assert_eq!((again.code, again.stdout), (Some(0), ended.stdout), "{}", again.stderr);
}

#[test]
fn only_what_can_be_run_with_real_sockets_is() {
    let refused = run(&["lab", "run", "md1", "--real"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("there are g02-table1, g02-table2, g02-table3, g02-tables"), "{}", refused.stderr);
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
