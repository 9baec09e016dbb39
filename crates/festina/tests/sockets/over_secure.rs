//! The same tests of the transport, over encrypted associations.
#![expect(clippy::duplicate_mod, reason = "both protocols must pass the same tests")]

#[path = "fates.rs"]
mod fates;
#[path = "living.rs"]
mod living;
#[path = "sending.rs"]
mod sending;
#[path = "streams.rs"]
mod streams;

use std::sync::OnceLock;

use festina::ServerConfig;
use festina::security::{Identity, ServerSecurity, Trust};

use crate::support::{Pair, pair_with};

/// Settings for either side: an identity, and trust in it.
fn settings() -> ServerConfig {
    static SECURITY: OnceLock<ServerSecurity> = OnceLock::new();
    let security = SECURITY.get_or_init(|| {
        let identity = Identity::self_signed("server.test").unwrap();
        let trust = Trust::fingerprints([identity.fingerprint()]);
        ServerSecurity::new(identity).with_client(trust)
    });
    ServerConfig::new(security.clone())
}

async fn pair() -> Pair {
    pair_with(settings(), settings()).await
}
