//! A relay started with a socket, as systemd does it, receives the data written to the socket before the start.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use festina_syslog::config::RelayConfig;
use festina_syslog::notice::Notice;
use festina_syslog::relay::RunningRelay;
use festina_units::Duration;

/// Where the process of this test finds its socket.
const DIRECTORY: &str = "FESTINA_SYSLOG_ACTIVATION_DIRECTORY";

/// The relay: the test binary itself, started by the other test. It ends well if it has received the line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_the_other_test_is_a_relay() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let text = format!(
        "state = {:?}\ncollector = \"127.0.0.1:9\"\n[[input]]\nkind = \"unix\"\npath = {:?}",
        directory.join("relay"),
        directory.join("log")
    );
    let silent: Notice = Arc::new(|_: &str| {});
    let relay = RunningRelay::start(RelayConfig::parse("relay.toml", &text).expect("it is right"), silent).await;
    let relay = relay.expect("it starts");
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while relay.snapshot().received[3] == 0 {
        assert!(tokio::time::Instant::now() < end, "the line is not there: {:?}", relay.snapshot());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    relay.stop(Duration::ZERO).await;
}

#[test]
fn what_was_written_to_a_socket_that_the_relay_is_started_with_is_received() {
    let directory = std::env::temp_dir().join(format!("festina-syslog-activation-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let socket = UnixDatagram::bind(directory.join("log")).expect("a socket");
    let program = UnixDatagram::unbound().expect("a socket");
    program.send_to(b"<11>before the relay", directory.join("log")).expect("it is sent");
    // The shell gives the socket the number that systemd gives it, and keeps its own process id.
    let script = "exec 3<&0; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(std::env::current_exe().expect("this is a program"));
    command.args(["--exact", "activation::a_process_of_the_other_test_is_a_relay"]).env(DIRECTORY, &directory);
    let status = command.stdin(Stdio::from(OwnedFd::from(socket))).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let _ = std::fs::remove_dir_all(&directory);
    assert!(status.expect("it runs").success());
}
