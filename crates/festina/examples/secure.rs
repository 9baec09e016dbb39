//! An encrypted association with a client that knows the server by the fingerprint of its certificate.

use festina::security::Identity;
use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let identity = Identity::self_signed("game.example")?;
    let fingerprint = identity.fingerprint();
    let server = Endpoint::server("127.0.0.1:0".parse()?, ServerConfig::new(identity)).await?;
    let listener = server.listen(DEFAULT_SCTP_PORT)?;
    let client = Endpoint::client("127.0.0.1:0".parse()?, ClientConfig::new(fingerprint)).await?;
    let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
    let (near, far) = (near?, far.ok_or("the server is closed")?);

    near.send("make haste slowly").await?;
    assert_eq!(far.recv().await?.expect("a message").payload(), "make haste slowly");
    near.shutdown().await?;
    Ok(())
}
