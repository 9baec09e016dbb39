//! Statistics, events and settings of a living association.

use std::time::Duration;

use festina::{
    AssociationState, ClosedReason, ConnectOptions, Event, Message, Profile, ProtocolEvent, Redundancy, Transport,
};

use super::{pair, settings};
use crate::support::{in_time, pair_with};

#[tokio::test]
async fn loss_recovery_can_be_changed_on_a_living_association() {
    let pair = pair().await;
    assert_eq!(pair.client.profile(), Some(Profile::Festina));
    in_time(async {
        for profile in Profile::all() {
            pair.client.set_profile(*profile);
            assert_eq!(pair.client.profile(), Some(*profile));
            assert_ne!(pair.client.redundancy(), Redundancy::SPACED, "that of the profile before");
            pair.client.set_redundancy(Redundancy::SPACED);
            assert_eq!(pair.client.redundancy(), Redundancy::SPACED);
            assert_eq!(pair.client.profile(), Some(*profile));
            pair.client.send(Message::new(profile.to_string())).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), profile.to_string());
        }
    })
    .await;
    assert_eq!(pair.server.profile(), Some(Profile::Festina), "the other side decides for itself");
}

#[tokio::test]
async fn one_association_can_have_another_profile_than_its_endpoint() {
    let pair = pair().await;
    let options = ConnectOptions::default().profile(Profile::Rfc9260);
    let other = in_time(pair.client_endpoint.connect_with(pair.server_endpoint.local_addr(), options)).await.unwrap();
    assert_eq!(other.profile(), Some(Profile::Rfc9260));
    assert_eq!(pair.client.profile(), Some(Profile::Festina));
}

#[tokio::test]
async fn statistics_tell_what_went_through() {
    let pair = pair().await;
    in_time(async {
        for _ in 0..10 {
            pair.client.send(Message::new(vec![0; 100])).await.unwrap();
            pair.server.recv().await.unwrap().unwrap();
        }
        pair.client.drained().await.unwrap();
    })
    .await;
    let (client, server) = (pair.client.stats(), pair.server.stats());
    assert_eq!((client.sent.messages, client.sent.messages_acked, server.received.messages), (10, 10, 10));
    assert_eq!((client.path.in_flight_bytes, client.path.send_buffer_bytes), (0, 0));
    assert!(client.path.srtt.is_some_and(|srtt| srtt < Duration::from_millis(500)), "{:?}", client.path);
    let endpoint = pair.client_endpoint.stats();
    assert_eq!(endpoint.associations, 1);
    assert!(endpoint.packets_sent >= client.sent.packets && endpoint.bytes_sent >= client.sent.bytes);
    assert!(endpoint.send_calls <= endpoint.packets_sent && endpoint.packets_received >= 10);
    assert_eq!((endpoint.packets_dropped, endpoint.send_errors), (0, 0));
    assert_eq!(pair.client.state(), AssociationState::Established);
    let streams = pair.client.streams();
    assert_eq!((streams.outbound, streams.inbound), (65_535, 65_535));
}

#[tokio::test]
async fn drained_waits_for_no_message_that_is_sent_later() {
    let pair =
        pair_with(settings(), settings().with_transport(Transport::default().with_receive_buffer_bytes(4_000))).await;
    pair.client.try_send("before").unwrap();
    in_time(async {
        let later = async {
            // More than the buffer of the peer holds, which does not read.
            for _ in 0..20 {
                pair.client.send(vec![0; 1_000]).await.unwrap();
            }
        };
        let (drained, ()) = tokio::join!(pair.client.drained(), later);
        drained.unwrap();
        assert!(pair.client.stats().path.messages_pending > 0);
        let reading = async {
            for _ in 0..21 {
                pair.server.recv().await.unwrap().unwrap();
            }
        };
        let (drained, ()) = tokio::join!(pair.client.drained(), reading);
        drained.unwrap();
    })
    .await;
    assert_eq!(pair.client.stats().sent.messages_acked, 21);
    let is_delivery = |event: &Event| matches!(event, Event::MessageDelivered { .. });
    assert!(
        !std::iter::from_fn(|| pair.client.try_event()).any(|event| is_delivery(&event)),
        "no confirmation was asked for"
    );
}

#[tokio::test]
async fn events_tell_a_messages_way_and_the_end() {
    let config = settings().with_transport(Transport::default().with_message_events(true));
    let pair = pair_with(config, settings()).await;
    let next = async || loop {
        match pair.client.event().await {
            Some(Event::Protocol(ProtocolEvent::RoundTripMeasured { rtt, srtt, rto, .. })) => {
                assert!(rtt > Duration::ZERO && srtt <= rto);
            }
            other => break other,
        }
    };
    in_time(async {
        let sent_after = festina::now();
        let message = pair.client.send(Message::new("watch me")).await.unwrap();
        let Some(Event::Protocol(ProtocolEvent::MessageSent { id, at, .. })) = next().await else {
            panic!("it was sent first")
        };
        assert_eq!(id, message);
        assert!(at >= sent_after);
        let Some(Event::MessageDelivered { id, at: delivered, .. }) = next().await else {
            panic!("then it was delivered")
        };
        assert_eq!(id, message);
        assert!(delivered >= at && delivered <= festina::now());

        pair.server.shutdown().await.unwrap();
        let mut last = None;
        while let Some(event) = pair.client.event().await {
            last = Some(event);
        }
        assert_eq!(last, Some(Event::Closed(ClosedReason::Shutdown)));
        assert_eq!(pair.client.event().await, None);
    })
    .await;
}

#[tokio::test]
async fn events_can_be_taken_without_waiting() {
    let pair = pair_with(settings().with_transport(Transport::default().with_message_events(true)), settings()).await;
    in_time(async {
        let message = pair.client.send(Message::new("watch me")).await.unwrap();
        pair.client.drained().await.unwrap();
        let events: Vec<_> = std::iter::from_fn(|| pair.client.try_event()).collect();
        let is_news = |event: &&Event| matches!(event, Event::MessageDelivered { id, .. } if *id == message);
        assert_eq!(events.iter().filter(is_news).count(), 1, "{events:?}");
        assert_eq!(pair.client.try_event(), None);
    })
    .await;
}

#[tokio::test]
async fn events_that_nobody_takes_cost_bounded_memory_and_the_last_are_kept() {
    let config = settings().with_transport(Transport::default().with_message_events(true));
    let pair = pair_with(config, settings()).await;
    in_time(async {
        for _ in 0..festina::EVENTS_QUEUED_MAX {
            pair.client.send(Message::new("x")).await.unwrap();
            pair.server.recv().await.unwrap().unwrap();
        }
        pair.client.shutdown().await.unwrap();
        let (mut count, mut last) = (0, None);
        while let Some(event) = pair.client.event().await {
            count += 1;
            last = Some(event);
        }
        assert_eq!(count, festina::EVENTS_QUEUED_MAX);
        assert_eq!(last, Some(Event::Closed(ClosedReason::Shutdown)));
    })
    .await;
}

#[tokio::test]
async fn a_delayed_acknowledgement_comes_when_its_timer_says() {
    let client =
        settings().with_transport(Transport::default().with_profile(Profile::Rfc9260).with_heartbeat_interval(None));
    let server = settings().with_transport(Transport::default().with_sack_delay(Duration::from_millis(30)));
    let pair = pair_with(client, server).await;
    in_time(async {
        pair.client.send(Message::new("the first of all is acknowledged at once")).await.unwrap();
        pair.client.drained().await.unwrap();
        let sent_at = festina::now();
        pair.client.send(Message::new("one packet alone")).await.unwrap();
        pair.client.drained().await.unwrap();
        let took = festina::now().saturating_duration_since(sent_at);
        assert!(took >= Duration::from_millis(29), "the receiver delays a single packet's SACK: {took:?}");
        assert!(took < Duration::from_millis(500), "{took:?}");
    })
    .await;
}
