//! An echo server and a client for it.
//!
//! ```text
//! cargo run -p festina --example echo -- listen 127.0.0.1:9899
//! cargo run -p festina --example echo -- send 127.0.0.1:9899 "make haste slowly"
//! ```

use std::error::Error;
use std::net::SocketAddr;

use festina::{Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["listen", address] => listen(address.parse()?).await,
        ["send", address, text] => send(address.parse()?, text).await,
        _ => Err("usage: echo listen ADDRESS | echo send ADDRESS TEXT".into()),
    }
}

async fn listen(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::server(address, ServerConfig::plain()).await?;
    let listener = endpoint.listen(DEFAULT_SCTP_PORT)?;
    println!("listening on {}", endpoint.local_addr());
    while let Some(association) = listener.accept().await {
        println!("{} is here", association.remote_addr());
        tokio::spawn(echo(association));
    }
    Ok(())
}

/// Sends every message back on its stream until the peer has no more.
async fn echo(association: Association) {
    loop {
        let message = match association.recv().await {
            Ok(Some(message)) => message,
            Ok(None) => return println!("{} has left", association.remote_addr()),
            Err(reason) => return println!("{} is gone: {reason}", association.remote_addr()),
        };
        if let Err(error) = association.send(message).await {
            return println!("{} gets no answer: {error}", association.remote_addr());
        }
    }
}

async fn send(address: SocketAddr, text: &str) -> Result<(), Box<dyn Error>> {
    let local: SocketAddr = if address.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
    let endpoint = Endpoint::client(local, ClientConfig::plain()).await?;
    let association = endpoint.connect(address).await?;
    let sent_at = festina::now();
    association.send(Message::new(text.to_owned())).await?;
    let answer = association.recv().await?.ok_or("the peer has left")?;
    let took = festina::now() - sent_at;
    println!("{} after {} us", String::from_utf8_lossy(answer.payload()), took.as_micros());
    association.shutdown().await?;
    Ok(())
}
