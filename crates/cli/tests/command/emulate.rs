//! `festina emulate tun`, which needs privilege.

use std::process::{Command, Stdio};

use crate::harness::{Running, folder, run};

#[test]
fn a_namespace_that_is_not_there_is_told_with_the_command_that_makes_it() {
    let failed = run(&["emulate", "tun", "--right", "no-such-namespace"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(failed.stdout, "");
    assert!(failed.stderr.contains("`ip netns add no-such-namespace` makes one"), "{}", failed.stderr);
}

/// Returns whether this user may make network namespaces and TUN devices in them.
fn may_make_devices() -> bool {
    // The existence of the device does not mean that this user may open it.
    let may = in_a_network_of_its_own("exec 3<>/dev/net/tun").output().is_ok_and(|output| output.status.success());
    if !may {
        assert!(std::env::var_os("CI").is_none(), "continuous integration may make network namespaces and devices");
        println!("skipped: this user may not make network namespaces or may not open /dev/net/tun");
    }
    may
}

/// Runs a shell command as root of a user namespace with its own network, and a second network namespace `far`.
fn in_a_network_of_its_own(script: &str) -> Command {
    let prepare = "mount -t tmpfs none /run && ip netns add far";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", &format!("{prepare} && {script}")]);
    command.env("FESTINA", env!("CARGO_BIN_EXE_festina"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn two_devices_are_joined_until_it_is_interrupted() {
    if !may_make_devices() {
        return;
    }
    let mut running = Running::start(in_a_network_of_its_own("exec \"$FESTINA\" emulate tun --right far --delay 5ms"));
    assert_eq!(running.stderr_line(), "10.77.0.1 (festina0) and 10.77.0.2 (festina1) are joined");
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("10.77.0.1 to 10.77.0.2"), "{}", ended.stdout);
    assert!(ended.stdout.contains("packets offered"), "{}", ended.stdout);
}

#[test]
fn ends_in_different_networks_are_refused() {
    let script = "exec \"$FESTINA\" emulate tun --right far --right-address 10.78.0.2/24";
    if !may_make_devices() {
        return;
    }
    let refused = Running::start(in_a_network_of_its_own(script)).end();
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains("10.77.0.1/24 and 10.78.0.2/24 are in different networks"), "{}", refused.stderr);
    assert!(refused.stderr.contains("share their first 14 bits"), "{}", refused.stderr);
}

#[test]
fn a_proxy_tells_programs_what_it_did_and_captures_both_sides() {
    let folder = folder("emulate-udp-capture");
    let packets = folder.join("packets.pcapng");
    let (server, server_address) =
        Running::start_server(&["listen", "127.0.0.1:0", "--echo", "--plain"], "listening on ", ", SCTP port");
    let path = packets.display().to_string();
    let (proxy, proxy_address) = Running::start_server(
        &["emulate", "udp", "--listen", "127.0.0.1:0", "--to", &server_address, "--json", "--pcap", &path],
        "",
        " leads to",
    );
    let ping = run(&["ping", &proxy_address, "-c", "2", "-i", "1ms", "--plain"]);
    assert_eq!(ping.code, Some(0), "{ping:?}");
    proxy.interrupt();
    let ended = proxy.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert!(report["there"]["packets_delivered"].as_u64() > Some(3), "{report}");
    assert_eq!(report["there"]["lost"], 0);
    let capture = std::fs::read(packets).expect("the capture is there");
    let names = [&b"clients"[..], b"server"];
    assert!(names.iter().all(|name| capture.windows(name.len()).any(|window| window == *name)));
    drop(server);
}
