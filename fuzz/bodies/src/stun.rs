//! Requests of ICE, to a gateway that waits for a browser.

use std::net::SocketAddr;
use std::sync::Mutex;

use festina_units::Instant;
use festina_web::gateway::{Gateway, binding_request_of};

use crate::web::{OFFER, credentials, gateway};

/// A request of ICE whose attributes are the input, with and without those that make it valid.
///
/// # Panics
/// If an answer is longer than its request, or a request without the user name has one.
pub fn run(data: &[u8]) {
    let now = Instant::from_secs(1);
    // A key takes a hundred times as long as a request.
    static GATEWAY: Mutex<Option<(Gateway, String)>> = Mutex::new(None);
    let mut kept = GATEWAY.lock().unwrap();
    let (gateway, answer) = kept.get_or_insert_with(|| {
        let mut gateway = gateway(now);
        let (_, answer) = gateway.answer(now, OFFER).unwrap();
        (gateway, answer)
    });
    let (user, password) = credentials(answer);
    let name = format!("{user}:here");
    let mut named = vec![0, 6, 0, u8::try_from(name.len()).unwrap()];
    named.extend(name.as_bytes());
    named.resize(named.len().next_multiple_of(4), 0);
    let mut transaction = [0; 12];
    data.iter().zip(&mut transaction).for_each(|(from, to)| *to = *from);
    let padded = [data, &[0; 3][..data.len().next_multiple_of(4) - data.len()]].concat();
    // The first byte tells STUN from DTLS.
    for request in [
        [&[data.first().map_or(0, |byte| byte % 4)], data.get(1..).unwrap_or_default()].concat(),
        binding_request_of(transaction, &padded, password),
        binding_request_of(transaction, &[&named, &padded[..]].concat(), password),
        binding_request_of(transaction, &[&padded[..], &named].concat(), password),
    ] {
        gateway.handle_datagram(now, SocketAddr::from(([198, 51, 100, 1], 1_000)), None, &request);
        let answers: Vec<_> = std::iter::from_fn(|| gateway.poll_datagram()).collect();
        assert!(answers.len() <= 1, "{} answers", answers.len());
        assert!(answers.iter().all(|answer| answer.bytes.len() <= request.len().max(120)), "a longer answer");
        assert!(answers.is_empty() || request.windows(name.len()).any(|part| part == name.as_bytes()));
        assert_eq!(gateway.peers(), 1);
    }
}
