//! Many associations on one endpoint, each with little to send. The two ends run in two processes.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use festina::{Admission, Association, ConnectOptions, Endpoint, Message, ServerConfig};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::channel::Failure;
use crate::clocks::Reading;

/// Bytes of a message. The first eight say when it was sent.
const MESSAGE_BYTES: usize = 100;

/// SCTP ports listened on, from this one.
const FIRST_PORT: u16 = 5_000;

/// Associations with one of them; the other side has 32,768 ports to connect from.
const PER_PORT: usize = 30_000;

/// Handshakes at the same time.
const HANDSHAKES: usize = 32;

/// Associations take turns in sending; this many turns make a second.
const TURNS_PER_SECOND: u32 = 1_000;

/// How long a message may take to arrive before it counts as lost.
const DELIVERY_MAX: Duration = Duration::from_secs(30);

fn port(number: usize) -> Result<u16, Failure> {
    Ok(FIRST_PORT + u16::try_from(number / PER_PORT)?)
}

fn config(associations: usize) -> ServerConfig {
    let admission = Admission::default()
        .with_associations_max(associations + 1)
        .with_associations_per_address_max(associations + 1);
    ServerConfig::plain().with_admission(admission)
}

/// The listening process, which answers one line for each command.
struct Listening {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Listening {
    fn start(associations: usize) -> Result<Self, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--work", LISTEN, "--associations", &associations.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(process.stdout.take().ok_or("no standard output")?);
        Ok(Self { process, commands, answers })
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn ask(&mut self, command: &str) -> Result<String, Failure> {
        writeln!(self.commands, "{command}")?;
        self.answer()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The argument of `--work` for the listening process.
pub(crate) const LISTEN: &str = "crowd-listen";

/// Connects as many associations, has each send a message per second for this long, and prints what became of them.
pub(crate) async fn crowd(associations: usize, duration: Duration) -> Result<(), Failure> {
    let mut listening = Listening::start(associations)?;
    let remote: SocketAddr = listening.answer()?.parse()?;
    let endpoint = Endpoint::server("127.0.0.1:0".parse()?, config(associations)).await?;
    let (empty_bytes, begun) = (resident_bytes()?, Reading::now());
    let ends = connect(&endpoint, remote, associations).await?;
    println!("{associations} associations set up in {:.1} s", begun.wall().as_secs_f64());

    listening.ask("begin")?;
    let begun = Reading::now();
    let sent = send(&ends, duration).await?;
    let (wall, cpu, bytes) = (begun.wall(), begun.cpu(), resident_bytes()?);
    let delivery = async {
        for end in &ends {
            end.drained().await?;
        }
        Ok::<_, Failure>(())
    };
    timeout(DELIVERY_MAX, delivery).await.map_err(|_| "not everything was acknowledged")??;
    println!("{sent} messages of {MESSAGE_BYTES} bytes in {:.1} s", wall.as_secs_f64());
    println!("  sending end:   CPU {}, memory {}", share(cpu, wall), per_association(bytes, empty_bytes, associations));
    println!("  receiving end: {}", listening.ask("report")?);
    let stats: Vec<_> = ends.iter().map(|end| end.stats().sent).collect();
    let (lost, timeouts) = stats.iter().fold((0, 0), |sum, sent| (sum.0 + sent.chunks_lost, sum.1 + sent.timeouts));
    println!("  {lost} chunks counted as lost, {timeouts} timeouts");
    Ok(())
}

async fn connect(endpoint: &Endpoint, remote: SocketAddr, associations: usize) -> Result<Vec<Association>, Failure> {
    let mut tasks = JoinSet::new();
    for task in 0..HANDSHAKES {
        let endpoint = endpoint.clone();
        tasks.spawn(async move {
            let mut ends = Vec::new();
            for number in (task..associations).step_by(HANDSHAKES) {
                let options =
                    ConnectOptions::default().peer_port(port(number)?).handshake_timeout(Duration::from_secs(60));
                ends.push(endpoint.connect_with(remote, options).await?);
            }
            Ok::<_, Failure>(ends)
        });
    }
    let mut ends = Vec::with_capacity(associations);
    while let Some(connected) = tasks.join_next().await {
        ends.extend(connected??);
    }
    Ok(ends)
}

/// Has each association send a message per second. Returns how many were sent.
async fn send(ends: &[Association], duration: Duration) -> Result<u64, Failure> {
    let begun = Reading::now();
    let (mut sent, mut turns) = (0, interval(Duration::from_secs(1) / TURNS_PER_SECOND));
    turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let per_turn = ends.len().div_ceil(TURNS_PER_SECOND.try_into()?).max(1);
    'running: loop {
        for group in ends.chunks(per_turn) {
            turns.tick().await;
            if begun.wall() >= duration {
                break 'running;
            }
            for end in group {
                let mut message = vec![0; MESSAGE_BYTES];
                message[..8].copy_from_slice(&now_ns()?.to_le_bytes());
                end.send(Message::new(message)).await?;
                sent += 1;
            }
        }
    }
    Ok(sent)
}

/// The messages that have arrived.
struct Arrived {
    /// In nanoseconds.
    delays: Histogram<u64>,
}

/// The listening process: accepts, counts, and answers commands from standard input until that ends.
pub(crate) async fn listen(associations: usize) -> Result<(), Failure> {
    let endpoint = Endpoint::server("127.0.0.1:0".parse()?, config(associations)).await?;
    let arrived = Arc::new(Mutex::new(Arrived { delays: Histogram::new(3)? }));
    for number in (0..associations).step_by(PER_PORT) {
        let (listener, arrived) = (endpoint.listen(port(number)?)?, arrived.clone());
        tokio::spawn(async move {
            while let Some(association) = listener.accept().await {
                tokio::spawn(receive(association, arrived.clone()));
            }
        });
    }
    let empty_bytes = resident_bytes()?;
    println!("{}", endpoint.local_addr());
    let (answered, mut commands) = tokio::sync::mpsc::channel::<()>(1);
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            if answered.blocking_send(()).is_err() {
                break;
            }
        }
    });
    let mut begun = None;
    while commands.recv().await.is_some() {
        let Some(begun) = begun.replace(Reading::now()) else {
            println!("begun");
            continue;
        };
        let (wall, cpu, bytes) = (begun.wall(), begun.cpu(), resident_bytes()?);
        let delays = arrived.lock().unwrap_or_else(PoisonError::into_inner).delays.clone();
        let [p50, p99, p999] =
            [0.5, 0.99, 0.999].map(|quantile| Duration::from_nanos(delays.value_at_quantile(quantile)));
        println!(
            "CPU {}, memory {}; {} arrived after {p50:?} (p50), {p99:?} (p99), {p999:?} (p99.9), {:?} at most",
            share(cpu, wall),
            per_association(bytes, empty_bytes, associations),
            delays.len(),
            Duration::from_nanos(delays.max()),
        );
    }
    Ok(())
}

async fn receive(association: Association, arrived: Arc<Mutex<Arrived>>) {
    while let Ok(Some(message)) = association.recv().await {
        if let (Some(sent_at), Ok(now)) = (sent_at(message.payload()), now_ns()) {
            // A delay of more than the histogram holds would be hours.
            let _ = arrived.lock().unwrap_or_else(PoisonError::into_inner).delays.record(now.saturating_sub(sent_at));
        }
    }
}

fn sent_at(payload: &Bytes) -> Option<u64> {
    payload.first_chunk().copied().map(u64::from_le_bytes)
}

/// The clock that all processes of the machine share.
fn now_ns() -> Result<u64, Failure> {
    Ok(Reading::now().since_boot().as_nanos().try_into()?)
}

/// Memory of this process that lies in the machine's.
fn resident_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("the system does not tell")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).ok_or("the system does not tell")?.parse()?;
    Ok(kilobytes * 1_024)
}

fn per_association(bytes: u64, empty_bytes: u64, associations: usize) -> String {
    let each = bytes.saturating_sub(empty_bytes) / associations.max(1) as u64;
    format!("{each} bytes an association ({} MB in all)", bytes / 1_000_000)
}

fn share(cpu: Duration, wall: Duration) -> String {
    format!("{:.0}% of a core", cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9) * 100.0)
}
