use super::*;
use crate::line::read_header;
use crate::sender::Routing;

const SMALLEST: &str = "state = \"s\"\ncollector = \"127.0.0.1:1\"\n[[input]]\nkind = \"stdin\"\n";

fn refused(text: &str) -> String {
    RelayConfig::parse("relay.toml", text).expect_err("it makes no sense").to_string()
}

#[test]
fn the_templates_are_read() {
    let relay = RelayConfig::parse("relay.toml", RELAY_TEMPLATE).expect("the template is right");
    assert_eq!(relay.inputs.len(), 2);
    let collector = CollectorConfig::parse("collect.toml", COLLECTOR_TEMPLATE).expect("the template is right");
    assert_eq!(collector.outputs.len(), 1);
}

#[test]
fn what_the_template_calls_defaults_are_the_defaults() {
    let rules = RELAY_TEMPLATE.split("# [[rule]]").skip(1).take(3).collect::<Vec<_>>().join("\n[[rule]]\n");
    let rules = rules.replace("\n# ", "\n").replace("\n#\n", "\n");
    let rules = rules.split("A rule may").next().expect("a first part").to_owned();
    let told = RelayConfig::parse("relay.toml", &format!("{SMALLEST}[[rule]]\n{rules}")).expect("the rules are right");
    assert_eq!(told.policy, Policy::new(Policy::defaults().to_vec()));
    let failover =
        RELAY_TEMPLATE.split("# [failover]").nth(1).and_then(|text| text.split("\n\n").next()).expect("a part");
    assert!(failover.contains(&format!("after = \"{}\"", duration::display(Routing::AFTER_DEFAULT))));
    let spool = RELAY_TEMPLATE.split("# [spool]").nth(1).and_then(|text| text.split("\n\n").next()).expect("a part");
    let told = RelayConfig::parse("relay.toml", &format!("{SMALLEST}[spool]{}", spool.replace("\n# ", "\n")));
    assert_eq!(told.expect("the spool is right").spool, SpoolLimits::default());
}

#[test]
fn several_collectors_and_what_holds_for_them_are_read() {
    let several = SMALLEST.replace("\"127.0.0.1:1\"", "[\"127.0.0.1:1\", \"[::1]:2\"]");
    let told = RelayConfig::parse("relay.toml", &several).expect("it is right");
    let addresses: Vec<String> = told.collectors.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1:1", "[::1]:2"]);
    assert_eq!(told.failover, Failover { spread: false, after: Duration::from_secs(10), repeat_after: None });
    let text = format!("spread = true\n{several}[failover]\nafter = \"3s\"\nrepeat_after = \"1h\"\n");
    let told = RelayConfig::parse("relay.toml", &text).expect("it is right").failover;
    let repeat_after = Some(Duration::from_secs(3_600));
    assert_eq!(told, Failover { spread: true, after: Duration::from_secs(3), repeat_after });
}

#[test]
fn an_unknown_key_is_refused_with_file_line_and_column() {
    let problem = refused(&format!("{SMALLEST}colour = 1\n"));
    assert!(problem.starts_with("relay.toml:5:1: unknown key `colour`"), "{problem}");
}

#[test]
fn a_value_that_makes_no_sense_is_refused_where_it_stands() {
    for (text, place, words) in [
        (SMALLEST.replace("127.0.0.1:1", "nowhere"), "2:13", "nowhere"),
        (SMALLEST.replace("\"127.0.0.1:1\"", "[]"), "2:13", "between 1 and"),
        (SMALLEST.replace("\"127.0.0.1:1\"", "[\"127.0.0.1:1\", \"there\"]"), "2:13", "\"there\""),
        (SMALLEST.replace("\"127.0.0.1:1\"", "[\"127.0.0.1:1\", \"127.0.0.1:1\"]"), "2:13", "twice"),
        (SMALLEST.replace("\"127.0.0.1:1\"", "1"), "2:13", "a list of them"),
        (format!("spread = true\n{SMALLEST}"), "1:10", "need several collectors"),
        (format!("{SMALLEST}[failover]\nafter = \"1s\""), "5:1", "need several collectors"),
        (SMALLEST.replace("stdin", "carrier pigeon"), "4:8", "there are unix, udp, tcp, tls, stdin and file"),
        (SMALLEST.replace("stdin", "udp"), "3:1", "listen"),
        (format!("{SMALLEST}[spool]\nage_max = \"7 days\""), "6:11", "7 days"),
        (format!("{SMALLEST}[[rule]]\nseverity = \"bad\"\ndrop = true"), "6:12", "emerg"),
        (format!("{SMALLEST}[[rule]]\nseverity = \"err..crit\"\ndrop = true"), "6:12", "crit..err"),
        (format!("{SMALLEST}[[rule]]\ndrop = true\nreliable = true"), "5:1", "one of"),
        (format!("{SMALLEST}[[rule]]\nreliable = true\npriority = 8"), "7:12", "0 (highest) to 7"),
        (format!("message_bytes_max = \"1GiB\"\n{SMALLEST}"), "1:21", "256KiB"),
        (SMALLEST.replace("\"stdin\"", "\"unix\"\npath = \"p\"\nmode = \"rw\""), "6:8", "octal"),
        (SMALLEST.replace("\"stdin\"", "\"unix\"\npath = \"p\"\nmode = \"1000\""), "6:8", "octal"),
        (SMALLEST.replace("\"stdin\"", "\"stdin\"\nmode = \"0600\""), "3:1", "\"unix\" only"),
        (SMALLEST.replace("\"stdin\"", "\"stdin\"\nreceive_buffer = \"8MiB\""), "3:1", "only"),
        (
            SMALLEST.replace("\"stdin\"", "\"udp\"\nlisten = \"127.0.0.1:1\"\nreceive_buffer = \"1B\""),
            "6:18",
            "4KiB and 1GiB",
        ),
        (SMALLEST.replace("\"stdin\"", "\"tls\"\nlisten = \"127.0.0.1:1\"\nkey = \"k\""), "3:1", "two PEM files"),
        (SMALLEST.replace("\"stdin\"", "\"stdin\"\nclients = \"c\""), "3:1", "\"tls\" only"),
        (format!("metrics = \"0.0.0.0:1\"\n{SMALLEST}"), "1:11", "loopback"),
        (format!("{SMALLEST}[spool]\nage_max = \"0s\""), "6:11", "more than 0"),
        (format!("{SMALLEST}[spool]\nsync_every = \"0ms\""), "6:14", "more than 0"),
        (format!("{SMALLEST}[spool]\nsync_every = \"1000h\""), "6:14", "at most 1s"),
        (format!("{SMALLEST}[[rule]]\nlifetime = \"0s\""), "6:12", "more than 0"),
        (SMALLEST.replace("127.0.0.1:1", "127.0.0.1:0"), "2:13", "port 0"),
        (SMALLEST.replace("\"stdin\"", "\"file\"\npath = \"\""), "3:1", "path is missing"),
    ] {
        let problem = refused(&text);
        assert!(problem.starts_with(&format!("relay.toml:{place}: ")) && problem.contains(words), "{problem}");
    }
}

#[test]
fn rules_of_the_file_come_before_the_defaults() {
    let text = format!(
        "{SMALLEST}[[rule]]\nseverity = \"err\"\nfacility = [\"cron\"]\nlifetime = \"1s\"\nretransmissions = 2"
    );
    let config = RelayConfig::parse("relay.toml", &text).expect("the file is right");
    let treatment = |line: &[u8]| config.policy.treatment(&read_header(line), line);
    let fresh = Treatment::Fresh { priority: 1, lifetime: Some(Duration::from_secs(1)), retransmissions: Some(2) };
    assert_eq!(treatment(b"<75>x"), fresh);
    assert_eq!(treatment(b"<11>x"), Treatment::Reliable { priority: 0, ordered: true });
}

#[test]
fn a_collector_without_a_file_or_with_an_unknown_placeholder_is_refused() {
    let start = "state = \"s\"\nlisten = \"127.0.0.1:1\"\n[[output]]\n";
    for (output, words) in [
        ("kind = \"stdout\"", "no [[output]] of kind \"file\" or \"kafka\""),
        ("kind = \"pigeon\"", "use file, stdout, forward or kafka"),
        ("kind = \"kafka\"\ntopic = \"t\"", "needs brokers"),
        ("kind = \"kafka\"\nbrokers = \"b:1\"", "a topic"),
        ("kind = \"kafka\"\nbrokers = \"b:1\"\ntopic = \"t\"\n[output.options]\nacks = \"1\"", "acks cannot be set"),
        ("kind = \"file\"", "a path"),
        ("kind = \"file\"\npath = \"\"", "a path"),
        ("kind = \"file\"\npath = \"/\"", "is a directory"),
        ("kind = \"file\"\npath = \"/var/log/\"", "is a directory"),
        ("kind = \"file\"\npath = \"s/journal\"", "collector's state"),
        ("kind = \"file\"\npath = \"l\"\ncompress = \"gzip\"", "files with rotate only"),
        ("kind = \"stdout\"\ncompress = \"gzip\"", "files with rotate only"),
        ("kind = \"file\"\npath = \"l\"\nnew_files = 5", "braces"),
        ("kind = \"stdout\"\nnew_files = 5", "braces"),
        ("kind = \"file\"\npath = \"l\"\nrotate = \"1MiB\"\ncompress = \"lzma\"", "`gzip` or `zstd`"),
        ("kind = \"forward\"\nto = \"127.0.0.1:1\"\nname = \"logs.example\"", "authorities"),
        ("kind = \"forward\"\nto = \"127.0.0.1:1\"\nkey = \"k\"", "both a certificate and a key"),
        ("kind = \"file\"\npath = \"{host}\"", "source, app, severity, date"),
        ("kind = \"file\"\npath = \"{date\"", "source, app, severity, date"),
    ] {
        let problem = CollectorConfig::parse("c.toml", &format!("{start}{output}")).expect_err("wrong").to_string();
        assert!(problem.starts_with("c.toml:") && problem.contains(words), "{problem}");
    }
}

#[test]
fn a_collector_lets_in_the_networks_that_it_is_told() {
    let output = "[[output]]\nkind = \"file\"\npath = \"l-{app}\"\nnew_files = 7\n";
    let read = |allow: &str| {
        CollectorConfig::parse("c.toml", &format!("state = \"s\"\nlisten = \"127.0.0.1:1\"\n{allow}{output}"))
    };
    let config = read("allow = [\"192.0.2.0/24\", \"::1\"]\n").expect("it is right");
    let allow = config.allow.expect("a list");
    let allows = |address: &str| allow.iter().any(|network| network.contains(address.parse().expect("an address")));
    assert!(allows("192.0.2.9") && allows("::1") && !allows("192.0.3.1") && !allows("::2"));
    assert!(matches!(config.outputs[0].place, OutputPlace::File { new_files: 7, .. }));
    assert_eq!(read("").expect("it is right").allow, None);
    let problem = read("allow = [\"::1\", \"192.0.2.1/24\"]\n").expect_err("wrong").to_string();
    assert!(problem.starts_with("c.toml:3:17: ") && problem.contains("after its prefix"), "{problem}");
}

const KAFKA: &str = "[[output]]\nkind = \"kafka\"\nbrokers = \"127.0.0.1:9092\"\ntopic = \"lines\"\n";

#[cfg(not(feature = "kafka"))]
#[test]
fn a_program_without_kafka_says_so() {
    let text = format!("state = \"s\"\nlisten = \"127.0.0.1:1\"\n{KAFKA}");
    let problem = CollectorConfig::parse("c.toml", &text).expect_err("there is no Kafka").to_string();
    assert!(problem.starts_with("c.toml:3:1: ") && problem.contains("--features kafka"), "{problem}");
    assert_eq!(problem.lines().count(), 1);
}

#[cfg(feature = "kafka")]
#[test]
fn kafka_is_an_output_once_and_with_settings_that_there_are() {
    let start = "state = \"s\"\nlisten = \"127.0.0.1:1\"\n";
    let options = "[output.options]\n\"security.protocol\" = \"SASL_SSL\"\n\"sasl.password\" = \"hidden\"\n";
    let config = CollectorConfig::parse("c.toml", &format!("{start}{KAFKA}{options}")).expect("it is right");
    let shown = format!("{config:?}");
    assert!(shown.contains("sasl.password") && !shown.contains("hidden"), "{shown}");
    for (outputs, place, words) in [
        (format!("{KAFKA}{KAFKA}"), "7:1", "one [[output]] of kind \"kafka\""),
        (format!("{KAFKA}[output.options]\ncolour = \"red\""), "7:1", "colour"),
        (format!("{KAFKA}[output.options]\n\"security.protocol\" = \"none\""), "7:1", "security.protocol"),
    ] {
        let problem = CollectorConfig::parse("c.toml", &format!("{start}{outputs}")).expect_err("wrong").to_string();
        assert!(problem.starts_with(&format!("c.toml:{place}: ")) && problem.contains(words), "{problem}");
    }
}

#[test]
fn a_check_refuses_what_is_not_there_and_ports_that_nothing_can_find() {
    let folder = std::env::temp_dir();
    let relay = |input: &str| {
        let text = format!("state = \"s\"\ncollector = \"127.0.0.1:1\"\n[[input]]\n{input}");
        let config = RelayConfig::parse("relay.toml", &text).expect("it can be read");
        config.check_files().map_err(|error| error.to_string())
    };
    for (input, words) in [
        ("kind = \"udp\"\nlisten = \"127.0.0.1:0\"".to_owned(), "port 0"),
        ("kind = \"tcp\"\nlisten = \"127.0.0.1:0\"".to_owned(), "port 0"),
        ("kind = \"file\"\npath = \"/there/is/no/such/file\"".to_owned(), "cannot be read"),
        (format!("kind = \"file\"\npath = {folder:?}"), "not a regular file"),
        ("kind = \"unix\"\npath = \"/etc/passwd\"".to_owned(), "it is a file and no socket"),
    ] {
        let problem = relay(&input).expect_err("it is refused");
        assert!(problem.contains(words), "{input}: {problem}");
    }
    assert_eq!(relay("kind = \"tcp\"\nlisten = \"127.0.0.1:1\""), Ok(()));
    let text = format!("state = \"s\"\nlisten = \"127.0.0.1:1\"\n[[output]]\nkind = \"file\"\npath = {folder:?}");
    let config = CollectorConfig::parse("c.toml", &text).expect("it can be read");
    assert!(config.check_files().expect_err("a folder").to_string().contains("not a regular file"));
}

#[test]
fn relays_and_collectors_are_encrypted_unless_the_file_says_otherwise() {
    use crate::keys::{Collectors, Relays};
    let collector = "state = \"s\"\nlisten = \"127.0.0.1:1\"\n[[output]]\nkind = \"file\"\npath = \"l\"\n";
    let (key, other) = ("ab".repeat(32), "00".repeat(32));
    let fingerprint = key.parse().expect("64 digits");
    fn encrypted<P>(peers: P) -> Protection<P> {
        Protection::Encrypted { identity: None, peers }
    }
    for (security, expected) in [
        ("", encrypted(Collectors::FirstUse)),
        ("[security]\n", encrypted(Collectors::FirstUse)),
        ("[security]\nplain = true\n", Protection::Plain),
        (
            &format!("[security]\ncollectors = [\"sha256:{key}\"]\n"),
            encrypted(Collectors::Fingerprints(vec![fingerprint])),
        ),
        (
            "[security]\nauthorities = \"ca\"\nname = \"n\"\n",
            encrypted(Collectors::Authorities("ca".into(), Some("n".to_owned()))),
        ),
    ] {
        let told = RelayConfig::parse("relay.toml", &format!("{SMALLEST}{security}")).expect("it is right");
        assert_eq!(told.security, expected, "{security}");
    }
    for (security, expected) in [
        ("", encrypted(Relays::Fingerprints(Vec::new()))),
        ("[security]\nplain = true\n", Protection::Plain),
        ("[security]\nrelays = \"any\"\n", encrypted(Relays::Any)),
        (&format!("[security]\nrelays = [\"{key}\"]\n"), encrypted(Relays::Fingerprints(vec![fingerprint]))),
        ("[security]\nauthorities = \"ca\"\n", encrypted(Relays::Authorities("ca".into()))),
    ] {
        let told = CollectorConfig::parse("collect.toml", &format!("{collector}{security}")).expect("it is right");
        assert_eq!(told.security, expected, "{security}");
    }
    for (security, words) in [
        ("certificate = \"a\"", "belong together"),
        ("plain = true\ncollectors = [\"x\"]", "64 hexadecimal digits"),
        (&format!("plain = true\ncollectors = [\"{other}\"]"), "excludes all other settings"),
        (&format!("authorities = \"ca\"\ncollectors = [\"{other}\"]"), "not both"),
        ("collectors = []", "no collector would be trusted"),
        ("name = \"n\"", "name needs authorities"),
        ("relays = []", "unknown key `relays`"),
    ] {
        let problem = refused(&format!("{SMALLEST}[security]\n{security}\n"));
        assert!(problem.contains(words), "{security}: {problem}");
    }
    for (security, words) in [
        ("relays = \"all\"", "or \"any\""),
        ("relays = 1", "or \"any\""),
        ("relays = [\"sha256:12\"]", "64 hexadecimal digits"),
        ("plain = true\nrelays = \"any\"", "excludes all other settings"),
        ("collectors = []", "unknown key `collectors`"),
    ] {
        let parsed = CollectorConfig::parse("collect.toml", &format!("{collector}[security]\n{security}\n"));
        let problem = parsed.expect_err("it makes no sense").to_string();
        assert!(problem.contains(words) && problem.starts_with("collect.toml:"), "{security}: {problem}");
    }
}
