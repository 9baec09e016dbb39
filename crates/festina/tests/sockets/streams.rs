//! Streams that are read by themselves.

use std::time::Duration;

use festina::{
    ClosedReason, Direction, Event, Message, SendError, SendErrorKind, StreamId, StreamScheduler, StreamTaken,
    Transport, TryRecvError,
};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::{pair, settings};
use crate::support::{Pair, in_time, pair_with, until};

#[tokio::test]
async fn a_stream_that_is_read_by_itself_keeps_its_messages_from_all_others() {
    in_time(async {
        let pair = pair().await;
        let (mut first, mut second) = (pair.server.stream(1).read().unwrap(), pair.server.stream(2).read().unwrap());
        for number in 0..30_u16 {
            pair.client.stream(number % 3).send(number.to_string()).await.unwrap();
        }
        let text = |message: festina::ReceivedMessage| String::from_utf8(message.payload().to_vec()).unwrap();
        for round in 0..10 {
            assert_eq!(text(second.recv().await.unwrap().unwrap()), (3 * round + 2).to_string());
        }
        for round in 0..10 {
            assert_eq!(text(pair.server.recv().await.unwrap().unwrap()), (3 * round).to_string());
        }
        for round in 0..10 {
            assert_eq!(text(first.next().await.unwrap()), (3 * round + 1).to_string());
        }
        assert_eq!(first.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(pair.server.try_recv(), Err(TryRecvError::Empty));
    })
    .await;
}

#[tokio::test]
async fn tasks_that_wait_for_different_streams_are_each_woken_by_their_own() {
    in_time(async {
        let pair = pair().await;
        let mut tasks = Vec::new();
        for id in 1..=20_u16 {
            let mut reader = pair.server.stream(id).read().unwrap();
            tasks.push(tokio::spawn(async move { (id, reader.recv().await.unwrap().unwrap().into_payload()) }));
        }
        let others = tokio::spawn({
            let server = pair.server.clone();
            async move { server.recv().await.unwrap().unwrap().into_payload() }
        });
        tokio::task::yield_now().await;
        for id in (0..=20_u16).rev() {
            pair.client.stream(id).send(format!("for {id}")).await.unwrap();
        }
        for task in tasks {
            let (id, payload) = task.await.unwrap();
            assert_eq!(payload, format!("for {id}"));
        }
        assert_eq!(others.await.unwrap(), "for 0");
    })
    .await;
}

#[tokio::test]
async fn a_stream_has_one_reader_and_what_that_leaves_comes_from_the_association() {
    in_time(async {
        let pair = pair().await;
        let stream = pair.server.stream(7);
        let mut reader = stream.read().unwrap();
        assert_eq!(stream.read().unwrap_err(), StreamTaken(stream.id()));
        for text in ["a", "b", "c"] {
            pair.client.stream(7).send(text).await.unwrap();
        }
        assert_eq!(reader.recv().await.unwrap().unwrap().payload(), "a");
        // A task that waits for all other streams gets the messages that the reader leaves unread.
        let others = tokio::spawn({
            let server = pair.server.clone();
            async move {
                (
                    server.recv().await.unwrap().unwrap().into_payload(),
                    server.recv().await.unwrap().unwrap().into_payload(),
                )
            }
        });
        pair.client.drained().await.unwrap();
        tokio::task::yield_now().await;
        drop(reader);
        assert_eq!(others.await.unwrap(), ("b".into(), "c".into()));
        let mut again = stream.read().unwrap();
        pair.client.stream(7).send("d").await.unwrap();
        assert_eq!(again.recv().await.unwrap().unwrap().payload(), "d");
    })
    .await;
}

#[tokio::test]
async fn what_was_not_fetched_goes_to_a_reader_that_comes_later_in_order() {
    in_time(async {
        let pair = pair().await;
        let _first = pair.server.stream(1).read().unwrap();
        for text in ["a", "b"] {
            pair.client.stream(2).send(text).await.unwrap();
        }
        pair.client.drained().await.unwrap();
        let mut late = pair.server.stream(2).read().unwrap();
        pair.client.stream(2).send("c").await.unwrap();
        for text in ["a", "b", "c"] {
            assert_eq!(late.recv().await.unwrap().unwrap().into_payload(), text);
        }
    })
    .await;
}

#[tokio::test]
async fn a_reader_hears_of_the_end_after_its_last_message() {
    in_time(async {
        let pair = pair().await;
        let (mut read, mut waiting) = (pair.server.stream(1).read().unwrap(), pair.server.stream(2).read().unwrap());
        let end = tokio::spawn(async move { waiting.recv().await });
        pair.client.stream(1).send("last").await.unwrap();
        pair.client.shutdown().await.unwrap();
        assert_eq!(end.await.unwrap(), Ok(None));
        assert_eq!(read.recv().await.unwrap().unwrap().payload(), "last");
        assert_eq!(read.recv().await, Ok(None));
        assert_eq!(read.try_recv(), Ok(None), "every call ends in the same way");
        assert_eq!(pair.server.try_recv(), Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_takes_nothing_holds_the_association_up_and_not_the_memory() {
    in_time(async {
        let pair =
            pair_with(settings(), settings().with_transport(Transport::default().with_receive_buffer_bytes(64 << 10)))
                .await;
        let mut slow = pair.server.stream(1).read().unwrap();
        let sent = async {
            for _ in 0..2_000 {
                pair.client.stream(1).send(Message::new(vec![1; 1_000])).await.unwrap();
            }
            pair.client.send("behind").await.unwrap();
        };
        let received = async {
            let behind = timeout(Duration::from_millis(200), pair.server.recv()).await;
            assert!(behind.is_err(), "what waits in front of it does not fit into 256 KiB");
            assert!(pair.server.stats().received.messages < 500);
            for _ in 0..2_000 {
                assert_eq!(slow.recv().await.unwrap().unwrap().payload().len(), 1_000);
            }
            assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "behind");
        };
        tokio::join!(sent, received);
    })
    .await;
}

#[tokio::test]
async fn what_is_sorted_for_a_reader_who_is_away_keeps_nobody_else_waiting() {
    in_time(async {
        let pair =
            pair_with(settings(), settings().with_transport(Transport::default().with_receive_buffer_bytes(16 << 10)))
                .await;
        let _away = pair.server.stream(1).read().unwrap();
        // Each fills the receive buffer, and all together are less than the limit for sorted messages.
        for _ in 0..15 {
            pair.client.stream(1).send(Message::new(vec![1; 15_500])).await.unwrap();
        }
        pair.client.send("behind").await.unwrap();
        let began = tokio::time::Instant::now();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "behind");
        // Without word of the room a probe of the closed window goes in front of each: 8 s in all. It takes a millisecond.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test]
async fn all_streams_are_reset_by_a_name_of_their_own_and_an_empty_list_resets_none() {
    let pair = pair().await;
    pair.client.reset_streams(&[]).unwrap();
    pair.client.request_reset(&[]).unwrap();
    pair.client.try_send("sent at once").unwrap();
    pair.client.reset_all_streams().unwrap();
    assert!(matches!(pair.client.try_send("not now"), Err(SendError { kind: SendErrorKind::StreamResetting, .. })));
    in_time(async {
        loop {
            if let Some(Event::StreamsReset { direction, streams }) = pair.client.event().await {
                assert_eq!((direction, streams.len()), (Direction::Outbound, 0), "no streams stand for all");
                break;
            }
        }
        pair.client.request_reset_all().unwrap();
        loop {
            if let Some(Event::StreamsReset { direction, .. }) = pair.client.event().await {
                assert_eq!(direction, Direction::Inbound);
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_priority_orders_streams_and_a_weight_is_refused() {
    // The window is closed until the peer reads, so that messages of both streams wait.
    let sender = settings().with_transport(Transport::default().with_scheduler(StreamScheduler::Priority));
    let receiver = settings().with_transport(Transport::default().with_receive_buffer_bytes(4_000));
    let pair = pair_with(sender, receiver).await;
    pair.client.set_stream_priority(1, 5).unwrap();
    let error = pair.client.stream(1).set_weight(0).unwrap_err();
    assert_eq!((error.needed, error.used), (StreamScheduler::WeightedFairQueueing, StreamScheduler::Priority));
    assert!(error.to_string().contains("WeightedFairQueueing"), "{error}");
    for stream in [1_u16, 2] {
        for _ in 0..8 {
            pair.client.stream(stream).try_send(vec![0; 1_000]).unwrap();
        }
    }
    let mut streams = Vec::new();
    in_time(async {
        while streams.len() < 16 {
            streams.push(pair.server.recv().await.unwrap().unwrap().stream().0);
        }
    })
    .await;
    assert_eq!(streams.last(), Some(&1), "{streams:?}");
    let last_of_two = streams.iter().rposition(|stream| *stream == 2).unwrap();
    let waiting = streams[last_of_two..].iter().filter(|stream| **stream == 1).count();
    assert!(waiting >= 4, "stream 2 goes first once messages wait: {streams:?}");
}

/// A client that sends more on stream 1, which the server does not read, than the server's buffers hold, and then a message on stream 2.
async fn with_an_unread_stream(transport: Transport) -> Pair {
    let pair = pair_with(settings(), settings().with_transport(transport.with_receive_buffer_bytes(32 << 10))).await;
    for _ in 0..500 {
        pair.client.stream(1).send(vec![7; 1_000]).await.unwrap();
    }
    pair.client.stream(2).send("urgent").await.unwrap();
    pair
}

#[tokio::test]
async fn an_unread_stream_holds_up_no_other_once_it_is_discarded() {
    in_time(async {
        let pair = with_an_unread_stream(Transport::default()).await;
        let mut urgent = pair.server.stream(2).read().unwrap();
        let waiting = tokio::spawn(async move { urgent.recv().await });
        // 256 KiB, each with 128 bytes more: no other is sorted, and the receive buffer fills up.
        until("all that fit are sorted", || pair.server.stats().received.messages == 233).await;
        assert!(!waiting.is_finished());
        assert!(pair.server.stream(1).discard() > 0);
        assert_eq!(waiting.await.unwrap().unwrap().unwrap().payload(), "urgent");
        pair.client.drained().await.unwrap();
        assert_eq!(pair.server.try_recv(), Err(TryRecvError::Empty));
        pair.server.stream(1).resume();
        pair.client.stream(1).send("again").await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "again");
    })
    .await;
}

#[tokio::test]
async fn a_reader_gets_its_last_message_before_the_end_although_another_stream_is_unread() {
    in_time(async {
        let pair = pair().await;
        let mut read = pair.server.stream(2).read().unwrap();
        for _ in 0..300 {
            pair.client.stream(1).send(vec![7; 1_000]).await.unwrap();
        }
        pair.client.stream(2).send("last").await.unwrap();
        pair.client.drained().await.unwrap();
        pair.client.abort("the end");
        pair.server.closed().await;
        assert_eq!(read.recv().await.unwrap().unwrap().payload(), "last");
        assert!(matches!(read.recv().await, Err(ClosedReason::AbortedByPeer { .. })));
    })
    .await;
}

#[tokio::test]
async fn with_a_limit_for_each_stream_an_unread_one_holds_up_no_other() {
    in_time(async {
        for sorts in [false, true] {
            let pair = with_an_unread_stream(Transport::default().with_stream_unread_bytes_max(8 << 10)).await;
            let mut reader = sorts.then(|| pair.server.stream(2).read().unwrap());
            let discarded = Event::StreamDiscarded { stream: StreamId(1) };
            while pair.server.event().await != Some(discarded.clone()) {}
            pair.client.drained().await.unwrap();
            let mut unread = 0;
            while let Ok(Some(message)) = pair.server.try_recv() {
                unread += usize::from(message.stream() == StreamId(1));
                assert!(message.stream() == StreamId(1) || !sorts && message.payload() == "urgent");
            }
            assert!((1..=(8 << 10) / 1_000).contains(&unread), "{unread} messages of the other stream");
            if let Some(reader) = &mut reader {
                assert_eq!(reader.recv().await.unwrap().unwrap().payload(), "urgent");
            }
        }
    })
    .await;
}
