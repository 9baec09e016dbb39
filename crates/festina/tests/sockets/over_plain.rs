//! Tests of the transport, over plain SCTP.

#[path = "fates.rs"]
mod fates;
#[path = "living.rs"]
mod living;
#[path = "sending.rs"]
mod sending;
#[path = "streams.rs"]
mod streams;

use festina::ServerConfig;

use crate::support::{Pair, pair_with};

fn settings() -> ServerConfig {
    ServerConfig::plain()
}

async fn pair() -> Pair {
    pair_with(settings(), settings()).await
}
