//! The header says what the library does: the C compiler compares the two.
//!
//! From the Rust sources comes a C file that assigns each exported function to a pointer of the type that its Rust signature has in C, and
//! asserts the size and place of each field and the value of each constant. With the warnings as errors it compiles only if all fit.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::offset_of;
use std::{fs, path::Path};

use festina_c::association::CloseReason;
use festina_c::config::{self, Config};
use festina_c::event::{Event, Kind, Reason};
use festina_c::log::LogLevel;
use festina_c::message::Message;
use festina_c::options::{self, ConnectOptions, Outgoing, SendOptions};
use festina_c::path::Path as PathOfAssociation;
use festina_c::ready::{self, Ready};
use festina_c::stats::{Abandoned, AbandonedByReason, Path as PathStats, Received, Sent, Stats};
use festina_c::status::Status;

use crate::compiler::{Compiler, manifest_folder};

const HANDLES: [&str; 9] =
    ["Config", "Endpoint", "Listener", "Association", "Connecting", "Identity", "Trust", "Sessions", "Request"];

/// Calls that let no panic out. The last two are exported functions, which are checked themselves.
const GUARDS: [&str; 11] = [
    "guard(|",
    "guard_value(",
    "guard_text(",
    "hand_over(",
    "free(",
    "beginning(",
    "Config::set(",
    "Config::try_set(",
    "Config::secure(",
    "festina_endpoint_connect_with(",
    "festina_endpoint_start_connect_with(",
];

/// The C type of a Rust type, as it stands in a signature.
fn c_type(rust: &str) -> String {
    let known = match rust {
        "()" => Some("void"),
        "Status" => Some("festina_status"),
        "CloseReason" => Some("festina_close_reason"),
        "Option<LogFunction>" => Some("festina_log_function"),
        "usize" => Some("size_t"),
        "c_int" => Some("int"),
        "c_char" => Some("char"),
        "c_void" => Some("void"),
        "u16" => Some("uint16_t"),
        "u32" => Some("uint32_t"),
        "u64" => Some("uint64_t"),
        "i32" => Some("int32_t"),
        "SendOptions" => Some("festina_send_options"),
        "ConnectOptions" => Some("festina_connect_options"),
        "Message" => Some("festina_message"),
        "Event" => Some("festina_event"),
        "Path" => Some("festina_path"),
        "Stats" => Some("festina_stats"),
        "Outgoing" => Some("festina_outgoing"),
        "Ready" => Some("festina_ready"),
        _ => None,
    };
    if let Some(known) = known {
        return known.to_owned();
    }
    if HANDLES.contains(&rust) {
        return format!("festina_{}", rust.to_lowercase());
    }
    let inside = |before: &str, after: &str| rust.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
    if let Some(inner) = inside("Option<&mutMaybeUninit<Box<", ">>>") {
        return format!("{} **", c_type(&inner));
    }
    if let Some(inner) = inside("Option<&mutMaybeUninit<", ">>").or_else(|| inside("Option<&mut", ">")) {
        return format!("{} *", c_type(&inner));
    }
    if let Some(inner) = inside("Option<Box<", ">>").or_else(|| inside("*mut", "")) {
        return format!("{} *", c_type(&inner));
    }
    match inside("Option<&", ">").or_else(|| inside("*const", "")) {
        Some(inner) => format!("const {} *", c_type(&inner)),
        None => panic!("{rust} has no type in C"),
    }
}

fn dense(tokens: &str) -> String {
    tokens.split_whitespace().collect()
}

fn text_of(type_: &syn::Type) -> String {
    use quote::ToTokens;
    dense(&type_.to_token_stream().to_string())
}

/// Every exported function of the sources with its type in C as a pointer of this name.
fn exported() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(manifest_folder().join("src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for item in syn::parse_file(&text).unwrap().items {
            let syn::Item::Fn(function) = item else { continue };
            if function.sig.abi.is_none() {
                continue;
            }
            let name = function.sig.ident.to_string();
            let body = &text[text.find(&format!("fn {name}(")).unwrap()..];
            let body = &body[body.find("{\n").unwrap()..body.find("\n}\n").unwrap()];
            // Whole words: the name of an exported function may end with that of a guard.
            let guarded = GUARDS.iter().any(|guard| body.contains(&format!(" {guard}")));
            assert!(guarded || name == "festina_last_error", "{name} lets panics out");
            let arguments: Vec<String> = function.sig.inputs.iter().map(argument).collect();
            let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
            let result = match &function.sig.output {
                syn::ReturnType::Default => "void".to_owned(),
                syn::ReturnType::Type(_, type_) => c_type(&text_of(type_)),
            };
            found.push((name, format!("{result} (*NAME)({arguments})")));
        }
    }
    found
}

fn argument(argument: &syn::FnArg) -> String {
    match argument {
        syn::FnArg::Typed(typed) => c_type(&text_of(&typed.ty)),
        syn::FnArg::Receiver(_) => panic!("an exported function is no method"),
    }
}

fn width<T, F>(_: impl Fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layout {
    ($file:expr, $type:ty, $name:literal, $($field:ident),*) => {
        writeln!($file, "_Static_assert(sizeof({}) == {}, \"{}\");", $name, size_of::<$type>(), $name).unwrap();
        $(
            let (field, offset) = (stringify!($field), offset_of!($type, $field));
            let bytes = width::<$type, _>(|value| &value.$field);
            writeln!($file, "_Static_assert(sizeof((({} *)0)->{field}) == {bytes}, \"{field}\");", $name).unwrap();
            writeln!($file, "_Static_assert(offsetof({}, {field}) == {offset}, \"{} {field}\");", $name, $name).unwrap();
        )*
    };
}

fn layouts(file: &mut String) {
    layout!(file, SendOptions, "festina_send_options", size, flags, ppid, lifetime_us, deadline_us, key, priority);
    layout!(file, SendOptions, "festina_send_options", max_retransmissions, stream, reserved);
    layout!(file, ConnectOptions, "festina_connect_options", size, server_name, token, token_length, early_messages);
    layout!(file, ConnectOptions, "festina_connect_options", early_messages_count, peer_port, reserved);
    layout!(file, Outgoing, "festina_outgoing", data, length, options);
    layout!(file, Ready, "festina_ready", token, kind, reserved);
    layout!(file, Message, "festina_message", size, data, length, owner, ppid, stream, flags);
    layout!(file, Event, "festina_event", size, kind, reason, first, last, sent, at_us, packet_bytes_max);
    layout!(file, Stats, "festina_stats", size, sent, received, path, abandoned);
    layout!(file, Abandoned, "festina_abandoned", unsent, sent);
    layout!(file, AbandonedByReason, "festina_abandoned_stats", expired, retransmissions_exhausted, evicted, replaced);
    layout!(file, AbandonedByReason, "festina_abandoned_stats", stream_refused);
    layout!(file, Sent, "festina_sent_stats", packets, bytes, messages, messages_acked, messages_abandoned);
    layout!(file, Sent, "festina_sent_stats", retransmissions, spurious, chunks_lost, timeouts);
    layout!(file, Received, "festina_received_stats", packets, bytes, packets_dropped, messages, duplicates);
    layout!(file, Received, "festina_received_stats", chunks_dropped);
    layout!(
        file,
        PathOfAssociation,
        "festina_path",
        size,
        state,
        carries_data,
        errors,
        srtt_ns,
        rto_ns,
        cwnd_bytes,
        in_flight_bytes
    );
    layout!(file, PathOfAssociation, "festina_path", address);
    layout!(file, PathStats, "festina_path_stats", srtt_ns, rttvar_ns, rto_ns, cwnd_bytes, in_flight_bytes);
    layout!(file, PathStats, "festina_path_stats", in_flight_packets, peer_window_bytes, send_buffer_bytes, thin);
    layout!(
        file,
        PathStats,
        "festina_path_stats",
        messages_pending,
        in_fast_recovery,
        ssthresh_bytes,
        packet_bytes_max
    );
}

/// The statuses and their names.
const STATUSES: [(&str, Status); 12] = [
    ("OK", Status::Ok),
    ("TIMEOUT", Status::Timeout),
    ("CLOSED", Status::Closed),
    ("INVALID", Status::Invalid),
    ("REFUSED", Status::Refused),
    ("UNREACHABLE", Status::Unreachable),
    ("SYSTEM", Status::System),
    ("LIMIT", Status::Limit),
    ("BUG", Status::Bug),
    ("FULL", Status::Full),
    ("UNTRUSTED", Status::Untrusted),
    ("PROTOCOL", Status::Protocol),
];

/// The levels of records and their names.
const LEVELS: [(&str, LogLevel); 6] = [
    ("OFF", LogLevel::Off),
    ("ERROR", LogLevel::Error),
    ("WARN", LogLevel::Warn),
    ("INFO", LogLevel::Info),
    ("DEBUG", LogLevel::Debug),
    ("TRACE", LogLevel::Trace),
];

fn constants(file: &mut String) {
    let kinds = [
        ("OTHER", Kind::Other),
        ("DELIVERED", Kind::Delivered),
        ("ABANDONED", Kind::Abandoned),
        ("PEER_SHUTDOWN", Kind::PeerShutdown),
        ("PEER_RESTARTED", Kind::PeerRestarted),
        ("PATH_DOWN", Kind::PathDown),
        ("PATH_UP", Kind::PathUp),
        ("CLOSED", Kind::Closed),
        ("PACKET_SIZE_LIMITED", Kind::PacketSizeLimited),
        ("PEER_MOVED", Kind::PeerMoved),
    ];
    let reasons = [
        ("OTHER", Reason::Other),
        ("EXPIRED", Reason::Expired),
        ("RETRANSMISSIONS_EXHAUSTED", Reason::RetransmissionsExhausted),
        ("EVICTED", Reason::Evicted),
        ("REPLACED", Reason::Replaced),
        ("ENDED", Reason::Ended),
        ("STREAM_REFUSED", Reason::StreamRefused),
    ];
    let ends = [
        ("NONE", CloseReason::Open),
        ("SHUTDOWN", CloseReason::Shutdown),
        ("ABORTED", CloseReason::Aborted),
        ("ABORTED_BY_PEER", CloseReason::AbortedByPeer),
        ("PROTOCOL_VIOLATION", CloseReason::ProtocolViolation),
        ("HANDSHAKE_TIMEOUT", CloseReason::HandshakeTimeout),
        ("PEER_UNREACHABLE", CloseReason::PeerUnreachable),
        ("SHUTDOWN_TIMEOUT", CloseReason::ShutdownTimeout),
        ("OTHER", CloseReason::Other),
        ("PEER_RESET", CloseReason::PeerReset),
    ];
    let readiness = [
        ("OTHER", ready::Kind::Other),
        ("ACCEPT", ready::Kind::Accept),
        ("CONNECT", ready::Kind::Connect),
        ("MESSAGE", ready::Kind::Message),
        ("EVENT", ready::Kind::Event),
        ("REQUEST", ready::Kind::Request),
    ];
    let flags = [
        ("UNORDERED", options::UNORDERED),
        ("IMMEDIATE_ACK", options::IMMEDIATE_ACK),
        ("CONFIRM", options::CONFIRM),
        ("REPLACING", options::REPLACING),
        ("DUPLICATE_AT_ONCE", options::DUPLICATE_AT_ONCE),
        ("DUPLICATE_HALF_INTERVAL", options::DUPLICATE_HALF_INTERVAL),
    ];
    let all = STATUSES.map(|(name, value)| (name.to_owned(), value as u32)).into_iter();
    let all = all.chain(kinds.map(|(name, value)| (format!("EVENT_{name}"), value as u32)));
    let all = all.chain(reasons.map(|(name, value)| (format!("ABANDON_{name}"), value as u32)));
    let all = all.chain(LEVELS.map(|(name, value)| (format!("LOG_{name}"), value as u32)));
    let all = all.chain(readiness.map(|(name, value)| (format!("READY_{name}"), value as u32)));
    let all = all.chain(ends.map(|(name, value)| (format!("CLOSE_{name}"), value as u32)));
    for (name, value) in all.chain(flags.map(|(name, value)| (name.to_owned(), value))) {
        writeln!(file, "_Static_assert(FESTINA_{name} == {value}, \"{name}\");").unwrap();
    }
    writeln!(file, "static const festina_send_options options = FESTINA_SEND_OPTIONS_INIT;").unwrap();
    writeln!(file, "static const festina_connect_options connect = FESTINA_CONNECT_OPTIONS_INIT;").unwrap();
    writeln!(file, "static const festina_message message = FESTINA_MESSAGE_INIT;").unwrap();
    writeln!(file, "static const festina_event event = FESTINA_EVENT_INIT;").unwrap();
    writeln!(file, "static const festina_stats stats = FESTINA_STATS_INIT;").unwrap();
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(manifest_folder().join("include/festina.h")).unwrap();
    let code: String = header.split("*/").map(|part| part.split("/*").next().unwrap_or_default()).collect();
    let words = code.split(|sign: char| !(sign.is_alphanumeric() || sign == '_' || sign == '('));
    words
        .filter_map(|word| word.strip_suffix('(').or_else(|| word.split_once('(').map(|(name, _)| name)))
        .filter(|name| name.starts_with("festina_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_header_declares_what_is_exported_as_it_is() {
    let exported = exported();
    let names: BTreeSet<String> = exported.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(declared(), names);

    let mut file = String::from("#include \"festina.h\"\n");
    constants(&mut file);
    layouts(&mut file);
    writeln!(file, "int main(void)\n{{").unwrap();
    for (name, pointer) in &exported {
        writeln!(file, "    {} = {name};", pointer.replace("NAME", &format!("p_{name}"))).unwrap();
    }
    writeln!(file, "    (void)options; (void)message; (void)event; (void)stats;").unwrap();
    for (name, _) in &exported {
        writeln!(file, "    (void)p_{name};").unwrap();
    }
    writeln!(file, "    return 0;\n}}").unwrap();
    let Some(compiler) = Compiler::find() else { return };
    compiler.check("header", &file);
    compiler.check_as_cpp("header");
}

#[test]
fn defaults_are_those_of_the_header() {
    let header = fs::read_to_string(Path::new(&manifest_folder()).join("include/festina.h")).unwrap();
    let default = SendOptions::DEFAULT;
    let expected = format!(
        "{{sizeof(festina_send_options), {}, {}, {}, {}, {}, {}, {}, {}, {{0, 0, 0}}}}",
        default.flags,
        default.ppid,
        default.lifetime_us,
        default.deadline_us,
        default.key,
        default.max_retransmissions,
        default.priority,
        default.stream,
    );
    assert!(header.contains(&expected), "{expected}");
}

/// A setting: the function that sets it, its range, and its default with the profile `festina`.
type Setting = (&'static str, u64, u64, u64, fn(&mut Config, u64) -> Status);

const SETTINGS: [Setting; 14] = [
    ("peer_timeout", 1_000, 86_400_000, 60_000, |config, ms| {
        config::festina_config_set_peer_timeout(Some(config), narrow(ms))
    }),
    ("heartbeat_interval", 1, 86_400_000, 30_000, |config, ms| {
        config::festina_config_set_heartbeat_interval(Some(config), narrow(ms))
    }),
    ("sack_delay", 0, 500, 200, |config, ms| config::festina_config_set_sack_delay(Some(config), narrow(ms))),
    ("message_bytes_max", 1, 1 << 30, 1 << 20, |config, bytes| {
        // Messages are delivered whole, so that the receive buffer is the limit.
        assert_eq!(config::festina_config_set_receive_buffer_bytes(Some(config), 1 << 30), Status::Ok);
        config::festina_config_set_message_bytes_max(Some(config), size(bytes))
    }),
    ("packet_bytes_max", 384, 65_480, 1_232, |config, bytes| {
        config::festina_config_set_packet_bytes_max(Some(config), size(bytes))
    }),
    ("paths_max", 1, 8, 1, |config, paths| config::festina_config_set_paths_max(Some(config), size(paths))),
    ("send_buffer_bytes", 1_500, 1 << 30, 4 << 20, |config, bytes| {
        config::festina_config_set_send_buffer_bytes(Some(config), size(bytes))
    }),
    ("receive_buffer_bytes", 1_500, 1 << 30, 1 << 20, |config, bytes| {
        config::festina_config_set_receive_buffer_bytes(Some(config), size(bytes))
    }),
    ("send_delay", 1, 86_400_000, 0, |config, ms| config::festina_config_set_send_delay(Some(config), narrow(ms))),
    ("streams", 1, 65_535, 65_535, |config, streams| match u16::try_from(streams) {
        Ok(streams) => config::festina_config_set_streams(Some(config), streams, streams),
        Err(_) => Status::Invalid,
    }),
    ("associations_max", 1, 1 << 24, 65_536, |config, associations| {
        config::festina_config_set_associations_max(Some(config), size(associations))
    }),
    ("associations_per_address_max", 1, 1 << 24, 4_096, |config, associations| {
        config::festina_config_set_associations_per_address_max(Some(config), size(associations))
    }),
    ("accept_queue_max", 1, 1 << 20, 1_024, |config, associations| {
        config::festina_config_set_accept_queue_max(Some(config), size(associations))
    }),
    ("strays_per_second_max", 1, 100_000_000, 20_000, |config, packets| {
        config::festina_config_set_strays_per_second_max(Some(config), narrow(packets))
    }),
];

fn narrow(ms: u64) -> u32 {
    u32::try_from(ms).unwrap()
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// What the default settings hold, so that a default in the header is the library's.
fn is_default(config: &festina::Transport, name: &str, value: u64) -> bool {
    let ms = |time: Option<festina::Duration>| time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap());
    value
        == match name {
            "peer_timeout" => ms(config.peer_timeout()),
            "message_bytes_max" => config.message_bytes_max() as u64,
            "send_buffer_bytes" => config.send_buffer_bytes() as u64,
            "receive_buffer_bytes" => config.receive_buffer_bytes() as u64,
            // The others have no getter: the documentation of `festina::Transport` and `festina::Admission` state them.
            _ => return true,
        }
}

#[test]
fn the_header_states_the_range_and_the_default_of_each_setting() {
    let header = fs::read_to_string(manifest_folder().join("include/festina.h")).unwrap();
    for (name, low, high, default, set) in SETTINGS {
        let before = header.split(&format!("festina_config_set_{name}(")).next().unwrap();
        let comment = before.rsplit("/*").next().unwrap();
        assert!(comment.contains(&format!("from {low} to {high}")), "{name}: {comment}");
        let told = [format!("default {default}"), format!("default is {default}")];
        assert!(told.iter().any(|told| comment.contains(told)), "{name}: {comment}");
        assert!(is_default(&festina::Transport::default(), name, default), "{name}");
        let mut config = Config::plain();
        let zero_is_none = ["peer_timeout", "heartbeat_interval", "send_delay"].contains(&name);
        assert_eq!((set(&mut config, low), set(&mut config, high)), (Status::Ok, Status::Ok), "{name}");
        assert_eq!(set(&mut config, high + 1), Status::Invalid, "{name}");
        if low > 0 && !(zero_is_none && low == 1) {
            assert_eq!(set(&mut config, low - 1), Status::Invalid, "{name}");
        }
        assert!(!zero_is_none || set(&mut config, 0) == Status::Ok, "{name}");
    }
}

#[test]
fn the_example_of_the_readme_compiles() {
    let readme = fs::read_to_string(manifest_folder().join("README.md")).unwrap();
    let example = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let Some(compiler) = Compiler::find() else { return };
    compiler.check("readme", example);
}

#[test]
fn one_room_alone_trusts_pointers() {
    for entry in fs::read_dir(manifest_folder().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let trusting = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait"].iter().any(|word| text.contains(word));
        assert_eq!(trusting, path.ends_with("boundary.rs"), "{}", path.display());
    }
}
