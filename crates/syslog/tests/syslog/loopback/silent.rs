//! A collector that gets no more lines after its welcome, although it is there.

use std::sync::atomic::AtomicBool;

use super::*;

/// No packet with a line is as short, and all packets of an association without lines are.
const SHORT_BYTES: usize = 150;

/// Passes packets on in both directions. Returns its address, and whether it is to drop packets with lines.
fn wire(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let near = Arc::new(UdpSocket::bind(any_address()).expect("a socket"));
    let (address, is_cut) = (near.local_addr().expect("an address"), Arc::new(AtomicBool::new(false)));
    let cut = Arc::clone(&is_cut);
    std::thread::spawn(move || {
        let (mut peers, mut packet) = (Vec::new(), vec![0; 65_536]);
        while let Ok((length, from)) = near.recv_from(&mut packet) {
            if !peers.iter().any(|(peer, _)| *peer == from) {
                let far = Arc::new(UdpSocket::bind(any_address()).expect("a socket"));
                peers.push((from, Arc::clone(&far)));
                let near = Arc::clone(&near);
                std::thread::spawn(move || {
                    let mut packet = vec![0; 65_536];
                    while let Ok((length, _)) = far.recv_from(&mut packet) {
                        let _ = near.send_to(&packet[..length], from);
                    }
                });
            }
            let far = peers.iter().find(|(peer, _)| *peer == from).map(|(_, far)| far);
            if length <= SHORT_BYTES || !cut.load(Ordering::Relaxed) {
                far.map(|far| far.send_to(&packet[..length], to));
            }
        }
    });
    (address, is_cut)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_whose_lines_get_no_further_takes_more_and_stops() {
    const LINES: u64 = 16_000;
    let directory = Directory::new();
    let collector = collector_in(Mode::Plain, &directory.0, any_address()).await;
    let (address, is_cut) = wire(collector.local_addr());
    let relay = relay_in(Mode::Plain, &directory.0, address).await;
    until("the relay connects", || relay.snapshot().paths.connected).await;
    is_cut.store(true, Ordering::Relaxed);
    let udp = relay.inputs()[0].expect("an address");
    let sent = tokio::task::spawn_blocking(move || {
        // A message has lines of one source alone, so most lines get a message of their own.
        let sockets: Vec<_> =
            (1..=40).map(|last| UdpSocket::bind(SocketAddr::from(([127, 0, 1, last], 0))).expect("a socket")).collect();
        for (number, socket) in (0..LINES).zip(sockets.iter().cycle()) {
            socket.send_to(format!("<11>{number:0176}").as_bytes(), udp).expect("it is sent");
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    sent.await.expect("all are sent");
    until("all lines are received", || {
        let now = relay.snapshot();
        now.received.iter().sum::<u64>() + now.before.shed_at_input + now.before.lost_in_kernel >= LINES
    })
    .await;
    let stopped = tokio::time::timeout(PATIENCE, relay.stop(Duration::ZERO)).await.expect("it stops");
    assert!(stopped.adds_up(), "{stopped:?}");
    collector.stop().await;
}
