//! A relay and one to three collectors on disks that fail, tear and forget, over networks that break, while collectors come and go: no line that
//! was safe is lost over all of them, none is twice in one, and none twice in all of them unless that was asked for; in each the lines of a
//! source keep their order. The seed decides everything:
//!
//! ```text
//! TEST_SEEDS=17..18 cargo test -p festina-syslog --test syslog exactly_once
//! ```

mod copies;
mod gaps;
mod list;
mod place;
mod world;

use world::{Tally, World};

use crate::seeds;

/// Run in any case: finds lines that are only on disk and count as copied.
const RARE: u64 = 16_105;

/// Fewer seeds need not have seen everything.
const SEEDS_MIN: u64 = 100;

#[test]
fn whatever_crashes_and_whoever_goes_no_safe_line_is_lost_and_each_is_once_in_all_outputs() {
    let (mut tally, seeds) = (Tally::default(), seeds::extent(0..500, 0..4_000));
    let worlds = seeds.end - seeds.start;
    for seed in seeds.chain([RARE]) {
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.step();
        }
        world.finish();
        world.check(&mut tally);
    }
    let Tally {
        lines,
        safe,
        in_order,
        repeated,
        worlds_of_several,
        places_used,
        fresh_taken,
        fresh_written,
        refused,
        moved,
    } = tally;
    println!("{lines} lines, {safe} safe, {in_order} in order, {repeated} repeated, {places_used} places used");
    println!(
        "{fresh_written} of {fresh_taken} fresh lines written, {refused} strangers refused, {moved} outputs moved"
    );
    if worlds < SEEDS_MIN {
        return;
    }
    // The test would be worth nothing if next to no line were ever safe, or in order, or if one of several collectors did it all.
    assert!(safe > lines / 3, "{safe} of {lines} lines were safe");
    assert!(in_order > lines / 4, "{in_order} of {lines} lines had to be in order");
    assert!(fresh_written > fresh_taken / 4 && fresh_taken > 0, "{fresh_written} of {fresh_taken} fresh lines");
    assert!(refused > 0 && moved > 0, "{refused} strangers were refused, {moved} outputs moved");
    assert!(
        places_used * 2 > worlds_of_several * 3,
        "{places_used} of 2 or 3 collectors in {worlds_of_several} worlds"
    );
}
