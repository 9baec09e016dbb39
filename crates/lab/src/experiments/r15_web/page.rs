//! One page: its objects, one after the other on each connection.

use festina_models::workload::{Web, Workload};
use festina_netsim::LinkConfig;
use festina_units::{ByteCount, Duration};

use crate::experiments::r15::{self, Cost};
use crate::scenario::{Stack, StreamRun, ThinStream};

/// The largest object.
const OBJECT_MAX: ByteCount = ByteCount::from_bytes(100_000);

/// A page and the paths over which it comes.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) stack: Stack,
    /// The first is what the client asks for first.
    pub(super) objects_bytes: Vec<u64>,
    pub(super) connections: usize,
    pub(super) rtt: Duration,
    /// To the client, for each connection alone.
    pub(super) forward: LinkConfig,
    /// From the client.
    pub(super) backward: LinkConfig,
}

/// The server's answer to a request: when it begins, counted from the request for the page, and its size.
#[derive(Clone, Copy, Debug)]
struct Response {
    at: Duration,
    bytes: u64,
}

/// Sizes of the objects of a page.
pub(super) fn object_sizes(seed: u64, objects: u64) -> Vec<u64> {
    let web = Workload::Web(Web { size_max: OBJECT_MAX, ..Web::default() });
    let objects = usize::try_from(objects).unwrap_or(usize::MAX);
    web.writes(seed, "page").take(objects).map(|write| write.size.bytes()).collect()
}

impl Page {
    /// Returns the time from the first request to the delivery of the last object, or `None` if one was never delivered. Adds the packets
    /// sent to `cost`.
    pub(super) fn load(&self, seed: u64, cost: &mut Cost) -> Option<Duration> {
        let (first, others) = self.objects_bytes.split_first()?;
        let request = self.rtt / 2;
        let first = Response { at: request, bytes: *first };
        let (first_done, mut run) = self.transfer(&[first], seed)?;
        let mut loaded = first_done;
        let connections = self.connections.max(1);
        for connection in 0..connections {
            let mut responses = Vec::from_iter((connection == 0).then_some(first));
            let mut next_at = first_done + request;
            for &bytes in others.iter().skip(connection).step_by(connections) {
                responses.push(Response { at: next_at, bytes });
                // Later responses do not change earlier ones, so the transfer is run again with one more.
                let (done, longer) = self.transfer(&responses, seed)?;
                loaded = loaded.max(done);
                next_at = done + request;
                run = longer;
            }
            if !responses.is_empty() {
                cost.add(run.record.truth());
            }
        }
        Some(loaded)
    }

    /// Responses over one connection, and when the last of them was delivered.
    fn transfer(&self, responses: &[Response], seed: u64) -> Option<(Duration, StreamRun)> {
        let last_at = responses.last()?.at;
        let writes: Vec<_> = responses.iter().map(|response| (response.at, response.bytes)).collect();
        let stream = ThinStream {
            stack: self.stack.clone(),
            workload: r15::writes(&writes, r15::packet_bytes(&self.stack)),
            duration: last_at + Duration::from_nanos(1),
            forward: self.forward.clone(),
            backward: self.backward.clone(),
        };
        let run = stream.run(seed);
        // Delivery is in order, so the last packet completes all.
        let last = run.record.truth().messages.last()?;
        Some((last_at + last.delivered_at?.saturating_duration_since(last.due_at), run))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use festina_models::tcp::{DelayedAck, TcpConfig};
    use festina_netsim::LossModel;
    use festina_units::Instant;

    use super::*;

    fn page(objects_bytes: &[u64], connections: usize) -> Page {
        let link = LinkConfig { delay: Duration::from_millis(50), ..LinkConfig::default() };
        Page {
            stack: Stack::tcp(TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::sack() }),
            objects_bytes: objects_bytes.to_vec(),
            connections,
            rtt: Duration::from_millis(100),
            forward: link.clone(),
            backward: link,
        }
    }

    fn load_ms(page: &Page) -> Option<u128> {
        page.load(1, &mut Cost::default()).map(|load| load.as_millis())
    }

    #[test]
    fn without_losses_each_small_object_takes_a_round_trip_and_connections_work_side_by_side() {
        assert_eq!(load_ms(&page(&[1_000], 6)), Some(100));
        assert_eq!(load_ms(&page(&[1_000; 4], 6)), Some(200));
        assert_eq!(load_ms(&page(&[1_000; 4], 3)), Some(200));
        assert_eq!(load_ms(&page(&[1_000; 4], 1)), Some(400));
        assert_eq!(load_ms(&page(&[1_000; 4], 2)), Some(300));
    }

    #[test]
    fn a_lost_object_is_waited_for_and_costs_a_packet() {
        let mut page = page(&[1_000; 4], 1);
        let mut cost = Cost::default();
        assert!(page.load(1, &mut cost).is_some());
        // The stream begins after 20 s; the second object is under way from 150 ms on.
        let outage = Instant::from_millis(20_145)..Instant::from_millis(20_155);
        page.forward.loss = LossModel::Outages(Arc::from([outage]));
        let mut with_loss = Cost::default();
        let load = page.load(1, &mut with_loss).expect("the page is loaded");
        assert!(load > Duration::from_millis(600), "{load:?}");
        let counts = |cost: Cost| {
            let mut samples = crate::samples::Samples::new();
            cost.set(&mut samples);
            samples.values().clone()
        };
        assert_eq!(counts(cost)[r15::PACKETS], 4.0);
        assert_eq!((counts(with_loss)[r15::PACKETS], counts(with_loss)[r15::SPURIOUS]), (5.0, 0.0));
    }

    #[test]
    fn objects_are_at_least_1000_bytes_and_at_most_100_kb() {
        let sizes = object_sizes(1, 10_000);
        assert!(sizes.iter().all(|bytes| (1_000..=100_000).contains(bytes)));
        assert!(sizes.contains(&100_000));
        assert_ne!(object_sizes(2, 5), sizes[..5]);
    }
}
