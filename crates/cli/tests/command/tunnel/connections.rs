//! `festina tunnel tcp`: many connections over one association.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{restart_exit, tunnel};
use crate::harness::{PATIENCE, Running, own_key};

/// A server that echoes the bytes of each connection.
fn echo() -> String {
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = server.local_addr().expect("bound").to_string();
    thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            thread::spawn(move || {
                let mut copy = stream.try_clone().expect("a descriptor");
                let _ = std::io::copy(&mut stream, &mut copy);
                let _ = copy.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

fn connect(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).expect("connected");
    client.set_read_timeout(Some(PATIENCE)).expect("set");
    client
}

/// A connection that asks once and ends. Its answer.
fn ask(address: &str, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut client = connect(address);
    client.write_all(question)?;
    client.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer)?;
    Ok(answer)
}

fn ask_and_end(address: &str, question: &[u8]) {
    assert_eq!(ask(address, question).expect("no reset"), question);
}

#[test]
fn thousands_of_short_connections_cost_one_handshake() {
    const CONNECTIONS: usize = 3_000;
    let server = echo();
    let exit = ["tunnel", "exit", "-v", "--listen", "127.0.0.1:0", "--to", &server, "--allow", &own_key()];
    let (mut exit, exit_address) = Running::start_server(&exit, "tunnels to ", " lead to");
    let entrance = ["tunnel", "tcp", "--listen", "127.0.0.1:0", "--to", &exit_address];
    let (mut entrance, address) = Running::start_server(&entrance, "", " leads to");
    let begun = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    let number = begun.fetch_add(1, Ordering::Relaxed);
                    if number >= CONNECTIONS {
                        return;
                    }
                    ask_and_end(&address, &number.to_be_bytes());
                }
            });
        }
    });
    for running in [&entrance, &exit] {
        running.interrupt();
    }
    assert_eq!((entrance.wait(), exit.wait()), (Some(0), Some(0)));
    let reported = exit.end().stderr;
    let established = reported.lines().filter(|line| line.contains("association up")).count();
    assert_eq!(established, 1, "{reported}");
    assert_eq!(entrance.end().stderr, "", "no connection is reported as broken");
}

#[test]
fn urgent_data_passes_as_part_of_the_stream() {
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let to = server.local_addr().expect("bound").to_string();
    let (_exit, _entrance, tunnelled) = tunnel("tcp", &to);
    let (_proxy, proxied) =
        Running::start_server(&["tcp-proxy", "--listen", "127.0.0.1:0", "--to", &to], "", " is passed on to");
    for address in [tunnelled, proxied] {
        let client = connect(&address);
        let (mut stream, _) = server.accept().expect("a client connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let socket = socket2::SockRef::from(&client);
        let sent = [socket.send(b"ab"), socket.send_out_of_band(b"c"), socket.send(b"de")];
        assert_eq!(sent.map(|sent| sent.expect("connected")), [2, 1, 2]);
        client.shutdown(Shutdown::Write).expect("connected");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("everything comes, and the end");
        assert_eq!(received, b"abcde", "{address}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_entrance_without_descriptors_says_so_and_goes_on_when_there_are_some() {
    let server = echo();
    let (_exit, exit_address) = Running::start_server(
        &["tunnel", "exit", "--listen", "127.0.0.1:0", "--to", &server, "--plain"],
        "tunnels to ",
        " lead to",
    );
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 32; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_festina")]);
    limited.args(["tunnel", "tcp", "--listen", "127.0.0.1:0", "--to", &exit_address, "--plain"]);
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut entrance = Running::start(limited);
    let line = entrance.stderr_line();
    let (address, _) = line.split_once(" leads to ").expect("it listens");
    // The association has its socket.
    ask_and_end(address, b"before");
    let waiting: Vec<_> = (0..40).map(|_| connect(address)).collect();
    let line = entrance.stderr_line();
    assert!(line.contains("1 times that no connection could be accepted: Too many open files"), "{line}");
    drop(waiting);
    ask_and_end(address, b"later");
}

#[test]
fn a_program_that_reads_nothing_delays_no_other_connection_and_is_not_read_without_limit() {
    // More than the tunnel, the sockets' buffers and their owners' patience hold.
    const TOO_MUCH: usize = 64 << 20;
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let (_exit, _entrance, address) = tunnel("tcp", &server.local_addr().expect("bound").to_string());
    let mut stuck = connect(&address);
    let (mut unread, _) = server.accept().expect("a client connects");
    stuck.set_write_timeout(Some(Duration::from_secs(1))).expect("set");
    let mut written = 0;
    while written < TOO_MUCH {
        match stuck.write(&[7; 1 << 16]) {
            Ok(length) => written += length,
            Err(_) => break,
        }
    }
    assert!(written < TOO_MUCH, "the tunnel takes {written} bytes of a connection that is not read");
    for number in 0..10_u8 {
        let mut client = connect(&address);
        let (mut stream, _) = server.accept().expect("another client connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        client.write_all(&[number; 100_000]).expect("the entrance takes it");
        let mut received = [0; 100_000];
        stream.read_exact(&mut received).expect("it is not held up");
        stream.write_all(&received).expect("connected");
        client.read_exact(&mut received).expect("it is not held up");
        assert_eq!(received[99_999], number);
    }
    // When the program reads again, everything comes.
    let reading = thread::spawn(move || {
        let mut all = Vec::new();
        unread.read_to_end(&mut all).expect("everything comes, and the end");
        all.len()
    });
    stuck.shutdown(Shutdown::Write).expect("connected");
    assert_eq!(reading.join().expect("it reads"), written);
}

#[test]
fn a_connection_that_is_reset_at_one_end_is_reset_at_the_other_and_others_go_on() {
    let server = TcpListener::bind("127.0.0.1:0").expect("bound");
    let (_exit, _entrance, address) = tunnel("tcp", &server.local_addr().expect("bound").to_string());
    let pair = || {
        let client = connect(&address);
        let (stream, _) = server.accept().expect("a client connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        (client, stream)
    };
    let (mut witness, mut witness_stream) = pair();
    for (is_client, has_ended) in [(false, false), (true, false), (false, true), (true, true)] {
        let (client, stream) = pair();
        let (broken, mut other) = if is_client { (client, stream) } else { (stream, client) };
        if has_ended {
            broken.shutdown(Shutdown::Write).expect("connected");
            assert_eq!(other.read(&mut [0; 1]).expect("the end of one direction"), 0);
        }
        socket2::SockRef::from(&broken).set_linger(Some(Duration::ZERO)).expect("set");
        drop(broken);
        let reset = loop {
            // After the end of one direction, only writing shows that the other is broken.
            if let Err(error) = if has_ended { other.write(&[0; 100]) } else { other.read(&mut [0; 1]) } {
                break error;
            }
            thread::sleep(Duration::from_millis(1));
        };
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        assert!(matches!(reset.kind(), ConnectionReset | BrokenPipe), "{reset}");
    }
    witness.write_all(b"x").expect("connected");
    witness_stream.read_exact(&mut [0]).expect("it goes on");
    witness_stream.write_all(b"x").expect("connected");
    witness.read_exact(&mut [0]).expect("it goes on");
}

#[test]
fn new_connections_reach_an_exit_that_was_killed_and_is_back() {
    let server = echo();
    for flags in [&["--plain"][..], &["--allow", &own_key()]] {
        let exit = [&["tunnel", "exit", "--listen", "127.0.0.1:0", "--to", &server], flags].concat();
        let (first, exit_address) = Running::start_server(&exit, "tunnels to ", " lead to");
        let plain = flags.strip_suffix(&["--plain"]).map_or(&[][..], |_| &["--plain"]);
        let entrance = [&["tunnel", "tcp", "--listen", "127.0.0.1:0", "--to", &exit_address], plain].concat();
        let (_entrance, address) = Running::start_server(&entrance, "", " leads to");
        ask_and_end(&address, b"before");
        drop(first);
        let _second = restart_exit(&exit_address, &server, flags);
        // Connections whose data left for the old exit before the entrance knows of its end are reset.
        let reaches = |_| match ask(&address, b"after") {
            Ok(answer) => answer == b"after",
            Err(_) => {
                thread::sleep(Duration::from_millis(100));
                false
            }
        };
        assert!((0..20).any(reaches), "{flags:?}");
    }
}
