//! Settings from keyword arguments.

use festina::{CongestionControl, Duration, Profile};
use festina_settings::{Security, Settings};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList};

use crate::convert::{count, number, seconds};
use crate::failure::Failure;
use crate::security::{Identity, Reduced, Sessions, Trust, reduced};

/// Settings of an endpoint. None keeps the default of a setting. Times are in seconds.
///
/// - profile: the loss-recovery profile, one of `PROFILES`; default "festina".
/// - congestion: the congestion controller, one of `CONGESTION`; default "cubic".
/// - peer_timeout: silence after which a peer counts as unreachable, from 1 to 86400; 0 applies the rules of RFC 9260. Default 60.
/// - heartbeat_interval: the heartbeat interval of an idle association, from 0.001 to 86400, default 30; 0 sends none.
/// - sack_delay: the maximum delay of acknowledgements, from 0 to 0.5, default 0.2; 0 acknowledges every packet at once.
/// - message_bytes_max: the maximum message size, from 1 to 1073741824 and at most receive_buffer_bytes, default 1048576.
/// - packet_bytes_max: the maximum SCTP packet size, from 384 to 65480, default 1232, or 1252 on encrypted endpoints at an IPv4 address.
///   Larger packets are sent only where probes find that the path carries them, while more is queued than fits into a packet. 8972 suits an MTU of 9000.
/// - other_addresses: IP addresses of the endpoint other than that which it is opened at. Each gets a socket with the same port, and peers learn them. Default none.
/// - paths_max: the maximum number of paths of an association, one for each address of its peer, from 1 to 8, default 1; with
///   other_addresses 8.
/// - path_policy: what several paths carry while all of them answer: "primary", "repairs", "copies" or "both", default "repairs".
/// - send_buffer_bytes: the send buffer, from 1500 to 1073741824, default 4194304.
/// - send_delay: target for the wait of a message in the send buffer, from 0.001 to 86400, default 0. Beyond it the buffer counts as full.
///   0 sets no limit.
/// - receive_buffer_bytes: the receive buffer, from 1500 to 1073741824, default 1048576.
/// - streams: the numbers of outbound streams requested and of inbound streams accepted, each from 1 to 65535, default (65535, 65535).
/// - peer_moves: whether a peer may move to another UDP port or, with encryption, to another address, default True.
/// - interleaving: whether a small message may overtake a large one on another stream (RFC 8260), default False.
/// - associations_max: the maximum number of concurrent associations of the endpoint, from 1 to 16777216, default 65536.
/// - associations_per_address_max: the same for peers of one IPv4 address or IPv6 /64, from 1 to 16777216, default 4096.
/// - accept_queue_max: the maximum number of associations of one port that wait to be accepted, from 1 to 1048576, default 1024.
/// - strays_per_second_max: the maximum number per second of packets that belong to no association, mainly requests for one, that are processed, from 1
///   to 100000000, default 20000.
///
/// Encryption, which `Config.plain` does without:
///
/// - identity: an `Identity`, shown to clients, and to servers that ask for one. Listening needs it. Default none.
/// - server_trust: a `Trust`, the servers that this side connects to. Default `Trust.platform_roots()`.
/// - client_trust: a `Trust`; clients must then have a trusted certificate. By default clients are anonymous.
/// - alpn: application protocols (ALPN) of 1 to 255 bytes, the preferred one first. If one side has some, both must have one in common.
/// - early_messages: whether listeners take early messages, default False; see `Endpoint.connect`. Not together with client_trust.
/// - plain_clients: whether listeners accept plain SCTP as well, on the same UDP port, default False. `Association.is_encrypted` tells which one an
///   association is. Nothing authenticates plain clients, and others can read and change their messages. A listener that holds requests refuses them. Not
///   together with client_trust or alpn. Connecting is always encrypted.
/// - sessions: `Sessions` that are resumed, by all endpoints with the same `Sessions`, `Trust` and `Identity`. By default each endpoint has its own,
///   with 32 servers.
/// - key_log_from_env: whether the secrets of all associations are appended to the file that the environment variable SSLKEYLOGFILE names, with which
///   recordings can be decrypted. Default False.
#[pyclass(frozen, module = "festina")]
pub(crate) struct Config {
    settings: Settings,
    is_plain: bool,
    /// The arguments other than None, with tuples instead of lists.
    given: Py<PyDict>,
}

impl Config {
    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }
}

#[pymethods]
impl Config {
    #[new]
    #[pyo3(signature = (**settings))]
    fn new(py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::beginning(py, Settings::encrypted(), settings)
    }

    /// Settings for plain SCTP, which unmodified peers understand: nothing is encrypted, and peers are not authenticated.
    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn plain(py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::beginning(py, Settings::default(), settings)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.is_plain == other.is_plain && self.given.bind(py).eq(&other.given)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyFrozenSet::new(py, self.given.bind(py).items())?.hash()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let method = if self.is_plain { "plain" } else { "__call__" };
        reduced::<Self>(py, method, Vec::new(), Some(self.given.bind(py)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let given = self.given.bind(py).iter().map(|(name, value)| Ok(format!("{name}={}", value.repr()?)));
        let function = if self.is_plain { "Config.plain" } else { "Config" };
        Ok(format!("{function}({})", given.collect::<PyResult<Vec<_>>>()?.join(", ")))
    }
}

impl Config {
    fn beginning(py: Python<'_>, default: Settings, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let is_plain = default.security.is_none();
        let (mut config, given) = (default, PyDict::new(py));
        for (name, value) in settings.into_iter().flatten() {
            if value.is_none() {
                continue;
            }
            // A list could change later, and has no hash.
            let value = match value.cast_into::<PyList>() {
                Ok(list) => list.to_tuple().into_any(),
                Err(other) => other.into_inner(),
            };
            let name: String = name.extract()?;
            set(&mut config, &name, &value)?;
            given.set_item(name, value)?;
        }
        config.validate().map_err(Failure::from)?;
        Ok(Self { settings: config, is_plain, given: given.unbind() })
    }
}

/// The names of all settings.
const NAMES: [&str; 28] = [
    "accept_queue_max",
    "alpn",
    "associations_max",
    "associations_per_address_max",
    "client_trust",
    "congestion",
    "early_messages",
    "heartbeat_interval",
    "identity",
    "interleaving",
    "peer_moves",
    "key_log_from_env",
    "message_bytes_max",
    "other_addresses",
    "packet_bytes_max",
    "path_policy",
    "paths_max",
    "peer_timeout",
    "plain_clients",
    "profile",
    "receive_buffer_bytes",
    "sack_delay",
    "send_buffer_bytes",
    "send_delay",
    "server_trust",
    "sessions",
    "strays_per_second_max",
    "streams",
];

/// The error for a name that is no setting, with the most similar one.
fn unknown(py: Python<'_>, name: &str) -> PyErr {
    let similar = || -> PyResult<Vec<String>> {
        py.import("difflib")?.getattr("get_close_matches")?.call1((name, NAMES, 1))?.extract()
    };
    let suggestion = similar().unwrap_or_default().first().map(|similar| format!(": did you mean {similar:?}?"));
    PyTypeError::new_err(format!("Config() has no setting {name:?}{}", suggestion.unwrap_or_default()))
}

/// The settings of encryption.
fn secure(settings: &mut Settings) -> PyResult<&mut Security> {
    let plain = || Failure::invalid(&"these settings are those of plain SCTP, which encrypts nothing");
    Ok(settings.security.as_mut().ok_or_else(plain)?)
}

fn identity(value: &Bound<'_, PyAny>) -> PyResult<festina::security::Identity> {
    Ok(value.extract::<PyRef<'_, Identity>>()?.0.clone())
}

fn trust(value: &Bound<'_, PyAny>) -> PyResult<festina::security::Trust> {
    Ok(value.extract::<PyRef<'_, Trust>>()?.trust.clone())
}

fn sessions(value: &Bound<'_, PyAny>) -> PyResult<festina::security::Sessions> {
    Ok(value.extract::<PyRef<'_, Sessions>>()?.get()?.clone())
}

fn set(settings: &mut Settings, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let (transport, admission) = (settings.transport.clone(), settings.admission.clone());
    // Zero stands for none where there may be none.
    let time = || -> PyResult<Duration> { seconds(name, value) };
    let time_or_none = || -> PyResult<Option<Duration>> { Ok(Some(time()?).filter(|time| !time.is_zero())) };
    match name {
        "profile" => {
            let chosen = value.extract::<String>()?.parse::<Profile>();
            settings.transport = transport.with_profile(chosen.map_err(|error| Failure::invalid(&error))?);
        }
        "congestion" => {
            let chosen = value.extract::<String>()?.parse::<CongestionControl>();
            settings.transport = transport.with_congestion(chosen.map_err(|error| Failure::invalid(&error))?);
        }
        "peer_timeout" => settings.transport = transport.with_peer_timeout(time_or_none()?),
        "heartbeat_interval" => settings.transport = transport.with_heartbeat_interval(time_or_none()?),
        "sack_delay" => settings.transport = transport.with_sack_delay(time()?),
        "message_bytes_max" => settings.transport = transport.with_message_bytes_max(count(name, value)?),
        "packet_bytes_max" => settings.transport = transport.with_packet_bytes_max(count(name, value)?),
        "other_addresses" => {
            let addresses = value
                .extract::<Vec<String>>()?
                .into_iter()
                .map(|address| address.parse().map_err(|_| Failure::invalid(&format!("{address:?} is no IP address"))));
            settings.other_addresses = addresses.collect::<Result<_, _>>()?;
        }
        "paths_max" => settings.transport = transport.with_paths_max(count(name, value)?),
        "path_policy" => {
            let chosen = value.extract::<String>()?.parse();
            settings.transport = transport.with_path_policy(chosen.map_err(|error| Failure::invalid(&error))?);
        }
        "send_buffer_bytes" => settings.transport = transport.with_send_buffer_bytes(count(name, value)?),
        "send_delay" => settings.transport = transport.with_send_delay(time_or_none()?),
        "receive_buffer_bytes" => settings.transport = transport.with_receive_buffer_bytes(count(name, value)?),
        "streams" => {
            let (outbound, inbound): (Bound<'_, PyAny>, Bound<'_, PyAny>) = value.extract()?;
            let streams = |value| -> PyResult<u16> {
                Ok(number("streams", value, 1, u16::MAX.into())?.try_into().unwrap_or(u16::MAX))
            };
            settings.transport = transport.with_streams(streams(&outbound)?, streams(&inbound)?);
        }
        "peer_moves" => settings.transport = transport.with_peer_moves(value.extract()?),
        "interleaving" => settings.transport = transport.with_interleaving(value.extract()?),
        "identity" => secure(settings)?.identity = Some(identity(value)?),
        "server_trust" => secure(settings)?.server_trust = Some(trust(value)?),
        "client_trust" => secure(settings)?.client_trust = Some(trust(value)?),
        "alpn" => secure(settings)?.alpn = value.extract()?,
        "early_messages" => secure(settings)?.early_messages = value.extract()?,
        "plain_clients" => secure(settings)?.plain_clients = value.extract()?,
        "sessions" => secure(settings)?.sessions = Some(sessions(value)?),
        "key_log_from_env" => secure(settings)?.key_log_from_env = value.extract()?,
        "associations_max" => settings.admission = admission.with_associations_max(count(name, value)?),
        "associations_per_address_max" => {
            settings.admission = admission.with_associations_per_address_max(count(name, value)?);
        }
        "accept_queue_max" => settings.admission = admission.with_accept_queue_max(count(name, value)?),
        "strays_per_second_max" => {
            let packets = u32::try_from(count(name, value)?).unwrap_or(u32::MAX);
            settings.admission = admission.with_strays_per_second_max(packets);
        }
        _ => return Err(unknown(value.py(), name)),
    }
    Ok(())
}
