//! Counts the chunks that an endpoint sends and receives.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use festina::{Direction, Endpoint, SeenPacket};

pub(crate) const DATA: u8 = 0;
pub(crate) const ABORT: u8 = 6;
pub(crate) const ERROR: u8 = 9;
pub(crate) const I_DATA: u8 = 64;
pub(crate) const RE_CONFIG: u8 = 130;
pub(crate) const FORWARD_TSN: u8 = 192;
pub(crate) const I_FORWARD_TSN: u8 = 194;

/// Packets kept for debugging.
const RE_CONFIGS_MAX: usize = 6;
const COMMON_HEADER_BYTES: usize = 12;
const CHUNK_HEADER_BYTES: usize = 4;

/// Chunks by type and direction.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Mutex<Chunks>>);

struct Chunks {
    sent: [u64; 256],
    received: [u64; 256],
    /// The first packet with ABORT or ERROR, in hexadecimal.
    complaint: Option<String>,
    /// The last packets with RE-CONFIG, likewise.
    re_configs: VecDeque<String>,
}

impl Wire {
    /// Counts from now on.
    pub(crate) fn watch(endpoint: &Endpoint) -> Self {
        let wire = Self(Arc::new(Mutex::new(Chunks {
            sent: [0; 256],
            received: [0; 256],
            complaint: None,
            re_configs: VecDeque::new(),
        })));
        let counting = wire.clone();
        endpoint.observe(move |packet| counting.0.lock().expect("no holder panics").count(&packet));
        wire
    }

    pub(crate) fn sent(&self, chunk: u8) -> u64 {
        self.0.lock().expect("no holder panics").sent[usize::from(chunk)]
    }

    pub(crate) fn received(&self, chunk: u8) -> u64 {
        self.0.lock().expect("no holder panics").received[usize::from(chunk)]
    }

    pub(crate) fn re_configs(&self) -> Vec<String> {
        self.0.lock().expect("no holder panics").re_configs.iter().cloned().collect()
    }

    pub(crate) fn complaint(&self) -> Option<String> {
        self.0.lock().expect("no holder panics").complaint.clone()
    }
}

impl Chunks {
    fn count(&mut self, packet: &SeenPacket<'_>) {
        let mut rest = packet.bytes.get(COMMON_HEADER_BYTES..).unwrap_or_default();
        while let Some(&[kind, _, high, low]) = rest.first_chunk() {
            let counts = if packet.direction == Direction::Outbound { &mut self.sent } else { &mut self.received };
            counts[usize::from(kind)] += 1;
            if matches!(kind, ABORT | ERROR) && self.complaint.is_none() {
                self.complaint = Some(text(packet));
            }
            if kind == RE_CONFIG {
                self.re_configs.truncate(RE_CONFIGS_MAX - 1);
                self.re_configs.push_front(text(packet));
            }
            let len = usize::from(u16::from_be_bytes([high, low])).max(CHUNK_HEADER_BYTES);
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

fn text(packet: &SeenPacket<'_>) -> String {
    let hexadecimal: String = packet.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{:?} {hexadecimal}", packet.direction)
}
