//! The counters of endpoints and associations for Prometheus (feature `prometheus`).
//!
//! Nothing is counted here: a scrape reads [`Endpoint::stats`] and [`Association::stats`], and there is no work between scrapes. A scrape takes the
//! lock of each shown association once, for as long as copying its counters takes.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use festina_sctp::Stats;
use festina_units::Duration;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::association::{Association, Inner};
use crate::clock;
use crate::endpoint::{Endpoint, EndpointStats, Shared};
use crate::locks::lock;

/// Default of [`Metrics::with_associations_max`]. Each association has 28 series of its own.
pub const ASSOCIATIONS_SHOWN_MAX: usize = 100;

/// Exports endpoints and associations to a [`Registry`](prometheus_client::registry::Registry).
///
/// Every series of an endpoint has the label `endpoint`, its address. Those of an association also have `association`, its id as in logs, and `peer`.
/// Endpoints and associations are exported until they end; this does not keep them alive. The number of associations is limited, since every label
/// costs memory in the database. On an endpoint with thousands of them, use the series of the endpoint.
///
/// Clones are cheap and export the same objects. Register one of them with one registry.
///
/// ```
/// use festina::{Endpoint, Metrics, ServerConfig};
/// use prometheus_client::{encoding::text, registry::Registry};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::plain()).await?;
/// let metrics = Metrics::default();
/// metrics.show_endpoint(&endpoint);
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(metrics.clone()));
///
/// let mut page = String::new();
/// text::encode(&mut page, &registry)?;
/// assert!(page.contains(&format!("festina_endpoint_associations{{endpoint=\"{}\"}} 0\n", endpoint.local_addr())));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Metrics {
    shown: Arc<Mutex<Shown>>,
    associations_max: usize,
}

#[derive(Default)]
struct Shown {
    endpoints: Vec<Weak<Shared>>,
    associations: Vec<Weak<Inner>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { shown: Arc::default(), associations_max: ASSOCIATIONS_SHOWN_MAX }
    }
}

impl Metrics {
    /// Sets the maximum number of associations exported at the same time; 0 exports endpoints alone.
    #[must_use]
    pub fn with_associations_max(mut self, associations: usize) -> Self {
        self.associations_max = associations;
        self
    }

    /// Adds an endpoint, unless it is already exported.
    pub fn show_endpoint(&self, endpoint: &Endpoint) {
        let mut shown = lock(&self.shown);
        shown.endpoints.retain(|other| other.strong_count() > 0);
        add(&mut shown.endpoints, endpoint.shared());
    }

    /// Adds an association. If there is no room, ended ones are removed first. Returns whether there was room then.
    pub fn show_association(&self, association: &Association) -> bool {
        let mut shown = lock(&self.shown);
        if shown.associations.len() >= self.associations_max {
            shown.associations.retain(|other| other.upgrade().is_some_and(|other| other.close_reason().is_none()));
        }
        let has_room = shown.associations.len() < self.associations_max;
        if has_room {
            add(&mut shown.associations, association.inner());
        }
        has_room
    }

    /// Returns the live objects with their labels.
    fn read(&self) -> (Vec<Row<EndpointStats>>, Vec<Row<Stats>>) {
        let mut shown = lock(&self.shown);
        shown.associations.retain(|other| other.strong_count() > 0);
        let endpoints = shown.endpoints.iter().filter_map(Weak::upgrade);
        let endpoints = endpoints.map(|endpoint| Row {
            labels: vec![("endpoint", endpoint.socket.local_addr().to_string())],
            stats: endpoint.stats(),
        });
        let associations = shown.associations.iter().filter_map(Weak::upgrade);
        let associations = associations.map(|association| Row {
            labels: vec![
                ("endpoint", association.local_addr().to_string()),
                ("association", association.id().to_string()),
                ("peer", association.remote().to_string()),
            ],
            stats: association.stats(),
        });
        (endpoints.collect(), associations.collect())
    }
}

fn add<T>(list: &mut Vec<Weak<T>>, item: &Arc<T>) {
    let item = Arc::downgrade(item);
    if !list.iter().any(|other| other.ptr_eq(&item)) {
        list.push(item);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = lock(&self.shown);
        formatter
            .debug_struct("Metrics")
            .field("endpoints", &shown.endpoints.len())
            .field("associations", &shown.associations.len())
            .field("associations_max", &self.associations_max)
            .finish()
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (endpoints, associations) = self.read();
        ENDPOINT.iter().try_for_each(|family| family.encode(&mut encoder, &endpoints))?;
        ASSOCIATION.iter().try_for_each(|family| family.encode(&mut encoder, &associations))
    }
}

/// One endpoint or association as it is now.
struct Row<S> {
    labels: Vec<(&'static str, String)>,
    stats: S,
}

/// Series that differ in their labels alone.
struct Family<S: 'static> {
    name: &'static str,
    help: &'static str,
    measure: Measure,
    value: Value<S>,
}

/// Unit of a value, which is also the end of its name.
#[derive(Clone, Copy)]
enum Measure {
    Number,
    Bytes,
    Seconds,
}

type Count<S> = fn(&S) -> u64;

/// Where a value comes from.
enum Value<S: 'static> {
    Counter(Count<S>),
    /// One counter for each value of the label `cause`.
    ByCause(&'static [(&'static str, Count<S>)]),
    Gauge(Count<S>),
    /// There is none before the first measurement.
    Duration(fn(&S) -> Option<Duration>),
}

impl<S> Family<S> {
    const fn counter(name: &'static str, help: &'static str, value: Count<S>) -> Self {
        Self { name, help, measure: Measure::Number, value: Value::Counter(value) }
    }

    const fn gauge(name: &'static str, help: &'static str, value: Count<S>) -> Self {
        Self { name, help, measure: Measure::Number, value: Value::Gauge(value) }
    }

    const fn duration(name: &'static str, help: &'static str, value: fn(&S) -> Option<Duration>) -> Self {
        Self { name, help, measure: Measure::Seconds, value: Value::Duration(value) }
    }

    const fn in_bytes(mut self) -> Self {
        self.measure = Measure::Bytes;
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, rows: &[Row<S>]) -> fmt::Result {
        if rows.is_empty() {
            return Ok(());
        }
        let kind = match self.value {
            Value::Counter(_) | Value::ByCause(_) => MetricType::Counter,
            Value::Gauge(_) | Value::Duration(_) => MetricType::Gauge,
        };
        let unit = match self.measure {
            Measure::Number => None,
            Measure::Bytes => Some(Unit::Bytes),
            Measure::Seconds => Some(Unit::Seconds),
        };
        let mut encoder = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        for Row { labels, stats } in rows {
            match self.value {
                Value::Counter(read) => ConstCounter::new(read(stats)).encode(encoder.encode_family(labels)?)?,
                Value::ByCause(causes) => {
                    for (cause, read) in causes {
                        let mut labels = labels.clone();
                        labels.push(("cause", (*cause).to_owned()));
                        ConstCounter::new(read(stats)).encode(encoder.encode_family(&labels)?)?;
                    }
                }
                Value::Gauge(read) => ConstGauge::new(read(stats)).encode(encoder.encode_family(labels)?)?,
                Value::Duration(read) => {
                    if let Some(value) = read(stats) {
                        ConstGauge::new(value.as_secs_f64()).encode(encoder.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

type OfEndpoint = Family<EndpointStats>;
type OfAssociation = Family<Stats>;

static ENDPOINT: [OfEndpoint; 15] = [
    OfEndpoint::gauge("festina_endpoint_associations", "Associations now, those in their handshake included", |s| {
        s.associations
    }),
    OfEndpoint::counter("festina_endpoint_packets_sent", "SCTP packets sent", |s| s.packets_sent),
    OfEndpoint::counter("festina_endpoint_sent", "Bytes of SCTP packets sent", |s| s.bytes_sent).in_bytes(),
    OfEndpoint::counter("festina_endpoint_send_calls", "System calls that sent packets", |s| s.send_calls),
    OfEndpoint::counter("festina_endpoint_send_errors", "Sends that the system refused", |s| s.send_errors),
    OfEndpoint::counter("festina_endpoint_send_blocked", "Sends that waited for room in the socket", |s| {
        s.send_blocked
    }),
    OfEndpoint::counter("festina_endpoint_packets_received", "SCTP packets received", |s| s.packets_received),
    OfEndpoint::counter("festina_endpoint_received", "Bytes of SCTP packets received", |s| s.bytes_received).in_bytes(),
    OfEndpoint::counter("festina_endpoint_receive_calls", "System calls that received packets", |s| s.receive_calls),
    OfEndpoint::counter("festina_endpoint_packets_dropped", "Packets received without effect", |s| s.packets_dropped),
    OfEndpoint::counter("festina_endpoint_congestion_marks", "Datagrams received with ECN CE", |s| {
        s.datagrams_congestion_marked
    }),
    OfEndpoint::counter("festina_endpoint_accept_queue_overflows", "Handshakes left for the peer to repeat", |s| {
        s.accept_queue_overflows
    }),
    OfEndpoint::counter("festina_endpoint_associations_refused", "Peers refused because there were too many", |s| {
        s.associations_refused
    }),
    OfEndpoint::counter("festina_endpoint_strays_shed", "Packets of no association dropped unseen", |s| s.strays_shed),
    OfEndpoint::counter("festina_endpoint_receive_errors", "Times that receiving failed", |s| s.receive_errors),
];

static ASSOCIATION: [OfAssociation; 23] = [
    OfAssociation::counter("festina_association_packets_sent", "SCTP packets sent", |s| s.sent.packets),
    OfAssociation::counter("festina_association_sent", "Bytes of SCTP packets sent", |s| s.sent.bytes).in_bytes(),
    OfAssociation::counter("festina_association_messages_sent", "Messages taken to be sent", |s| s.sent.messages),
    OfAssociation::counter("festina_association_messages_acknowledged", "Messages acknowledged as a whole", |s| {
        s.sent.messages_acked
    }),
    OfAssociation::counter("festina_association_messages_abandoned", "Messages given up", |s| {
        s.sent.messages_abandoned
    }),
    OfAssociation::counter(
        "festina_association_messages_abandoned_sent",
        "Those given up after part of them was sent: the peer may have received them",
        |s| s.sent.messages_abandoned_sent,
    ),
    OfAssociation {
        name: "festina_association_chunks_retransmitted",
        help: "DATA chunks sent again",
        measure: Measure::Number,
        value: Value::ByCause(&[
            ("timeout", |s| s.sent.retransmitted.timeout),
            ("fast", |s| s.sent.retransmitted.fast),
            ("reported_bundled", |s| s.sent.retransmitted.reported_bundled),
            ("bundled", |s| s.sent.retransmitted.bundled),
            ("probe", |s| s.sent.retransmitted.probe),
            ("copy", |s| s.sent.retransmitted.copies),
        ]),
    },
    OfAssociation::counter("festina_association_chunks_lost", "DATA chunks found lost", |s| s.sent.chunks_lost),
    OfAssociation::counter(
        "festina_association_retransmissions_spurious",
        "Spurious retransmissions of DATA chunks",
        |s| s.sent.spurious,
    ),
    OfAssociation::counter(
        "festina_association_marks_reported",
        "Reports that the network marked packets (ECN)",
        |s| s.sent.marks_reported,
    ),
    OfAssociation::counter(
        "festina_association_packets_received",
        "SCTP packets received that passed all checks",
        |s| s.received.packets,
    ),
    OfAssociation::counter("festina_association_received", "Bytes of those packets", |s| s.received.bytes).in_bytes(),
    OfAssociation::counter("festina_association_messages_received", "Whole messages received", |s| s.received.messages),
    OfAssociation::counter(
        "festina_association_packets_marked",
        "Packets received that the network marked (ECN)",
        |s| s.received.packets_marked,
    ),
    OfAssociation::gauge("festina_association_messages_pending", "Messages neither acknowledged nor given up", |s| {
        s.path.messages_pending
    }),
    OfAssociation::gauge("festina_association_send_buffer", "Bytes in the send buffer", |s| s.path.send_buffer_bytes)
        .in_bytes(),
    OfAssociation::duration("festina_association_round_trip", "Smoothed round-trip time", |s| s.path.srtt),
    OfAssociation::duration("festina_association_rto", "Retransmission timeout", |s| Some(s.path.rto)),
    OfAssociation::gauge("festina_association_congestion_window", "Congestion window", |s| s.path.cwnd_bytes)
        .in_bytes(),
    OfAssociation::gauge("festina_association_packet_size", "Maximum size of packets", |s| s.packet_bytes_max)
        .in_bytes(),
    OfAssociation::gauge("festina_association_in_flight", "Bytes on the way", |s| s.path.in_flight_bytes).in_bytes(),
    OfAssociation::duration(
        "festina_association_peer_window_closed",
        "Time since the peer's window closed: its application reads nothing; 0 while it is open",
        |s| Some(s.path.peer_window_closed_since.map_or(Duration::ZERO, |since| clock::now() - since)),
    ),
    OfAssociation::gauge("festina_association_thin", "Whether the association is thin: 1 or 0", |s| s.path.thin.into()),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{DEFAULT_SCTP_PORT, Message, ServerConfig, blocking};

    async fn endpoint() -> Endpoint {
        Endpoint::server("127.0.0.1:0".parse().unwrap(), ServerConfig::plain()).await.unwrap()
    }

    fn page(metrics: &Metrics) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        page
    }

    /// Returns the value of the only series with this prefix.
    fn value(page: &str, series: &str) -> u64 {
        let found: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(series)).collect();
        let [value] = found[..] else { panic!("{series} is there {} times in {page}", found.len()) };
        value.trim().parse().unwrap()
    }

    #[tokio::test]
    async fn a_scrape_shows_what_the_statistics_say_of_endpoints_and_associations() {
        let (client, server) = (endpoint().await, endpoint().await);
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        let metrics = Metrics::default();
        metrics.show_endpoint(&client);
        metrics.show_endpoint(&client);
        metrics.show_endpoint(&server);
        assert!(metrics.show_association(&near) && metrics.show_association(&near));
        for _ in 0..3 {
            near.send(Message::new("a few")).await.unwrap();
            far.recv().await.unwrap().unwrap();
        }
        near.send(Message::new("too late").with_lifetime(Duration::ZERO)).await.unwrap();
        near.drained().await.unwrap();

        let page = page(&metrics);
        let address = client.local_addr();
        let of_endpoint = format!("{{endpoint=\"{address}\"}}");
        assert_eq!(value(&page, &format!("festina_endpoint_associations{of_endpoint}")), 1);
        let packets = value(&page, &format!("festina_endpoint_packets_sent_total{of_endpoint}"));
        assert_eq!(packets, client.stats().packets_sent);
        let (id, peer) = (near.id(), near.remote_addr());
        let labels = format!("endpoint=\"{address}\",association=\"{id}\",peer=\"{peer}\"");
        assert_eq!(value(&page, &format!("festina_association_messages_sent_total{{{labels}}}")), 4);
        assert_eq!(value(&page, &format!("festina_association_messages_abandoned_total{{{labels}}}")), 1);
        assert_eq!(value(&page, &format!("festina_association_messages_abandoned_sent_total{{{labels}}}")), 0);
        assert!(page.contains(&format!("festina_association_peer_window_closed_seconds{{{labels}}} 0.0\n")), "{page}");
        let by_timeout = format!("festina_association_chunks_retransmitted_total{{{labels},cause=\"timeout\"}}");
        assert_eq!(value(&page, &by_timeout), near.stats().sent.retransmitted.timeout);
        let srtt = format!("festina_association_round_trip_seconds{{{labels}}} ");
        let srtt = page.lines().find_map(|line| line.strip_prefix(&srtt)).unwrap();
        assert!(srtt.parse::<f64>().unwrap() > 0.0, "{page}");

        // Each series is there once, and the constant in the documentation is true.
        let series: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let names: BTreeSet<&str> =
            series.iter().filter_map(|line| line.rsplit_once(' ').map(|(name, _)| name)).collect();
        assert_eq!(names.len(), series.len(), "{page}");
        assert_eq!(series.iter().filter(|line| line.contains("association=")).count(), 28);
    }

    #[test]
    fn endpoints_and_associations_without_async_are_shown_as_well() {
        let address = "127.0.0.1:0".parse().unwrap();
        let server = blocking::Endpoint::server(address, ServerConfig::plain()).unwrap();
        let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let client = blocking::Endpoint::server(address, ServerConfig::plain()).unwrap();
        let near = client.connect(server.local_addr()).unwrap();
        let metrics = Metrics::default();
        client.show_in(&metrics);
        assert!(near.show_in(&metrics));
        let page = page(&metrics);
        let of_endpoint = format!("{{endpoint=\"{}\"}}", client.local_addr());
        assert_eq!(value(&page, &format!("festina_endpoint_associations{of_endpoint}")), 1);
        assert!(page.contains(&format!("association=\"{}\"", near.id())), "{page}");
    }

    #[tokio::test]
    async fn the_number_of_associations_shown_is_bounded_and_those_that_are_over_make_room() {
        let (client, server) = (endpoint().await, endpoint().await);
        let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let metrics = Metrics::default().with_associations_max(1);
        let first = client.connect(server.local_addr()).await.unwrap();
        let second = client.connect(server.local_addr()).await.unwrap();
        assert!(metrics.show_association(&first));
        assert!(!metrics.show_association(&second));
        assert!(!page(&metrics).contains(&format!("association=\"{}\"", second.id())));
        first.abort("over");
        assert!(metrics.show_association(&second));
        assert!(page(&metrics).contains(&format!("association=\"{}\"", second.id())));
        assert!(!page(&metrics).contains(&format!("association=\"{}\"", first.id())));
    }

    #[tokio::test]
    async fn what_is_shown_ends_as_if_it_were_not() {
        let (client, server) = (endpoint().await, endpoint().await);
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let metrics = Metrics::default();
        metrics.show_endpoint(&client);
        let association = client.connect(server.local_addr()).await.unwrap();
        let far = listener.accept().await.unwrap();
        metrics.show_association(&association);
        drop((association, client));
        let ended = async {
            far.closed().await;
            // The peer has heard of the end; this side's task still has to.
            while page(&metrics).contains("endpoint=") {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("nothing keeps the endpoint alive");
    }
}
