//! Faults that users of other projects' commands have reported in public.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use festina_trace::PacketReader;
use serde_json::Value;

use crate::harness::{PATIENCE, Running, festina, folder, run, run_with_input};
use crate::messages::{deaf_address, listen};

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/captures/thin.pcapng.gz");

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

#[test]
fn perf_says_that_a_server_of_another_kind_is_no_server_of_perf() {
    let (_listener, address) = listen(&["--echo"]);
    for direction in [&[][..], &["-R"], &["--bidir"]] {
        let flags = ["perf", "-c", &address, "--idle", "100ms", "-t", "1s"];
        let ended = run(&[&flags[..], direction].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.contains(&format!("there is no `festina perf -s` at {address}")), "{ended:?}");
    }
}

#[test]
fn no_command_overwrites_what_it_reads_or_what_exists() {
    let folder = folder("reported-outputs");
    let [capture, key, rates, new] = ["a.pcapng", "id.pem", "rates.txt", "new"].map(|name| folder.join(name));
    fs::copy(CAPTURE, &capture).expect("copied");
    fs::write(&key, "a key").expect("written");
    fs::write(&rates, "1\n").expect("written");
    let before = fs::read(&capture).expect("it is there");
    let (capture_text, key_text, rates, new) = (text(&capture), text(&key), text(&rates), text(&new));
    let is_read = "is read and would be overwritten";
    let cases: [(&[&str], &str); 9] = [
        (&["trace", "thin", capture_text, "--csv", capture_text, "--force"], is_read),
        (&["trace", "thin", capture_text, "--html", capture_text], is_read),
        (&["trace", "thin", new, "--html", capture_text], "exists; choose another name"),
        (&["trace", "thin", capture_text, "--csv", new, "--html", new], "two outputs would go to"),
        (&["trace", "what-if", capture_text, "--svg", capture_text], is_read),
        (&["send", "localhost", "--file", key_text, "--pcap", key_text], is_read),
        (&["ping", "localhost", "--cert", key_text, "--key", key_text, "--pcap", key_text, "--force"], is_read),
        (&["emulate", "udp", "--listen", ":0", "--to", "localhost:1", "--trace", rates, "--pcap", rates], is_read),
        (&["listen", ":0", "--pcap", "-"], "- is no file here"),
    ];
    for (arguments, expected) in cases {
        let refused = run(arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{arguments:?}: {refused:?}");
    }
    assert!(fs::read(&capture).expect("it is there") == before);
    assert_eq!(fs::read_to_string(&key).expect("it is there"), "a key");
    assert_eq!(run(&["trace", "thin", capture_text, "--html", key_text, "--force"]).code, Some(0));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_capture_that_another_program_writes_and_it_is_reported() {
    let folder = folder("reported-pipe");
    let csv = folder.join("all.csv");
    let commands: [(&[&str], &str); 3] = [
        (&["trace", "thin", "-", "--csv", text(&csv)], "streams with data"),
        (&["trace", "thin", "-", "--json"], "\"source\""),
        (&["trace", "classify", "-"], "flows"),
    ];
    for (arguments, expected) in commands {
        let mut command = festina(arguments);
        let (reader, mut writer) = std::io::pipe().expect("there is a pipe");
        command.stdin(reader);
        let running = Running::start(command);
        // More than the pipe holds: when all is written, the command reads.
        std::io::copy(&mut File::open(CAPTURE).expect("it is there"), &mut writer).expect("it is read");
        std::thread::sleep(Duration::from_millis(500));
        running.interrupt();
        let ended = running.ended();
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        assert!(ended.stdout.contains(expected), "{arguments:?}: {ended:?}");
    }
    assert!(fs::read_to_string(csv).expect("it is there").lines().count() > 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "captures have real dates")]
fn captures_of_endpoints_have_the_date_of_their_packets() {
    let capture = folder("reported-date").join("ping.pcapng");
    let (_listener, address) = listen(&["--echo"]);
    let since_epoch = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let before = since_epoch();
    assert_eq!(run(&["ping", &address, "-c", "1", "--pcap", text(&capture)]).code, Some(0));
    let mut packets = PacketReader::new(File::open(&capture).expect("it is there")).expect("a capture");
    let mut count = 0;
    while let Some(packet) = packets.next_packet().expect("it is whole") {
        let at = packet.at.as_nanos() / 1_000_000_000;
        assert!((before - 1..=since_epoch() + 1).contains(&at), "{at}");
        count += 1;
    }
    assert!(count > 2);
}

#[cfg(unix)]
#[test]
fn control_characters_in_the_name_of_a_capture_do_not_reach_the_terminal() {
    let capture = folder("reported-name").join("a\x1b[31m\nb.pcapng.gz");
    fs::copy(CAPTURE, &capture).expect("copied");
    for analysis in ["thin", "slow-start", "what-if", "classify"] {
        let ended = run(&["trace", analysis, text(&capture)]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'), "{ended:?}");
        assert!(analysis == "classify" || ended.stdout.contains("a\\x1b[31m\\x0ab.pcapng.gz"), "{ended:?}");
    }
}

#[test]
fn a_peer_without_a_host_or_a_port_is_an_invalid_command_line() {
    for (arguments, expected) in [
        (&["ping", ""][..], "there is no host"),
        (&["send", ":9899"], "there is no host"),
        (&["ping", "127.0.0.1:0"], "0 is no port"),
        (&["perf", "-c", ""], "there is no host"),
        (&["listen", ""], "there is no host"),
        (&["tunnel", "udp", "--listen", ":0", "--to", ""], "there is no host"),
        (&["emulate", "udp", "--listen", ":0", "--to", ":7"], "there is no host"),
        (&["ping", "127.0.0.1:+80"], "\"+80\" is no port"),
        (&["syslog", "status", ""], "there is no host"),
    ] {
        let refused = run(arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{arguments:?}: {refused:?}");
    }
}

#[test]
fn syslog_status_finds_the_host_of_a_name() {
    // As long as its port is taken here, nothing else answers there.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = format!("localhost:{}", taken.local_addr().expect("bound").port());
    let answering = std::thread::spawn(move || taken.accept().map(|(connection, _)| drop(connection)));
    let ended = run(&["syslog", "status", &address]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains(&format!("cannot ask {address}")), "{ended:?}");
    answering.join().expect("it ends").expect("the name was found");
}

#[test]
fn a_tunnel_to_a_server_of_another_kind_says_so() {
    let (_listener, echo) = listen(&["--echo"]);
    let ended = run(&["tunnel", "udp", "--listen", "127.0.0.1:0", "--to", &echo]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let expected = format!("festina: {echo} is no `festina tunnel exit`: it sends messages back");
    assert_eq!(ended.stderr.matches(&expected).count(), 1, "{ended:?}");

    let mut server = Running::start(festina(&["perf", "-s", "-B", "127.0.0.1:0", "--plain"]));
    let line = server.stderr_line();
    let perf = line.strip_prefix("measuring with any client that connects to ").expect("it says where it is");
    let (_listener, plain_echo) = listen(&["--echo", "--plain"]);
    for (to, expected) in [(perf, "\"this is festina perf"), (&plain_echo, "do not follow the protocol")] {
        let entrance = ["tunnel", "tcp", "--plain", "--listen", "127.0.0.1:0", "--to", to];
        let (mut entrance, address) = Running::start_server(&entrance, "", " leads to");
        let _client = TcpStream::connect(&address).expect("the entrance listens");
        let mut reported = entrance.stderr_line();
        // A line about the client may come first.
        if !reported.contains("the exit does not stay: ") {
            reported = entrance.stderr_line();
        }
        assert!(reported.contains("the exit does not stay: ") && reported.contains(expected), "{reported}");
    }
}

#[test]
fn a_number_that_is_too_large_is_not_called_something_else() {
    let digits = "9".repeat(20);
    for arguments in [["-c", &digits], ["-i", &format!("{digits}s")], ["--size", &digits]] {
        let refused = run(&[&["ping", "localhost"][..], &arguments].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("is too large"), "{refused:?}");
    }
    let (_deaf, address) = deaf_address();
    let failed = run(&["ping", &address, "--plain", "--timeout", "1us"]);
    assert!(failed.stderr.contains("within 0.001 ms"), "{failed:?}");
}

#[test]
fn a_file_without_a_certificate_is_said_to_have_none() {
    let path = folder("reported-pem").join("k.pem");
    fs::write(&path, "garbage").expect("written");
    let failed = run(&["key", "--of", text(&path)]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("there is no certificate"), "{failed:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn bash_completes_names_with_spaces_and_profiles() {
    let folder = folder("reported-completion");
    fs::write(folder.join("my capture.pcapng"), "").expect("written");
    let script = run(&["completions", "bash"]).stdout;
    fs::write(folder.join("festina.bash"), script).expect("written");
    let complete = |words: &str| {
        let words = format!(
            "cd \"$0\"; compopt() {{ :; }}; . ./festina.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _festina festina \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let shell = std::process::Command::new("bash").args(["-c", &words, text(&folder)]).output();
        String::from_utf8(shell.expect("there is a bash").stdout).expect("text")
    };
    assert_eq!(complete("festina ping localhost --pcap my"), "my capture.pcapng\n");
    assert_eq!(complete("festina ping localhost --profile ra"), "rack\n");
    assert_eq!(complete("festina listen --congestion cu"), "cubic\n");
}

#[cfg(unix)]
#[test]
fn a_command_that_is_interrupted_or_fails_before_it_has_a_result_says_so_in_json_too() {
    let (deaf, peer) = deaf_address();
    deaf.set_read_timeout(Some(PATIENCE)).expect("set");
    let flags = ["--plain", "--timeout", "1h", "--json"];
    let connects: [&[&str]; 3] = [&["ping", &peer], &["send", &peer], &["perf", "-c", &peer]];
    for command in connects {
        let running = Running::start(festina(&[command, &flags].concat()));
        // It has sent its first packet, so that it has begun to wait for signals.
        deaf.recv(&mut [0; 2_000]).expect("it connects");
        running.interrupt();
        let ended = running.ended();
        assert!(matches!(ended.code, Some(1 | 130)), "{ended:?}");
        assert!(ended.stderr.contains("festina: ") && ended.stderr.contains("interrupted"), "{command:?}: {ended:?}");
        let json: Value = serde_json::from_str(&ended.stdout).expect("one document");
        assert!(command[0] == "perf" || json["error"] == "interrupted", "{json}");
        deaf.set_nonblocking(true).expect("set");
        while deaf.recv(&mut [0; 2_000]).is_ok() {}
        deaf.set_nonblocking(false).expect("set");
    }
    let failed = run(&["ping", &peer, "--plain", "--timeout", "10ms", "--json"]);
    let json: Value = serde_json::from_str(&failed.stdout).expect("one document");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(json["error"].as_str().is_some_and(|error| error.contains("did not complete the handshake")), "{json}");
    let failed = run_with_input(&["trace", "classify", "-", "--json"], "");
    assert!(failed.stderr.contains("the capture is empty"), "{failed:?}");
    assert!(failed.stdout.starts_with("{\"error\":"), "{failed:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn help_and_version_that_cannot_be_printed_are_a_failure() {
    for arguments in [&["--help"][..], &["--version"], &["ping", "--help"]] {
        let mut command = festina(arguments);
        command.stdout(Stdio::from(File::options().write(true).open("/dev/full").expect("it is there")));
        let ended = Running::start(command).ended();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("cannot write to standard output"), "{ended:?}");
    }
}
