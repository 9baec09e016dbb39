//! `festina trace` with captures that the test makes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[cfg(target_os = "linux")]
use crate::emulate_run::as_root_of_a_user_namespace;
use crate::harness::{Running, festina, folder, run};

/// A pcap file of bare IP packets: client and server talk TCP, and the client's second segment is sent twice.
fn capture(folder: &Path) -> PathBuf {
    let packets = [
        (0u32, true, 1, 1, 100u16),
        (50, false, 1, 101, 0),
        (400, true, 101, 1, 100),
        (700, true, 101, 1, 100),
        (750, false, 1, 201, 0),
    ];
    capture_of(folder, &packets)
}

/// A pcap file of TCP segments between client and server: milliseconds, whether from the client, sequence number, acknowledgement, length.
fn capture_of(folder: &Path, packets: &[(u32, bool, u32, u32, u16)]) -> PathBuf {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for &(at_ms, from_client, sequence, ack, len) in packets {
        let packet = segment(from_client, sequence, ack, len);
        let bytes = u32::try_from(packet.len()).expect("short");
        for word in [1_700_000_000 + at_ms / 1_000, at_ms % 1_000 * 1_000, bytes, bytes] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    let path = folder.join("two.pcap");
    fs::write(&path, file).expect("the folder can be written");
    path
}

fn segment(from_client: bool, sequence: u32, ack: u32, len: u16) -> Vec<u8> {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (from, to, ports) = if from_client { (client, server, [5_000u16, 80]) } else { (server, client, [80, 5_000]) };
    let mut packet = vec![0x45, 0];
    packet.extend((40 + len).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend(sequence.to_be_bytes());
    packet.extend(ack.to_be_bytes());
    packet.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    packet.resize(40 + usize::from(len), 0);
    packet
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_capture_is_told_in_tables_of_80_columns_rows_and_a_page() {
    let folder = folder("trace-thin");
    let capture = capture(&folder);
    let (csv, html) = (folder.join("streams.csv"), folder.join("page.html"));
    let ended = run(&["trace", "thin", text(&capture), "--csv", text(&csv), "--html", text(&html)]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("5 packets, 1 conversations, 1 streams with data"), "{}", ended.stdout);
    assert!(ended.stdout.contains("10.0.0.1:5000 > 10.0.0.2:80"), "{}", ended.stdout);
    let verdict = "1 of 1 streams are thin, 0 had delays above 500 ms, the longest was 350 ms";
    assert!(ended.stdout.lines().any(|line| line == verdict), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n10.0.0.1:5000 > … "), "a cut name has a mark: {}", ended.stdout);
    let tables = ended.stdout.lines().skip(1);
    assert!(tables.clone().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    assert!(tables.into_iter().any(|line| line.split_whitespace().eq([
        "350",
        "twice",
        "3",
        "5",
        "10.0.0.1:5000",
        ">",
        "10.0.0.2:80"
    ])));
    let rows = fs::read_to_string(csv).expect("it was written");
    assert_eq!(rows.lines().count(), 2);
    let page = fs::read_to_string(html).expect("it was written");
    assert!(page.contains("<svg") && page.contains("P10, Fig. 1") && !page.contains("http-equiv"));
}

#[test]
fn rows_can_be_objects_of_json() {
    let folder = folder("trace-json");
    let ended = run(&["trace", "thin", text(&capture(&folder)), "--json"]);
    let row: Value = serde_json::from_str(&ended.stdout).expect("one object in one line");
    assert_eq!((row["retransmissions"].as_u64(), row["worst_packet"].as_u64()), (Some(1), Some(3)));
    assert_eq!(row["ack_delay_max_ms"].as_f64(), Some(350.0));
    assert!(row["delivery_max_ms"].is_null());
}

#[test]
fn of_a_capture_that_was_cut_off_the_beginning_is_told_and_the_command_fails() {
    let folder = folder("trace-cut");
    let path = capture(&folder);
    let whole = fs::read(&path).expect("it was written");
    fs::write(&path, &whole[..whole.len() - 5]).expect("the folder can be written");
    let ended = run(&["trace", "thin", text(&path)]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("4 packets"), "{}", ended.stdout);
    let place = whole.len() - 56;
    assert_eq!(ended.stderr.lines().count(), 1);
    assert!(ended.stderr.contains(&format!("ends within a packet, at byte {place}")), "{}", ended.stderr);
}

#[test]
fn a_damaged_capture_of_the_receiver_gives_the_delays_before_the_damage_and_the_command_fails() {
    let folder = folder("trace-receiver-cut");
    let path = capture(&folder);
    let (sender, receiver) = (text(&path), folder.join("receiver.pcap"));
    let whole = fs::read(&path).expect("it was written");
    // Each way takes 20 ms.
    let mut arrived = whole.clone();
    for (record, at_ms) in [(24, 20u32), (180, 30), (236, 420), (392, 720), (548, 730)] {
        arrived[record + 4..record + 8].copy_from_slice(&(1_000 * at_ms).to_le_bytes());
    }
    fs::write(&receiver, &arrived[..arrived.len() - 5]).expect("the folder can be written");
    let page = folder.join("page.html");
    let ended = run(&["trace", "thin", sender, "--receiver", text(&receiver), "--json", "--html", text(&page)]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1));
    let problem = format!("{}: the capture ends within a packet", receiver.display());
    assert!(ended.stderr.contains(&problem), "{}", ended.stderr);
    let row: Value = serde_json::from_str(&ended.stdout).expect("one object in one line");
    assert_eq!((&row["delivery_max_ms"], &row["ack_delay_max_ms"]), (&20.into(), &350.into()));
    assert!(fs::read_to_string(page).is_ok_and(|page| page.contains("Read only in part") && page.contains(&problem)));
    // Both are reported.
    fs::write(&path, &whole[..whole.len() - 5]).expect("the folder can be written");
    let ended = run(&["trace", "thin", sender, "--receiver", text(&receiver)]);
    assert_eq!((ended.code, ended.stderr.matches("ends within a packet").count()), (Some(1), 2), "{}", ended.stderr);
    assert!(ended.stdout.contains("4 packets"), "{}", ended.stdout);
}

#[test]
fn tables_and_page_count_all_streams_of_very_many() {
    const STREAMS: u16 = 25_000;
    let folder = folder("trace-many");
    let (path, html) = (folder.join("many.pcap"), folder.join("page.html"));
    let mut file: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for client in 0..STREAMS {
        for word in [1_700_000_000, u32::from(client), 36, 36] {
            file.extend(word.to_le_bytes());
        }
        let mut packet = vec![0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0];
        packet.extend(client.to_be_bytes());
        packet.extend([9, 9, 9, 9, 0x27, 0x10, 0, 53, 0, 16, 0, 0]);
        packet.resize(36, 0);
        file.extend(packet);
    }
    fs::write(&path, file).expect("the folder can be written");
    let ended = run(&["trace", "thin", text(&path), "--html", text(&html)]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let is_port = |line: &str| line.split_whitespace().take(3).eq(["53", "25000", "25000"]);
    assert!(ended.stdout.lines().any(is_port), "{}", ended.stdout);
    let page = fs::read_to_string(html).expect("it was written");
    assert!(page.contains("Of 25000 streams with data in 25000 packets") && page.contains("24900 more are in the CSV"));
}

#[test]
fn a_capture_of_one_direction_draws_a_warning() {
    let folder = folder("trace-one-way");
    let path = capture(&folder);
    let whole = fs::read(&path).expect("it was written");
    // Without the packets of the server.
    let [small, large] = [16 + 40, 16 + 140];
    let sent = [24..24 + large, 24 + large + small..24 + 3 * large + small].map(|range| &whole[range]).concat();
    fs::write(&path, [&whole[..24], &sent].concat()).expect("the folder can be written");
    let expected = "1 of 1 streams have no acknowledgement in the capture";
    let ended = run(&["trace", "thin", text(&path), "--json"]);
    assert!(ended.code == Some(0) && ended.stderr.contains(expected), "{}", ended.stderr);
    let row: Value = serde_json::from_str(&ended.stdout).expect("one object in one line");
    assert!(row["thin_share"].is_null() && row["packets"] == 3, "{row}");
    assert!(run(&["trace", "thin", text(&path)]).stdout.contains(expected));
}

#[test]
fn an_incomplete_capture_and_one_behind_its_losses_say_so_in_a_line() {
    let folder = folder("trace-incomplete");
    let begin = [(0, true, 1, 1, 100), (50, false, 1, 101, 0)];
    // The second segment is acknowledged and missing; or it is seen only once, after the third.
    let incomplete = [(400, true, 201, 1, 100), (450, false, 1, 301, 0)];
    let behind = [(400, true, 201, 1, 100), (400, false, 1, 101, 0), (700, true, 101, 1, 100), (700, false, 1, 301, 0)];
    for (more, expected) in [
        (&incomplete[..], "1 of 1 streams are incomplete"),
        (&behind, "1 of 1 streams were captured behind their losses"),
    ] {
        let path = capture_of(&folder, &[&begin, more].concat());
        let ended = run(&["trace", "thin", text(&path)]);
        let lines = ended.stdout.lines().filter(|line| line.contains(" of 1 streams "));
        assert!(lines.clone().count() == 2 && lines.clone().any(|line| line.starts_with(expected)), "{}", ended.stdout);
        let rows = run(&["trace", "thin", text(&path), "--json"]);
        assert!(rows.stderr.contains(expected) && rows.stderr.lines().count() == 1, "{}", rows.stderr);
        let row: Value = serde_json::from_str(&rows.stdout).expect("one object in one line");
        assert_eq!((&row["by_timeout"], &row["cause_unknown"]), (&0.into(), &u64::from(more.len() > 2).into()));
    }
}

#[test]
fn what_if_says_what_another_transport_would_have_changed_in_a_sentence_a_table_a_figure_and_json() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/captures/thin.pcapng.gz");
    let svg = folder("trace-what-if").join("what-if.svg");
    let ended = run(&["trace", "what-if", text(&capture), "--svg", text(&svg)]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let lines = || ended.stdout.lines().skip(1);
    assert!(lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("8 thin streams") && ended.stdout.contains("With SCTP, festina, "),
        "{}",
        ended.stdout
    );
    let rows = lines().filter(|line| line.starts_with("SCTP, ") || line.starts_with("TCP, Linux "));
    assert_eq!(rows.count(), 5, "each transport, and Linux next to the capture: {}", ended.stdout);
    assert!(fs::read_to_string(svg).is_ok_and(|figure| figure.starts_with("<svg")));
    let ended = run(&["trace", "what-if", text(&capture), "--json"]);
    let answer: Value = serde_json::from_str(&ended.stdout).expect("a document");
    assert_eq!((answer["flows"].as_u64(), answer["transports"].as_array().map(Vec::len)), (Some(8), Some(4)));
    let baseline = &answer["baseline"][0];
    assert!(baseline["capture"]["p99_ms"].is_f64() && answer["burst_ms"].is_null());
    let [low, high] = [0, 1].map(|end| baseline["capture_p99_interval_ms"][end].as_f64().expect("a number"));
    assert!((low..=high).contains(&baseline["capture"]["p99_ms"].as_f64().expect("a number")), "{baseline}");
    // 20 of 1,982 writes.
    let [beyond, groups] = ["writes_beyond_p99", "groups_beyond_p99"].map(|name| baseline[name].as_u64());
    assert!(beyond == Some(20) && (Some(1)..=Some(20)).contains(&groups), "{baseline}");
}

#[test]
fn what_if_without_a_thin_stream_is_told_in_one_line() {
    let path = capture(&folder("trace-nothing-thin"));
    let ended = run(&["trace", "what-if", text(&path)]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1));
    assert!(ended.stderr.contains("none of 1 streams with data is thin, has ten"), "{}", ended.stderr);
}

#[test]
fn classify_gives_clusters_their_medians_and_a_dendrogram_and_the_order_of_captures_makes_no_difference() {
    let folder = folder("trace-classify");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/captures/thin.pcapng.gz");
    let svg = folder.join("dendrogram.svg");
    let ended = run(&["trace", "classify", text(&shipped), "--svg", text(&svg)]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    assert!(ended.stdout.contains("8 flows; 0 with fewer than three packets"), "{}", ended.stdout);
    assert!(fs::read_to_string(svg).is_ok_and(|svg| roxmltree::Document::parse(&svg).is_ok()));
    let small = capture(&folder);
    let clusters = |files: [&str; 2]| {
        let ended = run(&["trace", "classify", files[0], files[1], "--json"]);
        let answer: Value = serde_json::from_str(&ended.stdout).expect("a document");
        answer["clusters"].clone()
    };
    let [one, other] = [clusters([text(&shipped), text(&small)]), clusters([text(&small), text(&shipped)])];
    assert_eq!(one, other);
    assert!(one.as_array().is_some_and(|clusters| clusters.len() > 1), "{one}");
    let ended = run(&["trace", "classify", text(&small)]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1));
    assert!(ended.stderr.contains("it takes three such flows"), "{}", ended.stderr);
}

#[test]
fn slow_start_says_how_streams_begin_in_a_block_for_each_file_or_a_line_for_each_stream() {
    let folder = folder("trace-slow-start");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/captures/thin.pcapng.gz");
    let small = capture(&folder);
    let ended = run(&["trace", "slow-start", text(&shipped), text(&small)]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("100.0 % leave it because they do not send more"), "{}", ended.stdout);
    assert!(ended.stdout.contains("0 streams from their beginning, 1 others are left out"), "{}", ended.stdout);
    let ended = run(&["trace", "slow-start", text(&shipped), "--json"]);
    let rows: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("an object in each line")).collect();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["exit"] == "no growth" && row["rounds"] == row["rounds_by_closed_form"]));
}

#[test]
fn what_makes_no_sense_is_told_in_one_line() {
    let folder = folder("trace-usage");
    let path = capture(&folder);
    let (one, missing) = (text(&path), folder.join("missing.pcap"));
    for (arguments, code, expected) in [
        (vec!["trace", "thin", one, one, "--html", "x.html"], 2, "--html shows one capture"),
        (vec!["trace", "thin", "-", "--receiver", one], 2, "it is read twice"),
        (vec!["trace", "thin", text(&missing)], 1, "cannot open"),
        #[cfg(not(feature = "parquet"))]
        (vec!["trace", "thin", one, "--parquet", "x.parquet"], 2, "built without Parquet"),
        #[cfg(feature = "parquet")]
        (vec!["trace", "thin", one, "--parquet", "no/x.parquet"], 1, "cannot write no/x.parquet"),
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}

/// Runs a test again in a network namespace of its own, since other programs send over the shared loopback interface, too;
/// returns whether this is the second run.
#[cfg(target_os = "linux")]
fn has_own_loopback(test: &str) -> bool {
    const INSIDE: &str = "FESTINA_TEST_OWN_LOOPBACK";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("a test has a path");
    let script = format!("ip link set lo up && {INSIDE}=yes exec '{}' --exact {test}", program.display());
    if let Some(again) = as_root_of_a_user_namespace(&script) {
        let ended = again.end();
        assert!(ended.code == Some(0) && ended.stdout.contains("1 passed"), "{ended:?}");
    }
    false
}

/// Watches the loopback interface while a client writes 20 times. Returns the output and the client's port.
#[cfg(target_os = "linux")]
fn watched(flags: &[&str]) -> (String, u16) {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    let arguments = [&["trace", "thin", "--interface", "lo", "--interval", "10ms"], flags].concat();
    let mut running = Running::start(festina(&arguments));
    assert_eq!(running.stderr_line(), "watching lo; press Ctrl-C to stop");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the listener is there");
    let (mut server, _) = listener.accept().expect("the client is there");
    for _ in 0..20 {
        client.write_all(&[7; 100]).expect("the server reads");
        server.read_exact(&mut [0; 100]).expect("the client has written");
    }
    running.interrupt();
    let ended = running.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    (ended.stdout, client.local_addr().expect("it is connected").port())
}

#[cfg(target_os = "linux")]
#[test]
fn an_interface_is_watched_until_interrupted_and_every_packet_counts_once() {
    if !has_own_loopback("trace::an_interface_is_watched_until_interrupted_and_every_packet_counts_once") {
        return;
    }
    let (printed, port) = watched(&["--json"]);
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("an object in each line")).collect();
    let ended = |line: &&Value| line["source_port"] == port && line.get("now_writes").is_none();
    let stream = lines.iter().find(ended).unwrap_or_else(|| panic!("no stream from {port}: {printed}"));
    // A machine that is busy may send something again.
    let number = |name: &str| stream[name].as_u64().unwrap_or_else(|| panic!("no {name}: {stream}"));
    assert_eq!((number("packets") - number("retransmissions"), number("payload_min_bytes")), (20, 100));
    let last = lines.last().expect("there are lines");
    assert_eq!((&last["packets_dropped_by_kernel"], last.get("id")), (&0.into(), None));

    let (printed, port) = watched(&["--top", "100"]);
    assert!(printed.contains("streams with data") && printed.contains(&format!("127.0.0.1:{port} >")), "{printed}");
    assert!(!printed.contains('\x1b'), "this is no terminal");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interface_that_is_not_there_is_named_beside_those_that_are() {
    let ended = run(&["trace", "thin", "--interface", "nosuch0"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no network interface \"nosuch0\"; there are") && ended.stderr.contains("lo"));
    let ended = run(&["trace", "thin", "--interface", "lo", "x.pcap"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[cfg(feature = "parquet")]
#[test]
fn rows_can_be_a_parquet_file() {
    let folder = folder("trace-parquet");
    let (path, target) = (capture(&folder), folder.join("rows.parquet"));
    let ended = run(&["trace", "thin", text(&path), "--parquet", text(&target)]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(ended.stdout.contains("streams with data"), "the tables are printed too: {}", ended.stdout);
    let written = fs::read(&target).expect("it was written");
    assert!(written.starts_with(b"PAR1") && written.ends_with(b"PAR1"), "{} bytes", written.len());
}

#[test]
fn what_is_no_capture_gets_an_error_and_no_empty_report() {
    let path = folder("trace-no-capture").join("text.md");
    fs::write(&path, "# A document").expect("the file can be written");
    let failed = run(&["trace", "thin", path.to_str().expect("the path is text")]);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
    assert!(failed.stderr.contains("this is neither a pcap nor a pcapng file"), "{}", failed.stderr);
}

#[test]
fn packets_that_were_not_read_draw_a_warning_whatever_is_printed() {
    let folder = folder("trace-unread");
    let path = capture(&folder);
    let mut file = fs::read(&path).expect("it was written");
    // A packet of neither IP version.
    for word in [1_700_000_001u32, 0, 4, 4, 0] {
        file.extend(word.to_le_bytes());
    }
    fs::write(&path, file).expect("the folder can be written");
    let warning = format!("{}: 1 of 6 packets were not read: ", path.display());
    for arguments in [&["thin", "--json"][..], &["thin", "--csv", "-"], &["classify"], &["slow-start", "--json"]] {
        let ended = run(&[&["trace"], arguments, &[text(&path)]].concat());
        // One flow is too few to classify.
        let code = i32::from(arguments == ["classify"]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.starts_with(&warning), "{arguments:?}: {}", ended.stderr);
    }
    let tables = run(&["trace", "thin", text(&path)]);
    assert!(tables.stdout.contains("\n1 of 6 packets were not read: "), "{}", tables.stdout);
    assert_eq!(tables.stderr, "");
}
