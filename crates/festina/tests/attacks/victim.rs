//! The endpoint under attack, in a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use festina::{Association, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig, now};

use crate::counting::{live_bytes, peak_bytes};

/// The application behind this port answers each message with a [`Report`].
pub(crate) const REPORTER: u16 = DEFAULT_SCTP_PORT;
/// The application behind this port sends as much as it can, and reads nothing.
pub(crate) const TALKER: u16 = 5_001;
/// The application behind this port does nothing at all.
pub(crate) const DEAF: u16 = 5_002;

/// The message that has the endpoint close.
pub(crate) const CLOSE: &[u8] = b"close";

/// Set where this program is the endpoint under attack.
const ROLE: &str = "FESTINA_UNDER_ATTACK";

/// The endpoint's report about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// Bytes on its heap.
    pub(crate) live_bytes: u64,
    /// The most that have ever been.
    pub(crate) peak_bytes: u64,
    pub(crate) bytes_received: u64,
    pub(crate) associations: u64,
}

impl Report {
    fn of(endpoint: &Endpoint) -> Self {
        let stats = endpoint.stats();
        Self {
            live_bytes: live_bytes() as u64,
            peak_bytes: peak_bytes() as u64,
            bytes_received: stats.bytes_received,
            associations: stats.associations,
        }
    }

    fn to_bytes(self) -> Vec<u8> {
        [self.live_bytes, self.peak_bytes, self.bytes_received, self.associations].map(u64::to_be_bytes).concat()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut numbers = bytes.chunks_exact(8).map(|number| u64::from_be_bytes(number.try_into().unwrap()));
        let mut next = || numbers.next().unwrap();
        Self { live_bytes: next(), peak_bytes: next(), bytes_received: next(), associations: next() }
    }
}

/// The process of the endpoint under attack. It ends when this is dropped.
pub(crate) struct Victim {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Victim {
    /// Starts the process. It is this program with the name of the running test, and comes along here too: there it serves, and does
    /// not return.
    pub(crate) fn start(config: ServerConfig) -> Self {
        if std::env::var_os(ROLE).is_some() {
            serve(config);
        }
        let test = std::thread::current().name().map(String::from).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test, "--nocapture", "--test-threads=1"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.find_map(|line| line.strip_prefix("endpoint ").map(|address| address.parse().unwrap()));
        Self { address: address.expect("the endpoint names its address"), child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = now();
        while now() - begun < patience {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn serve(config: ServerConfig) -> ! {
    std::thread::spawn(|| {
        // The parent process holds the other end.
        let _nothing = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::server("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
        tokio::spawn(accept(endpoint.clone(), TALKER));
        tokio::spawn(accept(endpoint.clone(), DEAF));
        let reporter = endpoint.listen(REPORTER).unwrap();
        // Behind the name of the test.
        println!("\nendpoint {}", endpoint.local_addr());
        std::io::stdout().flush().unwrap();
        while let Some(association) = reporter.accept().await {
            tokio::spawn(report(endpoint.clone(), association));
        }
        // The endpoint closes, and the parent ends this process.
        std::future::pending().await
    })
}

async fn accept(endpoint: Endpoint, port: u16) {
    let listener = endpoint.listen(port).unwrap();
    drop(endpoint);
    while let Some(association) = listener.accept().await {
        tokio::spawn(async move {
            while port == TALKER && association.send(Message::new(vec![7; 1_000])).await.is_ok() {}
            association.closed().await;
        });
    }
}

async fn report(endpoint: Endpoint, association: Association) {
    while let Ok(Some(message)) = association.recv().await {
        if *message.payload() == CLOSE {
            endpoint.close().await;
            std::process::exit(0);
        }
        // The peer may be one of those that attack.
        let _ended = association.send(Message::new(Report::of(&endpoint).to_bytes())).await;
    }
}
