//! Tests of the transport, over plain SCTP.

#[path = "fates.rs"]
mod fates;
#[path = "living.rs"]
mod living;
#[path = "sending.rs"]
mod sending;
#[path = "streams.rs"]
mod streams;

use festina::Config;

use crate::support::{Pair, pair_with};

fn settings() -> Config {
    Config::plain()
}

async fn pair() -> Pair {
    pair_with(settings(), settings()).await
}
