//! Debug output of messages, without their lines.

use std::fmt;

use festina_units::Preview;

use super::{FreshMessage, Outgoing};

impl fmt::Debug for FreshMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, lifetime, retransmissions, payload } = self;
        formatter
            .debug_struct("FreshMessage")
            .field("priority", priority)
            .field("lifetime", lifetime)
            .field("retransmissions", retransmissions)
            .field("payload", &Preview(payload))
            .finish()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, slot, unordered, last, payload } = self;
        formatter
            .debug_struct("Outgoing")
            .field("priority", priority)
            .field("slot", slot)
            .field("unordered", unordered)
            .field("last", last)
            .field("payload", &Preview(payload))
            .finish()
    }
}
