//! Data channels of browsers (WebRTC, RFC 8831) to a server with a public address: unordered, partially reliable messages for pages, with
//! Festina's loss recovery on the way to them. The browsers are unmodified.
//!
//! | module | contents |
//! |---|---|
//! | [`WebEndpoint`] | a UDP port; answers offers and accepts browsers |
//! | [`Peer`] | a browser: opens and accepts channels |
//! | [`DataChannel`] | sends and receives messages |
//! | [`MODULE`] | the JavaScript module for pages |
//! | `signalling` | offers and answers by HTTP, as a service of axum (feature `axum`) |
//! | [`gateway`] | ICE and DTLS of all browsers as one value, without sockets and clocks |
//!
//! **The way of a connection.** A page makes an offer, posts it to its web server and sets the answer ([`WebEndpoint::answer`]): one round trip.
//! The browser finds the address that the answer names (ICE; this side is a lite agent, which answers and never asks), begins the DTLS handshake and
//! in it the SCTP association. No STUN or TURN server takes part, and there is one port for all browsers.
//!
//! **Both directions.** Messages to the browser have this library's recovery: on a thin stream a lost message is late by about one round trip.
//! Messages from the browser have the browser's: its minimum retransmission timeout decides.
//!
//! **Security.** A browser is who posted the offer: DTLS requires the certificate whose SHA-256 the offer names. So the web server decides who may
//! come, and has to serve the page and the answer by HTTPS. Nothing is sent to an address from which no request with the answer's password has come;
//! before the handshake ends at most three times the bytes received.
//!
//! ```no_run
//! use festina_web::{WebConfig, WebEndpoint};
//!
//! # async fn serve(offers: &mut tokio::sync::mpsc::Receiver<(String, tokio::sync::oneshot::Sender<String>)>) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = WebEndpoint::bind("192.0.2.1:9899".parse()?, WebConfig::default()).await?;
//! // A web server receives the offer and returns the answer.
//! let (offer, reply) = offers.recv().await.ok_or("no more browsers")?;
//! let (_id, answer) = endpoint.answer(&offer).await?;
//! let _ = reply.send(answer);
//!
//! let peer = endpoint.accept().await.ok_or("closed")?;
//! let channel = peer.accept_channel().await.ok_or("gone")?;
//! while let Some(message) = channel.recv().await {
//!     channel.send(message).await?;
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod channel;
mod dcep;
mod dtls;
mod endpoint;
pub mod gateway;
mod layer;
mod message;
mod peer;
mod repeat;
mod sdp;
#[cfg(feature = "axum")]
mod signalling;
mod snap;
mod stun;

pub use channel::{DataChannel, ReadyState};
pub use dcep::ChannelOptions;
pub use dtls::CertificateError;
pub use endpoint::{WebBindError, WebConfig, WebEndpoint};
pub use gateway::PeerId;
pub use message::ChannelMessage;
pub use peer::{OpenError, Peer};
pub use sdp::OfferError;
#[cfg(feature = "axum")]
pub use signalling::signalling;

/// The JavaScript module for pages, in the version of this server.
pub const MODULE: &str = include_str!("../js/festina-web.js");
