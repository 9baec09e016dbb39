//! `festina compare` with scenarios of a few seconds.

use std::path::Path;
use std::process::Command;

use festina_sctp::Profile;
use serde_json::Value;

use crate::harness::{Ended, Running, festina, folder};

fn compare_in(folder: &Path, arguments: &[&str]) -> Ended {
    let mut all = vec!["compare"];
    all.extend(arguments);
    let mut command = festina(&all);
    command.current_dir(folder);
    Running::start(command).end()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn without_loss_every_message_of_every_profile_arrives_and_everything_is_written() {
    let folder = folder("compare-without-loss");
    let all = Profile::all().iter().map(|profile| profile.name()).collect::<Vec<_>>().join(",");
    let scenario = ["--duration", "2s", "--associations", "8", "--loss", "0%"];
    let compared = compare_in(&folder, &[&scenario[..], &["--profiles", &all, "--json"]].concat());
    assert_eq!(compared.code, Some(0), "{compared:?}");

    let json: Value = serde_json::from_str(&compared.stdout).expect("standard output is one JSON document");
    assert_eq!(json["scenario"]["associations"], 8);
    let results = json["results"].as_array().expect("results");
    let profiles: Vec<&str> = results.iter().filter_map(|result| result["profile"].as_str()).collect();
    assert!(profiles.iter().copied().eq(Profile::all().iter().map(|profile| profile.name())), "{profiles:?}");
    for result in results {
        assert_eq!((&result["messages_sent"], &result["messages_delivered"]), (&64.into(), &64.into()), "{result}");
        let delay = &result["delivery_ms"];
        let ordered = ["p50", "p90", "p99", "p99_9", "max"].map(|name| number(&delay[name]));
        assert!(ordered.is_sorted(), "{delay}");
        assert!(ordered[0] >= 50.0 && number(&delay["mean"]) >= 50.0, "no message is faster than the network: {delay}");
        let cost = &result["cost"];
        let of_both = |what: &str| number(&cost[format!("{what}_there")]) + number(&cost[format!("{what}_back")]);
        assert_eq!(number(&cost["packets_per_message"]), of_both("packets") / 64.0, "{cost}");
        assert_eq!(number(&cost["bytes_per_message"]), of_both("bytes") / 64.0, "{cost}");
        assert!(number(&cost["packets_there"]) >= 64.0 && number(&cost["packets_back"]) >= 32.0, "{cost}");
        assert!(number(&result["packets_sent"]) >= 64.0 && number(&result["bytes_sent"]) >= 6_400.0, "{result}");
        for cause in ["timeout", "fast", "bundled", "probe", "copy"] {
            assert!(result["retransmissions"][cause].is_u64(), "{result}");
        }
        assert!(result["spurious_retransmissions"].is_u64());
        check_without_loss(&result["simulated"]);
    }

    let svg = std::fs::read_to_string(folder.join("compare.svg")).expect("the figure was written");
    let document = roxmltree::Document::parse(&svg).expect("the figure is well-formed XML");
    let texts: String = document.descendants().filter_map(|node| node.text()).collect();
    assert!(profiles.iter().all(|profile| texts.contains(profile)), "{texts}");
    let html = std::fs::read_to_string(folder.join("compare.html")).expect("the page was written");
    assert!(html.contains(svg.trim()), "the figure is on the page");
}

/// Without loss the simulator, too, delivers everything after half a round trip.
fn check_without_loss(simulated: &Value) {
    assert_eq!((&simulated["runs"], &simulated["messages_delivered"]), (&10.into(), &64.into()), "{simulated}");
    let delay = &simulated["delivery_ms"];
    for name in ["mean", "p50", "p99", "max"] {
        assert!((50.0..51.0).contains(&number(&delay[name])), "{name}: {delay}");
    }
    assert!(simulated["p99_range_ms"].is_array() && simulated["p99_9_range_ms"].is_array(), "{simulated}");
}

#[test]
fn with_loss_the_table_shows_retransmissions_and_the_capture_every_packet() {
    let folder = folder("compare-with-loss");
    let scenario = ["--duration", "3s", "--associations", "16", "--loss", "10%", "--drain", "40s"];
    let profiles = ["--profiles", "rfc9260,festina"];
    let outputs = ["--json", "--pcap", "c.pcapng", "--html", "c.html", "--svg", "c.svg"];
    let compared = compare_in(&folder, &[&scenario[..], &profiles, &outputs].concat());
    assert_eq!(compared.code, Some(0), "{compared:?}");
    for heading in [
        "delivery delay in ms",
        "p99.9",
        "a message costs",
        "retransmissions",
        "spurious",
        "  simulated  ",
        "Simulated: ",
    ] {
        assert!(compared.stderr.contains(heading), "{}", compared.stderr);
    }
    let tables = compared.stderr.lines().skip(2).take_while(|line| !line.starts_with("A message costs"));
    for line in tables {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let json: Value = serde_json::from_str(&compared.stdout).expect("JSON");
    let mut packets = 0.0;
    for result in json["results"].as_array().expect("results") {
        assert_eq!(result["messages_sent"], result["messages_delivered"], "{result}");
        let causes = result["retransmissions"].as_object().expect("causes");
        assert!(causes.values().map(number).sum::<f64>() > 0.0, "{result}");
        packets += number(&result["packets_sent"]);
    }
    check_with_tshark(&folder.join("c.pcapng"), packets);
}

#[test]
fn handshakes_succeed_where_half_of_the_packets_get_lost() {
    let folder = folder("compare-half-lost");
    let scenario = ["--loss", "50%", "--rtt", "0", "--associations", "8", "--duration", "250ms", "--drain", "100ms"];
    let compared = compare_in(&folder, &[&scenario[..], &["--profiles", "festina"]].concat());
    assert_eq!(compared.code, Some(0), "{compared:?}");
}

/// Has tshark dissect the capture. Only outside of CI may tshark be missing.
fn check_with_tshark(capture: &Path, packets_sent: f64) {
    let fields = ["sctp.checksum.status", "_ws.malformed", "frame.interface_name", "frame.comment", "ip.proto"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(capture).args(["-o", "sctp.checksum:crc-32c", "-T", "fields", "-E", "separator=|"]);
    // Ports are random: they must not select a dissector for the contents.
    tshark.args(["-d", "sctp.port==0-65535,data"]);
    let dissected = match tshark.args(fields.iter().flat_map(|field| ["-e", field])).output() {
        Ok(dissected) => dissected,
        Err(error) => {
            let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!in_ci, "tshark must be installed in CI: {error}");
            println!("the capture was not checked: tshark is not installed");
            return;
        }
    };
    assert!(dissected.status.success(), "{}", String::from_utf8_lossy(&dissected.stderr));
    let text = String::from_utf8(dissected.stdout).expect("tshark prints text");
    let mut lost = 0;
    let mut interfaces = std::collections::BTreeSet::new();
    for line in text.lines() {
        let [checksum, malformed, interface, comment, protocol] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("five fields, not {line:?}");
        };
        assert_eq!((checksum, malformed, protocol), ("1", "", "132"), "{line}");
        lost += usize::from(comment == "lost by the emulated network");
        interfaces.insert(interface);
    }
    assert!(text.lines().count() as f64 > packets_sent, "the capture holds both directions and the handshakes");
    assert!(lost > 0, "the capture tells which packets were lost");
    assert!(interfaces.into_iter().eq(["festina", "rfc9260"]), "one interface per profile");
}

#[test]
fn state_updates_are_compared_by_the_age_of_the_newest_and_everything_is_written() {
    let folder = folder("compare-state");
    let scenario = ["--state", "--interval", "33ms", "--duration", "5s", "--associations", "4", "--json"];
    let compared = compare_in(&folder, &scenario);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    let json: Value = serde_json::from_str(&compared.stdout).expect("standard output is one JSON document");
    let results = json["results"].as_array().expect("results");
    let policies: Vec<&str> = results.iter().filter_map(|result| result["policy"].as_str()).collect();
    assert_eq!(policies, ["reliable, rfc9260", "reliable", "redundancy", "lifetime", "replace"]);
    for result in results {
        let ages = ["p50", "p90", "p99", "p99_9", "max"].map(|name| number(&result["age_ms"][name]));
        assert!(ages.is_sorted() && ages[0] >= 50.0, "{result}");
        assert!(number(&result["packets_there"]) > 0.0, "{result}");
    }
    let svg = std::fs::read_to_string(folder.join("compare.svg")).expect("the figure was written");
    let html = std::fs::read_to_string(folder.join("compare.html")).expect("the page was written");
    assert!(html.contains(svg.trim()), "the figure is on the page");
    roxmltree::Document::parse(&svg).expect("the figure is well-formed XML");
    let both = compare_in(&folder, &["--state", "--profiles", "festina"]);
    assert_eq!(both.code, Some(2), "{both:?}");
}

#[test]
fn files_of_the_user_s_choice_are_replaced_by_force_alone() {
    let folder = folder("compare-force");
    let scenario = ["--state", "--duration", "250ms", "--associations", "1", "--html", "own.html"];
    for round in 0..2 {
        // Files with a default name are replaced.
        std::fs::write(folder.join("compare.svg"), "old").expect("it can be written");
        let compared = compare_in(&folder, &[&scenario[..], &["--force"][..round]].concat());
        assert_eq!(compared.code, Some(0), "{compared:?}");
        let replaced = std::fs::read_to_string(folder.join("compare.svg")).expect("it is there");
        assert!(replaced.starts_with("<svg"), "{replaced}");
    }
    for (option, file) in [("--html", "own.html"), ("--svg", "compare.svg"), ("--pcap", "own.html")] {
        let refused = compare_in(&folder, &[option, file]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
        assert!(refused.stderr.contains(&format!("{file} exists; choose another name")), "{refused:?}");
    }
    let device = compare_in(&folder, &[&scenario[..5], &["--html", "/dev/null"]].concat());
    assert_eq!(device.code, Some(0), "{device:?}");
}

#[test]
#[cfg(unix)]
fn an_interrupted_comparison_prints_its_results_so_far_and_fails() {
    let folder = folder("compare-interrupted");
    let scenario = ["compare", "--duration", "60s", "--interval", "10ms", "--associations", "2", "--json"];
    let mut command = festina(&[&scenario[..], &["--profiles", "festina", "--pcap", "c.pcapng"]].concat());
    command.current_dir(&folder);
    let running = Running::start(command);
    // Handshakes alone are not that large.
    let capture = folder.join("c.pcapng");
    while std::fs::metadata(&capture).map_or(0, |file| file.len()) < 100_000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("these are the results so far"), "{ended:?}");
    assert!(ended.stderr.contains("\nfestina: interrupted after "), "{ended:?}");
    let json: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(json["complete"], false);
    let (sent, delivered) = (&json["results"][0]["messages_sent"], &json["results"][0]["messages_delivered"]);
    assert!(number(delivered) > 0.0 && number(delivered) <= number(sent) && number(sent) < 12_000.0, "{json}");
    assert!(!folder.join("compare.html").exists() && !folder.join("compare.svg").exists());
}
