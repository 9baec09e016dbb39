//! Relays and collectors in processes of their own, which end only by being killed: the test binary once more, in one of two roles. A test that
//! uses this has a test of its own for it, which calls [`be_what_was_asked`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};
use festina_syslog::notice::Notice;
use festina_syslog::relay::RunningRelay;
use festina_syslog::serve;
use festina_units::Duration;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// What a process is to be, and in which directory.
const ROLE: &str = "FESTINA_SYSLOG_TEST_ROLE";
const DIRECTORY: &str = "FESTINA_SYSLOG_TEST_DIRECTORY";

/// How long anything may take on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The role of a process that was [started](start), and its directory.
pub(crate) fn asked() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(DIRECTORY)?.into()))
}

/// In a process that was [started](start), is a relay or a collector for ever. It has as many descriptors as
/// `ROLE.descriptors` says, if there is such a file.
pub(crate) fn be_what_was_asked() {
    let Some((role, directory)) = asked() else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if let Ok(limit) = std::fs::read_to_string(directory.join(format!("{role}.descriptors"))) {
        let limit = Some(limit.parse().expect("a number"));
        let limit = rustix::process::Rlimit { current: limit, maximum: limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("it can be lowered");
    }
    runtime.block_on(async {
        let notice: Notice = Arc::new(|text: &str| eprintln!("{text}"));
        let text = std::fs::read_to_string(directory.join(format!("{role}.toml"))).expect("a file");
        if role.starts_with("relay") {
            let config = RelayConfig::parse("relay", &text).expect("it is right");
            let _relay = RunningRelay::start(config, notice.clone()).await.expect("it starts");
            std::future::pending::<()>().await;
        }
        let config = CollectorConfig::parse("collect", &text).expect("it is right");
        let _collector = RunningCollector::start(config, notice).await.expect("it starts");
        std::future::pending::<()>().await;
    });
}

/// Starts a process in a role: a relay if its name begins so, otherwise a collector. Its configuration is in `ROLE.toml` of the directory, and its
/// notices go to `ROLE.notices`. `test` is the name of the test that calls [`be_what_was_asked`].
pub(crate) fn start(test: &str, directory: &Path, role: &str) -> Child {
    let notices = std::fs::File::options().append(true).create(true).open(directory.join(format!("{role}.notices")));
    let mut command = Command::new(std::env::current_exe().expect("this is a program"));
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role).env(DIRECTORY, directory);
    command.stdout(Stdio::null()).stderr(notices.expect("it can be written")).spawn().expect("it starts")
}

/// `kill -9`.
pub(crate) fn kill(child: &mut Child) {
    child.kill().expect("it lives");
    child.wait().expect("it is over");
}

/// An address that was free a moment ago, for both protocols: relays and collectors ask for either.
pub(crate) fn free_address() -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    loop {
        let udp = std::net::UdpSocket::bind(any).and_then(|socket| socket.local_addr()).expect("a free port");
        if std::net::TcpListener::bind(udp).is_ok() {
            return udp;
        }
    }
}

/// The counters that are served at an address, once they are as asked for.
pub(crate) async fn status_when<T: DeserializeOwned + std::fmt::Debug>(
    address: SocketAddr,
    what: &str,
    is_so: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let status = serve::ask_status(address).await.ok().and_then(|text| serde_json::from_str(&text).ok());
        match status {
            Some(status) if is_so(&status) => return status,
            status => assert!(Instant::now() < end, "{what}: {status:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
