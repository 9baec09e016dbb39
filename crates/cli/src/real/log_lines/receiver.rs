//! The host that receives the lines.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use festina::{DEFAULT_SCTP_PORT, Endpoint, ServerConfig, Transport};
use festina_lab::experiments::log_lines;
use festina_lab::plan::Point;
use festina_syslog::collect::RunningCollector;
use festina_syslog::config::CollectorConfig;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::super::hosts::server_address;
use super::course::Course;
use super::{RELAY, UDP, rivals};
use crate::scratch::{Growing, Scratch};

/// The ports on the receiver's host, which is used by this run alone.
pub(super) const PORT: u16 = 6_514;
/// The longest datagram with a line.
const DATAGRAM_BYTES_MAX: usize = 2_048;
/// How often the collector's file is read.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// What receives.
pub(super) enum Kind {
    Udp,
    Tcp,
    Association(Box<ServerConfig>),
    Collector(Scratch),
}

/// The receiver of a run.
pub(super) struct Receiver {
    pub(super) kind: Kind,
}

impl Receiver {
    pub(super) fn new(point: &Point) -> Result<Self> {
        let kind = match (point.choice("sender"), log_lines::association(point)) {
            (UDP, _) => Kind::Udp,
            (RELAY, _) => Kind::Collector(Scratch::new("lab-lines")?),
            (_, Some(association)) => {
                let config = ServerConfig::plain().with_transport(over_udp(association.receiver));
                Kind::Association(Box::new(config))
            }
            (_, None) => Kind::Tcp,
        };
        Ok(Self { kind })
    }

    /// Receives until the sender's part has ended. Returns the bytes of the rivals.
    pub(super) async fn run(
        &self,
        course: Arc<Course>,
        ready: oneshot::Sender<()>,
        ended: oneshot::Receiver<()>,
    ) -> Result<u64> {
        let listener = rivals::listen().await?;
        let bytes = Arc::new(AtomicU64::new(0));
        tokio::spawn(rivals::read(listener, Arc::clone(&course), Arc::clone(&bytes)));
        tokio::select! {
            outcome = self.receive(&course, ready) => outcome?,
            _ = ended => {}
        }
        Ok(bytes.load(Ordering::Relaxed))
    }

    /// Never ends by itself.
    async fn receive(&self, course: &Arc<Course>, ready: oneshot::Sender<()>) -> Result<()> {
        match &self.kind {
            Kind::Udp => {
                let socket = UdpSocket::bind(server_address(PORT)).await?;
                let _ = ready.send(());
                let mut buffer = [0; DATAGRAM_BYTES_MAX];
                loop {
                    let length = socket.recv(&mut buffer).await?;
                    course.note_arrival(&buffer[..length]);
                }
            }
            Kind::Tcp => {
                let listener = TcpListener::bind(server_address(PORT)).await?;
                let _ = ready.send(());
                let (stream, _) = listener.accept().await?;
                let mut lines = BufReader::new(stream).split(b'\n');
                while let Some(line) = lines.next_segment().await? {
                    course.note_arrival(&line);
                }
                std::future::pending().await
            }
            Kind::Association(config) => {
                let endpoint = Endpoint::server(server_address(PORT), config.as_ref().clone()).await?;
                let listener = endpoint.listen(DEFAULT_SCTP_PORT)?;
                let _ = ready.send(());
                while let Some(association) = listener.accept().await {
                    let course = Arc::clone(course);
                    tokio::spawn(async move {
                        while let Ok(Some(message)) = association.recv().await {
                            // The message with which the association warms up is empty but for a letter.
                            if message.payload().len() > 1 {
                                course.note_arrival(message.payload());
                            }
                        }
                    });
                }
                bail!("the endpoint has closed")
            }
            Kind::Collector(scratch) => collect(scratch.path(), course, ready).await,
        }
    }
}

/// Settings of the core in a network with an MTU of 1500: the UDP header takes room as well.
pub(super) fn over_udp(mut config: festina_sctp::Config) -> Transport {
    config.limits.packet_bytes_max -= festina_models::packet::UDP_HEADER_BYTES;
    Transport::from_core(config)
}

/// Collects lines in a file, and notes when each is there.
async fn collect(directory: &Path, course: &Course, ready: oneshot::Sender<()>) -> Result<()> {
    let file = directory.join("lines.log");
    let text = format!(
        "state = {:?}\nlisten = \"{}\"\n[[output]]\nkind = \"file\"\npath = {file:?}\n[security]\nplain = true",
        directory.join("collect"),
        server_address(PORT)
    );
    let quiet = Arc::new(|_: &str| {});
    let _collector = RunningCollector::start(CollectorConfig::parse("collect.toml", &text)?, quiet).await?;
    let _ = ready.send(());
    let mut file = Growing::new(file);
    loop {
        file.lines()?.split_inclusive(|&byte| byte == b'\n').for_each(|line| course.note_arrival(line));
        sleep(LOOK_INTERVAL).await;
    }
}
