//! `festina syslog`: the checks of its files, and a line on its way from a program to a collector's file.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use crate::harness::{Ended, PATIENCE, Running, festina, folder, run};

/// Between two looks at a file.
const PAUSE: Duration = Duration::from_millis(10);

fn syslog_in(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = festina(&[&["syslog"], arguments].concat());
    command.current_dir(folder);
    Running::start(command).end()
}

/// Waits until a program says this.
fn wait_for(running: &mut Running, text: &str) {
    loop {
        let line = running.stderr_line();
        assert!(!line.is_empty(), "the program ends without {text:?}");
        if line == text {
            return;
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the folder can be written");
}

#[test]
fn a_new_file_is_right_and_no_file_is_written_over() {
    let folder = folder("syslog-new");
    for (kind, name) in [("relay", "relay.toml"), ("collect", "collect.toml")] {
        let written = syslog_in(&folder, &["new", name]);
        assert_eq!(written.code, Some(0), "{written:?}");
        assert!(written.stderr.contains(&format!("festina syslog {kind} {name} --check-config")), "{written:?}");
        let checked = syslog_in(&folder, &[kind, name, "--check-config"]);
        assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), &*format!("{name} is right\n")), "{checked:?}");
        let again = syslog_in(&folder, &["new", name]);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.stderr.contains(&format!("cannot write {name}")), "{again:?}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_line_and_column_and_code_two() {
    let folder = folder("syslog-wrong");
    let relay = "state = \"s\"\ncollector = \"127.0.0.1:1\"\n[[input]]\nkind = \"stdin\"\n";
    let collect = "state = \"s\"\nlisten = \"127.0.0.1:1\"\n[[output]]\nkind = \"file\"\npath = \"l\"\n";
    for (kind, text, said) in [
        ("relay", format!("{relay}colour = 1\n"), "wrong.toml:5:1: unknown key `colour`"),
        ("relay", relay.replace("127.0.0.1:1", "nowhere"), "wrong.toml:2:13: "),
        (
            "relay",
            relay.replace("\"127.0.0.1:1\"", "[\"[::1]:1\", \"[::1]:1\"]"),
            "wrong.toml:2:13: [::1]:1 is listed twice",
        ),
        ("relay", format!("spread = true\n{relay}"), "wrong.toml:1:10: spread and [failover] need several collectors"),
        ("relay", relay.replace("stdin", "pigeon"), "there are unix, udp, tcp, tls, stdin and file"),
        ("relay", format!("{relay}[[rule]]\ndrop = true\nreliable = true\n"), "wrong.toml:5:1: a rule needs one of"),
        ("collect", collect.replace("\"l\"", "\"{host}\""), "source, app, severity, date"),
        ("collect", format!("{collect}rotate = \"many\"\n"), "wrong.toml:6:10: "),
    ] {
        write(&folder, "wrong.toml", &text);
        for arguments in [&[kind, "wrong.toml", "--check-config"][..], &[kind, "wrong.toml"]] {
            let refused = syslog_in(&folder, arguments);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
            assert!(refused.stderr.contains(said) && refused.stderr.lines().count() == 1, "{said}: {refused:?}");
        }
    }
}

#[test]
fn a_file_that_is_missing_and_one_that_names_missing_certificates_get_code_one() {
    let folder = folder("syslog-missing");
    let missing = syslog_in(&folder, &["relay", "missing.toml", "--check-config"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.stderr.contains("cannot read missing.toml"), "{missing:?}");
    let tls = "kind = \"tls\"\nlisten = \"127.0.0.1:6514\"\ncertificate = \"absent.pem\"\nkey = \"absent.key\"\n";
    write(&folder, "tls.toml", &format!("state = \"s\"\ncollector = \"127.0.0.1:1\"\n[[input]]\n{tls}"));
    let missing = syslog_in(&folder, &["relay", "tls.toml", "--check-config"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.stderr.contains("cannot read absent.pem"), "{missing:?}");
    let failed = run(&["syslog", "status", "127.0.0.1:1"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("is \"metrics\" set there?"), "{failed:?}");
}

#[test]
fn lines_go_from_a_program_to_the_file_of_a_collector_also_after_its_rotation() {
    let folder = folder("syslog-way");
    let state = |name: &str| folder.join(name).display().to_string();
    let lines = folder.join("lines.log");
    let before = format!("state = {:?}\ncollector = \"127.0.0.1:9\"\n[[input]]\nkind = \"stdin\"\n", state("relay"));
    write(&folder, "before.toml", &before);
    let key = syslog_in(&folder, &["relay", "before.toml", "--show-key"]);
    assert_eq!(key.code, Some(0), "{key:?}");
    let key = key.stdout.trim_end();
    let collect = format!(
        "state = {:?}\nlisten = \"127.0.0.1:0\"\n[[output]]\nkind = \"file\"\npath = {lines:?}\n[security]\n\
         relays = [{key:?}]\n",
        state("collect")
    );
    write(&folder, "collect.toml", &collect);
    let collect_file = folder.join("collect.toml").display().to_string();
    let mut collector = Running::start(festina(&["syslog", "collect", &collect_file]));
    let key = collector.stderr_line();
    assert!(key.starts_with("encrypted, own key sha256:"), "{key}");
    let said = collector.stderr_line();
    let address = said.strip_prefix("the collector listens on ").unwrap_or_else(|| panic!("no address in {said:?}"));
    // A free port of a moment ago: the relay does not say which one it got.
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("there is a port").port();
    let relay = format!(
        "state = {:?}\ncollector = \"{address}\"\n[[input]]\nkind = \"udp\"\nlisten = \"127.0.0.1:{port}\"\nreceive_buffer = \"64KiB\"\n",
        state("relay")
    );
    write(&folder, "relay.toml", &relay);
    let relay_file = folder.join("relay.toml").display().to_string();
    let mut running = Running::start(festina(&["syslog", "relay", &relay_file]));
    wait_for(&mut running, "the relay takes lines");
    let program = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    program.send_to(b"<11>Oct 11 22:14:15 box app: the disk is full", ("127.0.0.1", port)).expect("it is sent");

    let written = || std::fs::read_to_string(&lines).unwrap_or_default();
    let arrives = || {
        let came = (0..PATIENCE.as_millis() / PAUSE.as_millis()).any(|_| {
            std::thread::sleep(PAUSE);
            !written().is_empty()
        });
        assert!(came, "the line does not arrive");
    };
    arrives();
    assert_eq!(written(), "<11>Oct 11 22:14:15 box app: the disk is full\n");
    // As logrotate does it. Both go on.
    std::fs::rename(&lines, folder.join("lines.old")).expect("it can be renamed");
    collector.signal("-HUP");
    running.signal("-HUP");
    assert_eq!(collector.stderr_line(), "the files are opened again; changes of the configuration need a restart");
    wait_for(&mut running, "the rules are read again; other changes need a restart");
    program.send_to(b"<11>Oct 11 22:14:16 box app: it is still full", ("127.0.0.1", port)).expect("it is sent");
    arrives();
    for daemon in [running, collector] {
        daemon.interrupt();
        let ended = daemon.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(written(), "<11>Oct 11 22:14:16 box app: it is still full\n");
}
