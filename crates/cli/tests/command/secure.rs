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
    let mut listener = start(home, &["listen", address, "--secure"]);
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
    let first = run(&client, &["send", &address, "--secure"], "one\n");
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stderr.contains(&format!("for the first time: {fingerprint}")), "{}", first.stderr);
    listener.wait_for_stdout("one\n");
    let second = run(&client, &["send", &address, "--secure"], "two\n");
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "{second:?}");
    listener.wait_for_stdout("two\n");
    let known = client.join("festina/known_peers");
    assert_eq!(std::fs::read_to_string(&known).expect("it is written"), format!("{address} {fingerprint}\n"));
    drop(listener);

    let (mut listener, address, other) = listen(&impostor, &address);
    let refused = run(&client, &["send", &address, "--secure"], "three\n");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    for part in ["has changed", &fingerprint, &other, "known_peers"] {
        assert!(refused.stderr.contains(part), "{part} is not in {}", refused.stderr);
    }
    // Following the instructions.
    std::fs::remove_file(known).expect("it can be removed");
    let again = run(&client, &["send", &address, "--secure"], "four\n");
    assert_eq!(again.code, Some(0), "{again:?}");
    listener.wait_for_stdout("four\n");
    drop(listener);
}

#[test]
fn a_fingerprint_on_the_command_line_replaces_what_is_known() {
    let (server, client) = (folder("pinned-server"), folder("pinned-client"));
    let (listener, address, fingerprint) = listen(&server, "127.0.0.1:0");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let refused = run(&client, &["send", &address, "--secure", "--fingerprint", &wrong], "one\n");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&fingerprint) && refused.stderr.contains(&wrong), "{}", refused.stderr);
    let ponged = run(
        &client,
        &["ping", &address, "-c", "3", "-i", "5ms", "--ack", "--secure", "--fingerprint", &fingerprint],
        "",
    );
    assert_eq!(ponged.code, Some(0), "{ponged:?}");
    assert!(!client.join("festina/known_peers").exists());
    let malformed = run(&client, &["send", &address, "--secure", "--fingerprint", "abc"], "");
    assert_eq!(malformed.code, Some(2), "{malformed:?}");
    let both = run(&client, &["send", &address, "--secure", "--plain"], "");
    assert_eq!(both.code, Some(2), "{both:?}");
    drop(listener);
}

#[test]
fn plain_and_secure_commands_name_the_difference() {
    let (server, client) = (folder("mixed-server"), folder("mixed-client"));
    let (listener, address, _) = listen(&server, "127.0.0.1:0");
    let plain = run(&client, &["send", &address, "--plain"], "one\n");
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert!(plain.stderr.contains("only encrypted associations"), "{}", plain.stderr);
    drop(listener);
    let mut listener = start(&server, &["listen", "127.0.0.1:0", "--plain"]);
    let line = listener.stderr_line();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).expect("an address");
    let secure = run(&client, &["send", address, "--secure"], "one\n");
    assert_eq!(secure.code, Some(1), "{secure:?}");
    assert!(secure.stderr.contains("SCTP without encryption"), "{}", secure.stderr);
    assert!(!client.join("festina/known_peers").exists(), "no peer was met");
    drop(listener);
}
