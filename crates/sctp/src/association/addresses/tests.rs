use super::*;
use crate::association::negotiation::tests::{INIT, init_in};
use crate::wire::{InitOut, UnknownParameter};

const SOURCE: &str = "192.0.2.1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The book of an INIT from `source` with these parameters.
fn read_parameters(source: &str, parameters: &[Parameter<'_>]) -> AddressBook {
    let mut buffer = Vec::new();
    let init = init_in(&mut buffer, InitOut { parameters, ..INIT });
    AddressBook::read(&init, ip(source))
}

fn read(source: &str, addresses: &[&str]) -> Vec<String> {
    let parameters: Vec<_> = addresses.iter().map(|address| parameter_of(ip(address))).collect();
    read_parameters(source, &parameters).as_slice().iter().map(ToString::to_string).collect()
}

/// A different address for each number, IPv4 and IPv6 in turn, without a pattern in its bits.
fn scattered(number: u64) -> IpAddr {
    let mixed = |number: u64| (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if number.is_multiple_of(2) {
        let [first, second, third, ..] = mixed(number).to_be_bytes();
        IpAddr::from([10, first, second, third])
    } else {
        let bits = 0x2001_0db8 << 96 | u128::from(mixed(number));
        IpAddr::V6(bits.into())
    }
}

#[test]
fn rfc9260_5_1_2_all_named_addresses_are_known_and_no_other_among_thousands() {
    let mut strangers = 0;
    for first in (0..80_000).step_by(ADDRESSES_MAX) {
        let of_book = first..first + ADDRESSES_MAX as u64;
        let parameters: Vec<_> = of_book.clone().map(|number| parameter_of(scattered(number))).collect();
        let book = read_parameters(SOURCE, &parameters);
        assert!(of_book.clone().all(|number| book.contains(scattered(number))), "{book:?}");
        strangers += (of_book.end..of_book.end + 100).filter(|&number| book.contains(scattered(number))).count();
    }
    assert_eq!(strangers, 0);
}

#[test]
fn the_source_is_not_in_the_book_and_each_other_address_is_there_once_in_order() {
    let named = ["2001:db8::7", SOURCE, "198.51.100.7", "2001:db8::7", "198.51.100.7"];
    assert_eq!(read(SOURCE, &named), ["2001:db8::7", "198.51.100.7"]);
    assert_eq!(read(SOURCE, &[SOURCE]), [""; 0]);
}

#[test]
fn rfc9260_3_3_2_1_2_a_mapped_address_is_the_ipv4_address() {
    assert_eq!(read(SOURCE, &["::ffff:198.51.100.7", "198.51.100.7", "::ffff:192.0.2.1"]), ["198.51.100.7"]);
    assert_eq!(read("::ffff:192.0.2.1", &[SOURCE]), [""; 0]);
    let book = read_parameters(SOURCE, &[parameter_of(ip("198.51.100.7"))]);
    assert!(book.contains(ip("::ffff:198.51.100.7")));
}

#[test]
fn addresses_that_are_of_no_host_or_of_another_one_at_the_receiver_are_left_out() {
    let unusable =
        ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "ff02::1", "::ffff:224.0.0.1", "127.0.0.1", "::1", "fe80::1"];
    assert_eq!(read(SOURCE, &unusable), [""; 0]);
    assert_eq!(read("127.0.0.1", &unusable), ["::1"]);
    assert_eq!(read("::1", &unusable), ["127.0.0.1"]);
    assert_eq!(read("fe80::2", &unusable), ["fe80::1"]);
}

#[test]
fn addresses_beyond_the_limit_are_not_known_however_many_an_init_names() {
    let parameters: Vec<_> = (0..4_000).map(|number| parameter_of(scattered(number))).collect();
    let book = read_parameters(SOURCE, &parameters);
    let first: Vec<_> = (0..ADDRESSES_MAX as u64).map(scattered).collect();
    assert_eq!(book.as_slice(), first);
    assert!(!book.contains(scattered(ADDRESSES_MAX as u64)));
}

#[test]
fn rfc9260_3_2_1_addresses_behind_a_parameter_that_ends_the_reading_are_not_read() {
    let (before, behind) = (parameter_of(ip("198.51.100.7")), parameter_of(ip("198.51.100.8")));
    for (parameter_type, count) in [(0x0123, 1), (0x4123, 1), (0x8123, 2), (0xc123, 2)] {
        let unknown = Parameter::Unknown(UnknownParameter { parameter_type, value: &[] });
        let book = read_parameters(SOURCE, &[before, unknown, behind]);
        assert_eq!(book.as_slice().len(), count, "{parameter_type:#x}");
    }
}

#[test]
fn an_address_put_in_front_displaces_the_last_one_of_a_full_book() {
    let parameters: Vec<_> = (0..ADDRESSES_MAX as u64).map(|number| parameter_of(scattered(number))).collect();
    let mut book = read_parameters(SOURCE, &parameters);
    book.insert_first(ip("203.0.113.1"));
    let rest: Vec<_> = (0..ADDRESSES_MAX as u64 - 1).map(scattered).collect();
    assert_eq!(book.as_slice(), [&[ip("203.0.113.1")][..], &rest].concat());
}

#[test]
fn a_list_is_read_back_only_whole() {
    let mut book = AddressBook::default();
    for number in 0..=ADDRESSES_MAX as u64 {
        let mut list = Vec::new();
        book.append_to(&mut list);
        assert!(list.len() <= LIST_BYTES_MAX);
        assert_eq!(AddressBook::from_list(&list).as_ref(), Some(&book));
        for cut in 1..list.len() {
            assert_eq!(AddressBook::from_list(&list[..cut]), None, "{cut} of {} bytes", list.len());
        }
        assert_eq!(AddressBook::from_list(&[&list[..], &[0; 4]].concat()), None);
        book.insert_first(scattered(number));
    }
    assert_eq!(AddressBook::from_list(&[[9, 0, 0, 0]; 10].concat()), None, "more than there may be");
}
