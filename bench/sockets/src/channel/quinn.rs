//! QUIC's unreliable datagrams (RFC 9221).

use std::sync::Arc;

use bytes::Bytes;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig};

use super::{End, Failure, Transport, searched_bytes_max};

/// UDP payload that the path is known to carry, so that messages of 1,200 bytes fit.
const PACKET_BYTES_MAX: u16 = 1_452;

/// Datagrams over one connection. They may be lost, and come in any order.
pub(crate) struct Quinn;

impl Transport for Quinn {
    const NAME: &'static str = "quinn datagrams";
    type Sender = (Connection, Endpoint);
    type Receiver = Connection;

    async fn connect(_: usize) -> Result<[End<Self>; 2], Failure> {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut transport = TransportConfig::default();
        transport.initial_mtu(PACKET_BYTES_MAX).min_mtu(PACKET_BYTES_MAX);
        if let Some(bytes) = searched_bytes_max() {
            let mut search = MtuDiscoveryConfig::default();
            search.upper_bound(bytes);
            transport.mtu_discovery_config(Some(search));
        }
        let transport = Arc::new(transport);
        let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
        server.transport_config(transport.clone());
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
        client.transport_config(transport);

        // Both ends must take such packets as well.
        let mut config = EndpointConfig::default();
        if let Some(bytes) = searched_bytes_max() {
            config.max_udp_payload_size(bytes)?;
        }
        let open = |server| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
            Endpoint::new(config.clone(), server, socket, Arc::new(quinn::TokioRuntime))
        };
        let (far, near) = (open(Some(server))?, open(None)?);
        let connecting = near.connect_with(client, far.local_addr()?, "localhost")?;
        let accepting = async { far.accept().await.ok_or("nothing was accepted")?.await.map_err(Failure::from) };
        let (connected, accepted) = tokio::join!(connecting, accepting);
        let end =
            |connection: Connection, endpoint| End { sender: (connection.clone(), endpoint), receiver: connection };
        Ok([end(connected?, near), end(accepted?, far)])
    }

    async fn send((connection, _): &(Connection, Endpoint), message: Bytes) -> Result<(), Failure> {
        connection.send_datagram_wait(message).await?;
        Ok(())
    }

    async fn receive(receiver: &mut Connection) -> Result<u64, Failure> {
        receiver.read_datagram().await?;
        Ok(1)
    }

    fn remark((connection, _): &Self::Sender, _: &Self::Sender) -> String {
        let stats = connection.stats();
        format!(
            "{} packets in {} calls sent, {} packets in {} calls received, {} packets lost",
            stats.udp_tx.datagrams, stats.udp_tx.ios, stats.udp_rx.datagrams, stats.udp_rx.ios, stats.path.lost_packets
        )
    }
}
