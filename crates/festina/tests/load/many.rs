//! Ten thousand associations on one endpoint, and their cost. It counts every allocation.

use std::time::Duration;

use festina::{Admission, Association, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig, Transport};
use futures_util::{StreamExt, stream};

use crate::alone;
use crate::counting::live_bytes;

const ASSOCIATIONS: u32 = 10_000;

/// What one idle association may cost on each side.
const BYTES_PER_SIDE_MAX: usize = 2_300;

/// Handshakes, or exchanges, at the same time.
const AT_ONCE: usize = 64;

/// An association that says nothing for this long is idle.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// Number of measurements before the memory counts as too much.
const IDLE_INTERVALS_MAX: u32 = 15;

/// Each association says its number and is answered with it.
async fn exchange(ends: &[(Association, Association)]) {
    stream::iter((0_u32..).zip(ends))
        .for_each_concurrent(AT_ONCE, |(number, (near, far))| async move {
            near.send(Message::new(number.to_be_bytes().to_vec())).await.unwrap();
            let question = far.recv().await.unwrap().unwrap();
            assert_eq!(*question.payload(), number.to_be_bytes().to_vec());
            far.send(Message::new(question.into_payload())).await.unwrap();
            assert_eq!(near.recv().await.unwrap().unwrap().into_payload(), number.to_be_bytes().to_vec());
        })
        .await;
    for (near, far) in ends {
        near.drained().await.unwrap();
        far.drained().await.unwrap();
    }
}

#[test]
fn ten_thousand_associations_exchange_messages_and_cost_little_when_idle() {
    alone(2, || async {
        let address = "127.0.0.1:0".parse().unwrap();
        let transport = Transport::default().with_heartbeat_interval(HEARTBEAT_INTERVAL);
        let config = ServerConfig::plain()
            .with_transport(transport)
            .with_admission(Admission::default().with_associations_per_address_max(ASSOCIATIONS as usize));
        let server = Endpoint::server(address, config.clone()).await.unwrap();
        let client = Endpoint::server(address, config).await.unwrap();
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let remote = server.local_addr();
        let mut near = Vec::with_capacity(ASSOCIATIONS as usize);
        let mut far = Vec::with_capacity(ASSOCIATIONS as usize);
        let mut ends = Vec::with_capacity(ASSOCIATIONS as usize);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = live_bytes();

        let accepting = async {
            while far.len() < ASSOCIATIONS as usize {
                far.push(listener.accept().await.unwrap());
            }
        };
        let connecting = async {
            let mut connecting =
                stream::iter(0..ASSOCIATIONS).map(|_| client.connect(remote)).buffer_unordered(AT_ONCE);
            while let Some(association) = connecting.next().await {
                near.push(association.unwrap());
            }
        };
        tokio::join!(accepting, connecting);
        near.sort_by_key(|association| association.ports().local);
        far.sort_by_key(|association| association.ports().peer);
        ends.extend(near.drain(..).zip(far.drain(..)));
        assert_eq!(server.stats().associations, u64::from(ASSOCIATIONS));

        exchange(&ends).await;
        exchange(&ends).await;
        // An association counts as idle, and gives back memory, when the first heartbeat is due. A slow machine takes longer for all.
        let mut per_side = usize::MAX;
        for _ in 0..IDLE_INTERVALS_MAX {
            tokio::time::sleep(HEARTBEAT_INTERVAL * 2).await;
            let growth = live_bytes() - before;
            per_side = growth / (2 * ASSOCIATIONS as usize);
            if per_side <= BYTES_PER_SIDE_MAX {
                break;
            }
        }
        println!("{per_side} bytes per idle association and side");
        assert!(per_side <= BYTES_PER_SIDE_MAX, "{per_side} bytes per idle association and side");

        exchange(&ends).await;
        assert_eq!(server.stats().associations, u64::from(ASSOCIATIONS));
        drop(ends);
        client.close().await;
        assert_eq!(client.stats().associations, 0);
    });
}
