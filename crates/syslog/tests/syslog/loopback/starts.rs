//! Starts that fail change nothing: neither the state of a process that is running nor their own. And Unix sockets come and go with a relay.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;

use festina_syslog::relay::take_new_identity;

use super::*;

/// The contents of all files below a directory.
fn contents(directory: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).expect("it can be read");
            found.insert(path, bytes);
        }
    }
    found
}

fn error_of<T>(started: Result<T, impl std::error::Error>) -> String {
    let mut error: &dyn std::error::Error = &started.err().expect("it does not start");
    let mut text = error.to_string();
    while let Some(source) = error.source() {
        error = source;
        text += &format!(": {error}");
    }
    text
}

fn relay_config(directory: &Path, to: SocketAddr, input: &str) -> RelayConfig {
    let state = directory.join("relay");
    let text = format!("state = {state:?}\ncollector = \"{to}\"\n[[input]]\n{input}\n[security]\nplain = true");
    RelayConfig::parse("relay.toml", &text).expect("the file is right")
}

fn collector_config(directory: &Path, listen: SocketAddr, more: &str) -> CollectorConfig {
    let text = format!(
        "state = {:?}\nlisten = \"{listen}\"\n{more}\n[[output]]\nkind = \"file\"\npath = {:?}\n[security]\nplain = true",
        directory.join("collect"),
        directory.join("lines.log")
    );
    CollectorConfig::parse("collect.toml", &text).expect("the file is right")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_start_changes_nothing_of_a_running_relay_or_collector() {
    let directory = Directory::new();
    let collector = RunningCollector::start(collector_config(&directory.0, any_address(), ""), silent()).await;
    let collector = collector.expect("it starts");
    let to = collector.local_addr();
    let input = "kind = \"tcp\"\nlisten = \"127.0.0.1:0\"";
    let relay = RunningRelay::start(relay_config(&directory.0, to, input), silent()).await.expect("it starts");
    let mut stream = TcpStream::connect(relay.inputs()[0].expect("an address")).expect("it listens");
    writeln!(stream, "<11>one").expect("it is sent");
    until("it arrives", || relay.snapshot().delivered == 1).await;
    until("the relay has written everything", || {
        let before = contents(&directory.0);
        std::thread::sleep(Duration::from_millis(100));
        before == contents(&directory.0)
    })
    .await;

    let before = contents(&directory.0);
    let second = RunningRelay::start(relay_config(&directory.0, to, input), silent()).await;
    assert!(error_of(second).contains("a running relay or collector uses it"));
    let renewed = take_new_identity(&relay_config(&directory.0, to, input));
    assert!(error_of(renewed).contains("a running relay or collector uses it"));
    let second = RunningCollector::start(collector_config(&directory.0, any_address(), ""), silent()).await;
    assert!(error_of(second).contains("a running relay or collector uses it"));
    assert!(before == contents(&directory.0), "a failed start has changed a file");

    writeln!(stream, "<11>two").expect("it is sent");
    until("it arrives", || relay.snapshot().delivered == 2).await;
    relay.stop(PATIENCE).await;
    collector.stop().await;
    assert_eq!(directory.output(), "<11>one\n<11>two\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_finds_its_port_taken_does_not_count() {
    let directory = Directory::new();
    let taken = std::net::TcpListener::bind(any_address()).expect("a port");
    let port = taken.local_addr().expect("an address");
    let no_one = any_address().ip();
    let to = SocketAddr::new(no_one, 9);
    let relay = || relay_config(&directory.0, to, &format!("kind = \"tcp\"\nlisten = \"{port}\""));
    let free = relay_config(&directory.0, to, "kind = \"tcp\"\nlisten = \"127.0.0.1:0\"");
    RunningRelay::start(free.clone(), silent()).await.expect("it starts").stop(Duration::ZERO).await;
    let served = collector_config(&directory.0, any_address(), &format!("metrics = \"{port}\""));
    let collector = collector_config(&directory.0, any_address(), "");
    RunningCollector::start(collector.clone(), silent()).await.expect("it starts").stop().await;

    let before = contents(&directory.0);
    for _ in 0..3 {
        assert!(error_of(RunningRelay::start(relay(), silent()).await).contains("cannot open the input tcp"));
        let error = error_of(RunningCollector::start(served.clone(), silent()).await);
        assert!(error.contains("cannot serve the counters"), "{error}");
    }
    assert!(before == contents(&directory.0), "a start that failed has changed a file");
    RunningRelay::start(free, silent()).await.expect("it starts").stop(Duration::ZERO).await;
    assert!(before != contents(&directory.0), "each start that succeeds is counted");
    RunningCollector::start(collector, silent()).await.expect("it starts").stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unix_socket_of_a_relay_has_its_mode_and_ends_with_it() {
    let directory = Directory::new();
    let path = directory.0.join("log");
    let to = SocketAddr::new(any_address().ip(), 9);
    for (setting, mode) in [("", 0o666), ("\nmode = \"0620\"", 0o620)] {
        let config = || relay_config(&directory.0, to, &format!("kind = \"unix\"\npath = {path:?}{setting}"));
        config().check_files().expect("nothing is in the way");
        let relay = RunningRelay::start(config(), silent()).await.expect("it starts");
        let metadata = std::fs::symlink_metadata(&path).expect("it is there");
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o7777, mode);
        config().check_files().expect("the relay that runs may have its socket");
        UnixDatagram::unbound().expect("a socket").send_to(b"<11>one", &path).expect("it is sent");
        until("it is taken", || relay.snapshot().received[3] == 1).await;
        relay.stop(Duration::ZERO).await;
        assert!(!path.exists(), "the socket is removed");
    }
    std::fs::write(&path, "a day of logs\n").expect("it can be written");
    let config = || relay_config(&directory.0, to, &format!("kind = \"unix\"\npath = {path:?}"));
    let checked = config().check_files().expect_err("it is a file").to_string();
    assert!(checked.contains("it is a file and no socket"), "{checked}");
    let error = error_of(RunningRelay::start(config(), silent()).await);
    assert!(error.contains("it is a file and no socket"), "{error}");
    assert_eq!(std::fs::read(&path).expect("it is there"), b"a day of logs\n");
}
