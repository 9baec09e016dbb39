//! A game server with its bots, in one process. Measures for each loss-recovery profile the packets that it sends and the delay of the game state.
//!
//! ```text
//! cargo run --release -p festina --example game
//! cargo run --release -p festina --example game -- --bots 20 --seconds 5 --loss 1% --profile festina --profile rfc9260
//! ```
//!
//! The server sends its state to every bot 30 times a second, unordered on stream 0, and every bot sends its moves as often. Bots chat on stream 1,
//! in order: the server forwards each line to the bot's team. All packets cross one emulated network on the loopback interface, with a round trip of
//! 80 ms. The profiles play one after the other, with the same losses.
//!
//! Packets and bytes are those of both ends, for any purpose, with the headers of UDP and IP. The CPU time is that of the server's thread and of the
//! thread that runs all bots, without the emulated network; Linux reports it.

use std::collections::HashMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use festina::{
    Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Instant, Listener, Message, Profile, ReceivedMessage,
    ServerConfig, Transport, now,
};
use festina_emulate::{ProxyCounters, RunningProxy, UdpProxy};
use festina_netsim::{LinkConfig, LossModel};
use festina_units::Probability;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const USAGE: &str = "usage: game [--bots N] [--seconds N] [--loss SHARE] [--profile NAME]...
  --bots N        how many bots play, 1 to 1000; 200 if left out
  --seconds N     for how long each profile is measured, 1 to 3600; 10 if left out
  --loss SHARE    how much the network loses each way, such as 5%, below 50%; 5% if left out
  --profile NAME  a profile to play with, may be repeated; festina and rack if left out";

/// Of the emulated network.
const RTT: Duration = Duration::from_millis(80);
const SEED: u64 = 1;
/// State and moves.
const TICK: Duration = Duration::from_nanos(1_000_000_000 / 30);
const STATE_BYTES: usize = 120;
const STATE_STREAM: u16 = 0;
/// A line of chat from each bot.
const CHAT_PAUSE: Duration = Duration::from_secs(3);
const CHAT_BYTES: usize = 60;
const CHAT_STREAM: u16 = 1;
/// Number of bots that read each other's chat.
const TEAM: u32 = 8;
/// When a message was sent, which bot sent it, and its number.
const HEADER_BYTES: usize = 16;
/// From the last handshake to the first message that counts, and from the last of these to the end.
const WARM_UP: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(2);
/// A lost INIT is sent again after this, and not after a second; and a handshake may take so long.
const RTO_INITIAL: Duration = Duration::from_millis(300);
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let settings = match Settings::parse(&arguments) {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("game: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Settings { bots, duration, loss, profiles } = &settings;
    println!(
        "{bots} bots, {STATE_BYTES} bytes 30 times a second both ways for {} s, round trip {} ms, {loss} lost each way\n\n{HEADINGS}",
        duration.as_secs(),
        RTT.as_millis()
    );
    for profile in profiles {
        match play(&settings, *profile) {
            Ok(score) => println!("{}", score.line(*profile)),
            Err(failure) => {
                eprintln!("game: {profile}: {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("\nPackets and bytes are of both ends, with UDP and IP headers; delays of state and moves are in ms.");
    ExitCode::SUCCESS
}

/// Settings of a game.
#[derive(Clone, Debug, PartialEq)]
struct Settings {
    bots: u32,
    /// Duration of the measurement of each profile.
    duration: Duration,
    /// Each way.
    loss: Probability,
    profiles: Vec<Profile>,
}

impl Settings {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut settings = Self {
            bots: 200,
            duration: Duration::from_secs(10),
            loss: Probability::from_percent(5),
            profiles: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(flag) = arguments.next() {
            let known = ["--bots", "--seconds", "--loss", "--profile"];
            if !known.contains(&flag.as_str()) {
                return Err(format!("{flag} is unknown; expected {}", known.join(", ")));
            }
            let value = arguments.next().ok_or_else(|| format!("{flag} wants a value"))?;
            match flag.as_str() {
                "--bots" => settings.bots = within(flag, value, 1, 1_000)?,
                "--seconds" => settings.duration = Duration::from_secs(within(flag, value, 1, 3_600)?.into()),
                "--loss" => settings.loss = loss(value)?,
                _ => settings.profiles.push(profile(value, &settings.profiles)?),
            }
        }
        if settings.profiles.is_empty() {
            settings.profiles = vec![Profile::Festina, Profile::Rack];
        }
        Ok(settings)
    }
}

fn within(flag: &str, value: &str, low: u32, high: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("{flag} wants a whole number from {low} to {high}, not {value}"))
}

fn loss(value: &str) -> Result<Probability, String> {
    let loss = Probability::from_str(value).map_err(|error| format!("--loss: {error}"))?;
    if loss < Probability::from_percent(50) { Ok(loss) } else { Err(format!("--loss is below 50%, not {value}")) }
}

fn profile(value: &str, before: &[Profile]) -> Result<Profile, String> {
    let names: Vec<&str> = Profile::all().iter().map(|profile| profile.name()).collect();
    let profile = value.parse().map_err(|_| format!("--profile {value} is unknown; expected {}", names.join(", ")))?;
    if before.contains(&profile) { Err(format!("--profile {value} is there twice")) } else { Ok(profile) }
}

/// What both sides of a game share.
#[derive(Default)]
struct Shared {
    /// The time whose messages count.
    window: OnceLock<(Instant, Instant)>,
    /// State and moves that were sent in that time.
    sent: AtomicU64,
    /// Delays of the messages that arrived, in nanoseconds.
    delays_ns: Mutex<Vec<u64>>,
    chat_lines: AtomicU64,
    /// Lines that came before an earlier one of the same bot; there must be none.
    chat_disorders: AtomicU64,
}

impl Shared {
    fn counts(&self, at: Instant) -> bool {
        self.window.get().is_some_and(|(from, to)| (*from..*to).contains(&at))
    }

    /// Whether the last messages that count have had their time to arrive.
    fn is_over(&self, at: Instant) -> bool {
        self.window.get().is_some_and(|(_, to)| at >= *to + DRAIN)
    }

    /// A state or a move that is sent now.
    fn state(&self, bot: u32) -> Message {
        let at = now();
        if self.counts(at) {
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        message(at, bot, 0, STATE_BYTES).on_stream(STATE_STREAM).unordered()
    }

    /// A state or a move has come.
    fn came(&self, sent_at: Instant) {
        if self.counts(sent_at) {
            let delay = now().saturating_duration_since(sent_at);
            let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
            self.delays_ns.lock().unwrap_or_else(PoisonError::into_inner).push(delay_ns);
        }
    }
}

/// A message that starts with its send time, its sender and its number.
fn message(at: Instant, bot: u32, number: u32, size: usize) -> Message {
    let mut payload = Vec::with_capacity(size);
    payload.extend(at.as_nanos().to_be_bytes());
    payload.extend(bot.to_be_bytes());
    payload.extend(number.to_be_bytes());
    payload.resize(size, 0);
    Message::new(payload)
}

/// Returns the header of a message; `None` if it is too short.
fn header(message: &ReceivedMessage) -> Option<(Instant, u32, u32)> {
    let header = message.payload().get(..HEADER_BYTES)?;
    let (at, rest) = header.split_at(8);
    let (bot, number) = rest.split_at(4);
    let [bot, number] = [bot, number].map(|bytes| bytes.try_into().map(u32::from_be_bytes));
    Some((Instant::from_nanos(u64::from_be_bytes(at.try_into().ok()?)), bot.ok()?, number.ok()?))
}

/// One game with one profile at both ends.
fn play(settings: &Settings, profile: Profile) -> Result<Score, Failure> {
    let shared = Arc::new(Shared::default());
    let (tell, told) = std::sync::mpsc::channel();
    let server = {
        let shared = shared.clone();
        thread::spawn(move || -> Result<Option<Duration>, Failure> {
            runtime()?.block_on(async {
                let config = ServerConfig::plain().with_transport(transport(profile));
                let endpoint = Endpoint::server(LOOPBACK, config).await?;
                tell.send(endpoint.local_addr())?;
                tokio::spawn(serve(endpoint.listen(DEFAULT_SCTP_PORT)?, shared.clone()));
                Ok(measured(&shared, cpu_time).await.map(|[before, after]| after.saturating_sub(before)))
            })
        })
    };
    // If the server ended instead, it says why.
    let played = told.recv().map_err(Failure::from).and_then(|address| host_bots(settings, profile, address, &shared));
    if played.is_err() {
        // The server waits for the measured window, which ends at once.
        let _ = shared.window.set((now(), now()));
    }
    let server_cpu = server.join().map_err(|_| "the server panicked")?;
    let (network, bots_cpu) = played?;
    let mut delays_ns = std::mem::take(&mut *shared.delays_ns.lock().unwrap_or_else(PoisonError::into_inner));
    delays_ns.sort_unstable();
    let disorders = shared.chat_disorders.load(Ordering::Relaxed);
    if disorders > 0 {
        return Err(format!("{disorders} lines of chat were out of order").into());
    }
    Ok(Score {
        sent: shared.sent.load(Ordering::Relaxed),
        delays_ns,
        chat_lines: shared.chat_lines.load(Ordering::Relaxed),
        network,
        cpu: [server_cpu?, bots_cpu],
    })
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn transport(profile: Profile) -> Transport {
    Transport::default().with_profile(profile).with_expert(|expert| expert.with_rto_initial(RTO_INITIAL))
}

/// Returns `reading` at the beginning and at the end of the measured window, once the last messages have had their time to arrive.
async fn measured<T>(shared: &Shared, reading: impl Fn() -> Option<T>) -> Option<[T; 2]> {
    let (from, to) = loop {
        match shared.window.get() {
            Some(window) => break *window,
            None => sleep(Duration::from_millis(5)).await,
        }
    };
    sleep(from.saturating_duration_since(now())).await;
    let before = reading();
    sleep(to.saturating_duration_since(now())).await;
    let after = reading();
    sleep(DRAIN).await;
    Some([before?, after?])
}

/// The server: accepts the bots, sends the state and forwards chat until the end.
async fn serve(listener: Listener, shared: Arc<Shared>) {
    let players: Arc<Mutex<HashMap<u32, Association>>> = Arc::default();
    let accepted = players.clone();
    let reads = shared.clone();
    tokio::spawn(async move {
        while let Some(association) = listener.accept().await {
            tokio::spawn(attend(association, accepted.clone(), reads.clone()));
        }
    });
    let mut ticks = ticks();
    while !shared.is_over(now()) {
        ticks.tick().await;
        let players: Vec<(u32, Association)> = lock(&players).iter().map(|(bot, to)| (*bot, to.clone())).collect();
        for (bot, association) in players {
            // A bot whose send buffer is full, or that has gone, misses a state.
            let _ = association.try_send(shared.state(bot));
        }
    }
}

/// Takes a bot's moves and passes its chat on; its first message says which bot it is.
async fn attend(association: Association, players: Arc<Mutex<HashMap<u32, Association>>>, shared: Arc<Shared>) {
    while let Ok(Some(message)) = association.recv().await {
        let Some((sent_at, bot, _)) = header(&message) else { continue };
        lock(&players).entry(bot).or_insert_with(|| association.clone());
        if message.stream().0 == STATE_STREAM {
            shared.came(sent_at);
            continue;
        }
        let team: Vec<Association> = {
            let players = lock(&players);
            let members = players.iter().filter(|(other, _)| **other != bot && **other / TEAM == bot / TEAM);
            members.map(|(_, association)| association.clone()).collect()
        };
        for member in team {
            let _ = member.try_send(Message::new(message.payload().clone()).on_stream(CHAT_STREAM));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The network's counters in the measured window, and the CPU time of the bots.
type Played = ([ProxyCounters; 2], Option<Duration>);

/// Connects all bots through the network and lets them play.
fn host_bots(
    settings: &Settings,
    profile: Profile,
    server: SocketAddr,
    shared: &Arc<Shared>,
) -> Result<Played, Failure> {
    let loss = if settings.loss > Probability::ZERO { LossModel::Independent(settings.loss) } else { LossModel::None };
    let link = LinkConfig { delay: RTT / 2, loss, ..LinkConfig::default() };
    let proxy = UdpProxy::bind(LOOPBACK, server, link.clone(), link, SEED)?.spawn()?;
    let (bots, duration, shared) = (settings.bots, settings.duration, shared.clone());
    // A thread of their own, so that their CPU time is counted from nothing else.
    let hosting = thread::spawn(move || -> Result<Played, Failure> {
        runtime()?.block_on(async {
            let config = ClientConfig::plain().with_transport(transport(profile));
            let client = Endpoint::client(LOOPBACK, config).await?;
            let associations = connect(&client, proxy.local_addr(), bots).await?;
            for (bot, association) in (0..).zip(associations) {
                tokio::spawn(play_as(bot, association.clone(), shared.clone()));
                tokio::spawn(watch(association, shared.clone()));
            }
            let from = now() + WARM_UP;
            shared.window.set((from, from + duration)).map_err(|_| "the time that counts is set twice")?;
            let readings = || Some((proxy.counters(), cpu_time()));
            let [(before, cpu_before), (after, cpu_after)] =
                measured(&shared, readings).await.ok_or("nothing was measured")?;
            stop(proxy)?;
            let cpu = cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
            Ok(([before, after], cpu))
        })
    });
    hosting.join().map_err(|_| "the bots panicked")?
}

fn stop(proxy: RunningProxy) -> Result<(), Failure> {
    proxy.stop().map(|_| ()).map_err(|error| format!("the emulated network failed: {error}").into())
}

async fn connect(client: &Endpoint, server: SocketAddr, bots: u32) -> Result<Vec<Association>, Failure> {
    let mut connecting = JoinSet::new();
    for bot in 0..bots {
        let client = client.clone();
        connecting.spawn(async move {
            // Not all at once.
            sleep(Duration::from_millis(2) * bot).await;
            let connected = timeout(HANDSHAKE_MAX, client.connect(server)).await;
            connected.map_err(|_| format!("bot {bot} could not connect within {} s", HANDSHAKE_MAX.as_secs()).into())
        });
    }
    let mut associations = Vec::new();
    while let Some(connected) = connecting.join_next().await {
        let connected: Result<_, Failure> = connected?;
        associations.push(connected??);
    }
    Ok(associations)
}

/// A bot's moves and its chat, each bot at other times.
async fn play_as(bot: u32, association: Association, shared: Arc<Shared>) {
    sleep(TICK * (bot % 100) / 100).await;
    let mut ticks = ticks();
    let mut next_line = now() + CHAT_PAUSE * (bot % 30) / 30;
    let mut lines = 0;
    loop {
        ticks.tick().await;
        let at = now();
        if shared.is_over(at) || association.send(shared.state(bot)).await.is_err() {
            return;
        }
        if at >= next_line {
            let line = message(at, bot, lines, CHAT_BYTES).on_stream(CHAT_STREAM);
            if association.send(line).await.is_err() {
                return;
            }
            lines += 1;
            next_line += CHAT_PAUSE;
        }
    }
}

/// The receiving side of a bot: the state, and the chat of its team.
async fn watch(association: Association, shared: Arc<Shared>) {
    let mut next_lines: HashMap<u32, u32> = HashMap::new();
    while let Ok(Some(message)) = association.recv().await {
        let Some((sent_at, bot, number)) = header(&message) else { continue };
        if message.stream().0 == STATE_STREAM {
            shared.came(sent_at);
            continue;
        }
        shared.chat_lines.fetch_add(1, Ordering::Relaxed);
        // Lines sent before the server knew this bot were not forwarded to it.
        let next = next_lines.insert(bot, number + 1);
        if next.is_some_and(|next| next > number) {
            shared.chat_disorders.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// CPU time of this thread, where the system reports it in nanoseconds.
fn cpu_time() -> Option<Duration> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    line.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The result of a game.
struct Score {
    /// State and moves.
    sent: u64,
    /// Sorted.
    delays_ns: Vec<u64>,
    chat_lines: u64,
    /// Before and after.
    network: [ProxyCounters; 2],
    /// Of the server and of all bots.
    cpu: [Option<Duration>; 2],
}

const HEADINGS: &str = concat!(
    "                           -- both ends --  --- state, moves ---  --- CPU time ---\n",
    "profile           messages  packets     MB   p50    p99  p99.9     server    bots"
);

impl Score {
    /// Packets and bytes of both ends.
    fn cost(&self) -> [u64; 2] {
        let [before, after] = &self.network;
        let of = |counters: &ProxyCounters| {
            let ends = [counters.forward, counters.backward];
            [ends.iter().map(|end| end.offered).sum(), ends.iter().map(|end| end.offered_bytes.bytes()).sum::<u64>()]
        };
        let (before, after): ([u64; 2], [u64; 2]) = (of(before), of(after));
        [after[0] - before[0], after[1] - before[1]]
    }

    /// The delay that `per_mille` of a thousand do not exceed.
    fn quantile(&self, per_mille: usize) -> Option<Duration> {
        let index = (self.delays_ns.len() * per_mille).div_ceil(1_000).saturating_sub(1);
        self.delays_ns.get(index).copied().map(Duration::from_nanos)
    }

    #[expect(clippy::cast_precision_loss, reason = "a report")]
    fn line(&self, profile: Profile) -> String {
        let [packets, bytes] = self.cost();
        let ms = |per_mille| {
            self.quantile(per_mille).map_or("-".to_owned(), |delay| format!("{:.1}", delay.as_secs_f64() * 1e3))
        };
        let [server, bots] =
            self.cpu.map(|cpu| cpu.map_or("-".to_owned(), |cpu| format!("{:.2} s", cpu.as_secs_f64())));
        let name = profile.name();
        let arrived = self.delays_ns.len() as u64;
        let missing = if arrived < self.sent {
            format!("; {} messages did not come", self.sent - arrived)
        } else {
            String::new()
        };
        format!(
            "{name:<16} {:>9} {packets:>8} {:>6.1} {:>5} {:>6} {:>6} {server:>10} {bots:>7}\n  {} lines of chat, all in order{missing}",
            self.sent,
            bytes as f64 / 1e6,
            ms(500),
            ms(990),
            ms(999),
            self.chat_lines,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Settings::parse(&arguments)
    }

    #[test]
    fn without_arguments_two_hundred_bots_play_with_two_profiles() {
        let settings = parse("").unwrap();
        assert_eq!((settings.bots, settings.duration), (200, Duration::from_secs(10)));
        assert_eq!(settings.profiles, [Profile::Festina, Profile::Rack]);
        let settings = parse("--bots 3 --loss 0.5% --profile rfc9260 --seconds 1").unwrap();
        assert_eq!((settings.bots, settings.profiles), (3, vec![Profile::Rfc9260]));
    }

    #[test]
    fn senseless_arguments_are_refused_with_what_was_expected() {
        for (line, expected) in [
            ("--bots", "--bots wants a value"),
            ("--bots 0", "--bots wants a whole number from 1 to 1000, not 0"),
            ("--seconds x", "--seconds wants a whole number from 1 to 3600, not x"),
            ("--loss 50%", "--loss is below 50%, not 50%"),
            ("--profile quic", "--profile quic is unknown; expected rfc9260, "),
            ("--profile rack --profile rack", "--profile rack is there twice"),
            ("--players 3", "--players is unknown; expected --bots, "),
        ] {
            let problem = parse(line).unwrap_err();
            assert!(problem.starts_with(expected), "{line}: {problem}");
        }
        assert!(parse("--loss much").unwrap_err().starts_with("--loss: "));
    }

    #[test]
    fn a_game_of_few_bots_costs_packets_and_every_state_comes_no_earlier_than_the_network_lets_it() {
        let settings = parse("--bots 4 --seconds 1 --loss 2%").unwrap();
        for profile in &settings.profiles {
            let score = play(&settings, *profile).unwrap();
            assert!(score.sent > 0 && score.chat_lines > 0, "{profile}: {} and {}", score.sent, score.chat_lines);
            let arrived = score.delays_ns.len() as u64;
            assert!(arrived <= score.sent && arrived * 10 >= score.sent * 9, "{profile}: {arrived} of {}", score.sent);
            assert!(score.quantile(1) >= Some(RTT / 2), "{profile}");
            let [packets, bytes] = score.cost();
            // Messages that a busy machine writes late may share a packet.
            assert!(packets >= score.sent / 2, "{profile}: {packets} for {}", score.sent);
            assert!(bytes >= packets * HEADER_BYTES as u64, "{profile}: {bytes}");
            assert!(score.line(*profile).starts_with(profile.name()));
        }
    }
}
