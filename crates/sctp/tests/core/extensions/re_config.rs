//! Stream reconfiguration as a peer sees it (RFC 6525).

mod busy;

use festina_sctp::{
    Direction, Event, Message, PathId, ReConfigResult, ReconfigureError, SendError, SendErrorKind, StreamId,
    StreamRequest,
};
use festina_units::EcnCodepoint;

use super::*;
use crate::rfc9260::packet::{DATA, Data, ERROR, SACK, Sent, u32_at};
use crate::rfc9260::peer::{Peer, ms};

/// The peer's first request: its first TSN is 1.
const FIRST: u32 = 1;

const PERFORMED: u32 = 1;
const DENIED: u32 = 2;
const WRONG_STREAM: u32 = 3;
const BAD_NUMBER: u32 = 5;
const IN_PROGRESS: u32 = 6;

fn settings() -> Config {
    let mut config = config();
    config.peer_requests.add_streams = true;
    config
}

fn peer_with(config: Config) -> Peer {
    Peer::serving(config, &init_ack_with(&[forward_tsn_supported(), extensions(&[FORWARD_TSN, RE_CONFIG])]))
}

fn peer() -> Peer {
    peer_with(settings())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn list(streams: &[u16]) -> Vec<u8> {
    streams.iter().flat_map(|stream| stream.to_be_bytes()).collect()
}

fn outgoing_reset(request: u32, last_tsn: u32, streams: &[u16]) -> Vec<u8> {
    tlv(13, &[words(&[request, 0, last_tsn]), list(streams)].concat())
}

fn incoming_reset(request: u32, streams: &[u16]) -> Vec<u8> {
    tlv(14, &[words(&[request]), list(streams)].concat())
}

fn response(number: u32, result: u32) -> Vec<u8> {
    tlv(16, &words(&[number, result]))
}

fn addition(kind: u16, request: u32, streams: u16) -> Vec<u8> {
    tlv(kind, &words(&[request, u32::from(streams) << 16]))
}

fn re_config(parameters: &[Vec<u8>]) -> Vec<u8> {
    chunk(RE_CONFIG, 0, &parameters.concat())
}

/// The only parameter of the only RE-CONFIG chunk of a packet: type and value.
fn parameter(sent: &Sent) -> (u16, Vec<u8>) {
    let [parameter] = crate::rfc9260::packet::tlvs(&sent.the(RE_CONFIG).value).try_into().expect("one parameter");
    parameter
}

/// The number and the result of a response.
fn result(sent: &Sent) -> (u32, u32) {
    let (kind, value) = parameter(sent);
    assert_eq!(kind, 16);
    (u32_at(&value, 0), u32_at(&value, 4))
}

/// Gives a chunk and returns its answer.
fn ask(peer: &mut Peer, parameters: &[Vec<u8>]) -> (u32, u32) {
    peer.give(&[re_config(parameters)]);
    result(&peer.take_one())
}

fn reset(peer: &mut Peer, streams: &[u16]) -> Result<(), ReconfigureError> {
    let streams: Vec<_> = streams.iter().copied().map(StreamId).collect();
    let now = peer.now;
    let done = peer.association().reset_streams(now, &streams);
    peer.wait(ms(0));
    peer.give(&[]);
    done
}

fn changes(peer: &Peer) -> Vec<&Event> {
    let is_change = |event: &&Event| {
        matches!(event, Event::StreamsReset { .. } | Event::StreamsAdded { .. } | Event::StreamRequestFailed { .. })
    };
    peer.events.iter().filter(is_change).collect()
}

fn reset_event(direction: Direction, streams: &[u16]) -> Event {
    Event::StreamsReset { direction, streams: streams.iter().copied().map(StreamId).collect() }
}

fn on(stream: u16, payload: &'static str) -> Message {
    Message::new(payload).on_stream(stream)
}

#[test]
fn rfc6525_5_1_2_a_reset_leaves_once_the_peer_has_everything_of_the_stream_and_numbers_begin_at_0() {
    let mut peer = peer();
    peer.send_message(on(3, "before"));
    peer.send_message(on(3, "before"));
    peer.take();
    reset(&mut peer, &[3]).expect("it can be reset");
    peer.nothing_sent();
    peer.ack(2);
    let (kind, value) = parameter(&peer.take_one());
    assert_eq!(kind, 13);
    assert_eq!(value, [words(&[peer.initial_tsn, 0, peer.tsn(2)]), list(&[3])].concat());
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    assert_eq!(changes(&peer), [&reset_event(Direction::Outbound, &[3])]);
    peer.send_message(on(3, "after"));
    let sent = peer.take();
    assert_eq!(sent[0].data()[0].ssn, 0);
}

#[test]
fn rfc6525_5_1_2_a_stream_that_is_being_reset_takes_no_messages_and_others_do() {
    let mut peer = peer();
    reset(&mut peer, &[3]).expect("it can be reset");
    let now = peer.now;
    let refused = peer.association().send(now, on(3, "not now"));
    assert!(
        matches!(refused, Err(SendError { kind: SendErrorKind::StreamResetting, message }) if message.stream() == StreamId(3))
    );
    peer.send_message(on(4, "as before"));
}

#[test]
fn rfc6525_5_2_7_a_denied_reset_is_reported_and_the_stream_goes_on_with_its_numbers() {
    let mut peer = peer();
    peer.send_message(on(3, "first"));
    peer.ack(1);
    peer.take();
    reset(&mut peer, &[3]).expect("it can be reset");
    peer.take_one();
    peer.give(&[re_config(&[response(peer.initial_tsn, DENIED)])]);
    let request = StreamRequest::Reset(Direction::Outbound, [StreamId(3)].into());
    assert_eq!(changes(&peer), [&Event::StreamRequestFailed { request, result: ReConfigResult::Denied }]);
    peer.send_message(on(3, "second"));
    assert_eq!(peer.take()[0].data()[0].ssn, 1);
}

#[test]
fn rfc6525_5_1_1_a_request_is_repeated_with_the_same_number_until_it_is_answered() {
    let mut peer = peer();
    reset(&mut peer, &[3]).expect("it can be reset");
    let first = parameter(&peer.take_one());
    let mut waits = Vec::new();
    for _ in 0..3 {
        waits.push(peer.wait_for_packet());
        assert_eq!(parameter(&peer.take_one()), first);
    }
    assert_eq!(waits[1], waits[0] * 2, "the pauses double: {waits:?}");
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    peer.wait(ms(100_000));
    peer.nothing_sent();
}

#[test]
fn rfc6525_5_1_1_only_one_request_is_under_way_and_thousands_of_wishes_for_a_stream_are_one() {
    let mut peer = peer();
    for wish in 0..2_000_u16 {
        reset(&mut peer, &[wish % 4]).expect("it can be reset");
    }
    let (_, value) = parameter(&peer.take_one());
    assert_eq!(value[12..], list(&[0]));
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    let (_, value) = parameter(&peer.take_one());
    assert_eq!((u32_at(&value, 0), &value[12..]), (peer.initial_tsn.wrapping_add(1), &list(&[1, 2, 3])[..]));
    peer.give(&[re_config(&[response(peer.initial_tsn.wrapping_add(1), PERFORMED)])]);
    peer.nothing_sent();
    assert_eq!(changes(&peer).len(), 2);
}

#[test]
fn rfc6525_5_2_7_in_progress_is_asked_again_and_is_no_answer() {
    let mut peer = peer();
    reset(&mut peer, &[3]).expect("it can be reset");
    let first = parameter(&peer.take_one());
    peer.give(&[re_config(&[response(peer.initial_tsn, IN_PROGRESS)])]);
    assert!(changes(&peer).is_empty());
    peer.wait_for_packet();
    assert_eq!(parameter(&peer.take_one()), first);
}

#[test]
fn a_response_that_nobody_asked_for_changes_nothing() {
    let mut peer = peer();
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    reset(&mut peer, &[3]).expect("it can be reset");
    peer.give(&[re_config(&[response(peer.initial_tsn.wrapping_sub(1), PERFORMED)])]);
    peer.give(&[re_config(&[response(peer.initial_tsn.wrapping_add(1), PERFORMED)])]);
    assert!(changes(&peer).is_empty());
}

#[test]
fn rfc6525_5_2_2_the_peers_stream_begins_anew_once_everything_has_arrived() {
    let mut peer = peer();
    peer.give(&[Data::new(1, 0, b"a").stream(2).chunk()]);
    peer.take();
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 2, &[2])]), (FIRST, IN_PROGRESS));
    peer.give(&[Data::new(2, 1, b"b").stream(2).chunk()]);
    peer.take();
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 2, &[2])]), (FIRST, PERFORMED));
    peer.give(&[Data::new(3, 0, b"c").stream(2).chunk()]);
    assert_eq!(peer.payloads(), [b"a", b"b", b"c"]);
    assert_eq!(changes(&peer), [&reset_event(Direction::Inbound, &[2])]);
}

#[test]
fn rfc6525_5_2_1_a_repeated_request_gets_the_same_answer_and_changes_nothing_again() {
    let mut peer = peer();
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 0, &[2])]), (FIRST, PERFORMED));
    peer.give(&[Data::new(1, 0, b"a").stream(2).chunk()]);
    peer.take();
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST + 1, 0, &[99])]), (FIRST + 1, WRONG_STREAM));
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 0, &[2])]), (FIRST, PERFORMED));
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST + 1, 0, &[99])]), (FIRST + 1, WRONG_STREAM));
    peer.give(&[Data::new(2, 1, b"b").stream(2).chunk()]);
    assert_eq!(peer.payloads(), [b"a", b"b"], "the stream was reset once");
    assert_eq!(changes(&peer).len(), 1);
}

#[test]
fn rfc6525_5_2_1_a_request_with_a_wrong_number_is_refused() {
    let mut peer = peer();
    for number in [FIRST + 1, FIRST - 1, FIRST + 1_000, FIRST.wrapping_sub(1_000)] {
        assert_eq!(ask(&mut peer, &[outgoing_reset(number, 0, &[2])]), (number, BAD_NUMBER));
    }
    assert!(changes(&peer).is_empty());
    for number in FIRST..FIRST + 3 {
        assert_eq!(ask(&mut peer, &[outgoing_reset(number, 0, &[2])]), (number, PERFORMED));
    }
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 0, &[2])]), (FIRST, BAD_NUMBER), "it is too old");
}

#[test]
fn rfc6525_5_2_2_streams_that_do_not_exist_are_refused_and_no_list_means_all() {
    let mut peer = peer();
    peer.give(&[Data::new(1, 0, b"a").stream(2).chunk(), Data::new(2, 0, b"b").stream(9).chunk()]);
    peer.take();
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 2, &[1, 60_000])]), (FIRST, WRONG_STREAM));
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST + 1, 2, &[])]), (FIRST + 1, PERFORMED));
    peer.give(&[Data::new(3, 0, b"c").stream(2).chunk(), Data::new(4, 0, b"d").stream(9).chunk()]);
    assert_eq!(peer.payloads(), [b"a", b"b", b"c", b"d"]);
    assert_eq!(changes(&peer), [&reset_event(Direction::Inbound, &[])]);
}

#[test]
fn what_waits_for_a_number_that_was_never_used_is_delivered_before_its_stream_begins_anew() {
    let mut peer = peer();
    peer.give(&[Data::new(1, 2, b"c").stream(2).chunk(), Data::new(2, 1, b"b").stream(2).chunk()]);
    peer.take();
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST, 2, &[2])]), (FIRST, PERFORMED));
    peer.give(&[Data::new(3, 0, b"d").stream(2).chunk()]);
    assert_eq!(peer.payloads(), [b"b", b"c", b"d"]);
}

#[test]
fn rfc6525_5_2_3_the_peer_may_ask_for_a_reset_which_answers_it_by_number() {
    let mut peer = peer();
    peer.send_message(on(3, "before"));
    peer.ack(1);
    peer.take();
    peer.give(&[re_config(&[incoming_reset(FIRST, &[3])])]);
    let sent = peer.take();
    let parameters: Vec<_> = sent
        .iter()
        .flat_map(|sent| sent.chunks.iter().filter(|chunk| chunk.kind == RE_CONFIG))
        .flat_map(|chunk| crate::rfc9260::packet::tlvs(&chunk.value))
        .collect();
    let [(16, answer), (13, request)] = &parameters[..] else { panic!("{parameters:?}") };
    assert_eq!(answer, &words(&[FIRST, PERFORMED]));
    assert_eq!(request, &[words(&[peer.initial_tsn, FIRST, peer.tsn(1)]), list(&[3])].concat());
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    assert_eq!(changes(&peer), [&reset_event(Direction::Outbound, &[3])]);
}

#[test]
fn rfc6525_5_1_3_this_side_may_ask_for_a_reset_and_the_peers_request_is_the_answer_too() {
    let mut peer = peer();
    let now = peer.now;
    peer.association().request_reset(now, &[StreamId(5)]).expect("it can be asked for");
    peer.give(&[]);
    let (kind, value) = parameter(&peer.take_one());
    assert_eq!((kind, value), (14, [words(&[peer.initial_tsn]), list(&[5])].concat()));
    let request = tlv(13, &[words(&[FIRST, peer.initial_tsn, 0]), list(&[5])].concat());
    assert_eq!(ask(&mut peer, &[request]), (FIRST, PERFORMED));
    assert_eq!(changes(&peer), [&reset_event(Direction::Inbound, &[5])]);
    peer.wait(ms(100_000));
    peer.nothing_sent();
}

#[test]
fn rfc6525_5_2_4_a_reset_of_all_numbers_is_denied() {
    let mut peer = peer();
    assert_eq!(ask(&mut peer, &[tlv(15, &words(&[FIRST]))]), (FIRST, DENIED));
    peer.give(&[Data::new(1, 0, b"a").chunk()]);
    assert_eq!(peer.payloads(), [b"a"]);
}

#[test]
fn what_the_settings_do_not_allow_is_denied() {
    let mut config = settings();
    (config.peer_requests.reset_streams, config.peer_requests.add_streams) = (false, false);
    let mut peer = peer_with(config);
    for (number, request) in [
        outgoing_reset(FIRST, 0, &[2]),
        incoming_reset(FIRST + 1, &[2]),
        addition(17, FIRST + 2, 1),
        addition(18, FIRST + 3, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let number = FIRST + u32::try_from(number).unwrap();
        assert_eq!(ask(&mut peer, &[request]), (number, DENIED));
    }
    assert!(changes(&peer).is_empty());
}

#[test]
fn rfc6525_5_2_5_the_peer_may_add_streams_up_to_the_limit() {
    let mut config = settings();
    config.limits.inbound_streams = 20;
    let mut peer = peer_with(config);
    peer.give(&[Data::new(1, 0, b"too far").stream(14).chunk()]);
    assert!(peer.take().iter().any(|sent| sent.has(ERROR)));
    assert_eq!(ask(&mut peer, &[addition(17, FIRST, 5)]), (FIRST, PERFORMED));
    peer.give(&[Data::new(2, 0, b"a").stream(14).chunk()]);
    assert_eq!(peer.payloads(), [b"a"]);
    peer.take();
    assert_eq!(ask(&mut peer, &[addition(17, FIRST + 1, 6)]), (FIRST + 1, DENIED));
    assert_eq!(ask(&mut peer, &[addition(17, FIRST + 2, u16::MAX)]), (FIRST + 2, DENIED));
    assert_eq!(changes(&peer), [&Event::StreamsAdded { outbound_streams: 10, inbound_streams: 15 }]);
}

#[test]
fn rfc6525_5_2_6_the_peer_may_ask_for_streams_which_this_side_adds_by_a_request_of_its_own() {
    let mut peer = peer();
    peer.give(&[re_config(&[addition(18, FIRST, 2)])]);
    let chunks: Vec<_> = peer.take().into_iter().flat_map(|sent| sent.chunks).collect();
    assert_eq!(chunks.len(), 2);
    assert_eq!(chunks[1].value, addition(17, peer.initial_tsn, 2));
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    assert_eq!(changes(&peer), [&Event::StreamsAdded { outbound_streams: 12, inbound_streams: 10 }]);
    peer.send_message(on(11, "on a new one"));
}

#[test]
fn rfc6525_5_1_5_and_5_1_6_streams_are_added_in_both_directions_one_request_after_the_other() {
    let mut config = settings();
    config.peer_requests.add_streams = false;
    let mut peer = peer_with(config);
    let now = peer.now;
    peer.association().add_streams(now, 3, 4).expect("it can be asked for");
    peer.give(&[]);
    assert_eq!(parameter(&peer.take_one()), (17, words(&[peer.initial_tsn, 3 << 16])));
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    let number = peer.initial_tsn.wrapping_add(1);
    assert_eq!(parameter(&peer.take_one()), (18, words(&[number, 4 << 16])));
    peer.give(&[re_config(&[response(number, PERFORMED)])]);
    assert_eq!(ask(&mut peer, &[addition(17, FIRST, 4)]), (FIRST, PERFORMED), "it was asked for");
    assert_eq!(ask(&mut peer, &[addition(17, FIRST + 1, 1)]), (FIRST + 1, DENIED), "this was not");
    let last = changes(&peer).into_iter().next_back().cloned();
    assert_eq!(last, Some(Event::StreamsAdded { outbound_streams: 13, inbound_streams: 14 }));
    let too_many = peer.association().add_streams(now, u16::MAX, 0);
    assert_eq!(too_many, Err(ReconfigureError::TooManyStreams));
}

#[test]
fn streams_that_the_peer_adds_before_it_answers_were_asked_for_and_after_a_refusal_they_were_not() {
    let mut config = settings();
    config.peer_requests.add_streams = false;
    for result in [PERFORMED, DENIED] {
        let mut peer = peer_with(config.clone());
        let now = peer.now;
        peer.association().add_streams(now, 0, 4).expect("it can be asked for");
        peer.give(&[]);
        peer.take_one();
        if result == DENIED {
            peer.give(&[re_config(&[response(peer.initial_tsn, DENIED)])]);
        }
        assert_eq!(ask(&mut peer, &[addition(17, FIRST, 4)]), (FIRST, result));
    }
}

#[test]
fn rfc6525_3_1_parameters_that_may_not_stand_together_are_reported_and_change_nothing() {
    for parameters in [
        vec![],
        vec![outgoing_reset(FIRST, 0, &[2]), outgoing_reset(FIRST + 1, 0, &[2])],
        vec![addition(17, FIRST, 1), outgoing_reset(FIRST + 1, 0, &[2])],
        vec![response(1, 1), response(2, 1), response(3, 1)],
        vec![tlv(19, b"")],
        vec![tlv(13, &words(&[FIRST]))],
    ] {
        let mut peer = peer();
        peer.give(&[re_config(&parameters)]);
        let sent = peer.take_one();
        assert_eq!(sent.kinds(), [ERROR], "{parameters:?}");
        assert_eq!(sent.the(ERROR).causes()[0].0, 13, "a protocol violation");
        assert!(changes(&peer).is_empty() && !peer.association().is_closed());
    }
}

#[test]
fn rfc6525_3_1_two_requests_may_stand_in_one_chunk() {
    let mut peer = peer();
    peer.give(&[re_config(&[outgoing_reset(FIRST, 0, &[2]), incoming_reset(FIRST + 1, &[2])])]);
    let answers = peer.take();
    assert!(!answers.is_empty());
    peer.give(&[re_config(&[response(peer.initial_tsn, PERFORMED)])]);
    let both = [reset_event(Direction::Inbound, &[2]), reset_event(Direction::Outbound, &[2])];
    assert_eq!(changes(&peer), both.iter().collect::<Vec<_>>());
}

#[test]
fn re_config_is_announced_and_is_an_unknown_chunk_where_it_was_not_agreed_on() {
    let mut peer = Peer::new(config());
    peer.connect(1);
    let init = peer.take_one().init();
    assert!(init.all(SUPPORTED_EXTENSIONS)[0].contains(&RE_CONFIG));
    let mut peer = Peer::established();
    peer.give(&[re_config(&[outgoing_reset(FIRST, 0, &[2])]), Data::new(1, 0, b"a").chunk()]);
    assert_eq!(peer.take_one().kinds(), [SACK], "type 0x82 is skipped in silence");
    let now = peer.now;
    assert_eq!(peer.association().reset_streams(now, &[]), Err(ReconfigureError::NotSupported));
}

#[test]
fn callers_hear_what_is_wrong_with_a_wish() {
    let mut peer = peer();
    let missing = ReconfigureError::NoSuchStream { stream: StreamId(10), streams: 10 };
    assert_eq!(reset(&mut peer, &[3, 10]), Err(missing));
    peer.send_message(on(3, "nothing changed"));
    peer.shutdown();
    assert_eq!(reset(&mut peer, &[3]), Err(ReconfigureError::NotEstablished));
}

#[test]
fn a_peer_that_asks_a_thousand_times_is_answered_and_an_application_that_fetches_nothing_keeps_few_events() {
    let mut peer = peer();
    let (now, address, tag) = (peer.now, peer.address, peer.tag);
    let mut performed = 0;
    for number in FIRST..FIRST + 1_000 {
        let request = re_config(&[outgoing_reset(number, 0, &[2])]);
        let bytes = crate::rfc9260::packet::packet((6_000, 5_000), tag, &[request]);
        peer.association().handle_packet(now, address, EcnCodepoint::NotCapable, &bytes.into()).expect("it is taken");
        let mut buffer = Vec::new();
        while peer.association().poll_transmit(now, &mut buffer).is_some() {}
        let sent = Sent::read(address, &buffer);
        match result(&sent) {
            (_, PERFORMED) => performed += 1,
            answer => {
                assert_eq!(answer, (number, if number == FIRST + performed { IN_PROGRESS } else { BAD_NUMBER }));
            }
        }
    }
    assert_eq!(performed, 16);
    peer.give(&[]);
    assert_eq!(changes(&peer).len(), 16);
    assert_eq!(ask(&mut peer, &[outgoing_reset(FIRST + 16, 0, &[2])]), (FIRST + 16, PERFORMED));
}

#[test]
fn rfc9260_8_2_a_response_after_a_long_silence_makes_the_path_active_again() {
    let mut config = settings();
    config.timers.heartbeat_interval = None;
    let mut peer = peer_with(config);
    reset(&mut peer, &[3]).expect("it can be reset");
    let request = u32_at(&parameter(&peer.take_one()).1, 0);
    let reachable = |reachable| Event::PathReachable { path: PathId::PRIMARY, reachable };
    while !peer.events.contains(&reachable(false)) {
        peer.wait_for_packet();
        peer.take();
    }
    peer.give(&[re_config(&[response(request, PERFORMED)])]);
    assert!(peer.events.contains(&reachable(true)), "{:?}", peer.events);
}

#[test]
fn forward_tsn_that_names_a_stream_has_been_acknowledged_before_the_stream_begins_anew() {
    let mut peer = peer();
    peer.send_message(on(3, "late").with_lifetime(ms(50)));
    assert_eq!(peer.take_one().kinds(), [DATA]);
    peer.wait(ms(60));
    reset(&mut peer, &[3]).expect("it can be reset");
    peer.wait(ms(300));
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(FORWARD_TSN)), "{sent:?}");
    assert!(!sent.iter().any(|sent| sent.has(RE_CONFIG)), "{sent:?}");
    peer.ack(1);
    assert_eq!(peer.take_one().kinds(), [RE_CONFIG]);
}

#[test]
fn messages_queued_before_a_reset_are_sent_before_it() {
    let mut peer = peer();
    for _ in 0..40 {
        peer.send_message(Message::new(vec![1; 1_000]).on_stream(3));
    }
    reset(&mut peer, &[3]).expect("it can be reset");
    let (mut highest, mut asked_after) = (0, None);
    for _ in 0..100 {
        for sent in peer.take() {
            highest = peer.tsns(&sent).into_iter().fold(highest, u32::max);
            if sent.has(RE_CONFIG) {
                asked_after.get_or_insert(highest);
            }
        }
        peer.ack(highest);
    }
    assert_eq!((highest, asked_after), (40, Some(40)));
}
