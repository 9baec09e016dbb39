//! Every command ends on Ctrl-C and SIGTERM, also as the first process of a container, for which signals have no default effect.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::harness::{PATIENCE, Running, festina};

/// A command that a shell starts with both signals ignored, as they are for the first process of a container.
fn start_deaf(arguments: &[&str]) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' INT TERM; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_festina")]).args(arguments);
    start(command)
}

fn start(mut command: Command) -> Running {
    command.current_dir(env!("CARGO_TARGET_TMPDIR")).env("XDG_CONFIG_HOME", crate::harness::config_home());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command)
}

/// Sends the signal until it has an effect: for a moment after its start, a command does not listen yet. Returns the exit code; `None` if the shell had
/// not begun to ignore signals.
fn end(running: &mut Running, signal: &str) -> Option<i32> {
    for _ in 0..PATIENCE.as_millis() / 500 {
        running.signal(signal);
        thread::sleep(Duration::from_millis(500));
        if let Some(status) = running.ended_with() {
            return status.code();
        }
    }
    panic!("the signal {signal} has no effect")
}

#[test]
fn a_perf_that_is_interrupted_before_its_load_began_fails() {
    let mut server = Running::start(festina(&["perf", "-s", "-B", "127.0.0.1:0"]));
    let line = server.stderr_line();
    let address = line.strip_prefix("measuring with any client that connects to ").expect("it says where it is");
    let mut client = Running::start(festina(&["perf", "-c", address, "--idle", "60s"]));
    let line = client.stderr_line();
    assert!(line.contains("for the first time"), "it is connected: {line}");
    client.interrupt();
    let ended = client.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.ends_with("festina: interrupted before the load began\n"), "{ended:?}");
}

#[test]
fn every_command_ends_on_a_signal_while_it_connects_and_while_it_computes() {
    let deaf = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let peer = deaf.local_addr().expect("bound").to_string();
    let out = crate::harness::folder("signals");
    let [page, figure, lab] = ["page.html", "figure.svg", "lab"].map(|name| out.join(name).display().to_string());
    let commands: [&[&str]; 6] = [
        &["send", &peer, "--plain", "--timeout", "1h"],
        &["ping", &peer, "--plain", "--timeout", "1h"],
        &["perf", "-c", &peer, "--plain", "--timeout", "1h"],
        &["tunnel", "udp", "--listen", "127.0.0.1:0", "--to", &peer, "--plain", "--timeout", "1h"],
        &["compare", "--html", &page, "--svg", &figure],
        &["lab", "run", "p10-fig1", "--out", &lab, "--jobs", "1"],
    ];
    for arguments in commands {
        for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
            let ended = loop {
                let mut running = start_deaf(arguments);
                if arguments.contains(&"1h") {
                    // It has sent its first packet.
                    deaf.set_read_timeout(Some(PATIENCE)).expect("set");
                    deaf.recv(&mut [0; 2_000]).expect("it connects");
                }
                if let Some(code) = end(&mut running, signal) {
                    break code;
                }
            };
            // These two leave in good order, and perf has measured nothing.
            let expected = match arguments[0] {
                "tunnel" => 0,
                "perf" => 1,
                _ => code,
            };
            assert_eq!(ended, expected, "{arguments:?} {signal}");
            // The last packets of this one are not the first of the next one.
            deaf.set_read_timeout(Some(Duration::from_millis(10))).expect("set");
            while deaf.recv(&mut [0; 2_000]).is_ok() {}
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_first_process_of_a_container_ends_on_sigterm_while_it_connects() {
    let deaf = UdpSocket::bind("127.0.0.1:0").expect("bound");
    deaf.set_read_timeout(Some(PATIENCE)).expect("set");
    let peer = deaf.local_addr().expect("bound").to_string();
    let namespaces = ["--user", "--map-root-user", "--fork", "--pid", "--kill-child"];
    let may = Command::new("unshare").args(namespaces).arg("true").output().is_ok_and(|output| output.status.success());
    if !may {
        assert!(std::env::var_os("CI").is_none(), "continuous integration may make process namespaces");
        println!("skipped: this user may not make process namespaces");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(namespaces).arg(env!("CARGO_BIN_EXE_festina")).args(["send", &peer, "--plain", "--timeout", "1h"]);
    let mut unshare = start(command);
    deaf.recv(&mut [0; 2_000]).expect("it connects");
    let id = unshare.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("it is running");
    let first = children.trim();
    let killed = Command::new("kill").args(["-TERM", first]).status();
    assert!(killed.is_ok_and(|status| status.success()), "kill works");
    assert_eq!(unshare.wait(), Some(143));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_reaches_the_limit_of_the_process_is_an_error_and_not_its_death() {
    let out = crate::harness::folder("file_limit").join("streams.csv");
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/captures/thin.pcapng.gz");
    let mut command = Command::new("sh");
    // A block has 512 or 1,024 bytes.
    command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_festina")]);
    command.args(["trace", "thin", capture, "--csv"]).arg(&out);
    let ended = start(command).ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("File too large"), "{ended:?}");
}

/// A listener with a capture, started by `env` with this option, and the capture after it has received a message and SIGHUP. The listener still runs.
#[cfg(target_os = "linux")]
fn hung_up(option: &str, name: &str) -> (Running, std::path::PathBuf) {
    let capture = crate::harness::folder(name).join("x.pcapng");
    let mut command = Command::new("env");
    command.args([option, env!("CARGO_BIN_EXE_festina")]);
    command.args(["listen", "127.0.0.1:0", "--plain", "--pcap"]).arg(&capture);
    let mut listener = start(command);
    let line = listener.stderr_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).expect("it listens");
    let sent = crate::harness::run_with_input(&["send", address, "--plain"], "hello\n");
    assert_eq!(sent.code, Some(0), "{sent:?}");
    listener.signal("-HUP");
    (listener, capture)
}

#[cfg(target_os = "linux")]
#[test]
fn a_capture_is_complete_when_the_terminal_is_closed_and_nohup_keeps_the_command() {
    let (mut listener, capture) = hung_up("--default-signal=HUP", "hangup");
    let code = listener.wait();
    assert!(matches!(code, Some(0 | 129)), "{code:?}");
    let bytes = std::fs::read(capture).expect("it is there");
    assert!(bytes.windows(5).any(|window| window == b"hello"), "{} bytes", bytes.len());

    let (mut listener, _) = hung_up("--ignore-signal=HUP", "nohup");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(listener.ended_with(), None);
    assert!(matches!(end(&mut listener, "-TERM"), Some(0 | 143)));
}
