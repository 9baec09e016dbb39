//! An encrypted association with a client that knows the server by the fingerprint of its certificate.

use festina::security::{Identity, Security, Trust};
use festina::{Config, DEFAULT_SCTP_PORT, Endpoint, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let identity = Identity::self_signed("game.example")?;
    let trust = Trust::fingerprints([identity.fingerprint()]);
    let with = |security| Config::default().with_security(security);
    let server = Endpoint::bind("127.0.0.1:0".parse()?, with(Security::new().with_identity(identity))).await?;
    let listener = server.listen(DEFAULT_SCTP_PORT)?;
    let client = Endpoint::bind("127.0.0.1:0".parse()?, with(Security::new().with_server_trust(trust))).await?;
    let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
    let (near, far) = (near?, far.ok_or("the server is closed")?);

    near.send(Message::new("make haste slowly")).await?;
    assert_eq!(far.recv().await?.expect("a message").payload, "make haste slowly");
    near.shutdown().await?;
    Ok(())
}
