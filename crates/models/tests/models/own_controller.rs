//! The example of a congestion controller outside the core carries a transfer.

#[path = "../../examples/own_controller.rs"]
#[expect(dead_code, reason = "the example has a main function")]
mod example;

use std::time::Duration;

use example::{DelayBased, Transfer, transfer};
use festina_sctp::CongestionControl;
use festina_units::Probability;

const NO_LOSS: Probability = Probability::from_ppb(0);

#[test]
fn a_controller_from_outside_the_core_decides_how_much_is_in_flight() {
    let Transfer { bytes, stats } = transfer(DelayBased::CHOICE, NO_LOSS);
    assert!(bytes * 8 > 20 * 8_500_000, "{bytes} bytes arrived in 20 s over 10 Mbit/s");
    let srtt = stats.path.srtt.expect("it was measured");
    assert!(srtt < Duration::from_millis(55), "the queue delays by {srtt:?} less 40 ms");
    assert_eq!(stats.sent.chunks_lost, 0);
    let cubic = transfer(CongestionControl::Cubic, NO_LOSS).stats.path.srtt.expect("it was measured");
    assert!(cubic > srtt + Duration::from_millis(20), "CUBIC fills the queue: {cubic:?}, {srtt:?}");
}

#[test]
fn a_controller_from_outside_the_core_hears_of_losses() {
    let Transfer { bytes, stats } = transfer(DelayBased::CHOICE, Probability::from_ppb(1_000_000));
    assert!(stats.sent.chunks_lost > 0);
    let (cut, uncut) = (stats.path.ssthresh_bytes, transfer(DelayBased::CHOICE, NO_LOSS).stats.path.ssthresh_bytes);
    assert!(4 * cut < 3 * uncut, "threshold {cut} after a loss, {uncut} without");
    assert!(bytes * 8 > 20 * 4_000_000, "{bytes} bytes arrived in 20 s over 10 Mbit/s");
}
