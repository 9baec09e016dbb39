//! Settings of an endpoint.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::LazyLock;

use festina::{CongestionControl, Duration, Profile};
use festina_settings::{Security, Settings};

use crate::boundary::text;
use crate::identity::{Identity, Sessions, Trust};
use crate::status::{Failure, Status, behind, free, guard, guard_value, hand_over, required};

/// Settings of an endpoint. The program reads and writes them in one thread at a time.
#[derive(Clone, Debug)]
pub struct Config {
    settings: Settings,
}

impl Default for Config {
    fn default() -> Self {
        Self { settings: Settings::encrypted() }
    }
}

impl Config {
    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// The default settings for plain SCTP.
    pub fn plain() -> Self {
        Self { settings: Settings::default() }
    }

    /// Changes a setting of encryption.
    fn secure(config: Option<&mut Self>, change: impl FnOnce(&mut Security) -> Result<(), Failure>) -> Status {
        guard(|| {
            let config = required("config", config)?;
            let plain = || Failure::invalid("these settings are those of plain SCTP, which encrypts nothing");
            change(config.settings.security.as_mut().ok_or_else(plain)?)
        })
    }

    /// Changes a setting, unless the result is out of range.
    fn set(config: Option<&mut Self>, change: impl FnOnce(&mut Settings)) -> Status {
        Self::try_set(config, |settings| {
            change(settings);
            Ok(())
        })
    }

    /// As [`set`](Self::set), unless the change fails.
    fn try_set(config: Option<&mut Self>, change: impl FnOnce(&mut Settings) -> Result<(), Failure>) -> Status {
        guard(|| {
            let config = required("config", config)?;
            let mut changed = config.settings.clone();
            change(&mut changed)?;
            changed.validate()?;
            config.settings = changed;
            Ok(())
        })
    }
}

static PROFILES: LazyLock<Vec<CString>> =
    LazyLock::new(|| Profile::all().iter().map(|profile| c_text(profile.name())).collect());

static CONGESTION: LazyLock<Vec<CString>> =
    LazyLock::new(|| CongestionControl::all().iter().map(|control| c_text(control.name())).collect());

fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// A profile by its name.
pub(crate) fn profile(name: *const c_char) -> Result<Option<Profile>, Failure> {
    let name = text("the profile", name)?;
    name.map(|name| name.parse().map_err(Failure::invalid)).transpose()
}

/// The name of a profile as C text that stays.
pub(crate) fn name_of(profile: Profile) -> *const c_char {
    let index = Profile::all().iter().position(|each| *each == profile);
    index.and_then(|index| PROFILES.get(index)).map_or(null(), |name| name.as_ptr())
}

/// The name of the profile with this number; NULL past the last one.
#[unsafe(no_mangle)]
pub extern "C" fn festina_profile_name(index: usize) -> *const c_char {
    guard_value(null(), || Ok(PROFILES.get(index).map_or(null(), |name| name.as_ptr())))
}

/// The name of the congestion control with this number; NULL past the last one.
#[unsafe(no_mangle)]
pub extern "C" fn festina_congestion_name(index: usize) -> *const c_char {
    guard_value(null(), || Ok(CONGESTION.get(index).map_or(null(), |name| name.as_ptr())))
}

/// Creates settings with a profile, or with the default one.
fn beginning(
    mut settings: Settings,
    profile_name: *const c_char,
    config: Option<&mut MaybeUninit<Box<Config>>>,
) -> Status {
    hand_over("config", config, || {
        let profile = profile(profile_name)?.unwrap_or_default();
        settings.transport = settings.transport.with_profile(profile);
        Ok(Config { settings })
    })
}

/// The default settings with a profile, or with the default one.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_new(
    profile_name: *const c_char,
    config: Option<&mut MaybeUninit<Box<Config>>>,
) -> Status {
    beginning(Settings::encrypted(), profile_name, config)
}

/// The default settings of plain SCTP with a profile, or with the default one.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_plain(
    profile_name: *const c_char,
    config: Option<&mut MaybeUninit<Box<Config>>>,
) -> Status {
    beginning(Settings::default(), profile_name, config)
}

/// Frees settings.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_free(config: Option<Box<Config>>) -> Status {
    free(config)
}

/// Chooses the congestion control.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_congestion(config: Option<&mut Config>, name: *const c_char) -> Status {
    Config::try_set(config, |Settings { transport, .. }| {
        let name = required("name", text("the congestion control", name)?)?;
        *transport = transport.clone().with_congestion(name.parse().map_err(Failure::invalid)?);
        Ok(())
    })
}

/// Names further addresses.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_other_addresses(config: Option<&mut Config>, addresses: *const c_char) -> Status {
    Config::try_set(config, |settings| {
        let addresses = required("addresses", text("the addresses", addresses)?)?;
        let parsed = addresses
            .split_whitespace()
            .map(|address| address.parse().map_err(|_| Failure::invalid(format_args!("{address:?} is no IP address"))));
        settings.other_addresses = parsed.collect::<Result<_, _>>()?;
        Ok(())
    })
}

/// Sets the maximum number of paths of an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_paths_max(config: Option<&mut Config>, paths: usize) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_paths_max(paths);
    })
}

/// Chooses what several paths carry.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_path_policy(config: Option<&mut Config>, name: *const c_char) -> Status {
    Config::try_set(config, |Settings { transport, .. }| {
        let name = required("name", text("the path policy", name)?)?;
        *transport = transport.clone().with_path_policy(name.parse().map_err(Failure::invalid)?);
        Ok(())
    })
}

/// Sets the silence after which a peer counts as unreachable; 0 for the rules of RFC 9260.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_peer_timeout(config: Option<&mut Config>, timeout_ms: u32) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_peer_timeout(some_ms(timeout_ms));
    })
}

/// The pause between heartbeats; 0 sends none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_heartbeat_interval(config: Option<&mut Config>, interval_ms: u32) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_heartbeat_interval(some_ms(interval_ms));
    })
}

/// Sets the maximum delay of acknowledgements.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_sack_delay(config: Option<&mut Config>, delay_ms: u32) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_sack_delay(Duration::from_millis(delay_ms.into()));
    })
}

/// The largest message.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_message_bytes_max(config: Option<&mut Config>, bytes: usize) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_message_bytes_max(bytes);
    })
}

/// The largest packet.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_packet_bytes_max(config: Option<&mut Config>, bytes: usize) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_packet_bytes_max(bytes);
    })
}

/// The send buffer.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_send_buffer_bytes(config: Option<&mut Config>, bytes: usize) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_send_buffer_bytes(bytes);
    })
}

/// Sets the target wait in the send buffer; 0 sets no limit.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_send_delay(config: Option<&mut Config>, delay_ms: u32) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_send_delay(some_ms(delay_ms));
    })
}

/// The receive buffer.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_receive_buffer_bytes(config: Option<&mut Config>, bytes: usize) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_receive_buffer_bytes(bytes);
    })
}

/// The numbers of streams.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_streams(config: Option<&mut Config>, outbound: u16, inbound: u16) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_streams(outbound, inbound);
    })
}

/// Whether small messages may overtake the fragments of large ones.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_interleaving(config: Option<&mut Config>, offered: i32) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_interleaving(offered != 0);
    })
}

/// Sets whether peers may move to another address or port.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_peer_moves(config: Option<&mut Config>, allowed: i32) -> Status {
    Config::set(config, |Settings { transport, .. }| {
        *transport = transport.clone().with_peer_moves(allowed != 0);
    })
}

/// Sets the maximum number of concurrent associations.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_associations_max(config: Option<&mut Config>, associations: usize) -> Status {
    Config::set(config, |Settings { admission, .. }| {
        *admission = admission.clone().with_associations_max(associations);
    })
}

/// Sets the maximum number of concurrent associations of peers with one IP address.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_associations_per_address_max(
    config: Option<&mut Config>,
    associations: usize,
) -> Status {
    Config::set(config, |Settings { admission, .. }| {
        *admission = admission.clone().with_associations_per_address_max(associations);
    })
}

/// Sets the maximum number of associations of one port that wait to be accepted.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_accept_queue_max(config: Option<&mut Config>, associations: usize) -> Status {
    Config::set(config, |Settings { admission, .. }| {
        *admission = admission.clone().with_accept_queue_max(associations);
    })
}

/// Sets the maximum number per second of packets without an association that are processed.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_strays_per_second_max(config: Option<&mut Config>, packets: u32) -> Status {
    Config::set(config, |Settings { admission, .. }| {
        *admission = admission.clone().with_strays_per_second_max(packets);
    })
}

/// Sets the own certificate chain and key.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_identity(config: Option<&mut Config>, identity: Option<&Identity>) -> Status {
    Config::secure(config, |security| {
        security.identity = Some(required("identity", identity)?.0.clone());
        Ok(())
    })
}

/// Sets which servers are trusted.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_server_trust(config: Option<&mut Config>, trust: Option<&Trust>) -> Status {
    Config::secure(config, |security| {
        security.server_trust = Some(required("trust", trust)?.0.clone());
        Ok(())
    })
}

/// Demands certificates of clients, and sets which are trusted.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_client_trust(config: Option<&mut Config>, trust: Option<&Trust>) -> Status {
    Config::secure(config, |security| {
        security.client_trust = Some(required("trust", trust)?.0.clone());
        Ok(())
    })
}

/// Sets the application protocols.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_alpn(config: Option<&mut Config>, protocols: *const c_char) -> Status {
    Config::secure(config, |security| {
        let protocols = required("protocols", text("the protocols", protocols)?)?;
        security.alpn = protocols.split_whitespace().map(str::to_owned).collect();
        Ok(())
    })
}

/// Whether listeners take early messages.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_early_messages(config: Option<&mut Config>, enabled: i32) -> Status {
    Config::secure(config, |security| {
        security.early_messages = enabled != 0;
        Ok(())
    })
}

/// Whether listeners accept plain SCTP as well.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_plain_clients(config: Option<&mut Config>, enabled: i32) -> Status {
    Config::secure(config, |security| {
        security.plain_clients = enabled != 0;
        Ok(())
    })
}

/// Sets the sessions that are resumed.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_sessions(config: Option<&mut Config>, sessions: Option<&Sessions>) -> Status {
    Config::secure(config, |security| {
        security.sessions = Some(behind("sessions", sessions)?.clone());
        Ok(())
    })
}

/// Whether to append the secrets of all associations to the file that `SSLKEYLOGFILE` names.
#[unsafe(no_mangle)]
pub extern "C" fn festina_config_set_key_log_from_env(config: Option<&mut Config>, enabled: i32) -> Status {
    Config::secure(config, |security| {
        security.key_log_from_env = enabled != 0;
        Ok(())
    })
}

fn some_ms(ms: u32) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms.into()))
}
