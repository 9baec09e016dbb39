use festina_sctp::{CongestionControl, Expiry, PeerRestart, SendBufferPolicy, StreamScheduler};
use festina_units::Duration;

use super::*;
use crate::recovery::Profile;

fn changed_by_fields() -> sctp::Config {
    let seconds = Duration::from_secs;
    sctp::Config {
        mechanisms: Profile::Rack.mechanisms(),
        congestion: CongestionControl::Cubic,
        timers: sctp::Timers {
            rto_initial: seconds(3),
            rto_max: seconds(4),
            heartbeat_interval: None,
            cookie_lifetime: seconds(5),
            shutdown_stall: seconds(6),
            shutdown_guard: Some(seconds(7)),
        },
        retries: sctp::Retries {
            init_max: 8,
            association_max: 9,
            path_max: 11,
            unreachable_after_min: seconds(10),
            spread: true,
        },
        peer_timeout: Some(seconds(2)),
        limits: sctp::Limits {
            packet_bytes_max: 512,
            packet_bytes_searched_max: None,
            outbound_streams: 12,
            inbound_streams: 13,
            receive_buffer_bytes: 5_000,
            stream_unread_bytes_max: Some(2_000),
            send_buffer_bytes: 4_000,
            send_buffer: SendBufferPolicy::FollowsWindow { windows: 2, extra_packets: 1 },
            send_low_water_bytes: 3_000,
            message_bytes_max: 513,
            exceeds_peer_buffer: true,
            burst_packets_max: 14,
        },
        admission: sctp::Admission {
            associations_max: 15,
            associations_per_address_max: 16,
            accept_queue_max: 17,
            strays_per_second_max: 18,
        },
        memory: sctp::DestinationMemory { destinations_max: 19, lifetime: seconds(20) },
        sack: sctp::SackPolicy { delay: Duration::from_millis(21), every_packets: 22, peer_batches: true },
        scheduler: StreamScheduler::Priority,
        interleaving: true,
        partial_reliability: sctp::PartialReliability {
            expiry: Expiry::AtOnce,
            nr_sack: false,
            enhanced_forward_tsn: false,
        },
        peer_requests: sctp::PeerRequests {
            reset_streams: false,
            add_streams: true,
            restart: PeerRestart::End,
            moves: false,
        },
        // An endpoint sends over UDP or IP, never within DTLS.
        carrier: sctp::Carrier { protected_by_dtls: false, ecn: true, overhead_bytes: 0 },
        message_events: true,
    }
}

#[test]
fn every_method_sets_its_field_of_the_core_and_stays_in_range() {
    let seconds = Duration::from_secs;
    let transport = Transport::default()
        .with_profile(Profile::Rack)
        .with_congestion(CongestionControl::Cubic)
        .with_peer_timeout(seconds(2))
        .with_heartbeat_interval(None)
        .with_packet_bytes_max(512)
        .with_message_bytes_max(513)
        .with_send_buffer_bytes(4_000)
        .with_receive_buffer_bytes(5_000)
        .with_stream_unread_bytes_max(2_000)
        .with_peer_restart(PeerRestart::End)
        .with_peer_moves(false)
        .with_streams(12, 13)
        .with_sack_delay(Duration::from_millis(21))
        .with_scheduler(StreamScheduler::Priority)
        .with_interleaving(true)
        .with_message_events(true)
        .with_expert(|expert| {
            expert
                .with_rto_initial(seconds(3))
                .with_rto_max(seconds(4))
                .with_cookie_lifetime(seconds(5))
                .with_shutdown_stall(seconds(6))
                .with_shutdown_guard(seconds(7))
                .with_handshake_retries(8)
                .with_association_retries(9, seconds(10))
                .with_path_retries(11)
                .with_messages_beyond_peer_buffer(true)
                .with_send_low_water_bytes(3_000)
                .with_send_buffer_windows(2, 1)
                .with_burst_packets_max(14)
                .with_destination_memory(19, seconds(20))
                .with_sack_every_packets(22)
                .with_sack_peer_batches(true)
                .with_expiry(Expiry::AtOnce)
                .with_nr_sack(false)
                .with_ecn(true)
                .with_stream_resets_by_peer(false)
                .with_streams_added_by_peer(true)
        });
    let admission = Admission::default()
        .with_associations_max(15)
        .with_associations_per_address_max(16)
        .with_accept_queue_max(17)
        .with_strays_per_second_max(18);
    assert_eq!((transport.validate(), admission.validate()), (Ok(()), Ok(())));
    let config = ServerConfig::plain().with_transport(transport).with_admission(admission);
    assert_eq!(EndpointConfig::from(config).plain_core(), changed_by_fields());
}

#[test]
fn packets_above_the_default_are_searched_for() {
    for (bytes, plain, encrypted) in [
        (None, (1_232, None), (1_237, None)),
        (Some(1_000), (1_000, None), (985, None)),
        (Some(1_472), (1_232, Some(1_472)), (1_237, Some(1_457))),
        (Some(8_972), (1_232, Some(8_972)), (1_237, Some(8_957))),
    ] {
        let transport = || bytes.into_iter().fold(Transport::default(), Transport::with_packet_bytes_max);
        let sizes = |config: EndpointConfig| {
            let limits = config.core("127.0.0.1:1".parse().unwrap()).limits;
            (limits.packet_bytes_max, limits.packet_bytes_searched_max)
        };
        assert_eq!(sizes(ServerConfig::plain().with_transport(transport()).into()), plain);
        assert_eq!(sizes(ClientConfig::default().with_transport(transport()).into()), encrypted);
    }
}

#[test]
fn batched_acknowledgements_follow_encryption_and_the_controller_whatever_the_order_of_the_calls() {
    let core = |config: EndpointConfig| config.core("[::1]:1".parse().unwrap()).sack.peer_batches;
    let encrypted = |transport: Transport| core(ClientConfig::default().with_transport(transport).into());
    let plain = |transport: Transport| core(ServerConfig::plain().with_transport(transport).into());
    let asked = |batches| Transport::default().with_expert(|expert| expert.with_sack_peer_batches(batches));
    assert!(encrypted(Transport::default()) && !plain(Transport::default()));
    assert!(!encrypted(Transport::default().with_congestion(CongestionControl::Rfc9260)));
    assert!(encrypted(Transport::default().with_profile(Profile::Rack)));
    assert!(plain(asked(true)) && !encrypted(asked(false)));
}

#[test]
fn a_smaller_send_buffer_brings_its_low_water_mark_down_and_a_larger_one_leaves_it() {
    let low_water = |bytes| Transport::default().with_send_buffer_bytes(bytes).into_core().limits.send_low_water_bytes;
    assert_eq!(low_water(4_000), 4_000);
    assert_eq!(low_water(16 << 20), sctp::Limits::default().send_low_water_bytes);
}

#[test]
fn a_send_delay_is_a_target_of_the_send_buffer() {
    let delay = Duration::from_millis(50);
    assert_eq!(Transport::default().with_send_delay(delay).send_buffer(), SendBufferPolicy::Target(delay));
    assert_eq!(
        Transport::default().with_send_delay(delay).with_send_delay(None).send_buffer(),
        SendBufferPolicy::Fixed
    );
    assert!(Transport::default().with_send_delay(Duration::ZERO).validate().is_err());
}
