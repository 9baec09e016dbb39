//! `festina tcp-proxy` and `festina tcp-watch` with real connections over loopback.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::harness::{PATIENCE, Running, run};

/// Nothing comes within that time which is not there already.
const QUIET: Duration = Duration::from_millis(300);

fn proxy(to: SocketAddr, more: &[&str]) -> (Running, SocketAddr) {
    let to = to.to_string();
    let arguments = [&["tcp-proxy", "--listen", "127.0.0.1:0", "--to", &to], more].concat();
    let (running, address) = Running::start_server(&arguments, "", " is passed on to ");
    (running, address.parse().expect("an address"))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the proxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Bytes that are not all the same.
fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index % 253).expect("small")).collect()
}

#[test]
fn tcp_proxy_passes_every_byte_on_and_each_direction_ends_by_itself() {
    let (server, address) = listener();
    // Answers only after the whole request has ended.
    let answering = thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("the proxy connects");
        let mut request = Vec::new();
        stream.read_to_end(&mut request).expect("it ends in good order");
        stream.write_all(&payload(1_000_000)).expect("the client reads");
        request
    });
    let (proxy, address) = proxy(address, &["--target", "20ms"]);
    let mut client = connect(address);
    client.write_all(&payload(2_000_000)).expect("the server reads");
    client.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("it ends in good order");
    assert!(answer == payload(1_000_000), "{} bytes", answer.len());
    assert!(answering.join().expect("no panic") == payload(2_000_000));
    drop(client);
    proxy.interrupt();
    let ended = proxy.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("2000000 bytes there (waited p50/p90/max "), "{}", ended.stderr);
    assert!(ended.stderr.contains("1 connections were forwarded"), "{}", ended.stderr);
}

#[test]
fn tcp_proxy_resets_a_client_whose_server_cannot_be_reached_or_breaks() {
    let (server, address) = listener();
    let (mut proxy, through) = proxy(address, &[]);
    let breaking = thread::spawn(move || {
        let (stream, _) = server.accept().expect("the proxy connects");
        // Closed with unread data: a reset.
        let mut first = [0];
        (&stream).read_exact(&mut first).expect("it writes");
    });
    for words in ["broke", "cannot connect"] {
        let mut client = connect(through);
        // The reset is reported once, to the write if it comes before.
        let result = client.write_all(&payload(100_000)).and_then(|()| client.read_to_end(&mut Vec::new()));
        let error = result.expect_err("it is no good end");
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
        let line = proxy.stderr_line();
        assert!(line.contains(words), "{line}");
        // The listener is closed from now on.
        if words == "broke" {
            while !breaking.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn tcp_proxy_that_is_stopped_resets_connections_that_have_not_ended() {
    let (server, address) = listener();
    let (proxy, through) = proxy(address, &[]);
    let mut client = connect(through);
    let (mut served, _) = server.accept().expect("the proxy connects");
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    served.write_all(b"1").expect("it is open");
    client.read_exact(&mut [0]).expect("it comes");
    proxy.interrupt();
    for stream in [&mut client, &mut served] {
        let error = stream.read(&mut [0]).expect_err("it is no good end");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn tcp_proxy_holds_a_sender_back_whose_server_does_not_read() {
    let (server, address) = listener();
    let (_proxy, through) = proxy(address, &["--min-buf", "1,3"]);
    let mut client = connect(through);
    let (_stream, _) = server.accept().expect("the proxy connects");
    client.set_nonblocking(true).expect("a socket");
    let (mut written, block, mut quiet) = (0_usize, payload(65_536), 0);
    while quiet < 10 {
        match client.write(&block) {
            Ok(count) => (written, quiet) = (written + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(QUIET / 10);
                quiet += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    // The buffers of four sockets, and none in between.
    assert!(written < 64 << 20, "{written} bytes are nowhere to be seen");
}

#[test]
fn tcp_proxy_keeps_no_more_connections_than_it_may() {
    let (server, address) = listener();
    let (_proxy, through) = proxy(address, &["--connections-max", "1"]);
    let first = connect(through);
    let (mut first_served, _) = server.accept().expect("the proxy connects");
    first_served.write_all(b"1").expect("it is open");
    let mut second = connect(through);
    second.set_read_timeout(Some(QUIET)).expect("a socket");
    server.set_nonblocking(true).expect("a socket");
    thread::sleep(QUIET);
    assert!(server.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "the second waits");
    drop((first, first_served));
    server.set_nonblocking(false).expect("a socket");
    let (mut second_served, _) = server.accept().expect("now it is its turn");
    second_served.write_all(b"2").expect("it is open");
    second.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut received = [0];
    second.read_exact(&mut received).expect("it is passed on");
    assert_eq!(&received, b"2");
}

#[test]
fn tcp_proxy_says_in_one_line_what_makes_no_sense() {
    for (arguments, words, code) in [
        (&["--listen", "here", "--to", "127.0.0.1:1"][..], "it is not a host with a TCP port", 2),
        (&["--listen", ":0", "--to", "127.0.0.1:1", "--min-buf", "0,3"], "it is no pair of A", 2),
        (&["--listen", ":0", "--to", "127.0.0.1:1", "--target", "0"], "longer than zero", 2),
        (&["--listen", "192.0.2.1:1", "--to", "127.0.0.1:1"], "cannot listen on 192.0.2.1:1", 1),
    ] {
        let ended = run(&[&["tcp-proxy"], arguments].concat());
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains(words) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}

#[test]
fn tcp_watch_shows_what_waits_by_port_and_by_process() {
    let (server, address) = listener();
    let mut client = connect(address);
    let (_stream, _) = server.accept().expect("it came");
    client.set_nonblocking(true).expect("a socket");
    while client.write(&[0; 65_536]).is_ok() {}
    let local = client.local_addr().expect("it is bound");
    let (port, process) = (local.port().to_string(), std::process::id().to_string());
    for filter in [["--port", &port], ["--pid", &process]] {
        let ended = run(&["tcp-watch", filter[0], filter[1], "--count", "1", "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let sockets = json["sockets"].as_array().expect("a list");
        let ours = sockets.iter().find(|socket| socket["local"] == local.to_string()).expect("it is open");
        assert!(ours["unsent_bytes"].as_u64() > Some(0) && ours["waits_s"].is_f64(), "{ours}");
    }
    let ended = run(&["tcp-watch", "--port", &port, "--count", "1"]);
    assert!(ended.stdout.contains("WAITS ms") && ended.stdout.contains(&local.to_string()), "{}", ended.stdout);
    let ended = run(&["tcp-watch", "--pid", "4294967295", "--count", "1"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("process 4294967295"), "{}", ended.stderr);
}
