//! `festina tunnel udp`: many clients, their addresses, and an exit that is not there for some time.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::{ask, restart_exit, tunnel};
use crate::harness::{PATIENCE, Running, festina, own_key, run};

/// A server that echoes each datagram after a delay.
fn echo_after(delay: Duration) -> String {
    let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = server.local_addr().expect("bound").to_string();
    let (sender, waiting) = std::sync::mpsc::channel::<(Instant, Vec<u8>, SocketAddr)>();
    let answering = server.try_clone().expect("a descriptor");
    thread::spawn(move || {
        for (due, datagram, from) in waiting {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let _ = answering.send_to(&datagram, from);
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            let _ = sender.send((Instant::now() + delay, buffer[..length].to_vec(), from));
        }
    });
    address
}

/// As a resolver asks: each question comes from a port of its own, and the next ones are asked before the answer comes. A table that protects the ports
/// that were answered lets all others share one seat.
#[test]
fn each_of_ten_thousand_source_ports_is_answered_although_the_answers_take_time() {
    const PORTS: usize = 10_000;
    const AT_ONCE: usize = 100;
    const ATTEMPTS: usize = 8;
    let (_exit, mut entrance, address) = tunnel("udp", &echo_after(Duration::from_millis(60)));
    for round in 0..PORTS / AT_ONCE {
        let mut clients: Vec<_> = (0..AT_ONCE).map(|_| UdpSocket::bind("127.0.0.1:0").expect("bound")).collect();
        for _ in 0..ATTEMPTS {
            for client in &clients {
                client.send_to(b"question", &address).expect("sent");
            }
            // Datagrams may be lost, and a busy machine is slow. The clients that wait for their answer together share this time.
            let patience = Instant::now() + Duration::from_secs(1);
            clients.retain(|client| {
                let left = patience.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                client.set_read_timeout(Some(left)).expect("set");
                client.recv(&mut [0; 100]).is_err()
            });
            if clients.is_empty() {
                break;
            }
        }
        assert!(clients.is_empty(), "{} of {AT_ONCE} clients got no answer in round {round}", clients.len());
    }
    let reported = entrance.stderr_line();
    assert!(reported.contains("1 clients were forgotten") && reported.contains("--clients-max is 1024"), "{reported}");
}

#[test]
fn a_tunnel_has_as_many_seats_as_the_user_says() {
    let server = echo_after(Duration::ZERO);
    let exit = ["tunnel", "exit", "--plain", "--listen", "127.0.0.1:0", "--to", &server, "--clients-max", "3"];
    let (_exit, exit) = Running::start_server(&exit, "tunnels to ", " lead to");
    let entrance = ["tunnel", "udp", "--plain", "--listen", "127.0.0.1:0", "--to", &exit, "--clients-max", "3"];
    let (mut entrance, address) = Running::start_server(&entrance, "", " leads to");
    let clients = [(); 4].map(|()| UdpSocket::bind("127.0.0.1:0").expect("bound"));
    for client in &clients {
        ask(client, &address, 7);
    }
    let reported = entrance.stderr_line();
    assert!(reported.contains("1 clients were forgotten") && reported.contains("--clients-max is 3"), "{reported}");
    let none = run(&["tunnel", "udp", "--plain", "--to", &exit, "--listen", "127.0.0.1:0", "--clients-max", "0"]);
    assert_eq!(none.code, Some(2), "{none:?}");
}

/// A connected client receives answers only from the address that it has asked.
#[cfg(target_os = "linux")]
#[test]
fn relays_on_every_address_answer_from_the_one_that_was_asked() {
    let server = echo_after(Duration::ZERO);
    let (_exit, exit) = Running::start_server(
        &["tunnel", "exit", "--plain", "--listen", "127.0.0.1:0", "--to", &server],
        "tunnels to ",
        " lead to",
    );
    for relay in [&["tunnel", "udp", "--plain", "--to", &exit][..], &["emulate", "udp", "--to", &server]] {
        let (_relay, address) = Running::start_server(&[relay, &["--listen", ":0"]].concat(), "", " leads to");
        let port = address.rsplit(':').next().expect("it has a port");
        let has_ipv6 = UdpSocket::bind("[::1]:0").is_ok();
        for host in ["127.0.0.1", "127.0.0.2"].into_iter().chain(has_ipv6.then_some("[::1]")) {
            let any = if host.starts_with('[') { "[::1]:0" } else { "127.0.0.1:0" };
            let client = UdpSocket::bind(any).expect("bound");
            client.connect(format!("{host}:{port}")).expect("connected");
            client.set_read_timeout(Some(PATIENCE / 30)).expect("set");
            let is_answered = (0..30).any(|_| client.send(b"x").is_ok() && client.recv(&mut [0; 10]).is_ok());
            assert!(is_answered, "{relay:?} answers a client that has asked {host} from another address");
        }
    }
}

/// An exit, and its address.
fn start_exit(server: &str, flags: &[&str]) -> (Running, String) {
    let arguments = [&["tunnel", "exit", "--listen", "127.0.0.1:0", "--to", server], flags].concat();
    Running::start_server(&arguments, "tunnels to ", " lead to")
}

#[test]
fn datagrams_that_waited_for_the_exit_longer_than_their_lifetime_are_dropped_and_counted() {
    const LIFETIME: Duration = Duration::from_millis(500);
    let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    let server_address = server.local_addr().expect("bound").to_string();
    let (exit, exit_address) = start_exit(&server_address, &["--plain"]);
    let entrance =
        ["tunnel", "udp", "--listen", "127.0.0.1:0", "--to", &exit_address, "--plain", "--lifetime", "500ms"];
    let (mut entrance, address) = Running::start_server(&entrance, "", " leads to");
    let client = UdpSocket::bind("127.0.0.1:0").expect("bound");
    exit.interrupt();
    assert!(entrance.stderr_line().contains("the tunnel ended"));
    drop(exit);
    for _ in 0..4 {
        client.send_to(b"old", &address).expect("sent");
    }
    thread::sleep(2 * LIFETIME);
    let _exit = restart_exit(&exit_address, &server_address, &["--plain"]);
    let began = Instant::now();
    let mut buffer = [0; 10];
    loop {
        client.send_to(b"new", &address).expect("sent");
        match server.recv(&mut buffer) {
            Ok(3) if &buffer[..3] == b"new" => break,
            Ok(_) => panic!("a datagram is older than its lifetime"),
            Err(_) => assert!(began.elapsed() < PATIENCE, "no datagram flows"),
        }
    }
    let mut reported = Vec::new();
    while reported.last().is_none_or(|line: &String| !line.contains("the tunnel is up again")) {
        reported.push(entrance.stderr_line());
        assert_ne!(reported.last().map(String::as_str), Some(""), "the entrance has ended: {reported:?}");
    }
    assert!(reported.iter().any(|line| line.contains("4 datagrams dropped")), "{reported:?}");
}

#[test]
fn datagrams_flow_soon_after_the_exit_was_killed_and_is_back() {
    for flags in [&["--plain"][..], &["--allow", &own_key()]] {
        let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
        server.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let server_address = server.local_addr().expect("bound").to_string();
        let (exit, exit_address) = start_exit(&server_address, flags);
        let plain = flags.strip_suffix(&["--plain"]).map_or(&[][..], |_| &["--plain"]);
        let entrance = [&["tunnel", "udp", "--listen", "127.0.0.1:0", "--to", &exit_address], plain].concat();
        let (_entrance, address) = Running::start_server(&entrance, "", " leads to");
        let client = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let until_it_flows = || {
            let since = Instant::now();
            while client.send_to(b"x", &address).is_err() || server.recv(&mut [0; 10]).is_err() {
                assert!(since.elapsed() < PATIENCE, "no datagram flows, {flags:?}");
            }
            since.elapsed()
        };
        until_it_flows();
        // Dropping it kills it.
        drop(exit);
        let _exit = restart_exit(&exit_address, &server_address, flags);
        let flows = until_it_flows();
        // Some 300 ms on an idle machine. Without a sign from the new exit it would take the peer timeout, a minute and more.
        assert!(flows < Duration::from_secs(10), "{flows:?} without a datagram, {flags:?}");
    }
}

#[test]
fn an_entrance_that_starts_before_its_exit_waits_for_it() {
    let server = echo_after(Duration::ZERO);
    let absent = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("bound").to_string();
    let arguments = ["tunnel", "udp", "--plain", "--listen", "127.0.0.1:0", "--to", &absent, "--timeout", "200ms"];
    let mut entrance = Running::start(festina(&arguments));
    let line = entrance.stderr_line();
    assert!(line.contains("did not complete the handshake") && line.ends_with("trying again"), "{line}");
    let _exit = restart_exit(&absent, &server, &["--plain"]);
    let line = loop {
        let line = entrance.stderr_line();
        assert!(!line.is_empty(), "the entrance has ended");
        if line.contains(" leads to ") {
            break line;
        }
    };
    let (address, _) = line.split_once(" leads to ").expect("it is there");
    ask(&UdpSocket::bind("127.0.0.1:0").expect("bound"), address, 7);
}

#[test]
fn an_exit_starts_before_its_server_has_a_name_and_an_address_of_its_own() {
    let unknown = ["tunnel", "exit", "--plain", "--listen", "127.0.0.1:0", "--to", "no-such-host.invalid:7"];
    let (mut exit, _) = Running::start_server(&unknown, "tunnels to ", " lead to");
    let line = exit.stderr_line();
    assert!(line.contains("cannot find the host no-such-host.invalid"), "{line}");
    // TEST-NET-1 (RFC 5737): no host has this address yet.
    let early = ["tunnel", "exit", "--plain", "--listen", "192.0.2.1:9899", "--to", "127.0.0.1:7"];
    let mut exit = Running::start(festina(&early));
    let line = exit.stderr_line();
    assert!(line.contains("192.0.2.1:9899") && line.ends_with("trying again"), "{line}");
    exit.interrupt();
    assert_eq!(exit.end().code, Some(0));
}

#[test]
fn a_tunnel_ends_at_once_if_its_port_is_in_use() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("bound").to_string();
    for arguments in [
        ["tunnel", "exit", "--plain", "--listen", &address, "--to", "127.0.0.1:7"],
        ["tunnel", "udp", "--plain", "--listen", &address, "--to", "127.0.0.1:7"],
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(&address), "{}", ended.stderr);
    }
}
