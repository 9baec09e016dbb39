//! Random walks against a peer that lies: with arbitrary SACKs, and mechanisms that change meanwhile, nothing spins, nothing is stuck and nothing
//! grows beyond the acknowledged data.

use festina_recovery::backoff::Backoff;
use festina_recovery::early_copy::EarlyCopies;
use festina_recovery::profile::{Destinations, LossDetection, Rules, SpuriousResponse};
use festina_recovery::rtt::RttSampling;
use festina_recovery::thin::ThinDetection;

use super::walk::Dice;
use super::*;

const SEEDS: u64 = 300;
const STEPS: usize = 250;

/// Far more than anything that is due at one time.
const AT_ONCE_MAX: usize = 400;

struct Liar {
    rig: Rig,
    dice: Dice,
    highest_tsn: u32,
    cumulative: u32,
    bytes_sent: u64,
}

/// Any rules of any profile, with some switches turned.
fn rules(dice: &mut Dice) -> Rules {
    let profile = if dice.percent(40) { Profile::Festina } else { *dice.pick(Profile::all()) };
    let mechanisms = profile.mechanisms();
    let mut rules = *mechanisms.rules(dice.percent(50));
    if dice.percent(30) {
        rules.spurious = SpuriousResponse { f_rto: dice.percent(70), undo: dice.percent(70) };
    }
    if dice.percent(20) {
        rules.loss_detection = *dice.pick(&[LossDetection::Counted, LossDetection::Tolerant, LossDetection::Rack]);
    }
    if dice.percent(20) {
        rules.early_fast_retransmit = dice.percent(50).then_some(ms(20));
    }
    if dice.percent(20) {
        rules.probe = dice.pick(Profile::all()).mechanisms().thin.probe;
    }
    if dice.percent(20) {
        rules.bundling.into_timeout = dice.percent(50);
        rules.bundling.with_new_data = dice.percent(50);
    }
    if dice.percent(20) {
        rules.rtt_sampling = RttSampling::Inferred;
    }
    if dice.percent(20) {
        rules.backoff = Backoff::Linear { linear_for: ms(dice.roll(10_000)) };
    }
    rules
}

fn mechanisms(dice: &mut Dice) -> Mechanisms {
    let thin_detection = *dice.pick(&[
        ThinDetection::Never,
        ThinDetection::Static { in_flight_below: 4 },
        ThinDetection::Dynamic { pttfr: 3 },
        ThinDetection::Light { pttfr: 3, bytes_max: 4_344 },
    ]);
    let redundancy = *dice.pick(&Redundancy::NAMED);
    let (early_copies, destinations) = (EarlyCopies::Off, Destinations::RFC9260);
    Mechanisms { thin_detection, normal: rules(dice), thin: rules(dice), redundancy, early_copies, destinations }
}

impl Liar {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mechanisms = mechanisms(&mut dice);
        let congestion = *dice.pick(CongestionControl::all());
        let mut rig = Rig::with(&Config { congestion, ..config(mechanisms) });
        rig.path.set_peer_decodes(dice.percent(50));
        if dice.percent(80) {
            rig = rig.measured(ms(1 + dice.roll(300)));
        }
        Self { rig, dice, highest_tsn: 0, cumulative: 0, bytes_sent: 0 }
    }

    fn submit(&mut self) {
        let len = match self.dice.roll(8) {
            0 => 1 + self.dice.roll(20_000),
            1 => 1 + self.dice.roll(2_000),
            _ => 1 + self.dice.roll(200),
        };
        let mut message = Message::new(vec![0; usize::try_from(len).expect("small")]);
        if self.dice.percent(20) {
            message = message.with_lifetime(ms(self.dice.roll(500)));
        }
        let _full = self.rig.try_send(message);
    }

    fn lie(&mut self) {
        let outstanding = u64::from(self.highest_tsn - self.cumulative);
        let roll = |dice: &mut Dice, sides: u64| u32::try_from(dice.roll(sides)).expect("small");
        if self.dice.percent(40) {
            self.cumulative += roll(&mut self.dice, outstanding + 1);
        }
        let left = self.highest_tsn - self.cumulative;
        let mut gaps = Vec::new();
        if left > 1 {
            for _ in 0..self.dice.roll(4) {
                let start = 2 + roll(&mut self.dice, u64::from(left) - 1);
                let end = start + roll(&mut self.dice, u64::from(left - start) + 1);
                gaps.push((u16::try_from(start).expect("small"), u16::try_from(end).expect("small")));
            }
        }
        if self.dice.percent(80) {
            gaps.sort_unstable();
        }
        let duplicates: Vec<_> =
            (0..self.dice.roll(5)).map(|_| self.highest_tsn.saturating_sub(roll(&mut self.dice, 20))).collect();
        let a_rwnd = match self.dice.roll(6) {
            0 => 0,
            1 => roll(&mut self.dice, 3_000),
            _ => WINDOW,
        };
        let cumulative = if self.dice.percent(5) { self.cumulative.saturating_sub(3) } else { self.cumulative };
        if self.dice.percent(5) {
            self.rig.acknowledge(Acknowledgement::cumulative(Tsn(cumulative))).expect("it was sent");
            return;
        }
        self.rig.sack_full(cumulative, a_rwnd, &gaps, &duplicates);
    }

    /// Everything leaves that may.
    fn drain(&mut self) {
        let mut packets = 0;
        while self.rig.can_send() {
            let packet = self.rig.packet();
            packets += 1;
            assert!(
                !packet.is_empty() || !self.rig.can_send(),
                "it may send and has nothing to send: {:?}",
                self.rig.sender
            );
            assert!(packets < AT_ONCE_MAX, "too many packets at once: {:?}", self.rig.sender);
            for chunk in &packet {
                self.highest_tsn = self.highest_tsn.max(chunk.tsn);
                self.bytes_sent += chunk.len as u64;
            }
        }
        self.rig.events();
    }

    /// Handles everything that is due now.
    fn settle(&mut self) {
        self.drain();
        for _ in 0..AT_ONCE_MAX {
            let deadline = self.rig.deadline();
            let Some(_) = deadline.filter(|&deadline| deadline <= self.rig.now) else {
                assert!(deadline.is_some() || self.rig.sender.flight.is_drained(), "stuck: {:?}", self.rig.sender);
                return;
            };
            self.rig.handle_timeout();
            self.drain();
        }
        panic!("a timer expires for ever: {:?}", self.rig.sender);
    }

    fn step(&mut self) {
        match self.dice.roll(20) {
            0..=6 => self.submit(),
            7..=12 => self.lie(),
            13..=15 => {
                let wait = [2, 20, 200, 2_000][usize::try_from(self.dice.roll(4)).expect("below four")];
                self.rig.now += Duration::from_micros(self.dice.roll(wait * 1_000));
            }
            16..=17 => {
                if let Some(deadline) = self.rig.deadline() {
                    self.rig.now = self.rig.now.max(deadline);
                }
            }
            18 => {
                let rtt = Duration::from_micros(self.dice.roll(2_000_000));
                self.rig.sender.handle_round_trip(self.rig.now, &mut self.rig.path, rtt, &mut self.rig.events);
            }
            _ => {
                let mechanisms = mechanisms(&mut self.dice);
                self.rig.sender.set_mechanisms(self.rig.now, &mut self.rig.path, &mechanisms);
            }
        }
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.dice.percent(60) {
                self.settle();
            }
            let stats = self.rig.stats();
            assert!(stats.path.cwnd_bytes <= 12 * CHUNKS_BYTES as u64 + 2 * self.bytes_sent, "{:?}", self.rig.sender);
        }
        self.settle();
        for _ in 0..5_000 {
            if self.rig.sender.flight.is_drained() {
                return;
            }
            if self.dice.percent(30) {
                self.cumulative = self.highest_tsn;
                self.rig.sack(self.cumulative, &[]);
            } else if let Some(deadline) = self.rig.deadline() {
                self.rig.now = self.rig.now.max(deadline);
            }
            self.settle();
        }
        panic!("stuck: {:?}", self.rig.sender);
    }
}

#[test]
fn a_lying_peer_neither_spins_nor_stops_a_sender_whose_mechanisms_change() {
    let failed: Vec<_> =
        (0..SEEDS).filter(|&seed| std::panic::catch_unwind(|| Liar::new(seed).run()).is_err()).collect();
    assert!(failed.is_empty(), "seeds {failed:?} failed");
}

#[test]
fn a_peer_that_never_acknowledges_the_first_chunk_does_not_make_a_thin_stream_ever_dearer() {
    let mut rig = Rig::new(Profile::Festina).measured(ms(100));
    rig.flight(1, 1);
    let mut outstanding_while_thin = 0;
    for last in 2..=3_000 {
        rig.wait(30);
        rig.flight(1, 1);
        rig.sack(0, &[(2, last)]);
        rig.packets();
        if rig.path.repair.is_thin() {
            outstanding_while_thin = rig.sender.flight.ledger.len();
        }
    }
    assert!(rig.sender.flight.ledger.len() >= 3_000);
    assert!((2_000..=2_048).contains(&outstanding_while_thin), "{outstanding_while_thin}");
}
