//! Settings from keyword arguments.

use festina::{CongestionControl, Duration, Profile, SendBufferPolicy};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::seconds;
use crate::failure::Failure;

/// Settings of an endpoint.
#[pyclass(frozen, module = "festina")]
pub(crate) struct Config {
    settings: festina::Config,
    text: String,
}

impl Config {
    pub(crate) fn settings(&self) -> festina::Config {
        self.settings.clone()
    }
}

#[pymethods]
impl Config {
    /// The arguments are those of `festina.Config` in `_festina.pyi`.
    #[new]
    #[pyo3(signature = (*, profile = None, **settings))]
    fn new(profile: Option<&str>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let chosen = profile.map(str::parse::<Profile>).transpose().map_err(|error| Failure::invalid(&error))?;
        let mut config = festina::Config::with_profile(chosen.unwrap_or_default());
        let mut text: Vec<String> = profile.map(|profile| format!("profile={profile:?}")).into_iter().collect();
        for (name, value) in settings.into_iter().flatten() {
            if value.is_none() {
                continue;
            }
            let name: String = name.extract()?;
            config = with(config, &name, &value)?;
            text.push(format!("{name}={}", value.repr()?));
        }
        config.validate().map_err(Failure::from)?;
        Ok(Self { settings: config, text: format!("Config({})", text.join(", ")) })
    }

    fn __repr__(&self) -> &str {
        &self.text
    }
}

fn with(config: festina::Config, name: &str, value: &Bound<'_, PyAny>) -> PyResult<festina::Config> {
    // Zero stands for none where there may be none.
    let time = || -> PyResult<Duration> { Ok(seconds(name, value.extract()?)?) };
    let time_or_none = || -> PyResult<Option<Duration>> { Ok(Some(time()?).filter(|time| !time.is_zero())) };
    Ok(match name {
        "congestion" => {
            let chosen = value.extract::<String>()?.parse::<CongestionControl>();
            config.with_congestion(chosen.map_err(|error| Failure::invalid(&error))?)
        }
        "peer_timeout" => config.with_peer_timeout(time_or_none()?),
        "heartbeat_interval" => config.with_heartbeat_interval(time_or_none()?),
        "sack_delay" => config.with_sack_delay(time()?),
        "message_bytes_max" => config.with_message_bytes_max(value.extract()?),
        "packet_bytes_max" => config.with_packet_bytes_max(value.extract()?),
        "send_buffer_bytes" => config.with_send_buffer_bytes(value.extract()?),
        "send_delay" => {
            config.with_send_buffer(time_or_none()?.map_or(SendBufferPolicy::Fixed, SendBufferPolicy::Target))
        }
        "receive_buffer_bytes" => config.with_receive_buffer_bytes(value.extract()?),
        "streams" => {
            let (outbound, inbound) = value.extract()?;
            config.with_streams(outbound, inbound)
        }
        "interleaving" => config.with_interleaving(value.extract()?),
        "associations_max" => config.with_associations_max(value.extract()?),
        _ => return Err(PyTypeError::new_err(format!("Config() has no setting {name:?}"))),
    })
}
