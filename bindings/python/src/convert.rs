//! Messages, statistics, events and addresses as Python objects.

use std::net::SocketAddr;

use bytes::Bytes;
use festina::{
    AbandonReason, Duplicate, Duration, Event, Outcome, PathState, PathStats, PathStatus, ReceivedMessage, Stats,
    StreamId,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::failure::Failure;

/// Bytes of a payload that `repr` shows.
const SHOWN_BYTES: usize = 8;

/// A message that came.
#[pyclass(frozen, get_all, module = "festina")]
pub(crate) struct Message {
    data: Py<PyBytes>,
    stream: u16,
    ppid: u32,
    is_unordered: bool,
}

#[pymethods]
impl Message {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let data = preview(self.data.bind(py))?;
        let Self { stream, ppid, is_unordered, .. } = self;
        let unordered = if *is_unordered { "True" } else { "False" };
        Ok(format!("Message(data={data}, stream={stream}, ppid={ppid}, is_unordered={unordered})"))
    }
}

impl Message {
    pub(crate) fn new(py: Python<'_>, received: &ReceivedMessage) -> Self {
        Self::holding(py, received.payload(), received.stream(), received.ppid(), received.is_unordered())
    }

    /// A message that came with the client's first packet.
    pub(crate) fn early(py: Python<'_>, message: &festina::Message) -> Self {
        Self::holding(py, message.payload(), message.stream(), message.ppid(), message.is_unordered())
    }

    fn holding(py: Python<'_>, payload: &[u8], stream: StreamId, ppid: u32, is_unordered: bool) -> Self {
        Self { data: PyBytes::new(py, payload).unbind(), stream: stream.0, ppid, is_unordered }
    }
}

/// The first bytes of a payload and the number of all: a whole payload fills logs, and may be secret.
fn preview(data: &Bound<'_, PyBytes>) -> PyResult<String> {
    let bytes = data.as_bytes();
    Ok(match bytes.get(..SHOWN_BYTES) {
        Some(shown) if bytes.len() > SHOWN_BYTES => {
            format!("{}... ({} bytes)", PyBytes::new(data.py(), shown).repr()?, bytes.len())
        }
        _ => data.repr()?.to_string(),
    })
}

/// How a message is delivered, as the Python half hands it over: stream, PPID, unordered, immediate acknowledgement, lifetime, deadline, most
/// retransmissions, priority, key, duplicate. The deadline counts from now on, and is negative if it is over.
#[derive(Clone, Copy)]
pub(crate) struct Options(RawOptions);

type RawOptions =
    (u16, u32, bool, bool, Option<f64>, Option<f64>, Option<u16>, Option<u16>, Option<u64>, Option<Twice>);

/// When a message is sent a second time, by its name.
#[derive(Clone, Copy)]
pub(crate) struct Twice(Duplicate);

impl<'a, 'py> FromPyObject<'a, 'py> for Twice {
    type Error = PyErr;

    fn extract(name: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let name: String = name.extract()?;
        let found = Duplicate::ALL.into_iter().find(|duplicate| duplicate.name() == name);
        let names = Duplicate::ALL.map(Duplicate::name).join(" or ");
        found.map(Self).ok_or_else(|| Failure::invalid(&format!("duplicate is {name}, but must be {names}")).into())
    }
}

/// Where the numbers of [`RawOptions`] are, the names of their arguments and the largest values.
const NUMBERS: [(usize, &str, u64); 5] = [
    (0, "stream", u16::MAX as u64),
    (1, "ppid", u32::MAX as u64),
    (6, "max_retransmissions", u16::MAX as u64),
    (7, "priority", u16::MAX as u64),
    (8, "replacing", u64::MAX),
];

impl<'a, 'py> FromPyObject<'a, 'py> for Options {
    type Error = PyErr;

    fn extract(options: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match options.extract() {
            Ok(raw) => Ok(Self(raw)),
            // Only now is it worth the time to find out which number it was.
            Err(error) => {
                for (index, name, max) in NUMBERS {
                    let value = options.get_item(index)?;
                    if !value.is_none() {
                        number(name, &value, 0, max)?;
                    }
                }
                for (index, name) in [(4, "lifetime"), (5, "deadline")] {
                    let value = options.get_item(index)?;
                    if !value.is_none() {
                        seconds(name, &value)?;
                    }
                }
                Err(error)
            }
        }
    }
}

/// A whole number from Python, whose argument is named if it is out of range.
pub(crate) fn number(name: &str, value: &Bound<'_, PyAny>, low: u64, high: u64) -> PyResult<u64> {
    let out_of_range = || Failure::invalid(&format!("{name} is {value}, but must lie between {low} and {high}")).into();
    match value.extract::<u64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        Ok(_) => Err(out_of_range()),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Err(out_of_range()),
        Err(error) => Err(PyTypeError::new_err(format!("{name}: {}", error.value(value.py())))),
    }
}

/// A number of bytes or objects.
pub(crate) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(number(name, value, 0, usize::MAX as u64)?.try_into().unwrap_or(usize::MAX))
}

/// A port.
pub(crate) fn port(value: &Bound<'_, PyAny>) -> PyResult<u16> {
    Ok(u16::try_from(number("port", value, 1, u16::MAX.into())?).unwrap_or(u16::MAX))
}

/// The message with these options, or one that is reliable and ordered.
pub(crate) fn message(data: &[u8], options: Option<Options>) -> Result<festina::Message, Failure> {
    if data.is_empty() {
        return Err(Failure::invalid(&"an empty message cannot be sent"));
    }
    let message = festina::Message::new(Bytes::copy_from_slice(data));
    let Some(Options(options)) = options else { return Ok(message) };
    let (stream, ppid, unordered, immediate_ack, lifetime, left, max_retransmissions, priority, key, twice) = options;
    let lifetime = lifetime.map(|lifetime| duration("lifetime", lifetime)).transpose()?;
    // Not `max`, which makes 0 of NaN.
    let left = left.map(|left| duration("deadline", if left < 0.0 { 0.0 } else { left })).transpose()?;
    let deadline = left.map(|left| festina::now().saturating_add(left));
    let mut message = message.on_stream(stream).with_ppid(ppid).unordered_if(unordered);
    message = message.with_lifetime(lifetime).with_deadline(deadline).with_duplicate(twice.map(|twice| twice.0));
    message = message.with_max_retransmissions(max_retransmissions.unwrap_or(u16::MAX));
    if immediate_ack {
        message = message.with_immediate_ack();
    }
    if let Some(priority) = priority {
        message = message.with_priority(priority);
    }
    if let Some(key) = key {
        message = message.replacing(key);
    }
    Ok(message)
}

/// A duration from a number of seconds, whose argument is named if it is out of range.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    match value.extract() {
        Ok(seconds) => Ok(duration(name, seconds)?),
        // A whole number beyond all floating-point numbers.
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(duration(name, f64::INFINITY)?),
        Err(error) => Err(error),
    }
}

fn duration(name: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Failure::invalid(&format!("{name} is {seconds} s, but must be at least 0 and less than 2^64")))
}

/// The statistics, in four parts.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("sent", sent(py, stats)?)?;
    all.set_item("received", received(py, stats)?)?;
    all.set_item("path", gauges(py, stats)?)?;
    all.set_item("abandoned", abandoned_by_reason(py, stats)?)?;
    Ok(all)
}

fn dict<'py, const N: usize>(py: Python<'py>, items: [(&str, u64); N]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in items {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

fn sent<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let sent = &stats.sent;
    dict(
        py,
        [
            ("packets", sent.packets),
            ("bytes", sent.bytes),
            ("messages", sent.messages),
            ("messages_acked", sent.messages_acked),
            ("messages_abandoned", sent.messages_abandoned),
            ("messages_abandoned_sent", sent.messages_abandoned_sent),
            ("retransmissions", sent.retransmitted.total()),
            ("spurious", sent.spurious),
            ("chunks_lost", sent.chunks_lost),
            ("timeouts", sent.timeouts),
        ],
    )
}

fn received<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let received = &stats.received;
    dict(
        py,
        [
            ("packets", received.packets),
            ("bytes", received.bytes),
            ("packets_dropped", received.packets_dropped),
            ("messages", received.messages),
            ("duplicates", received.duplicates),
            ("chunks_dropped", received.chunks_dropped),
        ],
    )
}

fn gauges<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let path = &stats.path;
    let items = [
        ("cwnd_bytes", path.cwnd_bytes),
        ("ssthresh_bytes", path.ssthresh_bytes),
        ("in_flight_bytes", path.in_flight_bytes),
        ("in_flight_packets", path.in_flight_packets.into()),
        ("peer_window_bytes", path.peer_window_bytes),
        ("send_buffer_bytes", path.send_buffer_bytes),
        ("messages_pending", path.messages_pending),
        ("packet_bytes_max", stats.packet_bytes_max),
    ];
    let dict = dict(py, items)?;
    dict.set_item("srtt", path.srtt.map(|srtt| srtt.as_secs_f64()))?;
    dict.set_item("rttvar", path.rttvar.as_secs_f64())?;
    dict.set_item("rto", path.rto.as_secs_f64())?;
    let closed = path.peer_window_closed_since.map(|since| (festina::now() - since).as_secs_f64());
    dict.set_item("peer_window_closed", closed)?;
    dict.set_item("thin", path.thin)?;
    dict.set_item("in_fast_recovery", path.in_fast_recovery)?;
    Ok(dict)
}

/// The path to one of the peer's addresses.
pub(crate) fn path<'py>(py: Python<'py>, status: &PathStatus, stats: &PathStats) -> PyResult<Bound<'py, PyDict>> {
    let gauges = [
        ("errors", status.errors.into()),
        ("cwnd_bytes", stats.cwnd_bytes),
        ("in_flight_bytes", stats.in_flight_bytes),
    ];
    let dict = dict(py, gauges)?;
    dict.set_item("address", pair(status.remote))?;
    let state = match status.state {
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially-failed",
        PathState::Inactive => "inactive",
        PathState::Closed => "closed",
        _ => "unconfirmed",
    };
    dict.set_item("state", state)?;
    dict.set_item("carries_data", status.carries_data)?;
    dict.set_item("srtt", stats.srtt.map(|srtt| srtt.as_secs_f64()))?;
    dict.set_item("rto", stats.rto.as_secs_f64())?;
    Ok(dict)
}

/// Host and port, as `connect` takes them: the host of a link-local address has its zone.
pub(crate) fn pair(address: SocketAddr) -> (String, u16) {
    let host = match address {
        SocketAddr::V6(zoned) if zoned.scope_id() != 0 => format!("{}%{}", zoned.ip(), zoned.scope_id()),
        _ => address.ip().to_string(),
    };
    (host, address.port())
}

/// Messages given up, by reason: the numbers of unsent and of partly sent ones.
fn abandoned_by_reason<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let by_reason = PyDict::new(py);
    for (reason, abandoned) in [
        ("expired", stats.abandoned.expired),
        ("retransmissions_exhausted", stats.abandoned.retransmissions_exhausted),
        ("evicted", stats.abandoned.evicted),
        ("replaced", stats.abandoned.replaced),
        ("stream_refused", stats.abandoned.stream_refused),
    ] {
        by_reason.set_item(reason, (abandoned.unsent, abandoned.sent))?;
    }
    Ok(by_reason)
}

/// What became of a message: whether it was delivered, or else why not and whether some of it has left.
pub(crate) type Became = (bool, Option<&'static str>, bool);

pub(crate) fn became(outcome: Outcome) -> Became {
    match outcome {
        Outcome::Delivered { .. } => (true, None, true),
        Outcome::Abandoned { reason, sent } => (false, Some(abandoned(reason)), sent),
        _ => (false, Some("other"), true),
    }
}

fn abandoned(reason: AbandonReason) -> &'static str {
    match reason {
        AbandonReason::Expired => "expired",
        AbandonReason::RetransmissionsExhausted => "retransmissions-exhausted",
        AbandonReason::Evicted => "evicted",
        AbandonReason::Replaced => "replaced",
        AbandonReason::UnsentAtEnd | AbandonReason::UnacknowledgedAtEnd => "ended",
        AbandonReason::StreamRefused => "stream-refused",
        _ => "other",
    }
}

/// A kind; for messages given up the first and the last one, why, and whether some of them has left; for a packet that was too large the
/// largest size from then on.
pub(crate) type Happened = (&'static str, Option<(u64, u64, &'static str, bool)>, Option<usize>);

pub(crate) fn happened(event: &Event) -> Happened {
    let kind = match event {
        Event::MessagesAbandoned { first, last, reason, sent, .. } => {
            return ("abandoned", Some((first.0, last.0, abandoned(*reason), *sent)), None);
        }
        Event::PacketSizeLimited { packet_bytes_max, .. } => {
            return ("packet-size-limited", None, Some(*packet_bytes_max));
        }
        Event::PeerShutdown => "peer-shutdown",
        Event::PeerRestarted => "peer-restarted",
        Event::PathReachable { reachable: true, .. } => "path-up",
        Event::PathReachable { reachable: false, .. } => "path-down",
        Event::PeerMoved { .. } => "peer-moved",
        Event::Closed(_) => "closed",
        _ => "other",
    };
    (kind, None, None)
}
