//! One message and its acknowledgement on a quiet association, each under watch. Built into the instrumented copy of the core.

use std::net::SocketAddr;

use festina_sctp::{Association, Config, Context, Incoming, Listener, Message, Ports};
use festina_units::passage::watch;
use festina_units::{Duration, EcnCodepoint, Instant};

const PORTS: Ports = Ports { local: 5_001, peer: 5_000 };
const ECN: EcnCodepoint = EcnCodepoint::NotCapable;
const DELAY: Duration = Duration::from_millis(10);

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 9_899))
}

/// Carries over the packets that `from` has to send, waiting for the next deadline if there are none.
fn pass(now: &mut Instant, from: &mut Association, to: &mut Association) {
    let mut packet = Vec::new();
    while from.poll_transmit(*now, &mut packet).is_none() {
        *now = from.poll_deadline().expect("it will answer");
        from.handle_timeout(*now);
    }
    *now += DELAY;
    to.handle_packet(*now, to.remote(), ECN, &packet.into()).expect("the packet is sound");
    while to.poll_message().is_some() {}
}

fn main() {
    let context = |secret| Context::new(Config::default(), [secret; 16]).expect("the default is in range");
    let mut now = Instant::from_secs(1);
    let mut listener = Listener::new(&context(1));
    listener.listen(PORTS.peer);
    let mut client = Association::connect(now, &context(2), address(2), PORTS, 7);
    let mut server = loop {
        let (mut packet, mut reply) = (Vec::new(), Vec::new());
        client.poll_transmit(now, &mut packet).expect("the handshake goes on");
        match listener.handle_packet(now, address(1), &packet.into(), &|_| false, &mut reply) {
            Incoming::Accepted(server) => break *server,
            _ => client.handle_packet(now, address(2), ECN, &reply.into()).expect("INIT ACK is welcome"),
        }
    };
    pass(&mut now, &mut server, &mut client);
    for round in 0..4 {
        let mut packet = Vec::new();
        watch((round == 3).then_some("message"), || {
            client.send(now, Message::new("hello")).expect("there is room");
            client.poll_transmit(now, &mut packet).expect("nothing is in its way");
        });
        server.handle_packet(now + DELAY, address(1), ECN, &packet.into()).expect("the packet is sound");
        now += DELAY;
        while server.poll_message().is_some() {}
        let mut sack = Vec::new();
        while server.poll_transmit(now, &mut sack).is_none() {
            now = server.poll_deadline().expect("it will answer");
            server.handle_timeout(now);
        }
        now += DELAY;
        let sack = sack.into();
        watch((round == 3).then_some("SACK"), || {
            client.handle_packet(now, address(2), ECN, &sack).expect("the packet is sound");
        });
        assert_eq!(client.stats().path.send_buffer_bytes, 0, "the SACK freed the buffer");
        while client.poll_event().is_some() {}
    }
}
