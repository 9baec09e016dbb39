//! Whom relays and collectors trust.

use std::sync::Mutex;

use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};

use super::tls::certificates;
use super::*;

/// Notices, to be looked at.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn notice(&self) -> Notice {
        let this = self.clone();
        Arc::new(move |text: &str| this.0.lock().expect("no panic").push(text.to_owned()))
    }

    async fn wait_for(&self, words: &[&str]) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !self.has(words) {
            assert!(tokio::time::Instant::now() < end, "{words:?}: {:?}", self.0.lock());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn has(&self, words: &[&str]) -> bool {
        let all = self.0.lock().expect("no panic");
        all.iter().any(|text| words.iter().all(|word| text.contains(word)))
    }
}

async fn collector_with(directory: &Path, listen: SocketAddr, security: &str, notices: &Notices) -> RunningCollector {
    let text = format!(
        "state = {:?}\nlisten = \"{listen}\"\n[[output]]\nkind = \"file\"\npath = {:?}\n[security]\n{security}",
        directory.join("collect"),
        directory.join("lines.log")
    );
    let config = CollectorConfig::parse("collect.toml", &text).expect("the file is right");
    RunningCollector::start(config, notices.notice()).await.expect("it starts")
}

fn relay_config(directory: &Path, to: SocketAddr, security: &str) -> RelayConfig {
    let text = format!(
        "state = {:?}\ncollector = \"{to}\"\n[[input]]\nkind = \"tcp\"\nlisten = \"127.0.0.1:0\"\n[security]\n{security}",
        directory.join("relay")
    );
    RelayConfig::parse("relay.toml", &text).expect("the file is right")
}

async fn relay_with(directory: &Path, to: SocketAddr, security: &str, notices: &Notices) -> RunningRelay {
    RunningRelay::start(relay_config(directory, to, security), notices.notice()).await.expect("it starts")
}

fn own_key(directory: &Path, to: SocketAddr) -> String {
    let config = relay_config(directory, to, "");
    format!("sha256:{}", config.security.fingerprint(&config.state).expect("it is created").expect("there is a key"))
}

async fn deliver(relay: &RunningRelay, line: &str, count: u64) {
    let mut stream = TcpStream::connect(relay.inputs()[0].expect("an address")).expect("it listens");
    writeln!(stream, "<11>{line}").expect("it is sent");
    drop(stream);
    let end = tokio::time::Instant::now() + PATIENCE;
    while relay.snapshot().delivered < count {
        assert!(tokio::time::Instant::now() < end, "{line}: {:?}", relay.snapshot());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_admits_the_relays_that_it_lists_and_both_say_what_to_do() {
    let directory = Directory::new();
    let (of_collector, of_relay) = (Notices::default(), Notices::default());
    let collector = collector_with(&directory.0, any_address(), "relays = []", &of_collector).await;
    let address = collector.local_addr();
    let key = own_key(&directory.0, address);
    let relay = relay_with(&directory.0, address, "", &of_relay).await;
    of_collector.wait_for(&["refused", &format!("\"{key}\"")]).await;
    of_relay.wait_for(&["does not admit", &format!("\"{key}\"")]).await;
    assert!(of_collector.has(&["no relay is admitted yet"]));
    assert!(!relay.snapshot().paths.connected);
    collector.stop().await;

    let list = format!("relays = [{key:?}]");
    let collector = collector_with(&directory.0, address, &list, &of_collector).await;
    deliver(&relay, "one", 1).await;
    of_relay.wait_for(&["is new and is remembered"]).await;
    #[cfg(unix)]
    for file in ["relay/identity.pem", "relay/known_collectors", "collect/identity.pem"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(directory.0.join(file)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    relay.stop(PATIENCE).await;
    collector.stop().await;
    assert_eq!(directory.output(), "<11>one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_with_another_key_gets_nothing_until_it_is_forgotten() {
    let (directory, impostor) = (Directory::new(), Directory::new());
    let notices = Notices::default();
    let real = collector_with(&directory.0, any_address(), "relays = \"any\"", &notices).await;
    let address = real.local_addr();
    let relay = relay_with(&directory.0, address, "", &notices).await;
    deliver(&relay, "one", 1).await;
    real.stop().await;

    let fake = collector_with(&impostor.0, address, "relays = \"any\"", &notices).await;
    notices.wait_for(&["has changed", "known_collectors"]).await;
    // Also by the next process.
    relay.stop(Duration::ZERO).await;
    let notices = Notices::default();
    let relay = relay_with(&directory.0, address, "", &notices).await;
    notices.wait_for(&["has changed", "known_collectors"]).await;
    assert!(!relay.snapshot().paths.connected && impostor.output().is_empty());
    relay.stop(Duration::ZERO).await;
    std::fs::remove_file(directory.0.join("relay/known_collectors")).expect("it is there");
    let relay = relay_with(&directory.0, address, "", &notices).await;
    deliver(&relay, "two", 1).await;
    relay.stop(PATIENCE).await;
    fake.stop().await;
    assert!(impostor.output().ends_with("<11>two\n"), "{}", impostor.output());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_can_be_known_by_certificates_of_an_authority_or_by_pinned_keys() {
    let (directory, stranger) = (Directory::new(), Directory::new());
    let authorities = certificates(&directory.0, &["logs.example", "relay.example"]);
    let of = |name: &str, at: &Directory| {
        format!("certificate = {:?}\nkey = {:?}", at.0.join(format!("{name}.pem")), at.0.join(format!("{name}.key")))
    };
    let notices = Notices::default();
    let security = format!("authorities = {authorities:?}\n{}", of("logs.example", &directory));
    let collector = collector_with(&directory.0, any_address(), &security, &notices).await;
    let address = collector.local_addr();
    let right = format!("authorities = {authorities:?}\nname = \"logs.example\"\n{}", of("relay.example", &directory));
    let relay = relay_with(&directory.0, address, &right, &notices).await;
    deliver(&relay, "by an authority", 1).await;
    relay.stop(PATIENCE).await;
    // A relay with its own key only, and one that expects another name.
    let wrong = [format!("authorities = {authorities:?}\nname = \"logs.example\""), right.replace("logs.", "other.")];
    for (security, words) in wrong.iter().zip(["does not admit", "other.example"]) {
        let notices = Notices::default();
        let relay = relay_with(&stranger.0, address, security, &notices).await;
        notices.wait_for(&[words]).await;
        assert!(!relay.snapshot().paths.connected);
        relay.stop(Duration::ZERO).await;
    }
    collector.stop().await;

    let collector = collector_with(&directory.0, address, "relays = \"any\"", &notices).await;
    notices.wait_for(&["own key sha256:"]).await;
    let key = std::fs::read(directory.0.join("collect/identity.pem")).expect("it is created");
    let key = festina::security::Fingerprint::of_pem(&key).expect("a certificate");
    let relay = relay_with(&directory.0, address, &format!("collectors = [\"sha256:{key}\"]"), &notices).await;
    deliver(&relay, "by a pinned key", 1).await;
    relay.stop(PATIENCE).await;
    assert!(!directory.0.join("relay/known_collectors").exists());
    collector.stop().await;
}
