//! Kafka as the [broker](Broker) of a collector: a transaction for each commit.
//!
//! The collector's name is the transactional id. A producer that starts with this id ends the transactions of earlier ones: Kafka completes those
//! that it had begun to commit and aborts the others. It refuses further requests of earlier producers, because their epoch is over. The number of
//! the commit is the offset of a consumer group of the same name, written in the same transaction: it is there if and only if the lines are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use festina_units::Duration;
use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::clock;
use crate::collector::{Broker, BrokerLine};
use crate::kafka_topic::KafkaTopic;
use crate::notice::Notice;

/// Time limit for one request to the brokers. It is repeated afterwards.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);

/// Between two attempts, in parts so that an end is noticed.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_PARTS: u32 = 10;

/// Time after which the brokers abort the transactions of a vanished collector. Until then they block readers.
const TRANSACTION_MS_MAX: &str = "60000";

/// A topic, and the producer for it once the brokers listen to this one.
pub(super) struct Kafka {
    topic: KafkaTopic,
    session: Option<Session>,
    /// The collector ends: no more attempts.
    stops: Arc<AtomicBool>,
    notice: Notice,
    /// That nothing gets on has been said.
    complained: bool,
}

struct Session {
    producer: BaseProducer,
    group: ConsumerGroupMetadata,
}

impl Kafka {
    pub(super) fn new(topic: KafkaTopic, stops: Arc<AtomicBool>, notice: Notice) -> Self {
        Self { topic, session: None, stops, notice, complained: false }
    }

    fn begin(&mut self, name: &str) -> Result<Option<u64>, KafkaError> {
        // The earlier producer first: it would be fenced, and would complain.
        self.session = None;
        let name = format!("festina-syslog-{name}");
        let mut config = self.topic.client();
        config.set("transactional.id", &name).set("transaction.timeout.ms", TRANSACTION_MS_MAX);
        // A commit has bytes enough as its limit.
        config.set("queue.buffering.max.messages", "0");
        let producer: BaseProducer = config.create()?;
        producer.init_transactions(CALL_TIME_MAX)?;

        let mut config = self.topic.client();
        // Wait for the end of a pending transaction instead of reading an older offset.
        config.set("group.id", &name).set("enable.auto.commit", "false").set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create()?;
        let committed = consumer.committed_offsets(self.position(None)?, CALL_TIME_MAX)?;
        let position = committed.find_partition(&self.topic.topic, 0);
        let position = position.ok_or(KafkaError::OffsetFetch(RDKafkaErrorCode::UnknownPartition))?;
        position.error()?;
        let last = match position.offset() {
            Offset::Offset(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let group = consumer.group_metadata().ok_or(KafkaError::OffsetFetch(RDKafkaErrorCode::UnknownGroup))?;
        self.session = Some(Session { producer, group });
        Ok(last)
    }

    /// The place of the number of a commit.
    fn position(&self, number: Option<u64>) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        let offset = number.and_then(|number| i64::try_from(number).ok()).map_or(Offset::Invalid, Offset::Offset);
        list.add_partition_offset(&self.topic.topic, 0, offset)?;
        Ok(list)
    }

    fn send(&self, session: &Session, number: u64, lines: &[BrokerLine]) -> Result<(), KafkaError> {
        let Session { producer, group } = session;
        producer.poll(Duration::ZERO);
        producer.begin_transaction()?;
        let now_us = clock::date_us();
        for line in lines {
            let mut record = BaseRecord::to(&self.topic.topic)
                .key(&line.source[..])
                .payload(&line.value)
                .timestamp(line.timestamp_ms(now_us))
                .headers(headers(line));
            while let Err((error, refused)) = producer.send(record) {
                if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(error);
                }
                producer.poll(CALL_TIME_MAX / 100);
                record = refused;
                if producer.client().fatal_error().is_some() || self.stops.load(Ordering::Relaxed) {
                    return Err(error);
                }
            }
        }
        producer.send_offsets_to_transaction(&self.position(Some(number))?, group, CALL_TIME_MAX)?;
        // Waits for the lines first; that one of them was refused is an error of the transaction.
        producer.commit_transaction(CALL_TIME_MAX)
    }
}

/// What makes a line different from all others, for readers that see several collectors.
fn headers(line: &BrokerLine) -> OwnedHeaders {
    let sender: String = line.sender.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let headers = OwnedHeaders::new().insert(Header { key: "sender", value: Some(&sender) });
    match line.number {
        Some((priority, number)) => headers
            .insert(Header { key: "priority", value: Some(&priority.to_string()) })
            .insert(Header { key: "number", value: Some(&number.to_string()) }),
        None => headers,
    }
}

/// The error in librdkafka's words alone.
fn plain(error: KafkaError) -> io::Error {
    match (error.rdkafka_error_code(), error) {
        (_, KafkaError::Transaction(error)) => io::Error::other(error.to_string()),
        (Some(code), _) => io::Error::other(code.to_string()),
        (None, error) => io::Error::other(error.to_string()),
    }
}

impl Broker for Kafka {
    fn take_over(&mut self, name: &str) -> io::Result<Option<u64>> {
        self.begin(name).map_err(plain)
    }

    fn commit(&mut self, number: u64, lines: &[BrokerLine]) -> io::Result<()> {
        let session = self.session.take().ok_or(io::ErrorKind::NotConnected)?;
        self.send(&session, number, lines).map_err(plain)?;
        self.session = Some(session);
        if std::mem::take(&mut self.complained) {
            (self.notice)("Kafka takes lines again");
        }
        Ok(())
    }

    fn pause(&mut self, error: &io::Error) -> bool {
        if !std::mem::replace(&mut self.complained, true) {
            (self.notice)(&format!("Kafka does not take lines: {error}; relays keep their lines; retrying"));
        }
        for _ in 0..PAUSE_PARTS {
            if self.stops.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(PAUSE / PAUSE_PARTS);
        }
        true
    }
}
