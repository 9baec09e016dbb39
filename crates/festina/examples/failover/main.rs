//! One end of an association with several addresses, which sends and receives messages while networks fail. `validation/kernel-sctp` runs it
//! against the Linux kernel's SCTP, whose end is `interop/failover/peer.c`.
//!
//! ```text
//! cargo run -p festina --example failover -- server|client LOCAL[,LOCAL...] REMOTE COUNT INTERVAL_MS
//! ```

mod exchange;

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use exchange::{Plan, exchange};
use festina::{ClientConfig, ConnectOptions, Endpoint, ServerConfig};

/// SCTP port of both ends.
const PORT: u16 = 5_000;
/// UDP port of both ends, for all their addresses.
const UDP_PORT: u16 = 9_899;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, locals, remote, count, interval_ms] = &arguments[..] else {
        return Err("usage: failover server|client LOCAL[,LOCAL...] REMOTE COUNT INTERVAL_MS".into());
    };
    let plan = Plan { count: count.parse()?, interval: Duration::from_millis(interval_ms.parse()?) };
    let locals: Vec<IpAddr> = locals.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let (first, others) = locals.split_first().ok_or("no address")?;
    let (first, others) = (SocketAddr::new(*first, UDP_PORT), others.iter().copied());
    let association = if role == "server" {
        let endpoint = Endpoint::server(first, ServerConfig::plain().with_other_addresses(others)).await?;
        endpoint.listen(PORT)?.accept().await.ok_or("the endpoint was closed")?
    } else {
        let endpoint = Endpoint::client(first, ClientConfig::plain().with_other_addresses(others)).await?;
        let options = ConnectOptions::default().peer_port(PORT).local_port(PORT);
        let association = endpoint.connect_with(SocketAddr::new(remote.parse()?, UDP_PORT), options).await?;
        println!("CONNECTED");
        association
    };
    let longest = exchange(&association, plan).await?;
    if role == "server" {
        association.closed().await;
    } else {
        association.shutdown().await?;
    }
    println!("OK n={count} longest_ms={:.1}", longest.as_secs_f64() * 1_000.0);
    Ok(())
}
