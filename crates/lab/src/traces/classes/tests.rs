use festina_netsim::RandomStream;

use super::*;

/// `count` flows around a middle, each value within a tenth of it.
fn around(middle: Features, count: u64, random: &mut RandomStream) -> Vec<Features> {
    (0..count)
        .map(|_| {
            let mut near = |value: f64| value * (0.9 + 0.2 * as_f64(random.below(1_000)) / 1e3);
            Features {
                duration_s: near(middle.duration_s),
                payload_bytes: near(middle.payload_bytes),
                bits_per_s: near(middle.bits_per_s),
                packet_bytes: near(middle.packet_bytes),
                gap_median_ms: near(middle.gap_median_ms),
                gap_spread: near(middle.gap_spread),
                in_flight: near(middle.in_flight),
                ..middle
            }
        })
        .collect()
}

fn game() -> Features {
    Features {
        duration_s: 600.0,
        payload_bytes: 120_000.0,
        bits_per_s: 3_000.0,
        packet_bytes: 100.0,
        gap_median_ms: 450.0,
        gap_spread: 2.0,
        idle_share: 0.0,
        thin_share: 1.0,
        in_flight: 1.2,
    }
}

fn bulk() -> Features {
    Features {
        duration_s: 30.0,
        payload_bytes: 3e7,
        bits_per_s: 8e6,
        packet_bytes: 1_448.0,
        gap_median_ms: 0.02,
        gap_spread: 500.0,
        idle_share: 0.0,
        thin_share: 0.01,
        in_flight: 60.0,
    }
}

fn web() -> Features {
    Features {
        duration_s: 0.4,
        payload_bytes: 20_000.0,
        bits_per_s: 4e5,
        packet_bytes: 1_200.0,
        gap_median_ms: 0.05,
        gap_spread: 800.0,
        idle_share: 0.0,
        thin_share: 0.6,
        in_flight: 5.0,
    }
}

fn mixture() -> Vec<Features> {
    let mut random = RandomStream::new(1, "flows");
    let mut flows = around(game(), 20, &mut random);
    flows.extend(around(bulk(), 10, &mut random));
    flows.extend(around(web(), 40, &mut random));
    flows
}

#[test]
fn three_kinds_of_flows_are_three_clusters_with_their_classes() {
    let classes = Classes::of(&mixture()).expect("there are flows");
    let found: Vec<(usize, Class)> = classes.clusters.iter().map(|cluster| (cluster.flows, cluster.class)).collect();
    assert_eq!(found, [(40, Class::ShortWeb), (20, Class::Interactive), (10, Class::Bulk)]);
    assert_eq!(classes.of_flow[..20], [1; 20]);
    assert!(classes.silhouettes[1] > 0.8, "{:?}", classes.silhouettes);
    assert!(classes.svg.ends_with("</svg>\n") && classes.svg.contains("3 clusters"));
}

#[test]
fn the_order_of_flows_makes_no_difference() {
    let flows = mixture();
    let backwards: Vec<Features> = flows.iter().rev().copied().collect();
    let [one, mut other] =
        [Classes::of(&flows), Classes::of(&backwards)].map(|classes| classes.expect("there are flows"));
    other.of_flow.reverse();
    assert_eq!(one, other);
}

#[test]
fn flows_of_one_kind_stay_together() {
    let alike = vec![game(); 30];
    let classes = Classes::of(&alike).expect("there are flows");
    assert_eq!((classes.clusters.len(), classes.clusters[0].flows), (1, 30));
    assert_eq!(Classes::of(&alike[..2]), None);
}

#[test]
fn the_silhouette_of_two_pairs_is_what_it_is_by_hand() {
    // On a line at 0, 1, 10 and 11: for the first (10.5 - 1) / 10.5, for the second (9.5 - 1) / 9.5.
    let at = |x: f64| std::array::from_fn(|index| if index == 0 { x } else { 0.0 });
    let points: Vec<Point> = [0.0, 1.0, 10.0, 11.0].map(at).into();
    let mean = silhouette(&distances(&points), &[0, 0, 1, 1]);
    assert!((mean - f64::midpoint(9.5 / 10.5, 8.5 / 9.5)).abs() < 1e-12, "{mean}");
}

#[test]
fn a_game_that_is_silent_for_most_of_its_time_is_interactive_and_pages_at_such_gaps_are_not() {
    // World of Warcraft (P10 Table 1) has a median gap of 133 ms, and more than half of its time lies in gaps of more than a second.
    let silent = Features { gap_median_ms: 133.0, gap_spread: 30.0, idle_share: 0.66, packet_bytes: 26.0, ..game() };
    assert_eq!(silent.class(), Class::Interactive);
    let pages = Features { packet_bytes: 1_350.0, gap_median_ms: 0.1, idle_share: 0.99, ..silent };
    assert_eq!(pages.class(), Class::PersistentWeb);
}

#[test]
fn features_have_a_name_for_each_value_in_the_same_order() {
    let features = game();
    assert_eq!(Features::from_values(features.values()), features);
    let named = |name| FEATURES.iter().position(|known| *known == name).map(|place| features.values()[place]);
    assert_eq!([named("packet_bytes"), named("in_flight")], [Some(100.0), Some(1.2)]);
}
