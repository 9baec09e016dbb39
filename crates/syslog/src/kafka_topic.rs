//! A topic of Kafka and the settings of its clients.

use std::collections::BTreeMap;
use std::fmt;

#[cfg(feature = "kafka")]
use rdkafka::{ClientConfig, error::KafkaError};

/// A topic of Kafka.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaTopic {
    /// Some of the brokers, `host:port` with commas between them.
    pub brokers: String,
    /// The topic's name.
    pub topic: String,
    /// Settings of librdkafka, for example authentication.
    pub options: BTreeMap<String, String>,
}

impl fmt::Debug for KafkaTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secret.
        let options: Vec<_> = self.options.keys().collect();
        f.debug_struct("KafkaTopic")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("options", &options)
            .finish()
    }
}

impl KafkaTopic {
    /// Checks that librdkafka knows the settings. The error never contains a value, since a value could be secret.
    #[cfg(feature = "kafka")]
    pub(crate) fn check(&self) -> Result<(), String> {
        self.client().create_native_config().map(drop).map_err(|error| match error {
            KafkaError::ClientConfig(_, problem, ..) => problem,
            error => error.to_string(),
        })
    }

    /// This build has no Kafka output, and says so.
    #[cfg(not(feature = "kafka"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    pub(crate) fn check(&self) -> Result<(), String> {
        Err("this program was built without Kafka: build it with --features kafka".to_owned())
    }

    /// The settings of a client of the brokers.
    #[cfg(feature = "kafka")]
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // As Java's producer does it: consumers and other producers find the same partition for a source.
        config.set("partitioner", "murmur2_random");
        for (key, value) in &self.options {
            config.set(key, value);
        }
        config.set("bootstrap.servers", &self.brokers).set("client.id", "festina-syslog");
        config
    }
}
