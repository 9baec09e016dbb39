//! Encrypted associations between running commands, their keys and the peers that they know.

use std::path::Path;

use crate::harness::{Ended, Running, festina, folder};

/// The command of a user with this configuration folder.
fn start(home: &Path, arguments: &[&str]) -> Running {
    let mut command = festina(arguments);
    command.env("XDG_CONFIG_HOME", home);
    Running::start(command)
}

fn run(home: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut running = start(home, arguments);
    running.write(input);
    running.end()
}

/// A listener of this user, its address and the fingerprint that it prints.
fn listen(home: &Path, address: &str) -> (Running, String, String) {
    listen_with(home, &["listen", address])
}

fn listen_with(home: &Path, arguments: &[&str]) -> (Running, String, String) {
    let mut listener = start(home, arguments);
    let (mut address, mut fingerprint) = (None, None);
    while address.is_none() || fingerprint.is_none() {
        let line = listener.stderr_line();
        assert!(!line.is_empty(), "the listener has ended");
        if let Some(rest) = line.strip_prefix("listening on ") {
            address = rest.split(',').next().map(str::to_owned);
        } else if let Some((_, key)) = line.split_once("own key ") {
            fingerprint = Some(key.to_owned());
        }
    }
    (listener, address.expect("it is known"), fingerprint.expect("it is known"))
}

#[test]
fn a_new_peer_is_remembered_and_one_with_another_key_is_refused() {
    let (server, impostor, client) = (folder("secure-server"), folder("secure-impostor"), folder("secure-client"));
    let (mut listener, address, fingerprint) = listen(&server, "127.0.0.1:0");
    let first = run(&client, &["send", &address], "one\n");
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stderr.contains(&format!("for the first time: {fingerprint}")), "{}", first.stderr);
    listener.wait_for_stdout("one\n");
    let second = run(&client, &["send", &address], "two\n");
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "{second:?}");
    listener.wait_for_stdout("two\n");
    let known = client.join("festina/known_peers");
    assert_eq!(std::fs::read_to_string(&known).expect("it is written"), format!("{address} {fingerprint}\n"));
    drop(listener);

    let (mut listener, address, other) = listen(&impostor, &address);
    let refused = run(&client, &["send", &address], "three\n");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    let advice = format!("festina key --forget {address}");
    for part in ["has changed", &fingerprint, &other, &advice] {
        assert!(refused.stderr.contains(part), "{part} is not in {}", refused.stderr);
    }
    // Following the instructions.
    let forgotten = run(&client, &["key", "--forget", &address], "");
    assert_eq!((forgotten.code, forgotten.stderr.as_str()), (Some(0), &*format!("{address} is forgotten\n")));
    let unknown = run(&client, &["key", "--forget", &address], "");
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let again = run(&client, &["send", &address], "four\n");
    assert_eq!(again.code, Some(0), "{again:?}");
    listener.wait_for_stdout("four\n");
    drop(listener);
}

#[test]
fn a_fingerprint_on_the_command_line_replaces_what_is_known() {
    let (server, client) = (folder("pinned-server"), folder("pinned-client"));
    let (listener, address, fingerprint) = listen(&server, "127.0.0.1:0");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let refused = run(&client, &["send", &address, "--fingerprint", &wrong], "one\n");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&fingerprint) && refused.stderr.contains(&wrong), "{}", refused.stderr);
    let ponged = run(&client, &["ping", &address, "-c", "3", "-i", "5ms", "--ack", "--fingerprint", &fingerprint], "");
    assert_eq!(ponged.code, Some(0), "{ponged:?}");
    assert!(!client.join("festina/known_peers").exists());
    let malformed = run(&client, &["send", &address, "--fingerprint", "abc"], "");
    assert_eq!(malformed.code, Some(2), "{malformed:?}");
    let both = run(&client, &["send", &address, "--plain", "--fingerprint", &fingerprint], "");
    assert_eq!(both.code, Some(2), "{both:?}");
    drop(listener);
}

#[test]
fn plain_and_secure_commands_name_the_difference() {
    let (server, client) = (folder("mixed-server"), folder("mixed-client"));
    let (listener, address, _) = listen(&server, "127.0.0.1:0");
    let plain = run(&client, &["send", &address, "--plain"], "one\n");
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert!(plain.stderr.ends_with("only encrypted associations\"; leave out --plain\n"), "{}", plain.stderr);
    drop(listener);
    let mut listener = start(&server, &["listen", "127.0.0.1:0", "--plain"]);
    let line = listener.stderr_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).expect("an address");
    let secure = run(&client, &["send", address], "one\n");
    assert_eq!(secure.code, Some(1), "{secure:?}");
    assert!(
        secure.stderr.contains("SCTP without encryption") && secure.stderr.contains("--plain"),
        "{}",
        secure.stderr
    );
    assert!(!client.join("festina/known_peers").exists(), "no peer was met");
    drop(listener);
}

/// PEM files of an authority, and of a certificate and a key that it has signed for `localhost`.
fn certificates(folder: &Path) -> [String; 3] {
    let root_key = rcgen::KeyPair::generate().expect("a key");
    let mut root = rcgen::CertificateParams::new(Vec::new()).expect("no name");
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_certificate = root.self_signed(&root_key).expect("it is signed");
    let issuer = rcgen::Issuer::from_params(&root, &root_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name").signed_by(&key, &issuer);
    let pems = [root_certificate.pem(), leaf.expect("it is signed").pem(), key.serialize_pem()];
    let names = ["ca.pem", "cert.pem", "key.pem"].map(|name| folder.join(name));
    for (name, pem) in names.iter().zip(pems) {
        std::fs::write(name, pem).expect("it can be written");
    }
    names.map(|name| name.to_str().expect("a path").to_owned())
}

#[test]
fn certificates_of_an_authority_need_no_known_peers_and_no_home() {
    let (files, client) = (folder("pem-files"), folder("pem-client"));
    let [ca, cert, key] = certificates(&files);
    let homeless = |arguments: &[&str]| {
        let mut command = festina(arguments);
        command.env_remove("XDG_CONFIG_HOME").env_remove("HOME").env_remove("APPDATA");
        Running::start(command)
    };
    let mut listener = homeless(&["listen", "127.0.0.1:0", "--cert", &cert, "--key", &key]);
    let line = listener.stderr_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).expect("an address");
    let shown = run(&client, &["key", "--of", &cert], "");
    assert_eq!(listener.stderr_line(), format!("encrypted, own key {}", shown.stdout.trim_end()));
    let named = address.replace("127.0.0.1", "localhost");
    for arguments in [&["send", &named, "--ca", &ca][..], &["send", address, "--ca", &ca, "--server-name", "localhost"]]
    {
        let mut sender = homeless(arguments);
        sender.write("one\n");
        let sent = sender.end();
        assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""), "{sent:?}");
    }
    let wrong = run(&client, &["send", address, "--ca", &ca], "one\n");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("127.0.0.1"), "it names the expected address: {}", wrong.stderr);
    let unknown = homeless(&["send", address]).end();
    assert!(unknown.code == Some(1) && unknown.stderr.contains("--fingerprint or --ca"), "{unknown:?}");
    let keyless = homeless(&["listen", "127.0.0.1:0"]).end();
    assert!(keyless.code == Some(1) && keyless.stderr.contains("--cert and --key"), "{keyless:?}");
    let half = run(&client, &["listen", "127.0.0.1:0", "--cert", &cert], "");
    assert_eq!(half.code, Some(2), "{half:?}");
    let no_pem = run(&client, &["listen", "127.0.0.1:0", "--cert", &key, "--key", &key], "");
    assert!(no_pem.code == Some(1) && no_pem.stderr.contains("key.pem"), "{no_pem:?}");
}

#[test]
fn perf_measures_an_encrypted_path() {
    let (server, client) = (folder("perf-server"), folder("perf-client"));
    let mut serving = start(&server, &["perf", "-s", "-1", "-B", "127.0.0.1:0"]);
    let address = loop {
        let line = serving.stderr_line();
        if let Some(address) = line.strip_prefix("measuring with any client that connects to ") {
            break address.to_owned();
        }
        assert!(!line.is_empty(), "the server has ended");
    };
    let flags = ["--idle", "100ms", "-t", "300ms", "-P", "2", "--bidir"];
    let measured = run(&client, &[&["perf", "-c", &address][..], &flags].concat(), "");
    assert_eq!(measured.code, Some(0), "{measured:?}");
    assert_eq!(measured.stderr.matches("for the first time").count(), 1, "{}", measured.stderr);
    drop(serving);
}

#[test]
fn the_exit_of_tunnels_admits_the_clients_that_are_allowed() {
    let (server, client, stranger) = (folder("exit-server"), folder("exit-client"), folder("exit-stranger"));
    let target = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let target = target.to_string();
    let exit_arguments = ["tunnel", "exit", "--listen", "127.0.0.1:0", "--to", &target];
    let nameless = run(&server, &exit_arguments, "");
    assert_eq!(nameless.code, Some(2), "{nameless:?}");
    assert!(
        nameless.stderr.contains("--allow SHA256") && nameless.stderr.contains("--allow-any"),
        "{}",
        nameless.stderr
    );
    let key = run(&client, &["key"], "");
    let key = key.stdout.trim_end();
    let strange_key = run(&stranger, &["key"], "").stdout.trim_end().to_owned();
    let start_exit = |more: &[&str]| {
        let mut exit = start(&server, &[&exit_arguments[..], more].concat());
        let address = loop {
            let line = exit.stderr_line();
            if let Some(rest) = line.strip_prefix("tunnels to ") {
                break rest.split(' ').next().expect("a word").to_owned();
            }
            assert!(!line.is_empty(), "the exit has ended");
        };
        (exit, address)
    };
    let enter = |home: &Path, exit: &str| start(home, &["tunnel", "udp", "--listen", "127.0.0.1:0", "--to", exit]);
    let (mut exit, address) = start_exit(&["--allow", key]);
    let mut entrance = enter(&client, &address);
    while !entrance.stderr_line().contains(" leads to ") {}
    drop(entrance);
    let refused = enter(&stranger, &address).end();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&format!("add --allow {strange_key}")), "{}", refused.stderr);
    assert!(!exit.stderr_line().is_empty(), "the own key");
    let told = exit.stderr_line();
    assert!(told.contains(&format!("add --allow {strange_key}")), "{told}");
    drop(exit);
    let (_exit, address) = start_exit(&["--allow-any"]);
    let mut entrance = enter(&stranger, &address);
    while !entrance.stderr_line().contains(" leads to ") {}
}

#[test]
fn a_client_that_names_the_servers_key_needs_no_folder_that_it_can_enter() {
    let server = folder("closed-server");
    let (mut listener, address, fingerprint) = listen(&server, "127.0.0.1:0");
    // No folder: everything below it is as out of reach as below a folder without permissions, for root as well.
    let closed = server.join("file");
    std::fs::write(&closed, "").expect("it can be written");
    let sent = run(&closed, &["send", &address, "--fingerprint", &fingerprint], "one\n");
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""), "{sent:?}");
    listener.wait_for_stdout("one\n");
    let unknown = run(&closed, &["send", &address], "two\n");
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    for part in ["known_peers", "--fingerprint"] {
        assert!(unknown.stderr.contains(part), "{part} is not in {}", unknown.stderr);
    }
    drop(listener);
}

#[test]
#[cfg(target_os = "linux")]
fn encrypted_commands_use_two_addresses_of_each_end() {
    let (server, client) = (folder("two-server"), folder("two-client"));
    let listen = ["listen", "127.0.0.1:0", "--also", "127.0.0.2", "--echo"];
    let (_listener, address, _) = listen_with(&server, &listen);
    let port = address.rsplit(':').next().expect("it has a port");
    let ping =
        ["-v", "ping", &address, "-c", "20", "-i", "50ms", "--paths", "--via", "127.0.0.1", "--via", "127.0.0.2"];
    let pinged = run(&client, &ping, "");
    assert_eq!(pinged.code, Some(0), "{pinged:?}");
    for host in ["127.0.0.1", "127.0.0.2"] {
        let line = format!("path to {host}:{port}: active");
        assert!(pinged.stdout.contains(&line), "{line} is not in {}", pinged.stdout);
    }
    assert!(pinged.stderr.contains("path confirmed"), "{}", pinged.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn an_address_that_is_named_twice_is_refused_by_name() {
    for arguments in [
        ["listen", "127.0.0.1:0", "--also", "127.0.0.1"],
        ["listen", "127.0.0.1:0", "--also=127.0.0.2", "--also=127.0.0.2"],
    ] {
        let refused = run(&folder("twice"), &arguments, "");
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let twice = if arguments[2] == "--also" { "127.0.0.1" } else { "127.0.0.2" };
        assert!(refused.stderr.contains(&format!("the address {twice} is named twice")), "{}", refused.stderr);
    }
}
