//! Everything that relay, collector and commands create and remove, with owner and mode. The umask is 0: a mode that is narrower than the system's
//! default was chosen, and one that is not was left to the umask of the user.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Running, folder};

/// The command with an umask of 0 and a configuration folder of its own.
fn open_to_all(folder: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_festina")]).args(arguments);
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder.join("config"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command)
}

/// All names below a folder with kind and mode. Numbers within names are `N`.
fn created(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    let owner = std::fs::metadata(folder).expect("it is there").uid();
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            let metadata = std::fs::symlink_metadata(&path).expect("it is there");
            assert_eq!(metadata.uid(), owner, "{}", path.display());
            let kind = match metadata.file_type() {
                kind if kind.is_dir() => "folder",
                kind if kind.is_socket() => "socket",
                kind if kind.is_file() => "file",
                _ => "something else",
            };
            if kind == "folder" {
                folders.push(path.clone());
            }
            let name = path.strip_prefix(folder).expect("it is below").to_str().expect("text").to_owned();
            let mut pattern = String::new();
            for c in name.chars() {
                match c {
                    '0'..='9' if pattern.ends_with('N') => {}
                    '0'..='9' => pattern.push('N'),
                    c => pattern.push(c),
                }
            }
            found.insert(pattern, format!("{kind} {:04o}", metadata.mode() & 0o7777));
        }
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "processes take real time")]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn line_with(running: &mut Running, words: &str) -> String {
    loop {
        let line = running.stderr_line();
        assert!(!line.is_empty(), "the program ends without {words:?}");
        if line.contains(words) {
            return line;
        }
    }
}

/// Runs each kind of command once.
fn run_commands(folder: &Path) {
    let ended = open_to_all(folder, &["key"]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut listener = open_to_all(folder, &["listen", "127.0.0.1:0", "--once", "--pcap", "listen.pcapng"]);
    let line = line_with(&mut listener, "listening on ");
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(',')).expect("an address").0;
    let mut sender = open_to_all(folder, &["send", address, "--pcap", "send.pcapng"]);
    sender.write("one\n");
    let ended = sender.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = listener.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = open_to_all(folder, &["syslog", "new", "template.toml"]).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn modes_and_owners_of_everything_that_is_created_are_chosen() {
    let folder = folder("modes");
    run_commands(&folder);
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("it can be written");
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("there is a port").port();
    let output = "[[output]]\nkind = \"file\"\npath = \"out/lines.log\"\n[security]\nrelays = \"any\"\n";
    write("collect.toml", format!("state = \"collect\"\nlisten = \"127.0.0.1:{port}\"\n{output}"));
    let input = "[[input]]\nkind = \"unix\"\npath = \"log\"\n";
    write("relay.toml", format!("state = \"relay\"\ncollector = \"127.0.0.1:{port}\"\n{input}"));
    let mut collector = open_to_all(&folder, &["syslog", "collect", "collect.toml"]);
    line_with(&mut collector, "the collector listens on");
    let mut relay = open_to_all(&folder, &["syslog", "relay", "relay.toml"]);
    line_with(&mut relay, "the relay takes lines");
    let program = UnixDatagram::unbound().expect("a socket");
    program.send_to(b"<11>one", folder.join("log")).expect("it is sent");
    wait_until("the line arrives", || {
        std::fs::read_to_string(folder.join("out/lines.log")).is_ok_and(|text| text == "<11>one\n")
    });
    let running = created(&folder);
    assert_eq!(running.get("log").map(String::as_str), Some("socket 0666"));
    for daemon in [relay, collector] {
        daemon.interrupt();
        let ended = daemon.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let left = created(&folder);
    assert!(!left.contains_key("log"), "the socket is removed");
    let ours = |name: &&String| !["collect.toml", "relay.toml"].contains(&name.as_str());
    let shown: Vec<String> =
        left.iter().filter(|(name, _)| ours(name)).map(|(name, mode)| format!("{name}: {mode}")).collect();
    assert_eq!(shown, EXPECTED);
}

/// Keys, fingerprints of peers, locks and captures with secrets are their owner's alone.
const EXPECTED: &[&str] = &[
    "collect: folder 0777",
    "collect/identity.pem: file 0600",
    "collect/journal-N: file 0666",
    "collect/lock: file 0600",
    "collect/state: file 0666",
    "config: folder 0777",
    "config/festina: folder 0777",
    "config/festina/identity.pem: file 0600",
    "config/festina/known_peers: file 0600",
    "config/festina/known_peers.lock: file 0600",
    "listen.pcapng: file 0600",
    "out: folder 0777",
    "out/lines.log: file 0666",
    "relay: folder 0777",
    "relay/identity: file 0666",
    "relay/identity.pem: file 0600",
    "relay/known_collectors: file 0600",
    "relay/known_collectors.lock: file 0600",
    "relay/ledger-N: file 0666",
    "relay/lines-N-N: file 0666",
    "relay/lock: file 0600",
    "relay/positions: file 0666",
    "relay/reserve: file 0666",
    "relay/reserve-lines: file 0666",
    "relay/starts: file 0666",
    "send.pcapng: file 0600",
    "template.toml: file 0666",
];
