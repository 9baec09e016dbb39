//! `festina tcp-watch`: how long data waits in the kernel's send buffers now.

use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use festina_minbuf::{ObservedSocket, sockets_of_process, tcp_sockets};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::{args, output, signal};

const EXAMPLES: &str = "\
Examples:
  festina tcp-watch                         every connection of this machine, once a second
  festina tcp-watch --port 443              those with this port at either end
  festina tcp-watch --pid 4711 --count 1    those of a process, once
  festina tcp-watch --port 443 --json       a line of JSON each time

WAITS is the sender's share of the latency: how long the data written last still has to wait in the send buffer at the present \
rate, before the network has it. Sockets of the present network namespace; other users' processes need root's privileges \
for --pid alone.";

/// Arguments of `festina tcp-watch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TcpWatchArgs {
    /// Only connections with this port at either end
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only connections of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Time from one look to the next
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = args::positive_duration)]
    interval: Duration,
    /// End after this many looks instead of on Ctrl-C
    #[arg(short, long, value_name = "NUMBER", value_parser = args::positive_number)]
    count: Option<u64>,
    /// A line of JSON for each look
    #[arg(long)]
    json: bool,
}

/// Looks until interrupted, or as often as was asked for.
pub(crate) async fn run(arguments: TcpWatchArgs) -> Result<()> {
    let mut ticks = interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut interruption = pin!(signal::interruption());
    let mut looks = 0;
    while arguments.count.is_none_or(|count| looks < count) {
        let look = async {
            ticks.tick().await;
            let sockets = arguments.look()?;
            output::print_in_turn(if arguments.json { json_line(&sockets) } else { table(&sockets) }).await
        };
        tokio::select! {
            () = &mut interruption => return Ok(()),
            looked = look => looked?,
        }
        looks += 1;
    }
    Ok(())
}

impl TcpWatchArgs {
    /// The connections that are asked for, those that wait longest first.
    fn look(&self) -> Result<Vec<ObservedSocket>> {
        let of_process: Option<BTreeSet<u64>> = match self.pid {
            Some(pid) => {
                let found = sockets_of_process(pid).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => anyhow!("there is no process {pid}"),
                    _ => anyhow!(error).context(format!("cannot see the files of process {pid}")),
                });
                Some(found?)
            }
            None => None,
        };
        let mut sockets = tcp_sockets().context("cannot list the TCP sockets")?;
        sockets.retain(|socket| {
            let has_port = |port| socket.local.port() == port || socket.peer.port() == port;
            self.port.is_none_or(has_port) && of_process.as_ref().is_none_or(|own| own.contains(&socket.inode))
        });
        sockets.sort_by_key(|socket| std::cmp::Reverse((socket.info.waiting_time(), socket.info.notsent_bytes)));
        Ok(sockets)
    }
}

fn table(sockets: &[ObservedSocket]) -> String {
    let mut text = format!(
        "{:<24} {:<24} {:>10} {:>9} {:>9} {:>6} {:>9} {:>11} {:>7}",
        "LOCAL", "PEER", "WAITS ms", "UNSENT B", "IN FLIGHT", "CWND", "RTT ms", "RATE Mbit/s", "RETRANS"
    );
    for ObservedSocket { local, peer, info, .. } in sockets {
        let rate = info.sending_bytes_per_second().map_or_else(unknown, |rate| {
            let kilobits = rate.saturating_mul(8) / 1_000;
            format!("{}.{:03}", kilobits / 1_000, kilobits % 1_000)
        });
        text += &format!(
            "\n{:<24} {:<24} {:>10} {:>9} {:>9} {:>6} {:>9} {rate:>11} {:>7}",
            local.to_string(),
            peer.to_string(),
            info.waiting_time().map_or_else(unknown, milliseconds),
            info.notsent_bytes,
            info.unacked_packets,
            info.cwnd_packets,
            info.rtt().map_or_else(unknown, milliseconds),
            info.retransmissions,
        );
    }
    if sockets.is_empty() {
        text += "\nno such connection";
    }
    text
}

fn unknown() -> String {
    "?".to_owned()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

fn json_line(sockets: &[ObservedSocket]) -> String {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let rows: Vec<serde_json::Value> = sockets
        .iter()
        .map(|ObservedSocket { local, peer, inode, info }| {
            json!({
                "local": local.to_string(),
                "peer": peer.to_string(),
                "inode": inode,
                "waits_s": seconds(info.waiting_time()),
                "unsent_bytes": info.notsent_bytes,
                "in_flight_packets": info.unacked_packets,
                "sacked_packets": info.sacked_packets,
                "lost_packets": info.lost_packets,
                "cwnd_packets": info.cwnd_packets,
                "mss_bytes": info.mss_bytes,
                "rtt_s": seconds(info.rtt()),
                "rate_bytes_per_second": info.sending_bytes_per_second(),
                "retransmissions": info.retransmissions,
            })
        })
        .collect();
    json!({ "sockets": rows }).to_string()
}

#[cfg(test)]
mod tests {
    use festina_minbuf::TcpInfo;

    use super::*;

    fn socket() -> ObservedSocket {
        let info = TcpInfo {
            mss_bytes: 1000,
            cwnd_packets: 10,
            notsent_bytes: 25_000,
            srtt: Duration::from_millis(100),
            pacing_bytes_per_second: u64::MAX,
            ..TcpInfo::default()
        };
        let (local, peer) = (([127, 0, 0, 1], 80).into(), ([127, 0, 0, 1], 81).into());
        ObservedSocket { local, peer, inode: 7, info }
    }

    #[test]
    fn the_senders_share_is_what_is_unsent_over_the_rate() {
        let text = table(&[socket()]);
        let row = text.lines().nth(1).expect("a row").split_whitespace().collect::<Vec<_>>();
        assert_eq!(row, ["127.0.0.1:80", "127.0.0.1:81", "250.0", "25000", "0", "10", "100.0", "0.800", "0"]);
        let json: serde_json::Value = serde_json::from_str(&json_line(&[socket()])).expect("JSON");
        assert_eq!(json["sockets"][0]["waits_s"], 0.25);
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let fresh = ObservedSocket { info: TcpInfo { srtt: Duration::ZERO, ..socket().info }, ..socket() };
        assert!(table(&[fresh]).contains('?'));
        assert!(json_line(&[fresh]).contains("\"waits_s\":null"));
        assert!(table(&[]).contains("no such connection"));
    }
}
