//! `festina trace thin --interface` on an interface of the test's own: a TUN device in a network namespace, with a path behind it that delays and
//! loses.

use std::fs;

use serde_json::Value;

use crate::emulate_run::{as_root_of_a_user_namespace, assert_that_none_is_left};
use crate::harness::folder;

/// The kernel's TCP writes 30 times to the server behind the network, and as often to itself, past the interface.
const CLIENT: &str = r#"use IO::Socket::INET; use Socket qw(IPPROTO_TCP TCP_NODELAY); my $s;
my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:7001", Listen => 1);
my $beside = IO::Socket::INET->new(PeerAddr => "127.0.0.1:7001");
for (1..100) { last if $s = IO::Socket::INET->new(PeerAddr => "10.77.0.2:7000"); select(undef, undef, undef, 0.05); }
setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1);
for (1..30) { syswrite($s, "x" x 100); syswrite($beside, "x" x 100); select(undef, undef, undef, 0.03); }
select(undef, undef, undef, 1);
"#;
const SERVER: &str = r#"use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalAddr => "10.77.0.2:7000", Listen => 1);
my $s = $l->accept; 1 while sysread($s, my $data, 65536);
"#;
/// Watches from before the first packet until the client has ended.
const WATCH: &str = r#"cd "$1"
"$FESTINA" trace thin --interface festina0 --interval 50ms --json > watched.json 2> watched.err &
until grep -q watching watched.err; do kill -0 $! || exit 9; sleep 0.01; done
perl client.pl; kill -INT $!; wait $!
"#;

#[test]
fn what_a_network_delays_and_loses_is_seen_at_the_interface_in_front_of_it_and_nothing_else_is() {
    let folder = folder("trace-interface");
    for (name, program) in [("client.pl", CLIENT), ("server.pl", SERVER), ("watch.sh", WATCH)] {
        fs::write(folder.join(name), program).expect("the folder can be written");
    }
    let place = folder.display();
    // Before the first message pass a SYN and an acknowledgement.
    let script = format!(
        "\"$FESTINA\" emulate run --delay 10ms --lose 10 --server 'perl {place}/server.pl' -- sh {place}/watch.sh {place}"
    );
    let Some(running) = as_root_of_a_user_namespace(&script) else { return };
    let ended = running.end();
    let said = fs::read_to_string(folder.join("watched.err")).unwrap_or_default();
    assert_eq!((ended.code, said.as_str()), (Some(0), "watching festina0; press Ctrl-C to stop\n"), "{ended:?}");
    assert_that_none_is_left("--interface festina0");

    let printed = fs::read_to_string(folder.join("watched.json")).expect("it was written");
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("an object in each line")).collect();
    let streams: Vec<&Value> =
        lines.iter().filter(|line| line.get("id").is_some() && line.get("now_writes").is_none()).collect();
    let [stream] = streams.as_slice() else { panic!("one stream passes the interface: {streams:?}") };
    assert_eq!((&stream["destination"], &stream["destination_port"]), (&"10.77.0.2".into(), &7000.into()));
    assert!(stream["retransmissions"].as_u64() >= Some(1), "{stream}");
    assert!(stream["rtt_min_ms"].as_f64() >= Some(20.0), "{stream}");
    // A lost packet takes at least one more round trip.
    assert!(stream["ack_delay_max_ms"].as_f64() >= Some(40.0), "{stream}");
    let looks = lines.iter().filter(|line| line.get("now_writes").is_some_and(|writes| writes.as_u64() > Some(0)));
    assert!(looks.count() > 1, "it was seen while it lived: {printed}");
    let last = lines.last().expect("there are lines");
    assert_eq!(last["packets_dropped_by_kernel"], 0, "{last}");
}
