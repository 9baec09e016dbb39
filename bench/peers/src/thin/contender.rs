//! The stacks that are compared, each as its settings make it.

use std::time::Duration;

use festina_recovery::Profile;
use festina_recovery::redundancy::Redundancy;
use festina_sctp::Config;

use super::program::PionSettings;
use super::task::Task;
use crate::peer::{Peer, Settings, Stack};
use crate::stack::{
    Carriage, DcSctp, EnetSettings, Festina, KcpSettings, Noq, Quic, QuicSettings, Quinn, RtcSctp, SctpProto,
    SecureFestina,
};

/// Guarantees of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All come, in order.
    Ordered,
    /// All come.
    Unordered,
    /// They come or not.
    Unreliable,
}

/// Why a contender is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Festina's default, which is judged.
    Subject,
    /// It is judged by this.
    Peer,
    /// It explains the others and judges nothing: another setting of Festina, or a stack that promises less.
    Reference,
}

/// Tasks at which a contender is measured: where its settings make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Streams.
    Streams,
    /// The first message.
    First,
    /// Both.
    Both,
}

/// A client and the server that it connects to. The client connects at time zero.
pub type Ends = [Box<dyn Peer>; 2];

/// Creates a new pair. The number determines the stack's random numbers, where it permits that.
pub type Connect = Box<dyn FnMut(u64) -> Ends>;

/// A stack with its settings.
pub struct Contender {
    /// Short name.
    pub name: &'static str,
    /// Name and version of the stack.
    pub stack: &'static str,
    /// The settings, with reasons.
    pub settings: &'static str,
    /// The guaranteed order and reliability.
    pub promise: Promise,
    /// Why it is compared.
    pub role: Role,
    /// The tasks at which it is measured.
    pub at: At,
    /// Where it runs.
    pub means: Means,
}

/// Where a stack runs, and with which settings for a path with a given round-trip time.
#[derive(Clone, Copy, Debug)]
pub enum Means {
    /// In this process.
    Here(fn(Duration) -> Connect),
    /// pion, in a process of its own.
    Pion(fn(Duration) -> PionSettings),
}

impl Contender {
    /// Returns whether it takes part in a task.
    #[must_use]
    pub fn is_at(&self, task: Task) -> bool {
        self.at == At::Both || (self.at == At::First) == task.interval.is_none()
    }

    /// Returns whether it is a QUIC stack, against which the first message is judged.
    #[must_use]
    pub fn is_quic(&self) -> bool {
        self.stack.starts_with("quinn") || self.stack.starts_with("noq")
    }
}

const KCP: &str = "kcp 0.6.0";
const ENET: &str = "rusty_enet 0.4.1";
const PION: &str = "pion/sctp 1.12.1";

/// All contenders, Festina's default first.
#[must_use]
pub fn all() -> Vec<Contender> {
    let mut all = festina();
    all.extend(quic::<Quinn>(QUINN_NAMES));
    all.extend(quic::<Noq>(NOQ_NAMES));
    all.extend(kcp());
    all.extend(enet());
    all.extend(sctp());
    all.extend(pion());
    all
}

fn festina() -> Vec<Contender> {
    let reference = |name, settings, at, connect| Contender {
        name,
        stack: Festina::NAME,
        settings,
        promise: Promise::Ordered,
        role: Role::Reference,
        at,
        means: Means::Here(connect),
    };
    vec![
        Contender {
            role: Role::Subject,
            ..reference("festina", "the default", At::Both, |_| with_config(Config::default()))
        },
        reference("festina-secure", "the default, encrypted", At::Both, |_| encrypted(false)),
        reference(
            "festina-secure-0rtt",
            "the same, and the client has been connected before: the message leaves with its first packet",
            At::First,
            |_| encrypted(true),
        ),
        reference("festina-off", "the default without redundancy", At::Streams, |_| with_redundancy(Redundancy::Off)),
        reference("festina-bundled", "unacknowledged chunks ride in packets that leave anyway", At::Streams, |_| {
            with_redundancy(Redundancy::BUNDLED)
        }),
        reference("festina-spaced", "each message gets a copy in a packet of its own besides", At::Streams, |_| {
            with_redundancy(Redundancy::SPACED)
        }),
        Contender {
            promise: Promise::Unordered,
            ..reference("festina-unordered", "the default; messages without order", At::Streams, |_| {
                with_config(Config::default())
            })
        },
        reference("festina-rack", "the profile `rack`: RACK-TLP, RFC 8985", At::Both, |_| {
            with_config(Config::published(Profile::Rack))
        }),
        reference("festina-rfc9260", "the profile `rfc9260`: the standard", At::Both, |_| {
            with_config(Config::published(Profile::Rfc9260))
        }),
    ]
}

fn encrypted(resumes: bool) -> Connect {
    let stack = SecureFestina::new(resumes);
    Box::new(move |seed| stack.pair(seed))
}

fn with_redundancy(redundancy: Redundancy) -> Connect {
    let mut config = Config::default();
    config.mechanisms.redundancy = redundancy;
    with_config(config)
}

fn with_config(config: Config) -> Connect {
    of_stack(Festina::with_config(config))
}

const QUINN_NAMES: [&str; 6] =
    ["quinn", "quinn-tuned", "quinn-streams", "quinn-streams-tuned", "quinn-0rtt", "quinn-datagrams"];
const NOQ_NAMES: [&str; 6] = ["noq", "noq-tuned", "noq-streams", "noq-streams-tuned", "noq-0rtt", "noq-datagrams"];

/// A QUIC stack with each carriage, by default and tuned; the names are in this order.
fn quic<S: Quic + 'static>(names: [&'static str; 6]) -> Vec<Contender> {
    let [default, tuned, streams, streams_tuned, resumed, datagrams] = names;
    let contender = |name, settings, promise, role, at, connect| Contender {
        name,
        stack: S::NAME,
        settings,
        promise,
        role,
        at,
        means: Means::Here(connect),
    };
    let peer = |name, settings, promise, at, connect| contender(name, settings, promise, Role::Peer, at, connect);
    vec![
        peer(default, "the defaults; one stream, each message behind its length", Promise::Ordered, At::Both, |_| {
            connections::<S>(Carriage::OneStream, None, false)
        }),
        peer(
            tuned,
            "initial RTT that of the path; each packet acknowledged at once and no allowance for a delay (ACK frequency 0, \
             max_ack_delay 1 ms); one later packet proves a loss (packet_threshold 1); empty connection IDs, no MTU discovery",
            Promise::Ordered,
            At::Both,
            |round_trip| connections::<S>(Carriage::OneStream, Some(round_trip), false),
        ),
        peer(streams, "the defaults; a stream for each message", Promise::Unordered, At::Streams, |_| {
            connections::<S>(Carriage::StreamPerMessage, None, false)
        }),
        peer(
            streams_tuned,
            "as the tuned one; a stream for each message",
            Promise::Unordered,
            At::Streams,
            |round_trip| connections::<S>(Carriage::StreamPerMessage, Some(round_trip), false),
        ),
        contender(
            resumed,
            "as the tuned one, and the client has been connected before: it sends the message with its first packet",
            Promise::Ordered,
            Role::Reference,
            At::First,
            |round_trip| connections::<S>(Carriage::OneStream, Some(round_trip), true),
        ),
        contender(
            datagrams,
            "the defaults; a datagram for each message (RFC 9221), not sent again when lost",
            Promise::Unreliable,
            Role::Reference,
            At::Streams,
            |_| connections::<S>(Carriage::Datagrams, None, false),
        ),
    ]
}

fn connections<S: Quic + 'static>(carriage: Carriage, tuned_for: Option<Duration>, resumes: bool) -> Connect {
    let stack = S::new(QuicSettings { carriage, tuned_for, resumes });
    Box::new(move |seed| stack.pair(seed))
}

fn kcp() -> Vec<Contender> {
    // There is no handshake, and so nothing that settings change about the first message.
    let peer = |name, settings, connect| Contender {
        name,
        stack: KCP,
        settings,
        promise: Promise::Ordered,
        role: Role::Peer,
        at: if name == "kcp-turbo-flush" { At::Both } else { At::Streams },
        means: Means::Here(connect),
    };
    const TURBO: KcpSettings =
        KcpSettings { nodelay: true, interval_ms: 10, resend: 2, no_congestion_control: true, flushes_at_once: false };
    vec![
        peer("kcp-normal", "`nodelay(0, 40, 0, 0)`, the manual's normal mode; window 128", |_| {
            conversation(KcpSettings {
                nodelay: false,
                interval_ms: 40,
                resend: 0,
                no_congestion_control: false,
                flushes_at_once: false,
            })
        }),
        peer("kcp-turbo", "`nodelay(1, 10, 2, 1)`, the manual's fastest mode; window 128", |_| conversation(TURBO)),
        peer("kcp-turbo-flush", "the same, and flushed at each write and each packet", |_| {
            conversation(KcpSettings { flushes_at_once: true, ..TURBO })
        }),
        peer(
            "kcp-best",
            "`nodelay(1, 10, 1, 1)`: one later acknowledgement proves a loss; flushed at each write and each packet; window 128",
            |_| conversation(KcpSettings { flushes_at_once: true, resend: 1, ..TURBO }),
        ),
    ]
}

fn conversation(settings: KcpSettings) -> Connect {
    Box::new(move |_| boxed(settings.pair()))
}

fn enet() -> Vec<Contender> {
    let peer = |name, settings, connect| Contender {
        name,
        stack: ENET,
        settings,
        promise: Promise::Ordered,
        role: Role::Peer,
        at: At::Both,
        means: Means::Here(connect),
    };
    vec![
        peer("enet", "the defaults; reliable packets on one channel; called at each packet and every 10 ms", |_| {
            hosts(EnetSettings {
                service_interval: Duration::from_millis(10),
                flushes_at_once: false,
                is_patient: false,
            })
        }),
        peer(
            "enet-tuned",
            "called every millisecond, flushed at each write; no pings, no limit of repetitions",
            |_| {
                hosts(EnetSettings {
                    service_interval: Duration::from_millis(1),
                    flushes_at_once: true,
                    is_patient: true,
                })
            },
        ),
    ]
}

fn hosts(settings: EnetSettings) -> Connect {
    Box::new(move |seed| boxed(settings.pair(seed)))
}

fn sctp() -> Vec<Contender> {
    let peer = |name, stack, settings, connect| Contender {
        name,
        stack,
        settings,
        promise: Promise::Ordered,
        role: Role::Peer,
        at: At::Both,
        means: Means::Here(connect),
    };
    vec![
        peer("dcsctp", DcSctp::NAME, "the defaults", |_| of_stack(DcSctp::new(&Settings::bulk()))),
        peer(
            "dcsctp-tuned",
            DcSctp::NAME,
            "RTO without a minimum, least RTT variance 1 ms, first RTO and T1 twice the path's RTT; timers back off to 1.1 times its RTT at \
             most and never give up; SACK not delayed; heartbeats off",
            |round_trip| {
                of_stack(DcSctp::tuned(&Settings { persistent: true, ..Settings::bulk() }, |options| {
                    let twice = 2 * round_trip;
                    options.rto_min = Duration::from_millis(1);
                    options.min_rtt_variance = Duration::from_millis(1);
                    options.rto_initial = twice;
                    options.t1_init_timeout = twice;
                    options.t1_cookie_timeout = twice;
                    options.max_timer_backoff_duration = Some(round_trip * 11 / 10);
                    options.delayed_ack_max_timeout = Duration::from_millis(1);
                    options.heartbeat_interval = Duration::ZERO;
                }))
            },
        ),
        peer("rtc-sctp", RtcSctp::NAME, "the defaults; no timer can be set", |_| {
            of_stack(RtcSctp::new(&Settings::bulk()))
        }),
        peer("sctp-proto", SctpProto::NAME, "the defaults", |_| sctp_proto(None)),
        peer(
            "sctp-proto-tuned",
            SctpProto::NAME,
            "RTO 210 ms more than the path's RTT, always: the delay of its SACKs, 200 ms, cannot be set",
            |round_trip| sctp_proto(Some(round_trip + Duration::from_millis(210))),
        ),
        peer(
            "sctp-proto-hasty",
            SctpProto::NAME,
            "RTO 1.1 times the path's RTT, always: chunks that wait for a delayed SACK are sent again needlessly",
            |round_trip| sctp_proto(Some(round_trip * 11 / 10)),
        ),
    ]
}

fn pion() -> Vec<Contender> {
    let peer = |name, settings, means| Contender {
        name,
        stack: PION,
        settings,
        promise: Promise::Ordered,
        role: Role::Peer,
        at: At::Both,
        means: Means::Pion(means),
    };
    vec![
        peer("pion", "the defaults, with I-DATA and RACK-TLP", |_| PionSettings::default()),
        peer(
            "pion-tuned",
            "RTO 210 ms more than the path's RTT, always: the delay of its SACKs, 200 ms, cannot be set",
            |round_trip| PionSettings {
                rto_max: Some(round_trip + Duration::from_millis(210)),
                ..PionSettings::default()
            },
        ),
        peer(
            "pion-hasty",
            "RTO 1.1 times the path's RTT, always, and a tail loss probe that expects no delayed SACK: chunks that wait for one are sent \
             again needlessly",
            |round_trip| PionSettings {
                rto_max: Some(round_trip * 11 / 10),
                delayed_ack: Some(Duration::from_millis(1)),
            },
        ),
    ]
}

fn sctp_proto(rto: Option<Duration>) -> Connect {
    Box::new(move |_| boxed(SctpProto::pair(&Settings::bulk(), rto)))
}

fn of_stack<S: Stack<Peer: 'static> + 'static>(mut stack: S) -> Connect {
    Box::new(move |_| boxed([stack.client(Duration::ZERO), stack.server(Duration::ZERO)]))
}

fn boxed(pair: [impl Peer + 'static; 2]) -> Ends {
    pair.map(|end| Box::new(end) as Box<dyn Peer>)
}

#[cfg(test)]
mod tests {
    use super::super::run::run;
    use super::super::task::Scale;
    use super::*;
    use crate::programs;

    /// Those that take part in a task and can run here: pion needs Go.
    fn contenders(task: Task) -> Vec<Contender> {
        let has_pion = programs::folder("pion").inspect_err(|error| {
            assert!(std::env::var_os("CI").is_none(), "pion cannot be built: {error}");
            eprintln!("skipped pion, which cannot be built: {error}");
        });
        let runs = |contender: &Contender| has_pion.is_ok() || matches!(contender.means, Means::Here(_));
        all().into_iter().filter(|contender| contender.is_at(task) && runs(contender)).collect()
    }

    #[test]
    fn every_contender_delivers_each_message_once_and_in_the_order_it_promises_over_a_path_that_loses() {
        let scale = Scale { connections: 2, messages: 300, first_messages: 20 };
        let task =
            Task { round_trip: Duration::from_millis(100), interval: Some(Duration::from_millis(20)), loss_percent: 5 };
        for contender in contenders(task) {
            let outcome = run(&contender, task, scale);
            assert!(outcome.failures.is_empty(), "{}: {:?}", contender.name, outcome.failures);
            assert_eq!(outcome.messages, 600, "{}", contender.name);
            let delivered = outcome.delays.delivered();
            match contender.promise {
                Promise::Unreliable => assert!((500..600).contains(&delivered), "{}: {delivered}", contender.name),
                _ => assert_eq!(delivered, 600, "{}", contender.name),
            }
            let least = outcome.delays.percentile(0.01).ms;
            assert!(least >= 50.0, "{}: {least} ms on a path of 50 ms", contender.name);
        }
    }

    #[test]
    fn every_contender_that_connects_delivers_its_first_message_although_packets_of_the_handshake_are_lost() {
        let scale = Scale { connections: 0, messages: 0, first_messages: 20 };
        let task = Task { round_trip: Duration::from_millis(100), interval: None, loss_percent: 5 };
        for contender in contenders(task) {
            let outcome = run(&contender, task, scale);
            assert!(outcome.failures.is_empty(), "{}: {:?}", contender.name, outcome.failures);
            assert_eq!(outcome.delays.delivered(), 20, "{}", contender.name);
        }
    }

    #[test]
    fn the_same_run_gives_the_same_figures() {
        let scale = Scale { connections: 2, messages: 200, first_messages: 50 };
        for interval in [Some(Duration::from_millis(50)), None] {
            let task = Task { round_trip: Duration::from_millis(20), interval, loss_percent: 10 };
            let repeatable = |contender: &Contender| matches!(contender.means, Means::Here(_));
            for contender in all().into_iter().filter(|contender| contender.is_at(task) && repeatable(contender)) {
                let [once, again] = [(); 2].map(|()| run(&contender, task, scale));
                assert_eq!((once.delays, once.bytes), (again.delays, again.bytes), "{}", contender.name);
            }
        }
    }

    #[test]
    fn pion_costs_its_packets_and_the_path_s_delay_where_nothing_is_lost() {
        let task = Task {
            round_trip: Duration::from_millis(100),
            interval: Some(Duration::from_millis(250)),
            loss_percent: 0,
        };
        let scale = Scale { connections: 2, messages: 100, first_messages: 0 };
        for contender in contenders(task).iter().filter(|contender| contender.name == "pion") {
            let outcome = run(contender, task, scale);
            assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
            assert_eq!((outcome.delays.mean_ms(), outcome.delays.max_ms()), (50.0, 50.0));
            // A SACK for each, since the next message is later than the delay of a SACK; I-DATA's header has 20 bytes.
            assert_eq!((outcome.packets, outcome.bytes[0]), ([200, 200], 200 * (28 + 12 + 20 + 100)));
        }
    }
}
