//! Offers of browsers.

use std::sync::Mutex;

use festina_units::Instant;
use festina_web::gateway::Gateway;

use crate::web::{OFFER, gateway};

/// An offer, as it is and behind the lines that every offer has.
///
/// # Panics
/// If an answer has lines of the browser's making, or more than an INIT is sent to the endpoint.
pub fn run(data: &[u8]) {
    let now = Instant::from_secs(1);
    static GATEWAY: Mutex<Option<Gateway>> = Mutex::new(None);
    let mut kept = GATEWAY.lock().unwrap();
    let gateway = kept.get_or_insert_with(|| gateway(now));
    let text = String::from_utf8_lossy(data);
    for offer in [text.clone().into_owned(), format!("{OFFER}{text}"), format!("{text}\n{OFFER}")] {
        let Ok((id, answer)) = gateway.answer(now, &offer) else { continue };
        assert_eq!(answer.split("\r\n").count(), 18, "{answer}");
        assert!(answer.split_terminator("\r\n").all(|line| line.as_bytes().get(1) == Some(&b'=')), "{answer}");
        assert!(answer.len() < 1_000, "{answer}");
        assert!(gateway.restart(id.number(), &offer).is_ok());
        if gateway.ask(id) {
            assert!(gateway.poll_packet().is_some_and(|(of, packet)| of == id && packet.len() < 2_000));
        }
        gateway.send(now, id, data);
        gateway.close(id);
        assert_eq!(gateway.peers(), 0);
        while gateway.poll_event().is_some() {}
        assert_eq!(gateway.poll_datagram(), None, "no browser is connected");
    }
}
