//! `festina tunnel` between programs that know nothing of it.

mod connections;
mod datagrams;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::harness::{PATIENCE, Running, festina, own_key, run, run_with_input};

/// An exit that leads to `server`, an entrance of this kind that leads to it, and the entrance's address.
fn tunnel(kind: &str, server: &str) -> (Running, Running, String) {
    let (exit, exit_address) = Running::start_server(
        &["tunnel", "exit", "--listen", "127.0.0.1:0", "--to", server, "--allow", &own_key()],
        "tunnels to ",
        " lead to",
    );
    let (entrance, address) =
        Running::start_server(&["tunnel", kind, "--listen", "127.0.0.1:0", "--to", &exit_address], "", " leads to");
    (exit, entrance, address)
}

/// Starts an exit on the address of an earlier one. Until then, a socket of another test may have the port.
fn restart_exit(address: &str, server: &str, flags: &[&str]) -> Running {
    let arguments = [&["tunnel", "exit", "--listen", address, "--to", server], flags].concat();
    for _ in 0..PATIENCE.as_millis() / 100 {
        let mut exit = Running::start(festina(&arguments));
        let line = exit.stderr_line();
        if line.starts_with("tunnels to ") {
            return exit;
        }
        assert!(line.contains("in use"), "{line}");
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{address} stays in use")
}

#[test]
fn datagrams_of_several_programs_reach_the_server_and_their_answers_the_right_one() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    let (_exit, _entrance, address) = tunnel("udp", &server.local_addr().expect("bound").to_string());
    let clients = [(); 3].map(|()| {
        let client = UdpSocket::bind("127.0.0.1:0").expect("bound");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        client.connect(&address).expect("connected");
        client
    });
    let mut buffer = [0; 2_000];
    for length in [1_400, 5, 0] {
        for (number, client) in (1u8..).zip(&clients) {
            client.send(&vec![number; length]).expect("sent");
            let (received, from) = server.recv_from(&mut buffer).expect("a datagram in time");
            assert_eq!(buffer[..received], vec![number; length]);
            server.send_to(&[number; 7], from).expect("sent");
            let received = client.recv(&mut buffer).expect("an answer in time");
            assert_eq!(buffer[..received], [number; 7]);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_tunnel_has_a_path_over_each_network() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    let exit = ["tunnel", "exit", "--plain", "--listen", "127.0.0.1:0", "--also", "127.0.0.2", "--to"];
    let to = server.local_addr().expect("bound").to_string();
    let (_exit, exit) = Running::start_server(&[&exit[..], &[&to]].concat(), "tunnels to ", " lead to");
    let entrance = ["-v", "tunnel", "udp", "--plain", "--listen", "127.0.0.1:0", "--to", &exit];
    let own = ["--via", "127.0.0.1", "--via", "127.0.0.2", "--path-policy", "copies"];
    let mut entrance = Running::start(festina(&[&entrance[..], &own].concat()));
    let (mut address, mut is_confirmed) = (None, false);
    while address.is_none() || !is_confirmed {
        let line = entrance.stderr_line();
        is_confirmed |= line.contains("path confirmed") && line.contains("remote=127.0.0.2");
        address = line.split_once(" leads to").map(|(address, _)| address.to_owned()).or(address);
    }
    let address = address.expect("the entrance listens");
    let client = UdpSocket::bind("127.0.0.1:0").expect("bound");
    client.send_to(b"question", &address).expect("sent");
    let (_, from) = server.recv_from(&mut [0; 100]).expect("a datagram in time");
    server.send_to(b"answer", from).expect("sent");
    assert_ne!(client.recv(&mut [0; 100]).expect("an answer"), 0);
}

#[test]
fn a_connection_carries_all_bytes_both_ways_and_each_side_ends_on_its_own() {
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let (_exit, _entrance, address) = tunnel("tcp", &server.local_addr().expect("bound").to_string());
    let echo = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = server.accept().expect("a client connects");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("everything comes, and the end");
            // Only now, when the other side has ended.
            stream.write_all(&all).expect("the other direction is still open");
        }
    });
    for size in [1_000_000usize, 0] {
        let sent: Vec<u8> = (0..size).map(|number| u8::try_from(number % 251).expect("small")).collect();
        let mut client = TcpStream::connect(&address).expect("connected");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        client.write_all(&sent).expect("the entrance takes it");
        client.shutdown(Shutdown::Write).expect("connected");
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("everything comes back, and the end");
        assert!(received == sent, "{} bytes came back of {size}", received.len());
    }
    echo.join().expect("the server does not panic");
}

#[test]
fn a_program_sees_a_broken_connection_when_the_server_is_not_there() {
    let absent = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("bound");
    let (mut exit, mut entrance, address) = tunnel("tcp", &absent.to_string());
    let mut client = TcpStream::connect(&address).expect("the entrance is there");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    let broken = client.read(&mut [0; 1]);
    assert_eq!(broken.expect_err("no end in good order").kind(), std::io::ErrorKind::ConnectionReset);
    assert!(exit.stderr_line().contains(&format!("cannot connect to {absent}")));
    assert!(entrance.stderr_line().contains("the server is not there"));
}

#[test]
fn a_program_sees_a_broken_connection_when_the_exit_is_not_reached() {
    let deaf = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let exit = deaf.local_addr().expect("bound").to_string();
    for (timeout, is_interrupted) in [("300ms", false), ("60s", true)] {
        let (entrance, address) = Running::start_server(
            &["tunnel", "tcp", "--listen", "127.0.0.1:0", "--to", &exit, "--plain", "--timeout", timeout],
            "",
            " leads to",
        );
        let mut client = TcpStream::connect(&address).expect("the entrance is there");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        if is_interrupted {
            // The entrance has accepted the connection when it calls the exit.
            deaf.recv(&mut [0; 2_000]).expect("a packet");
            entrance.interrupt();
        }
        let broken = client.read(&mut [0; 1]).expect_err("no end in good order");
        assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

/// Has a datagram echoed. It may be lost, as datagrams may.
fn ask(client: &UdpSocket, address: &str, number: usize) {
    const ATTEMPTS: usize = 30;
    client.set_read_timeout(Some(PATIENCE / u32::try_from(ATTEMPTS).expect("few"))).expect("set");
    let mut buffer = [0; 8];
    for _ in 0..ATTEMPTS {
        client.send_to(&number.to_be_bytes(), address).expect("sent");
        if client.recv(&mut buffer).is_ok_and(|length| buffer[..length] == number.to_be_bytes()) {
            return;
        }
    }
    panic!("no answer for client {number}");
}

#[test]
fn a_server_that_listens_on_the_second_address_of_its_name_is_found() {
    let host = |server: std::net::SocketAddr| format!("localhost:{}", server.port());
    let addresses: Vec<_> = std::net::ToSocketAddrs::to_socket_addrs("localhost:0").expect("it is known").collect();
    let Some(last) = addresses.last().filter(|last| addresses.iter().any(|first| first.is_ipv4() != last.is_ipv4()))
    else {
        println!("skipped: localhost has one address here");
        return;
    };
    let Ok(server) = UdpSocket::bind(last) else {
        println!("skipped: {last} cannot be bound");
        return;
    };
    let name = host(server.local_addr().expect("bound"));
    let (_exit, _entrance, tunnelled) = tunnel("udp", &name);
    let (_emulator, emulated) =
        Running::start_server(&["emulate", "udp", "--listen", "127.0.0.1:0", "--to", &name], "", " leads to");
    thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&buffer[..length], from);
        }
    });
    for address in [tunnelled, emulated] {
        ask(&UdpSocket::bind("127.0.0.1:0").expect("bound"), &address, 7);
    }

    let server = TcpListener::bind(last).expect("it could be bound before");
    let name = host(server.local_addr().expect("bound"));
    let (_exit, _entrance, tunnelled) = tunnel("tcp", &name);
    let (_proxy, proxied) =
        Running::start_server(&["tcp-proxy", "--listen", "127.0.0.1:0", "--to", &name], "", " is passed on to");
    clients_find(&last.to_string(), host);
    for address in [tunnelled, proxied] {
        let mut client = TcpStream::connect(&address).expect("connected");
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        let (mut stream, _) = server.accept().expect("it is found");
        stream.write_all(b"x").expect("connected");
        client.read_exact(&mut [0]).expect("it comes");
    }
}

/// Has each command that connects to a host reach a server that listens on this address alone, by the host's name.
fn clients_find(listen: &str, host: impl Fn(std::net::SocketAddr) -> String) {
    let (_echo, address) = Running::start_server(&["listen", listen, "--echo"], "listening on ", ", SCTP port");
    let name = host(address.parse().expect("an address"));
    let ping = run(&["ping", &name, "-c", "1"]);
    assert_eq!(ping.code, Some(0), "{ping:?}");
    let sent = run_with_input(&["send", &name], "hello\n");
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "hello\n"), "{sent:?}");

    let mut server = Running::start(festina(&["perf", "-s", "-B", listen]));
    let line = server.stderr_line();
    let address = line.split([' ', ',']).find_map(|word| word.parse().ok());
    let name = host(address.unwrap_or_else(|| panic!("no address in {line:?}")));
    let measured = run(&["perf", "-c", &name, "--idle", "100ms", "-t", "1s"]);
    assert_eq!(measured.code, Some(0), "{measured:?}");
}

#[test]
fn programs_see_a_broken_connection_when_either_end_of_the_tunnel_is_stopped() {
    for stops_exit in [false, true] {
        let server = TcpListener::bind("127.0.0.1:0").expect("bound");
        let (exit, entrance, address) = tunnel("tcp", &server.local_addr().expect("bound").to_string());
        let mut client = TcpStream::connect(&address).expect("connected");
        let (mut stream, _) = server.accept().expect("a client connects");
        for stream in [&mut client, &mut stream] {
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
        }
        stream.write_all(b"x").expect("connected");
        client.read_exact(&mut [0]).expect("it comes");
        let stopped = if stops_exit { &exit } else { &entrance };
        stopped.interrupt();
        for stream in [&mut client, &mut stream] {
            let error = stream.read(&mut [0]).expect_err("no end in good order");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
}

#[test]
fn perf_refuses_a_server_that_sends_nothing_back() {
    let (_mute, address) = Running::start_server(&["listen", "127.0.0.1:0"], "listening on ", ", SCTP port");
    let ended = run(&["perf", "-c", &address, "--idle", "100ms", "-t", "1s", "--timeout", "500ms"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("sends nothing back; does `festina perf -s` run there?"), "{}", ended.stderr);
}
