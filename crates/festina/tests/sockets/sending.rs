//! Full buffers, slow readers, and futures dropped half-way.

use std::time::Duration;

use festina::{Message, SendError, SendErrorKind, Transport, TryRecvError};
use tokio::time::timeout;

use super::{pair, settings};
use crate::support::{Pair, in_time, pair_with};

fn number(value: u32) -> Message {
    Message::new([&value.to_be_bytes()[..], &[0; 996]].concat())
}

fn value(payload: &[u8]) -> u32 {
    u32::from_be_bytes(*payload.first_chunk().unwrap())
}

/// A pair with small buffers.
async fn narrow_pair() -> Pair {
    let transport = Transport::default()
        .with_send_buffer_bytes(20_000)
        .with_receive_buffer_bytes(20_000)
        .with_message_bytes_max(20_000)
        .with_expert(|expert| expert.with_send_low_water_bytes(10_000));
    let config = settings().with_transport(transport);
    pair_with(config.clone(), config).await
}

/// Sends numbers from `first` on until neither buffer takes another; the first number that was not taken.
async fn fill(pair: &Pair, first: u32) -> u32 {
    let mut next = first;
    let mut idle_rounds = 0;
    while idle_rounds < 5 {
        match pair.client.try_send(number(next)) {
            Ok(_) => {
                next += 1;
                idle_rounds = 0;
            }
            Err(SendError { kind: SendErrorKind::BufferFull, .. }) => {
                idle_rounds += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    next
}

#[tokio::test]
async fn a_send_buffer_that_follows_the_window_holds_little_and_every_sender_is_woken() {
    for transport in [
        Transport::default().with_expert(|expert| expert.with_send_buffer_windows(1, 0)),
        Transport::default().with_expert(|expert| expert.with_send_buffer_windows(1, 3)),
        Transport::default().with_send_delay(Duration::from_millis(1)),
    ] {
        let policy = transport.send_buffer();
        let config = settings().with_transport(transport);
        let pair = pair_with(config.clone(), config).await;
        let taken = (0..10_000).take_while(|&next| pair.client.try_send(number(next)).is_ok()).count();
        assert!((1..3_000).contains(&taken), "{policy:?}: {taken} of 3,700 that the buffer has room for");
        in_time(async {
            let first = u32::try_from(taken).unwrap();
            let sending = tokio::spawn({
                let client = pair.client.clone();
                async move {
                    for next in first..first + 3_000 {
                        client.send(number(next)).await.unwrap();
                    }
                }
            });
            for expected in 0..first + 3_000 {
                assert_eq!(value(pair.server.recv().await.unwrap().unwrap().payload()), expected);
            }
            sending.await.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn a_full_buffer_is_told_and_send_waits_until_the_peer_reads() {
    let pair = narrow_pair().await;
    in_time(async {
        let sent = fill(&pair, 0).await;
        assert!(sent >= 20, "at least one buffer's worth: {sent}");
        let Err(SendError { kind: SendErrorKind::BufferFull, message: returned }) = pair.client.try_send(number(sent))
        else {
            panic!("there is no room")
        };
        assert_eq!(returned, number(sent), "the message comes back");

        let waiting = tokio::spawn({
            let client = pair.client.clone();
            async move { client.send(returned).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished(), "the peer has not read yet");
        for expected in 0..=sent {
            assert_eq!(value(pair.server.recv().await.unwrap().unwrap().payload()), expected);
        }
        waiting.await.unwrap().unwrap();
        pair.client.drained().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_send_given_up_while_it_waits_sends_nothing() {
    let pair = narrow_pair().await;
    in_time(async {
        let sent = fill(&pair, 0).await;
        for _ in 0..5 {
            let given_up = timeout(Duration::from_millis(5), pair.client.send(number(u32::MAX))).await;
            assert!(given_up.is_err(), "there is no room");
        }
        let reading = async {
            for expected in 0..=sent {
                assert_eq!(value(pair.server.recv().await.unwrap().unwrap().payload()), expected);
            }
        };
        let (_, result) = tokio::join!(reading, pair.client.send(number(sent)));
        result.unwrap();
        assert_eq!(pair.server.try_recv(), Err(TryRecvError::Empty));
    })
    .await;
}

#[tokio::test]
async fn every_one_of_many_waiting_senders_gets_its_turn() {
    const SENDERS: u32 = 50;
    let pair = narrow_pair().await;
    in_time(async {
        let sent = fill(&pair, 0).await;
        let senders: Vec<_> = (0..SENDERS)
            .map(|index| {
                let client = pair.client.clone();
                tokio::spawn(async move { client.send(number(sent + index)).await })
            })
            .collect();
        let mut received = Vec::new();
        for _ in 0..sent + SENDERS {
            received.push(value(pair.server.recv().await.unwrap().unwrap().payload()));
        }
        for sender in senders {
            sender.await.unwrap().unwrap();
        }
        received.sort_unstable();
        assert!(received.into_iter().eq(0..sent + SENDERS));
    })
    .await;
}

#[tokio::test]
async fn a_recv_given_up_while_it_waits_loses_no_message() {
    const MESSAGES: u32 = 300;
    let pair = pair().await;
    let client = pair.client.clone();
    let sending = tokio::spawn(async move {
        for value in 0..MESSAGES {
            client.send(number(value)).await.unwrap();
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    });
    in_time(async {
        let (mut expected, mut given_up) = (0, 0);
        while expected < MESSAGES {
            match timeout(Duration::from_micros(100), pair.server.recv()).await {
                Ok(message) => {
                    assert_eq!(value(message.unwrap().unwrap().payload()), expected);
                    expected += 1;
                }
                Err(_) => given_up += 1,
            }
        }
        assert!(given_up > 0, "some were given up");
        sending.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_holds_up_nobody_else() {
    let pair = narrow_pair().await;
    in_time(async {
        let stuck = fill(&pair, 0).await;
        let remote = pair.server_endpoint.local_addr();
        let (quick, other_end) = tokio::join!(pair.client_endpoint.connect(remote), pair.listener.accept());
        let (quick, other_end) = (quick.unwrap(), other_end.unwrap());
        for round in 0..200 {
            quick.send(number(round)).await.unwrap();
            assert_eq!(value(other_end.recv().await.unwrap().unwrap().payload()), round);
        }
        for expected in 0..stuck {
            assert_eq!(value(pair.server.recv().await.unwrap().unwrap().payload()), expected);
        }
    })
    .await;
}

#[tokio::test]
async fn messages_that_cannot_be_sent_come_back_with_the_reason() {
    let pair = narrow_pair().await;
    assert!(matches!(pair.client.try_send(Message::new("")), Err(SendError { kind: SendErrorKind::Empty, .. })));
    let result = in_time(pair.client.send(Message::new(vec![0; 20 << 20]))).await;
    assert!(matches!(result, Err(SendError { kind: SendErrorKind::TooLong { bytes_max }, .. }) if bytes_max == 20_000));
    in_time(pair.client.shutdown()).await.unwrap();
    assert!(
        matches!(pair.client.try_send(number(0)), Err(SendError { kind: SendErrorKind::Closed, message }) if message == number(0))
    );
}

#[tokio::test]
async fn many_messages_in_one_call_share_packets_and_arrive_in_order() {
    let pair = pair().await;
    in_time(async {
        let before = pair.client_endpoint.stats().packets_sent;
        pair.client.send_many((0..40_u32).map(|value| value.to_be_bytes().to_vec())).await.unwrap();
        let packets = pair.client_endpoint.stats().packets_sent - before;
        assert!(packets <= 3, "{packets} packets for 40 messages of 4 bytes");
        let mut received = Vec::new();
        while received.len() < 40 {
            let taken = pair.server.recv_many(&mut received, 7).await.unwrap().unwrap();
            assert!((1..=7).contains(&taken));
        }
        assert!((0..40).zip(&received).all(|(number, message)| value(message.payload()) == number));
        assert_eq!(pair.server.recv_many(&mut received, 0).await, Ok(Some(0)));
    })
    .await;
}

#[tokio::test]
async fn many_messages_wait_for_room_and_none_is_lost_or_doubled() {
    const COUNT: u32 = 700;
    let pair = narrow_pair().await;
    in_time(async {
        let sending = pair.client.send_many((0..COUNT).map(number));
        let receiving = async {
            let mut received = Vec::new();
            while received.len() < COUNT as usize {
                pair.server.recv_many(&mut received, 16).await.unwrap();
            }
            received
        };
        let (sent, received) = tokio::join!(sending, receiving);
        sent.unwrap();
        assert!((0..COUNT).zip(&received).all(|(number, message)| value(message.payload()) == number));
        pair.client.shutdown().await.unwrap();
        assert_eq!(pair.server.recv_many(&mut Vec::new(), 1).await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_refused_message_ends_a_batch_and_comes_back() {
    let config = settings().with_transport(Transport::default().with_message_bytes_max(1_000));
    let pair = pair_with(config, settings()).await;
    in_time(async {
        let sizes = [10, 1_000, 1_001, 20];
        let refused = pair.client.send_many(sizes.map(|size| vec![0; size])).await;
        assert!(matches!(refused, Err(SendError { kind: SendErrorKind::TooLong { .. }, .. })), "{refused:?}");
        for size in [10, 1_000] {
            assert_eq!(pair.server.recv().await.unwrap().unwrap().payload().len(), size);
        }
    })
    .await;
}

#[tokio::test]
async fn the_peer_hears_of_a_reopened_window_from_whoever_takes_the_messages() {
    let pair = narrow_pair().await;
    let mut next = 0;
    for way in 0..3 {
        next = in_time(fill(&pair, next)).await;
        let before = pair.server_endpoint.stats().packets_sent;
        // Nothing else runs until the first message is missing, so that no probe of the peer triggers a window update.
        match way {
            0 => while let Ok(Some(_)) = pair.server.try_recv() {},
            1 => drop(in_time(pair.server.recv_many(&mut Vec::new(), usize::MAX)).await.unwrap()),
            _ => {
                for _ in 0..8 {
                    in_time(pair.server.recv()).await.unwrap().unwrap();
                }
            }
        }
        assert!(pair.server_endpoint.stats().packets_sent > before, "way {way}");
    }
}

#[tokio::test]
async fn packets_that_come_together_are_acknowledged_together_whatever_chunk_carries_the_messages() {
    for interleaving in [false, true] {
        let config = settings().with_transport(
            Transport::default()
                .with_interleaving(interleaving)
                .with_expert(|expert| expert.with_sack_peer_batches(true)),
        );
        let pair = pair_with(config.clone(), config).await;
        in_time(async {
            let mut received = Vec::new();
            let send = async {
                for _ in 0..40 {
                    pair.client.send_many((0..100).map(|_| vec![0; 1_000])).await.unwrap();
                }
            };
            let receive = async {
                while received.len() < 4_000 {
                    pair.server.recv_many(&mut received, usize::MAX).await.unwrap();
                }
            };
            tokio::join!(send, receive);
        })
        .await;
        let [sent, answers] = [&pair.client_endpoint, &pair.server_endpoint].map(|end| end.stats().packets_sent);
        assert!(answers * 4 < sent, "interleaving: {interleaving}, {answers} answers to {sent} packets");
    }
}

#[tokio::test]
async fn a_message_that_is_larger_than_the_peers_receive_buffer_is_refused_and_ends_nothing() {
    in_time(async {
        let server = settings().with_transport(Transport::default().with_receive_buffer_bytes(50_000));
        let pair = pair_with(settings(), server).await;
        let refused = pair.client.send(vec![7; 50_001]).await;
        assert!(
            matches!(&refused, Err(SendError { kind: SendErrorKind::TooLong { bytes_max: 50_000 }, .. })),
            "{refused:?}"
        );
        pair.client.send(vec![7; 50_000]).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload().len(), 50_000);
    })
    .await;
    let beyond = Transport::default().with_message_bytes_max(2 << 20);
    let error = beyond.validate().expect_err("messages are delivered whole");
    assert_eq!(error.to_string(), "limits.message_bytes_max is 2097152, but must lie between 1 and 1048576");
    assert!(beyond.with_receive_buffer_bytes(2 << 20).validate().is_ok());
}
