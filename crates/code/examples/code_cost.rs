//! What encoding and decoding cost.
//!
//! `cargo run --release -p festina-code --example code_cost` prints nanoseconds for symbols of 100 and 1,200 bytes: a repair symbol over 2, 4 and 16
//! symbols with its source symbols; a stream without loss and one in which each tenth symbol is recovered; and repair symbols that a hostile peer
//! makes as costly as the decoder allows. With a case (0 to 5) and a length as arguments it runs that case only, and
//! `valgrind --tool=callgrind --toggle-collect='*run_case*'` counts its instructions.

use std::time::Duration;

use festina_code::{Decoder, Encoder, Window};

const ROUNDS: u64 = 20_000;
const CASES: [&str; 6] = [
    "to encode, a repair symbol over 2 after every second symbol",
    "to encode, a repair symbol over 4 after every second symbol",
    "to encode, a repair symbol over 16 after every symbol",
    "to decode the second without loss",
    "to decode the second with a tenth lost",
    "of a hostile repair symbol",
];
const WINDOWS: [usize; 6] = [2, 4, 16, 4, 4, 16];
const LOST_EVERY: u64 = 10;
const HOSTILE: usize = 5;

/// A repair symbol after every second source symbol, or after each if the window is 16.
fn repairs(case: usize, symbol: &[u8], mut take: impl FnMut(u64, Window, &[u8])) {
    let (mut encoder, mut sum) = (Encoder::default(), Vec::new());
    for id in 0..ROUNDS {
        encoder.push(id, symbol);
        if id % 2 == 1 || WINDOWS[case] == 16 {
            sum.clear();
            if let Some(window) = encoder.repair(WINDOWS[case], &mut sum) {
                take(id, window, &sum);
            }
        }
    }
}

#[inline(never)]
fn run_case(case: usize, symbol: &[u8], made: &[(u64, Window, Vec<u8>)]) -> u64 {
    if case < 3 {
        let mut bytes = 0;
        repairs(case, symbol, |_, _, sum| bytes += sum.len() as u64);
        return bytes;
    }
    if case == HOSTILE {
        return hostile(symbol);
    }
    let (mut decoder, mut recovered, mut id) = (Decoder::default(), 0, 0);
    for (last, window, sum) in made {
        while id <= *last {
            if case == 3 || id % LOST_EVERY != 0 {
                decoder.handle_source(id, symbol);
            }
            id += 1;
        }
        decoder.handle_repair(*window, sum);
        while decoder.poll_recovered().is_some() {
            recovered += 1;
        }
    }
    recovered
}

/// Repair symbols with as many unknown symbols as possible, and now and then a source symbol that is known in the next.
fn hostile(sum: &[u8]) -> u64 {
    let mut decoder = Decoder::default();
    for round in 0..ROUNDS {
        if round % 8 == 0 {
            decoder.handle_source(2 * round, &sum[5..]);
        }
        let row = (round % 8) as u8;
        decoder.handle_repair(Window { first: 2 * round, mask: u16::MAX, row }, sum);
    }
    0
}

#[expect(clippy::disallowed_methods, reason = "an example measures the time that it takes")]
fn time(run: impl Fn()) -> f64 {
    let times = (0..9).map(|_| {
        let begun = std::time::Instant::now();
        run();
        begun.elapsed()
    });
    times.min().unwrap_or(Duration::ZERO).as_nanos() as f64 / ROUNDS as f64
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (chosen, length) = (arguments.next(), arguments.next());
    for length in [100, 1_200].into_iter().filter(|known| length.is_none_or(|length| length == *known)) {
        let symbol: Vec<u8> = (0..length).map(|at: usize| at.wrapping_mul(167).to_le_bytes()[0]).collect();
        for (case, name) in CASES.iter().enumerate().filter(|(case, _)| chosen.is_none_or(|chosen| chosen == *case)) {
            let mut made = Vec::new();
            if case == 3 || case == 4 {
                repairs(case, &symbol, |id, window, sum| made.push((id, window, sum.to_vec())));
                let lost = if case == 3 { 0 } else { ROUNDS / LOST_EVERY };
                assert_eq!(run_case(case, &symbol, &made), lost);
            }
            if chosen.is_none() {
                let time = time(|| assert!(run_case(case, &symbol, &made) < u64::MAX));
                println!("{time:6.0} ns per symbol of {length} bytes {name}");
            } else {
                run_case(case, &symbol, &made);
            }
        }
    }
}
