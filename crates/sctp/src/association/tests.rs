use super::*;
use crate::Config;

#[test]
fn an_association_is_small_enough_that_an_idle_one_costs_little() {
    let bytes = size_of::<Association>();
    assert!(bytes <= 1_648, "{bytes} bytes: the budget of 2.3 KB per idle association has no room for that");
}

/// An association with a path to each of two addresses.
fn with_two_paths() -> Association {
    let (now, config) = (Instant::ZERO, Config::default());
    let context = Context::new(config, [7; 16]).unwrap();
    let ports = Ports { local: 5_000, peer: 5_001 };
    let mut association = Association::connect(now, &context, "192.0.2.1:9899".parse().unwrap(), ports, 1);
    let sending = SendPath::new(now, PathId(1), context.config(), Arc::clone(context.mechanisms()), 4_344);
    association
        .paths
        .open(vec![Path::new(now, "[2001:db8::1]:9899".parse().unwrap(), sending)], &Multihoming::default());
    association
}

#[test]
fn each_path_has_its_own_statistics() {
    let mut association = with_two_paths();
    let Association { sender, paths, events, .. } = &mut association;
    let round_trip = Duration::from_millis(300);
    sender.handle_round_trip(Instant::ZERO, &mut paths.of_mut(PathId(1)).sending, round_trip, events);
    let stats: Vec<_> = association.path_stats().collect();
    assert_eq!(stats.iter().map(|path| path.id).collect::<Vec<_>>(), [PathId::PRIMARY, PathId(1)]);
    assert_eq!(stats[0], association.stats().path, "the primary path comes first");
    assert_eq!([stats[0].srtt, stats[1].srtt], [None, Some(round_trip)]);
}

#[test]
fn the_address_of_each_path_is_one_of_the_peers_and_comes_before_the_others() {
    let mut association = with_two_paths();
    for address in ["198.51.100.7", "::ffff:192.0.2.1", "2001:db8::1"] {
        association.peer.addresses.insert_first(address.parse().unwrap());
    }
    let addresses: Vec<_> = association.peer_addresses().map(|address| address.to_string()).collect();
    assert_eq!(addresses, ["192.0.2.1", "2001:db8::1", "198.51.100.7"]);
}
