//! Stream resets while messages go to and fro, with usrsctp and with pion.

use festina::{Association, Direction, Event, Message, StreamId};
use tokio::task::JoinSet;

use super::{
    FIRST_UNORDERED_STREAM, LossyRelay, ONE_LOST_IN, PPID_BINARY, Program, connect_with, in_time, one_in, persistent,
    programs,
};

/// With many losses every echo waits for timeouts.
fn rounds(one_lost_in: u64) -> u32 {
    if one_lost_in == 5 { 8 } else { 20 }
}

/// The next streams that began anew, or how many there are after some were added.
async fn next_change(association: &Association) -> Result<(Direction, Vec<StreamId>), u16> {
    loop {
        let event = association.event().await;
        match event.unwrap_or_else(|| panic!("the association ended: {:?}", association.close_reason())) {
            Event::StreamsReset { direction, streams } => return Ok((direction, streams.to_vec())),
            Event::StreamsAdded { outbound_streams, .. } => return Err(outbound_streams),
            Event::StreamRequestFailed { request, result } => panic!("{request:?}: {result:?}"),
            _ => {}
        }
    }
}

/// Three messages on a stream, and their echoes: in order unless the stream has none.
async fn three_echoes(association: &Association, stream: StreamId, round: u32) {
    let texts = ["first", "second", "third"].map(|text| format!("{text} {round}"));
    let unordered = stream.0 >= FIRST_UNORDERED_STREAM;
    for text in &texts {
        let message = Message::new(text.clone()).on_stream(stream.0).with_ppid(PPID_BINARY);
        association.send(message.unordered_if(unordered)).await.expect("the association lives");
    }
    let mut echoes = Vec::new();
    for _ in &texts {
        let echo = association.recv().await.ok().flatten().expect("an echo is outstanding");
        assert_eq!((echo.stream(), echo.is_unordered()), (stream, unordered));
        echoes.push(String::from_utf8_lossy(echo.payload()).into_owned());
    }
    if unordered {
        echoes.sort();
    }
    assert_eq!(echoes, texts);
}

/// Resets streams repeatedly while messages go to and fro; each echo comes in the order of its stream.
async fn streams_are_reset_and_added(one_lost_in: u64) {
    let rounds = rounds(one_lost_in);
    let Some(programs) = programs() else { return };
    let mut server = Program::start(&programs.join("usrsctp-peer"), &["server", "0"]);
    let relay = LossyRelay::start(server.address(), one_in(one_lost_in, 1), one_in(one_lost_in, 2));
    // Fewer than usrsctp would take, so that some can be added.
    let association = connect_with(relay.address, persistent().with_streams(6, u16::MAX)).await;
    let next_change = async || next_change(&association).await;
    for round in 0..rounds {
        let stream = StreamId(u16::try_from(round % 3).expect("few streams"));
        three_echoes(&association, stream, round).await;
        if round % 2 == 0 {
            association.reset_streams(&[stream]).expect("usrsctp supports it");
            assert_eq!(next_change().await, Ok((Direction::Outbound, vec![stream])));
        } else {
            association.request_reset(&[stream]).expect("usrsctp supports it");
            assert_eq!(next_change().await, Ok((Direction::Inbound, vec![stream])));
        }
    }
    let before = association.streams();
    let outbound = before.outbound;
    association.add_streams(2, 2).expect("usrsctp supports it");
    while (association.streams().outbound, association.streams().inbound) != (outbound + 2, before.inbound + 2) {
        assert_eq!(next_change().await, Err(outbound + 2));
    }
    let message = Message::new("on a new one").on_stream(outbound + 1).with_ppid(PPID_BINARY);
    association.send(message).await.expect("the stream was added");
    assert_eq!(
        association.recv().await.ok().flatten().expect("an echo is outstanding").stream(),
        StreamId(outbound + 1)
    );
    association.shutdown().await.expect("the peer shuts down in good order");
}

/// Runs it with every loss, at the same time.
async fn at_all_losses<F: Future<Output = ()> + Send + 'static>(test: impl Fn(u64) -> F) {
    let mut running = JoinSet::new();
    for one_lost_in in ONE_LOST_IN {
        running.spawn(test(one_lost_in));
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("streams are reset");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_reset_and_added_with_usrsctp_whatever_is_lost() {
    in_time(at_all_losses(streams_are_reset_and_added)).await;
}

/// pion resets as data channels do (RFC 8831 section 6.7): the side that closes a stream asks for a reset of its own half, and the other side resets
/// its half in return. It supports no other request.
async fn streams_begin_anew_with_pion(one_lost_in: u64) {
    let Some(programs) = programs() else { return };
    let mut server = Program::start(&programs.join("pion-peer"), &["server", "0"]);
    let relay = LossyRelay::start(server.address(), one_in(one_lost_in, 1), one_in(one_lost_in, 2));
    let association = connect_with(relay.address, persistent()).await;
    let streams = [0, 1, FIRST_UNORDERED_STREAM].map(StreamId);
    for round in 0..rounds(one_lost_in) {
        let stream = streams[round as usize % streams.len()];
        three_echoes(&association, stream, round).await;
        let pion_begins = round % 2 == 1;
        if pion_begins {
            let close = Message::new("close").on_stream(stream.0).with_ppid(PPID_BINARY);
            association.send(close).await.expect("the association lives");
            assert_eq!(association.recv().await.ok().flatten().expect("an echo is outstanding").payload(), "close");
            assert_eq!(next_change(&association).await, Ok((Direction::Inbound, vec![stream])));
        }
        association.reset_streams(&[stream]).expect("pion supports it");
        let mut changes = vec![next_change(&association).await];
        if !pion_begins {
            changes.push(next_change(&association).await);
        }
        assert!(changes.contains(&Ok((Direction::Outbound, vec![stream]))), "{changes:?}");
        assert!(pion_begins || changes.contains(&Ok((Direction::Inbound, vec![stream]))), "{changes:?}");
    }
    association.shutdown().await.expect("the peer shuts down in good order");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_begin_anew_with_pion_whatever_is_lost_and_whoever_begins() {
    in_time(at_all_losses(streams_begin_anew_with_pion)).await;
}
