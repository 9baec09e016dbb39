//! Addresses that come and go while an association lasts.

use super::*;

impl TwoNetworks {
    /// The host has these addresses from now on, and names them.
    fn readdress(&mut self, host: usize, before: &Arc<Context>, addresses: &[IpAddr]) -> Arc<Context> {
        let after = before.with_addresses(addresses);
        let now = self.now();
        self.end(host).use_addresses(now, (before, &after));
        self.run_for(Duration::ZERO);
        after
    }

    fn of_host(host: usize) -> [IpAddr; 2] {
        [0, 1].map(|network| address(host, network).ip())
    }

    /// Paths that are not closed.
    fn open(&self, host: usize) -> Vec<(SocketAddr, PathState)> {
        let open = self.paths(host).into_iter().filter(|path| path.1 != PathState::Closed);
        open.map(|(remote, state, _)| (remote, state)).collect()
    }
}

#[test]
fn lists_of_addresses_arrive_although_a_third_of_the_datagrams_is_lost() {
    for seed in 1..=20 {
        let loss = Probability::from_percent(30);
        let first: [_; 2] = [0, 1].map(|host| multihomed(host, Vec::new()));
        let mut networks = TwoNetworks::between(&first, loss, seed);
        networks.run_for(SECOND * 20);
        let both = [0, 1].map(|host| networks.readdress(host, &first[host], &TwoNetworks::of_host(host)));
        networks.stream(SECOND * 10);
        for host in 0..2 {
            let expected = BTreeSet::from([0, 1].map(|network| address(1 - host, network)));
            let open: BTreeSet<_> = networks.open(host).into_iter().map(|path| path.0).collect();
            assert_eq!(open, expected, "seed {seed}, host {host}");
        }
        let last = [0, 1].map(|host| networks.readdress(host, &both[host], &[address(host, 1).ip()]));
        networks.cut(0, true, loss);
        networks.stream(SECOND * 10);
        networks.run_for(SECOND * 60);
        for host in 0..2 {
            assert_eq!(networks.open(host).len(), 1, "seed {seed}: {:?}", networks.paths(host));
        }
        // They may come back.
        networks.cut(0, false, loss);
        for (host, last) in last.iter().enumerate() {
            networks.readdress(host, last, &TwoNetworks::of_host(host));
        }
        networks.stream(SECOND * 20);
        networks.run_for(SECOND * 100);
        assert!([0, 1].into_iter().all(|host| networks.open(host).len() == 2), "seed {seed}");
        networks.assert_all_delivered();
    }
}

#[test]
fn data_in_flight_to_an_address_that_goes_is_repeated_elsewhere_at_once() {
    let contexts = both_multihomed();
    let mut networks = TwoNetworks::between(&contexts, Probability::ZERO, 3);
    networks.stream(SECOND);
    // The client's packets do not reach the address any more, and the list still leaves from there.
    networks.networks.link_mut(0, 0).set_loss(LossModel::Independent(Probability::ONE));
    networks.send(20);
    networks.readdress(1, &contexts[1], &[address(1, 1).ip()]);
    networks.stream(SECOND);
    networks.run_for(SECOND);
    networks.assert_all_delivered();
    let delay = networks.delays().find(|(number, _)| *number == 20).map(|(_, delay)| delay);
    assert_eq!(delay, Some(DELAY * 2), "the list there, and the message back");
    assert_eq!(networks.open(0), [(address(1, 1), PathState::Active)]);
}

#[test]
fn a_peer_that_leaves_all_addresses_that_answer_keeps_them_until_another_does() {
    let contexts = both_multihomed();
    let mut networks = TwoNetworks::between(&contexts, Probability::ZERO, 4);
    let nowhere = IpAddr::from([203, 0, 113, 1]);
    let before = networks.readdress(0, &contexts[0], &[nowhere]);
    networks.stream(SECOND * 3);
    networks.assert_all_delivered();
    let remotes: Vec<SocketAddr> = networks.open(1).into_iter().map(|path| path.0).collect();
    assert_eq!(remotes, [address(0, 0), address(0, 1), SocketAddr::new(nowhere, 9_899)]);
    // A list of none that may be used changes nothing.
    let unusable = [[127, 0, 0, 1], [224, 0, 0, 1], [0, 0, 0, 0]].map(IpAddr::from);
    let before = networks.readdress(0, &before, &unusable);
    networks.stream(SECOND * 3);
    assert_eq!(networks.open(1).len(), 3);
    // Once an address that is named answers, the others are left.
    networks.readdress(0, &before, &[address(0, 1).ip()]);
    networks.stream(SECOND * 3);
    assert_eq!(networks.open(1), [(address(0, 1), PathState::Active)]);
    networks.assert_all_delivered();
}

#[test]
fn a_client_that_names_ever_other_victims_makes_nobody_send_more_than_three_times_its_bytes() {
    let (contexts, mut number) = ([multihomed(0, vec![address(0, 0).ip()]), multihomed(1, Vec::new())], 0_u16);
    let mut networks = TwoNetworks::between(&contexts, Probability::ZERO, 5);
    let mut before = Arc::clone(&contexts[0]);
    for _ in 0..1_000 {
        let mut addresses = vec![address(0, 0).ip()];
        for _ in 0..7 {
            let [high, low] = number.to_be_bytes();
            addresses.push(IpAddr::from([203, 0, high, low]));
            number += 1;
        }
        before = networks.readdress(0, &before, &addresses);
        networks.run_for(DELAY * 3);
        assert!(networks.paths(1).len() <= 8);
    }
    networks.run_for(SECOND * 600);
    let of_client: usize = networks.bytes(0).into_values().sum();
    let mut to_each = networks.bytes(1);
    to_each.retain(|to, _| to.ip().to_string().starts_with("203"));
    let (to_victims, most) = (to_each.values().sum::<usize>(), to_each.into_values().max().unwrap_or_default());
    println!("{to_victims} bytes to victims for {of_client}, at most {most} to one");
    assert!(to_victims <= 3 * of_client && most <= 40 * HEARTBEAT_BYTES, "{to_victims} of {of_client}, {most}");
    networks.stream(SECOND);
    networks.assert_all_delivered();
}
