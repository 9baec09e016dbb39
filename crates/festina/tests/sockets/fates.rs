//! What becomes of messages that are not wholly reliable.

use std::time::Duration;

use festina::{AbandonReason, Abandoned, Message, Outcome, Transport};

use super::{pair, settings};
use crate::support::{in_time, pair_with};

#[tokio::test]
async fn a_message_that_arrives_is_confirmed_without_any_event_being_kept() {
    let pair = pair().await;
    in_time(async {
        let delivery = pair.client.send_confirmed("here").await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "here");
        assert!(matches!(delivery.await, Outcome::Delivered { .. }));
        assert_eq!(pair.client.stats().sent.messages_acked, 1);
    })
    .await;
}

#[tokio::test]
async fn messages_that_wait_for_a_slow_reader_expire_and_are_replaced_and_the_counts_say_so() {
    let narrow =
        settings().with_transport(Transport::default().with_receive_buffer_bytes(5_000).with_message_bytes_max(5_000));
    let pair = pair_with(settings(), narrow).await;
    in_time(async {
        // The reader's window is full, and stays so.
        let filled: Vec<_> = (0..40).map(|_| pair.client.try_send(vec![0; 1_000]).unwrap()).collect();
        let brief = Message::new("brief").with_lifetime(Duration::from_millis(30));
        let brief = pair.client.send_confirmed(brief).await.unwrap();
        let old = pair.client.send_confirmed(Message::new("old").replacing(7)).await.unwrap();
        let new = pair.client.send_confirmed(Message::new("new").replacing(7)).await.unwrap();
        let late = Message::new("late").with_deadline(festina::now());
        let late = pair.client.send_confirmed(late).await.unwrap();
        let unsent = |reason| Outcome::Abandoned { reason, sent: false };
        assert_eq!(old.await, unsent(AbandonReason::Replaced));
        assert_eq!(late.await, unsent(AbandonReason::Expired));
        assert_eq!(brief.await, unsent(AbandonReason::Expired));
        let stats = pair.client.stats();
        assert_eq!(stats.abandoned.expired, Abandoned { unsent: 2, sent: 0 });
        assert_eq!(pair.client.abandoned_on(0).replaced, Abandoned { unsent: 1, sent: 0 });
        for _ in filled {
            pair.server.recv().await.unwrap().unwrap();
        }
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "new");
        assert!(matches!(new.await, Outcome::Delivered { .. }));
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_association_decides_the_fate_of_what_is_left() {
    let pair = pair().await;
    in_time(async {
        let mut narrow = Vec::new();
        for _ in 0..200 {
            narrow.push(pair.client.send_confirmed(vec![0; 10_000]).await.unwrap());
        }
        let forgotten = narrow.pop();
        drop(forgotten);
        pair.client.abort("enough");
        let last = narrow.pop().unwrap();
        assert!(matches!(
            last.await,
            Outcome::Abandoned { reason: AbandonReason::UnsentAtEnd | AbandonReason::UnacknowledgedAtEnd, .. }
        ));
    })
    .await;
}
