//! Messages between two running commands.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use crate::harness::{Running, festina, folder, run, run_with_input};

pub(crate) fn listen(arguments: &[&str]) -> (Running, String) {
    let mut all = vec!["listen", "127.0.0.1:0"];
    all.extend(arguments);
    Running::start_server(&all, "listening on ", ", SCTP port ")
}

/// The time a slow machine may take for something immediate.
const A_WHILE: Duration = Duration::from_secs(2);

/// How long `send` waits for an echo that is sure to come, even on a slow machine.
const WAIT_FOR_ECHO: &str = "4s";

/// A bound UDP address that never answers.
pub(crate) fn deaf_address() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
    let address = socket.local_addr().expect("the socket is bound").to_string();
    (socket, address)
}

#[test]
fn lines_arrive_in_order_and_once_ends_the_listener() {
    let (listener, address) = listen(&["--once"]);
    let sent = run_with_input(&["send", &address], "one\ntwo\r\n\nthree");
    assert_eq!((sent.code, sent.stdout.as_str(), sent.stderr.as_str()), (Some(0), "", ""));
    let listened = listener.end();
    assert_eq!((listened.code, listened.stdout.as_str()), (Some(0), "one\ntwo\nthree\n"));
    assert!(listened.stderr.contains(" connected\n"), "{}", listened.stderr);
    assert!(listened.stderr.contains("left: shut down gracefully"), "{}", listened.stderr);
}

#[test]
fn lines_typed_at_the_listener_reach_the_peer() {
    let (mut listener, address) = listen(&["--once"]);
    let sender = Running::start(festina(&["send", &address, "--wait", WAIT_FOR_ECHO]));
    assert!(listener.stderr_line().ends_with(" connected"));
    listener.write("welcome\n");
    let sent = sender.end();
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "welcome\n"));
    assert_eq!(listener.end().code, Some(0));
}

#[test]
fn a_file_is_one_message_of_any_bytes() {
    let folder = folder("a-file");
    let path = folder.join("bytes");
    let bytes: Vec<u8> = (0..100_000u32).map(|number| (number % 251) as u8).collect();
    std::fs::write(&path, &bytes).expect("the file can be written");
    let (listener, address) = listen(&["--once", "--hex"]);
    let sent = run(&["send", &address, "--file", path.to_str().expect("the path is text"), "--stream", "3"]);
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""));
    let expected: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(listener.end().stdout == format!("{expected}\n"), "every byte is right, in one message");
}

#[test]
fn a_file_that_is_too_long_is_told_before_the_peer_is_bothered() {
    let path = folder("a-long-file").join("bytes");
    std::fs::write(&path, vec![1; (1 << 20) + 1]).expect("the file can be written");
    let (_deaf, address) = deaf_address();
    let failed = run(&["send", &address, "--timeout", "300ms", "--file", path.to_str().expect("the path is text")]);
    assert_eq!((failed.code, failed.stderr.lines().count()), (Some(1), 1), "{failed:?}");
    assert!(failed.stderr.contains("more than the 1048576 bytes that fit into a message"), "{}", failed.stderr);
}

#[test]
fn blocks_carry_every_byte_of_standard_input() {
    let (listener, address) = listen(&["--once", "--raw"]);
    let input = "\r\n\n\0 lines and blanks \n\n".repeat(100_000);
    let sent = run_with_input(&["send", &address, "--block", "1000"], &input);
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""));
    assert!(listener.end().stdout == input, "every byte is right");
}

#[test]
fn a_line_that_never_ends_is_refused() {
    let (_listener, address) = listen(&[]);
    let sent = run_with_input(&["send", &address], &"x".repeat((1 << 20) + 1));
    assert_eq!((sent.code, sent.stderr.lines().count()), (Some(1), 1), "{}", sent.stderr);
    assert!(sent.stderr.contains("a line has more than the 1048576 bytes"), "{}", sent.stderr);
}

#[test]
fn a_listener_that_leaves_before_all_input_was_sent_is_a_failure() {
    let (mut listener, address) = listen(&[]);
    let sender = Running::start(festina(&["send", &address]));
    assert!(listener.stderr_line().ends_with(" connected"));
    listener.interrupt();
    assert_eq!(listener.end().code, Some(0));
    let sent = sender.ended();
    assert_eq!(sent.code, Some(1), "{sent:?}");
    assert_eq!(sent.stderr, format!("festina: {address} ended the association before all input was sent\n"));
}

#[test]
fn a_sender_that_is_interrupted_fails_and_so_does_the_listener_that_waits_for_the_whole() {
    for block in [&[][..], &["--block", "1000"]] {
        let (mut listener, address) = listen(&["--once", "--raw"]);
        let mut sender = Running::start(festina(&[&["send", &address], block].concat()));
        assert!(listener.stderr_line().ends_with(" connected"));
        sender.write("half of it\n");
        // The listener prints the message, so the sender has read its input.
        listener.wait_for_stdout("half of it");
        sender.interrupt();
        let sent = sender.ended();
        assert_eq!((sent.code, sent.stderr.as_str()), (Some(1), "festina: interrupted before all input was sent\n"));
        let listened = listener.end();
        assert_eq!(listened.code, Some(1), "{listened:?}");
        assert!(listened.stderr.contains("festina: the transfer from 127.0.0.1:"), "{}", listened.stderr);
        assert!(listened.stderr.ends_with("\"the sender stopped before all input was sent\"\n"), "{}", listened.stderr);
    }
}

#[test]
fn a_listener_that_is_interrupted_before_a_peer_had_sent_everything_fails_and_so_does_the_peer() {
    let (mut listener, address) = listen(&["--once", "--raw"]);
    let mut sender = Running::start(festina(&["send", &address, "--block", "1000"]));
    assert!(listener.stderr_line().ends_with(" connected"));
    sender.write("half of it");
    listener.wait_for_stdout("half of it");
    listener.interrupt();
    let listened = listener.end();
    assert_eq!(listened.code, Some(1), "{listened:?}");
    assert!(listened.stderr.ends_with("festina: interrupted before a peer had sent everything\n"), "{listened:?}");
    let sent = sender.ended();
    assert_eq!(sent.stderr, format!("festina: {address} ended the association before all input was sent\n"));
    assert_eq!(sent.code, Some(1));
}

#[test]
fn a_listener_whose_reader_has_left_before_the_peer_had_sent_everything_fails() {
    let mut command = festina(&["listen", "127.0.0.1:0", "--once", "--plain"]);
    let (reader, writer) = std::io::pipe().expect("the system has pipes");
    drop(reader);
    command.stdout(writer);
    let mut listener = Running::start(command);
    let line = listener.stderr_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(", SCTP")).expect("it says so").0;
    let sender = Running::start(festina(&["send", address, "--plain"]));
    assert!(listener.stderr_line().ends_with(" connected"));
    let mut sender = sender;
    sender.write("one\n");
    assert_eq!(
        sender.stderr_line(),
        format!("festina: {address}: aborted by the peer: \"cannot store the received data\"")
    );
    assert_eq!(sender.ended().code, Some(1));
    let listened = listener.end();
    assert_eq!(listened.code, Some(1), "{listened:?}");
    assert!(listened.stderr.contains("standard output was closed"), "{listened:?}");
}

#[test]
fn an_echo_has_nothing_of_its_own_to_say() {
    let (mut listener, address) = listen(&["--echo"]);
    listener.write("typed\n");
    let sent = run_with_input(&["send", &address, "--wait", WAIT_FOR_ECHO], "sent\n");
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "sent\n"));
}

#[test]
fn an_echo_comes_back() {
    let (listener, address) = listen(&["--echo"]);
    let sent =
        run_with_input(&["send", &address, "--unordered", "--ppid", "51", "--wait", WAIT_FOR_ECHO], "to and fro\n");
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "to and fro\n"));
    listener.interrupt();
    let listened = listener.end();
    assert_eq!((listened.code, listened.stdout.as_str()), (Some(0), ""));
}

#[test]
fn ping_prints_a_line_per_message_and_a_summary() {
    let (_listener, address) = listen(&["--echo"]);
    let pinged = run(&["ping", &address, "-c", "5", "-i", "20ms"]);
    assert_eq!((pinged.code, pinged.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = pinged.stdout.lines().collect();
    assert_eq!(lines.len(), 8, "{}", pinged.stdout);
    assert!(lines[4].starts_with(&format!("100 bytes, {address}: seq=5 time=")), "{}", lines[4]);
    assert_eq!(lines[5], format!("--- {address} festina ping statistics ---"));
    assert!(lines[6].starts_with("5 messages sent, 5 received, 0 outstanding, "), "{}", lines[6]);
    assert!(lines[7].starts_with("time min/avg/max/mdev = "), "{}", lines[7]);
}

#[test]
fn a_ping_whose_last_messages_had_no_echo_fails_after_its_summary() {
    let (mut listener, address) = listen(&["--echo"]);
    let ping = Running::start(festina(&["ping", &address, "-c", "100", "-i", "50ms", "--timeout", "2s"]));
    assert!(listener.stderr_line().ends_with(" connected"));
    thread::sleep(A_WHILE);
    drop(listener);
    let pinged = ping.end();
    assert_eq!(pinged.code, Some(1), "{pinged:?}");
    assert!(pinged.stdout.contains("\n100 messages sent, "), "{}", pinged.stdout);
    assert!(pinged.stderr.contains(" messages had no echo after another 2s"), "{}", pinged.stderr);
}

#[test]
fn ping_needs_no_echo_to_time_acknowledgements() {
    let (_listener, address) = listen(&[]);
    let pinged = run(&["ping", &address, "-c", "3", "-i", "20ms", "--ack", "--quiet"]);
    assert_eq!(pinged.code, Some(0), "{pinged:?}");
    assert!(pinged.stdout.contains("\n3 messages sent, 3 acknowledged, 0 outstanding"), "{}", pinged.stdout);
}

#[test]
fn an_interrupted_ping_sums_up() {
    let (mut listener, address) = listen(&["--echo"]);
    let ping = Running::start(festina(&["ping", &address, "-i", "10ms"]));
    assert!(listener.stderr_line().ends_with(" connected"));
    thread::sleep(A_WHILE);
    ping.interrupt();
    let pinged = ping.end();
    assert_eq!(pinged.code, Some(0), "{pinged:?}");
    assert!(pinged.stdout.contains("festina ping statistics ---\n"), "{}", pinged.stdout);
}

#[test]
fn a_ping_whose_peer_leaves_says_so() {
    let (mut listener, address) = listen(&["--echo"]);
    let ping = Running::start(festina(&["ping", &address, "-i", "10ms"]));
    assert!(listener.stderr_line().ends_with(" connected"));
    listener.interrupt();
    let pinged = ping.end();
    assert_eq!((pinged.code, pinged.stderr), (Some(1), format!("festina: {address} ended the association\n")));
    assert_eq!(listener.end().code, Some(0));
}

#[test]
fn a_ping_whose_reader_has_left_ends_without_a_word() {
    let (_listener, address) = listen(&["--echo"]);
    let mut ping = festina(&["ping", &address, "-i", "10ms"]).spawn().expect("the command starts");
    drop(ping.stdout.take());
    let ended = ping.wait_with_output().expect("the command ends");
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_peer_that_cannot_be_reached_gets_one_line_and_code_one() {
    let (_deaf, address) = deaf_address();
    for command in ["send", "ping"] {
        let failed = run(&[command, &address, "--timeout", "300ms"]);
        assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
        assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
        let port = address.rsplit(':').next().expect("it has a port");
        let expected = format!(
            "festina: {address} did not complete the handshake within 300 ms: is a listener running there, and do firewalls pass UDP \
             port {port} in both directions?\n"
        );
        assert_eq!(failed.stderr, expected);
    }
}

#[test]
#[cfg(target_os = "linux")] // Elsewhere 127.0.0.2 may not exist.
fn a_closed_udp_port_is_reported_at_once_and_tried_until_the_time_is_over() {
    use crate::harness::NARRATION;

    // As long as its port is taken at another address, no other test gets it.
    let (_taken, taken) = deaf_address();
    let closed = taken.replace("127.0.0.1", "127.0.0.2");
    for command in ["send", "ping", "perf -c"] {
        let words: Vec<&str> = command.split(' ').chain([&*closed, "--timeout", "3s"]).collect();
        let ended = festina(&words).output().expect("the command runs");
        let stderr = String::from_utf8(ended.stderr).expect("standard error is text");
        let lines: Vec<&str> = stderr.lines().collect();
        let [connecting, hint, failed] = lines[..] else { panic!("three lines, not {stderr}") };
        assert_eq!(connecting, format!("{NARRATION}{closed}"));
        assert_eq!(hint, format!("{closed}: the host reports that nothing listens on this UDP port; still trying"));
        assert!(failed.contains("did not complete the handshake within 3000 ms"), "{failed}");
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
    }
}

#[test]
fn a_port_that_nobody_listens_on_is_refused_at_once() {
    let (_listener, address) = listen(&[]);
    let refused = run(&["send", &address, "--port", "7"]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{refused:?}");
    assert!(refused.stderr.contains("SCTP port 7"), "{}", refused.stderr);
}

#[test]
fn an_address_in_use_gets_one_line_and_code_one() {
    let (_taken, address) = deaf_address();
    let failed = run(&["listen", &address]);
    assert_eq!((failed.code, failed.stderr.lines().count()), (Some(1), 1), "{failed:?}");
    assert!(failed.stderr.starts_with("festina: ") && failed.stderr.contains(&address), "{}", failed.stderr);
    assert_eq!(failed.stderr.matches("already in use").count(), 1, "the reason is stated once: {}", failed.stderr);
    assert!(failed.stderr.contains("choose another port") && !failed.stderr.contains("os error"), "{}", failed.stderr);
}

#[test]
fn the_emulator_delays_and_counts() {
    let (_listener, address) = listen(&["--echo"]);
    let arguments = ["emulate", "udp", "--listen", "127.0.0.1:0", "--to", &address, "--delay", "40ms"];
    let mut all = arguments.to_vec();
    all.extend(["--back-delay", "10ms", "--duplicate", "100%"]);
    let (emulator, through) = Running::start_server(&all, "", " leads to ");
    let pinged = run(&["ping", &through, "-c", "4", "-i", "10ms"]);
    assert_eq!(pinged.code, Some(0), "{pinged:?}");
    let times = pinged.stdout.split_once("mdev = ").expect("there is a summary").1;
    let min_ms: f64 = times.split('/').next().and_then(|min| min.parse().ok()).expect("times are numbers");
    assert!(min_ms >= 50.0, "{}", pinged.stdout);

    emulator.interrupt();
    let emulated = emulator.end();
    assert_eq!((emulated.code, emulated.stderr.as_str()), (Some(0), ""));
    let count = |name: &str| -> Vec<u64> {
        let line = emulated.stdout.lines().find_map(|line| line.strip_prefix(name));
        let counts = line.unwrap_or_else(|| panic!("no {name:?} in {}", emulated.stdout)).split_whitespace();
        counts.map(|count| count.parse().expect("a number")).collect()
    };
    let (offered, duplicated) = (count("packets offered "), count("duplicated "));
    assert!(offered.iter().all(|packets| *packets >= 4), "{offered:?}");
    assert_eq!(offered, duplicated);
    assert_eq!(count("lost "), [0, 0]);
}

#[test]
fn the_emulator_ends_by_itself_when_its_time_is_over() {
    let (_deaf, address) = deaf_address();
    let emulated = run(&["emulate", "udp", "--listen", "127.0.0.1:0", "--to", &address, "--time", "100ms"]);
    assert_eq!(emulated.code, Some(0), "{emulated:?}");
    assert!(emulated.stdout.contains("\n0 clients\n"), "{}", emulated.stdout);
}

#[test]
fn whoever_listens_on_every_address_is_reached_over_ipv4_and_ipv6() {
    let (listener, address) = Running::start_server(&["listen", ":0", "--echo"], "listening on ", ", SCTP port");
    let (_, port) = address.rsplit_once(':').expect("an address has a port");
    let mut hosts = vec!["127.0.0.1"];
    if UdpSocket::bind("[::1]:0").is_ok() {
        assert!(address.starts_with("[::]"), "{address}");
        hosts.push("[::1]");
    }
    for host in hosts {
        let ping = run(&["ping", &format!("{host}:{port}"), "-c", "2", "-i", "1ms"]);
        assert_eq!(ping.code, Some(0), "{ping:?}");
        assert!(ping.stdout.contains("2 messages sent, 2 received"), "{}", ping.stdout);
    }
    drop(listener);
}

#[test]
fn programs_read_messages_and_summaries_as_json() {
    let (listener, address) =
        Running::start_server(&["listen", "127.0.0.1:0", "--json", "--once"], "listening on ", ", SCTP port");
    let sent = run_with_input(&["send", &address, "--json", "--stream", "3", "--wait", "0ms"], "say \"hi\"\n");
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let summary: serde_json::Value = serde_json::from_str(&sent.stdout).expect("it is JSON");
    assert_eq!(summary["complete"], true, "{summary}");
    let heard = listener.end();
    let message: serde_json::Value = serde_json::from_str(&heard.stdout).expect("it is one JSON object");
    assert_eq!((&message["text"], &message["stream"]), (&"say \"hi\"".into(), &3.into()), "{message}");

    let (_echo, address) = Running::start_server(&["listen", "127.0.0.1:0", "--echo"], "listening on ", ", SCTP port");
    let ping = run(&["ping", &address, "-c", "3", "-i", "1ms", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&ping.stdout).expect("it is JSON and nothing else");
    assert_eq!((&summary["sent"], &summary["returned"]), (&3.into(), &3.into()), "{summary}");
    assert!(summary["ms_p50"].as_f64() > Some(0.0), "{summary}");
    let slowest = summary["slowest"].as_array().expect("they are listed");
    assert_eq!((slowest.len(), &slowest[0]["ms"]), (3, &summary["ms_max"]), "{summary}");
}

#[test]
fn a_ping_names_the_cause_of_the_retransmission_of_a_late_message() {
    let (_listener, address) = listen(&["--echo"]);
    // The way there loses half of the packets, and the way back none.
    let lossy = ["emulate", "udp", "--listen", "127.0.0.1:0", "--to", &address, "--delay", "5ms", "--loss", "50%"];
    let (_emulator, through) = Running::start_server(&[&lossy[..], &["--back-loss", "0%"]].concat(), "", " leads to ");
    for until in [&["--ack"][..], &[]] {
        let arguments = ["ping", &through, "-c", "30", "-i", "100ms", "--timeout", "60s", "--json"];
        let ping = run(&[&arguments[..], until].concat());
        let summary: serde_json::Value = serde_json::from_str(&ping.stdout).expect("it is JSON and nothing else");
        let slowest = &summary["slowest"][0]["retransmitted_by"];
        let causes = ["probe", "timeout", "fast", "bundled", "copy"];
        assert!(causes.iter().any(|cause| slowest[0] == *cause), "{summary}");
    }
}

#[test]
fn a_ping_that_nobody_answers_says_so_and_ends() {
    // This one listens, but does not echo.
    let (_listener, address) = Running::start_server(&["listen", "127.0.0.1:0"], "listening on ", ", SCTP port");
    let ping = run(&["ping", &address, "-i", "100ms", "--timeout", "4s"]);
    assert_eq!(ping.code, Some(1), "{ping:?}");
    let hint = "(does the peer run with --echo?)";
    assert!(ping.stderr.contains(&format!("nothing has come back for 3s {hint}")), "{}", ping.stderr);
    assert!(ping.stderr.contains(&format!("no echo came back {hint}")), "{}", ping.stderr);
}

#[test]
fn both_ends_record_their_packets_and_say_who_comes_and_goes() {
    for plain in [&["--plain"][..], &[]] {
        record_both_ends(plain);
    }
}

fn record_both_ends(plain: &[&str]) {
    let folder = folder("pcap");
    let files = ["near.pcapng", "far.pcapng"].map(|name| folder.join(name).to_str().expect("a path").to_owned());
    // One of the files is there before, open to all.
    std::fs::write(&files[0], "old").expect("it can be written");
    let (listener, address) = listen(&[&["--once", "-v", "--pcap", &files[1]], plain].concat());
    let sent =
        run_with_input(&[&["send", &address, "--verbose", "--force", "--pcap", &files[0]], plain].concat(), "one\n");
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(sent.stderr.contains("info: association up association=0 remote=127.0.0.1:"), "{}", sent.stderr);
    assert!(sent.stderr.contains("info: association down association=0"), "{}", sent.stderr);
    let listened = listener.end();
    assert!(listened.stderr.contains("reason=shut down gracefully"), "{}", listened.stderr);
    for file in files {
        let told = run(&["trace", "thin", &file]);
        let bytes = std::fs::read(&file).expect("the file was written");
        assert_eq!(bytes.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]), "pcapng");
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert!(told.stdout.contains(" 1 streams with data"), "{}", told.stdout);
        assert!(told.stdout.contains(" > 127.0.0.1:5000"), "{}", told.stdout);
        assert!(!told.stdout.contains("decrypted"), "{}", told.stdout);
        let holds_secrets = bytes.windows(24).any(|part| part == b"CLIENT_TRAFFIC_SECRET_0 ");
        assert_eq!(holds_secrets, plain.is_empty(), "{file}");
        assert!(!bytes.windows(9).any(|part| part == b"EXPORTER_"), "{file}");
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).expect("it is there")) & 0o777,
            0o600
        );
    }
}

#[test]
fn a_reader_that_pauses_holds_up_no_other_peer_and_no_signal() {
    let path = folder("a-reader-that-pauses").join("bytes");
    std::fs::write(&path, vec![b'x'; 300_000]).expect("the file can be written");
    let mut command = festina(&["listen", "127.0.0.1:0", "--plain"]);
    // A pipe holds less than the file.
    let (_unread, stdout) = std::io::pipe().expect("a pipe");
    command.stdout(stdout);
    let mut listener = Running::start(command);
    let line = listener.stderr_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(", SCTP port ")).expect(&line).0;
    let sent = run(&["send", address, "--plain", "--file", path.to_str().expect("the path is text")]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let pinged = run(&["ping", address, "--plain", "--ack", "-c", "1", "--timeout", "60s"]);
    assert_eq!(pinged.code, Some(0), "{pinged:?}");
    listener.signal("-TERM");
    assert_eq!(listener.wait(), Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_reader_of_standard_error_that_pauses_holds_up_no_peer_and_no_signal() {
    let (mut listener, address) = listen(&["--plain"]);
    listener.fill_stderr();
    // The pipe is full by then, or the test shows nothing.
    thread::sleep(A_WHILE);
    for _ in 0..2 {
        let pinged = run(&["ping", &address, "--plain", "--ack", "-c", "1", "--timeout", "60s"]);
        assert_eq!(pinged.code, Some(0), "{pinged:?}");
    }
    listener.signal("-TERM");
    assert_eq!(listener.wait(), Some(0));
}

#[test]
fn a_summary_that_is_not_read_does_not_keep_a_command_from_ending() {
    let (_listener, address) = listen(&["--echo"]);
    let mut command = festina(&["ping", &address, "-i", "10us"]);
    let (_unread, stdout) = std::io::pipe().expect("a pipe");
    command.stdout(stdout);
    let mut ping = Running::start(command);
    // The pipe is full by then, or the test shows nothing.
    thread::sleep(A_WHILE);
    ping.interrupt();
    assert!(ping.wait().is_some(), "it ends by itself");
}

#[test]
fn echoes_come_back_while_a_message_waits_for_room() {
    let (_listener, address) = listen(&["--echo", "--plain"]);
    let pinged = run(&["ping", &address, "--plain", "-s", "1MiB", "-i", "1ms", "-c", "24", "--timeout", "60s", "-q"]);
    assert_eq!(pinged.code, Some(0), "{pinged:?}");
    assert!(pinged.stdout.contains("\n24 messages sent, 24 received, 0 outstanding"), "{}", pinged.stdout);
}

#[test]
fn a_closed_output_does_not_shorten_the_capture() {
    let (_listener, address) = listen(&["--echo"]);
    let file = folder("closed-output").join("ping.pcapng");
    let mut ping = festina(&["ping", &address, "-c", "100", "-i", "20ms", "--pcap", file.to_str().expect("a path")]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    ping.stdout(writer);
    let ended = Running::start(ping).ended();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let told = run(&["trace", "thin", file.to_str().expect("a path")]);
    assert!(told.stdout.contains(" 2 streams with data"), "{}{}", told.stdout, told.stderr);
}

#[test]
fn a_capture_that_cannot_be_written_is_named_and_nothing_is_sent() {
    let sent = run(&["ping", "127.0.0.1:9", "-c", "1", "--pcap", "/nowhere/at/all.pcapng"]);
    assert_eq!(sent.code, Some(1));
    assert!(sent.stderr.contains("cannot write /nowhere/at/all.pcapng"), "{}", sent.stderr);
}

#[test]
fn what_the_listener_reads_leaves_in_blocks_of_any_bytes() {
    let (mut listener, address) = listen(&["--once", "--block", "3"]);
    let sender = Running::start(festina(&["send", &address, "--raw", "--wait", WAIT_FOR_ECHO]));
    assert!(listener.stderr_line().ends_with(" connected"));
    listener.write("a\n\nb\0c");
    assert_eq!(sender.end().stdout, "a\n\nb\0c");
    assert_eq!(listener.end().code, Some(0));
}
