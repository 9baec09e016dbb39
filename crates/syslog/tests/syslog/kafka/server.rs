//! A broker of Kafka in a process of its own, which can be killed.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use tokio::time::Instant;

/// How long a broker may take to begin on a machine that is busy with other tests.
const START_TIME_MAX: Duration = Duration::from_secs(180);

/// The jars of a broker; `None`, and why, if this machine cannot have them.
pub(crate) fn jars() -> Option<PathBuf> {
    let directory = std::env::var_os("FESTINA_KAFKA_DIR")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka"), PathBuf::from);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/kafka.sh");
    let fetched =
        Command::new("java").arg("-version").output().and_then(|_| Command::new(&script).arg(&directory).output());
    let problem = match fetched {
        Ok(output) if output.status.success() => return Some(directory.join("jars")),
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no reason").to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("CI").is_none(), "continuous integration has Java and Maven: {problem}");
    eprintln!("nothing was tested, for there is no broker to be had: {problem}");
    None
}

/// One broker that is its own controller (KRaft), and knows clients in the clear and with TLS.
pub(crate) struct Server {
    jars: PathBuf,
    directory: PathBuf,
    child: Option<Child>,
    pub(crate) plain: u16,
    pub(crate) tls: u16,
}

fn free_port() -> u16 {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    bound.expect("there is a free port").port()
}

impl Server {
    /// Prepares an empty one in a directory, with a certificate `server.pem` there that vouches for itself.
    pub(crate) fn new(jars: PathBuf, directory: &Path) -> Self {
        let (plain, tls, controller) = (free_port(), free_port(), free_port());
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(["localhost".to_owned()]).expect("a name").self_signed(&key);
        let certificate = certificate.expect("it is signed").pem();
        std::fs::write(directory.join("server.pem"), &certificate).expect("it can be written");
        std::fs::write(directory.join("store.pem"), key.serialize_pem() + &certificate).expect("it can be written");
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SSL://localhost:{tls}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT\n\
             controller.listener.names=CONTROLLER\nssl.keystore.type=PEM\nssl.keystore.location={store}\n\
             log.dirs={log}\nnum.partitions=3\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\n",
            store = directory.join("store.pem").display(),
            log = directory.join("broker").display(),
        );
        std::fs::write(directory.join("server.properties"), settings).expect("it can be written");
        let server = Self { jars, directory: directory.to_owned(), child: None, plain, tls };
        let id = "AAAAAAAAAAAAAAAAAAAAAQ";
        let formatted =
            server.java("kafka.tools.StorageTool", &["format", "-t", id, "-c", "server.properties"]).output();
        let formatted = formatted.expect("Java starts");
        assert!(formatted.status.success(), "{formatted:?}");
        server
    }

    fn java(&self, class: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("java");
        // For a start that is quick, and for a machine that has other work.
        command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
        command.arg(self.jars.join("*")).arg(class).args(arguments).current_dir(&self.directory);
        command
    }

    /// Starts it, and returns when it listens.
    pub(crate) fn start(&mut self) {
        let end = Instant::now() + START_TIME_MAX;
        let address = SocketAddr::from(([127, 0, 0, 1], self.plain));
        self.spawn();
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            let log = || std::fs::read_to_string(self.directory.join("broker.log")).unwrap_or_default();
            assert!(Instant::now() < end, "the broker does not begin: {}", log());
            std::thread::sleep(Duration::from_millis(50));
            // While it was away, somebody else may have had one of its ports for a moment.
            if self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None))) {
                self.spawn();
            }
        }
    }

    fn spawn(&mut self) {
        let log = std::fs::File::create(self.directory.join("broker.log")).expect("it can be written");
        let errors = log.try_clone().expect("it is open");
        let mut command = self.java("kafka.Kafka", &["server.properties"]);
        let child = command.stdout(log).stderr(Stdio::from(errors)).spawn().expect("Java starts");
        self.child = Some(child);
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
