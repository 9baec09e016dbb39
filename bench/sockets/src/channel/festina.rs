//! An association over SCTP over UDP.

use bytes::Bytes;
use festina::security::Identity;
use festina::{
    Association, ClientConfig, ClosedReason, DEFAULT_SCTP_PORT, Endpoint, Message, ReceivedMessage, ServerConfig,
};

use super::{End, Failure, Transport, searched_bytes_max};

/// Messages of a batch.
const BATCH: usize = 32;

/// Ordered, reliable messages on one stream, one call for each.
pub(crate) struct Festina;

impl Transport for Festina {
    const NAME: &'static str = "festina";
    type Sender = Held;
    type Receiver = Association;

    async fn connect(_: usize) -> Result<[End<Self>; 2], Failure> {
        let end =
            |(association, endpoint): Held| End { sender: (association.clone(), endpoint), receiver: association };
        // As QUIC does, the receiver answers many packets at once.
        let transport = festina::Transport::default().with_expert(|expert| expert.with_sack_peer_batches(true));
        let near = ClientConfig::plain().with_transport(transport.clone());
        Ok(connected(near, ServerConfig::plain().with_transport(transport)).await?.map(end))
    }

    async fn send((association, _): &Held, message: Bytes) -> Result<(), Failure> {
        association.send(Message::new(message)).await?;
        Ok(())
    }

    async fn receive(receiver: &mut Association) -> Result<u64, Failure> {
        receiver.recv().await?;
        Ok(1)
    }

    fn remark((near, endpoint): &Self::Sender, (far, _): &Self::Sender) -> String {
        let (near, far, socket) = (near.stats().sent, far.stats().received, endpoint.stats());
        format!(
            "{} packets in {} calls sent, {} packets in {} calls received, {} chunks lost, {} of them not, {} timeouts, \
             {} duplicates, {} dropped",
            socket.packets_sent,
            socket.send_calls,
            socket.packets_received,
            socket.receive_calls,
            near.chunks_lost,
            near.spurious,
            near.timeouts,
            far.duplicates,
            far.chunks_dropped,
        )
    }
}

/// An association and its endpoint.
type Held = (Association, Endpoint);

async fn connected(near: ClientConfig, far: ServerConfig) -> Result<[Held; 2], Failure> {
    let with_search = |transport: &festina::Transport| match searched_bytes_max() {
        Some(bytes) => transport.clone().with_packet_bytes_max(bytes.into()),
        None => transport.clone(),
    };
    let (near, far) = {
        let (of_near, of_far) = (with_search(near.transport()), with_search(far.transport()));
        (near.with_transport(of_near), far.with_transport(of_far))
    };
    let near = Endpoint::client("127.0.0.1:0".parse()?, near).await?;
    let far = Endpoint::server("127.0.0.1:0".parse()?, far).await?;
    let listener = far.listen(DEFAULT_SCTP_PORT)?;
    let (connected, accepted) = tokio::join!(near.connect(far.local_addr()), listener.accept());
    Ok([(connected?, near), (accepted.ok_or("nothing was accepted")?, far)])
}

/// As [`Festina`], encrypted.
pub(crate) struct FestinaEncrypted;

impl Transport for FestinaEncrypted {
    const NAME: &'static str = "festina, encrypted";
    type Sender = Held;
    type Receiver = Association;

    async fn connect(_: usize) -> Result<[End<Self>; 2], Failure> {
        let identity = Identity::self_signed("bench.test")?;
        let (client, server) = (ClientConfig::new(identity.fingerprint()), ServerConfig::new(identity));
        let end =
            |(association, endpoint): Held| End { sender: (association.clone(), endpoint), receiver: association };
        Ok(connected(client, server).await?.map(end))
    }

    async fn send(sender: &Held, message: Bytes) -> Result<(), Failure> {
        Festina::send(sender, message).await
    }

    async fn receive(receiver: &mut Association) -> Result<u64, Failure> {
        Festina::receive(receiver).await
    }

    fn remark(near: &Held, far: &Held) -> String {
        Festina::remark(near, far)
    }
}

/// As [`Festina`], with batches of messages in both directions.
pub(crate) struct FestinaBatches;

/// The receiving end, and the messages that it took last.
pub(crate) struct Reader {
    association: Association,
    messages: Vec<ReceivedMessage>,
}

impl Transport for FestinaBatches {
    const NAME: &'static str = "festina, batches";
    type Sender = <Festina as Transport>::Sender;
    type Receiver = Reader;

    async fn connect(message_bytes: usize) -> Result<[End<Self>; 2], Failure> {
        Ok(Festina::connect(message_bytes).await?.map(|End { sender, receiver: association }| End {
            sender,
            receiver: Reader { association, messages: Vec::new() },
        }))
    }

    async fn send((association, _): &Self::Sender, message: Bytes) -> Result<(), Failure> {
        association.send_many(std::iter::repeat_n(message, BATCH)).await?;
        Ok(())
    }

    async fn receive(Reader { association, messages }: &mut Reader) -> Result<u64, Failure> {
        messages.clear();
        match association.recv_many(messages, BATCH).await? {
            Some(received) => Ok(received.try_into()?),
            None => Err(ClosedReason::Shutdown.into()),
        }
    }

    fn remark(near: &Self::Sender, far: &Self::Sender) -> String {
        Festina::remark(near, far)
    }
}
