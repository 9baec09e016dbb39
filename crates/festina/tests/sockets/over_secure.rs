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

use festina::Config;
use festina::security::{Identity, Security, Trust};

use crate::support::{Pair, pair_with};

/// Settings for either side: an identity, and trust in it.
fn settings() -> Config {
    static SECURITY: OnceLock<Security> = OnceLock::new();
    let security = SECURITY.get_or_init(|| {
        let identity = Identity::self_signed("server.test").unwrap();
        let trust = Trust::fingerprints([identity.fingerprint()]);
        Security::new().with_identity(identity).with_server_trust(trust)
    });
    Config::default().with_security(security.clone())
}

async fn pair() -> Pair {
    pair_with(settings(), settings()).await
}
