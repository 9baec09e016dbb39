//! Peers that mean no good: one that takes nothing, one that sends what a terminal obeys, one that leaves with such words.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use festina::{Association, ClientConfig, Endpoint, Message, Transport};

use crate::harness::{Ended, PATIENCE, Running, config_home, festina, folder, run};
use crate::messages;

const MESSAGE_BYTES: usize = 64 << 10;
const CLEAR_SCREEN: &[u8] = b"\x1b[2J\x9b31m\r\n";

/// A listener for peers that do not encrypt.
fn listen(arguments: &[&str]) -> (Running, String) {
    messages::listen(&[arguments, &["--plain"]].concat())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

async fn connect(address: &str, transport: Transport) -> (Endpoint, Association) {
    let config = ClientConfig::plain().with_transport(transport);
    let endpoint =
        Endpoint::client("127.0.0.1:0".parse().expect("an address"), config).await.expect("loopback has ports");
    let association = endpoint.connect(address).await.expect("the server listens");
    (endpoint, association)
}

/// A peer whose application reads nothing, so that it soon acknowledges nothing new.
async fn connect_mute(address: &str) -> (Endpoint, Association) {
    let transport = Transport::default().with_receive_buffer_bytes(300_000);
    let low_water_bytes = transport.send_buffer_bytes() - MESSAGE_BYTES;
    // One line fits, and little more; as soon as there is room for a message, it may be sent.
    connect(address, transport.with_expert(|expert| expert.with_send_low_water_bytes(low_water_bytes))).await
}

#[test]
fn a_peer_that_takes_nothing_does_not_keep_lines_from_the_others() {
    const LINES: usize = 48;
    const LINE_BYTES: usize = 256 << 10;
    let line = |number: usize| vec![b'a' + u8::try_from(number % 26).expect("a letter"); LINE_BYTES];
    let (mut listener, address) = listen(&[]);
    runtime().block_on(async {
        let (_mute_endpoint, mute) = connect_mute(&address).await;
        let (_endpoint, good) = connect(&address, Transport::default()).await;
        for _ in 0..2 {
            assert!(listener.stderr_line().ends_with(" connected"));
        }
        // More than the send buffer and the queue for one peer hold.
        listener.write_in_the_background((0..LINES).flat_map(|number| [line(number), vec![b'\n']].concat()).collect());
        for number in 0..LINES {
            let received = tokio::time::timeout(PATIENCE, good.recv()).await;
            let received =
                received.unwrap_or_else(|_| panic!("line {number} is held up")).expect("it is connected").unwrap();
            assert!(*received.payload() == line(number), "line {number}");
        }
        let late = listener.stderr_line();
        assert!(late.ends_with(" holds up the others: it misses lines from now on"), "{late}");
        // Others still come and go.
        let (_late_endpoint, late) = connect(&address, Transport::default()).await;
        assert!(listener.stderr_line().ends_with(" connected"));
        late.shutdown().await.expect("the listener answers");
        mute.abort("enough");
        let left: Vec<String> = (0..2).map(|_| listener.stderr_line()).collect();
        assert!(left.iter().any(|line| line.ends_with(" left: shut down gracefully")), "{left:?}");
        assert!(left.iter().any(|line| line.contains(": \"enough\"; it was too slow for ")), "{left:?}");
    });
}

#[test]
fn a_peer_that_does_not_take_its_echo_does_not_keep_others_from_theirs() {
    let (_listener, address) = listen(&["--echo"]);
    runtime().block_on(async {
        let (_endpoint, mute) = connect_mute(&address).await;
        // What both send buffers hold and some more: the last of these are taken only once the echo is stuck.
        for _ in 0..(2 * Transport::default().send_buffer_bytes() + (512 << 10)) / MESSAGE_BYTES {
            let sent = tokio::time::timeout(PATIENCE, mute.send(Message::new(vec![0; MESSAGE_BYTES]))).await;
            sent.expect("the listener reads until its echo is stuck").expect("it is connected");
        }
        let pinged = run(&["ping", &address, "-c", "5", "-i", "10ms", "--timeout", "60s", "--plain"]);
        assert_eq!(pinged.code, Some(0), "{pinged:?}");
        mute.abort("");
    });
}

#[test]
fn a_listener_whose_peer_leaves_before_it_got_all_input_fails() {
    let (mut listener, address) = listen(&["--once", "--block", "65536"]);
    runtime().block_on(async {
        let (_endpoint, mute) = connect_mute(&address).await;
        assert!(listener.stderr_line().ends_with(" connected"));
        listener.write_in_the_background(vec![b'x'; 64 << 20]);
        mute.recv().await.expect("the listener sends");
        let receiving = async { while let Ok(Some(_)) = mute.recv().await {} };
        let (left, ()) = tokio::join!(mute.shutdown(), receiving);
        left.expect("the listener agrees");
    });
    let listened = listener.end();
    assert_eq!(listened.code, Some(1), "{listened:?}");
    assert!(listened.stderr.ends_with(" left before all input was sent\n"), "{listened:?}");
}

#[test]
fn associations_that_say_nothing_do_not_keep_others_from_being_measured() {
    const STRANGERS: usize = 1_001;
    let mut server = Running::start(festina(&["perf", "-s", "-B", "127.0.0.1:0", "--plain"]));
    let line = server.stderr_line();
    let address =
        line.strip_prefix("measuring with any client that connects to ").expect("it says where it is").to_owned();
    runtime().block_on(async {
        let (endpoint, first) = connect(&address, Transport::default()).await;
        let mut strangers = vec![first];
        for _ in 1..STRANGERS {
            strangers.push(endpoint.connect(&*address).await.expect("silent ones make room"));
        }
        let arguments =
            ["perf", "-c", &address, "--idle", "100ms", "-t", "300ms", "-P", "2", "--timeout", "60s", "--plain"];
        let ended = tokio::task::spawn_blocking({
            let arguments = arguments.map(str::to_owned);
            move || run(&arguments.each_ref().map(String::as_str))
        });
        let ended = ended.await.expect("no panic");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(strangers.iter().any(|stranger| stranger.close_reason().is_some()), "the oldest have made room");
    });
}

/// Starts a measurement, kills its server after this time, and returns the result if the server has died before the measurement could end.
#[expect(clippy::disallowed_methods, reason = "processes take real time")]
fn perf_with_a_server_that_dies(kill_after: Duration, direction: &[&str]) -> Option<Ended> {
    let mut server = Running::start(festina(&["perf", "-s", "-B", "127.0.0.1:0", "--plain"]));
    let line = server.stderr_line();
    let address = line.strip_prefix("measuring with any client that connects to ").expect("it says where it is");
    let arguments = ["perf", "-c", address, "--idle", "300ms", "-t", "1s", "--timeout", "1s", "--plain"];
    let start = std::time::Instant::now();
    let client = Running::start(festina(&[&arguments[..], direction].concat()));
    thread::sleep(kill_after);
    server.signal("-KILL");
    server.wait();
    let is_in_time = start.elapsed() < Duration::from_millis(1_300);
    let ended = client.end();
    is_in_time.then_some(ended)
}

#[test]
fn perf_gives_no_grade_to_a_server_that_dies_at_any_instant() {
    let killed = thread::scope(|scope| {
        let instants_ms = [0, 150, 400, 700, 900, 1_100];
        let ways = [&[][..], &["-R"], &["--bidir", "--json"]].into_iter().cycle();
        let clients = instants_ms.into_iter().zip(ways).map(|(kill_after_ms, way)| {
            let run = move || perf_with_a_server_that_dies(Duration::from_millis(kill_after_ms), way);
            (kill_after_ms, scope.spawn(run))
        });
        let clients: Vec<_> = clients.collect();
        let ended = clients.into_iter().map(|(instant, client)| (instant, client.join().expect("no panic")));
        ended.collect::<Vec<_>>()
    });
    assert!(killed.iter().any(|(_, ended)| ended.is_some()), "no server died in time");
    for (kill_after_ms, ended) in killed {
        let Some(ended) = ended else { continue };
        let is_graded = !ended.stdout.is_empty() && !ended.stdout.starts_with("{\"error\":");
        assert_eq!((ended.code, is_graded), (Some(1), false), "killed after {kill_after_ms} ms: {ended:?}");
        assert!(ended.stderr.contains("the measurement failed: "), "killed after {kill_after_ms} ms: {ended:?}");
    }
}

/// Runs the command in a terminal, its standard error into a file.
fn in_a_terminal(arguments: &str, stderr: &std::path::Path) -> Command {
    let mut command = Command::new("script");
    let inner = format!("exec \"$FESTINA\" {arguments} 2> \"$STDERR\"");
    command.args(["--quiet", "--return", "--command", &inner, "/dev/null"]);
    command
        .env("FESTINA", env!("CARGO_BIN_EXE_festina"))
        .env("STDERR", stderr)
        .env("XDG_CONFIG_HOME", config_home())
        .env("SHELL", "/bin/sh");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn wait_for_address(stderr: &std::path::Path) -> String {
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        let text = std::fs::read_to_string(stderr).unwrap_or_default();
        if let Some((address, _)) = text.strip_prefix("listening on ").and_then(|rest| rest.split_once(", SCTP port "))
        {
            return address.to_owned();
        }
        thread::sleep(PAUSE);
    }
    panic!("the listener says no address");
}

#[test]
fn a_terminal_is_shown_control_characters_and_does_not_obey_them() {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "continuous integration has util-linux");
        println!("there is no program that makes a terminal: nothing to test");
        return;
    }
    let folder = folder("a-terminal");
    let (path, stderr) = (folder.join("bytes"), folder.join("stderr"));
    std::fs::write(&path, CLEAR_SCREEN).expect("the file can be written");
    let listener = Running::start(in_a_terminal("listen 127.0.0.1:0 --once", &stderr));
    let address = wait_for_address(&stderr);
    let sent = run(&["send", &address, "--file", path.to_str().expect("the path is text")]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let listened = listener.end();
    assert_eq!(listened.code, Some(0), "{listened:?}");
    assert!(listened.stdout.contains("\\x1b[2J\\x9b31m\\x0d"), "{listened:?}");
    assert!(!listened.stdout.contains('\x1b'), "{listened:?}");
}

#[test]
fn a_pipe_gets_the_bytes_as_they_are() {
    let path = folder("a-pipe").join("bytes");
    std::fs::write(&path, "\x1b[2J\u{9b}31m\r").expect("the file can be written");
    let (listener, address) = messages::listen(&["--once"]);
    let sent = run(&["send", &address, "--file", path.to_str().expect("the path is text")]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert_eq!(listener.end().stdout, "\x1b[2J\u{9b}31m\r\n");
}

#[test]
fn the_last_words_of_a_peer_are_told_in_one_line_without_control_characters() {
    let (mut listener, address) = listen(&["--once"]);
    runtime().block_on(async {
        let (endpoint, association) = connect(&address, Transport::default()).await;
        assert!(listener.stderr_line().ends_with(" connected"));
        association.abort("bye\nroot connected\x1b[2J");
        endpoint.close().await;
    });
    let left = listener.stderr_line();
    assert!(left.ends_with(r#" left: aborted by the peer: "bye\nroot connected\u{1b}[2J""#), "{left}");
    let listened = listener.end();
    assert_eq!(listened.code, Some(1), "an aborted transfer is incomplete");
    assert!(listened.stderr.ends_with("\"bye\\nroot connected\\u{1b}[2J\"\n"), "{listened:?}");
}
