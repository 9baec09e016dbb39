//! The run time of the experiment `scenario` for TCP flows on a dumbbell, compared with ns-3 on the same machine at the same time.
//!
//! ```sh
//! cargo run --release -p festina-lab --example against_ns3 -- PATH/OF/ns3-dumbbell
//! ```
//!
//! The program for ns-3 takes `--n` flows and `--t` seconds and prints its `wall` time. Both simulate New Reno flows that always have
//! something to send, over 10 Mbit/s with 40 ms and 100 packets, with access links of 1 Gbit/s and 10 us, each flow 100 ms after the one
//! before. They take turns, each several times. The times are those of the clock, without preparations.

use std::process::Command;
use std::time::{Duration, Instant};

use festina_lab::experiment::Experiment as _;
use festina_lab::experiments::Scenario;
use festina_lab::plan::{PlanFile, Scale};

const SECONDS: u32 = 60;
const TURNS: u32 = 5;

fn plan(flows: u32) -> String {
    format!(
        "experiment = \"scenario\"\n\
         [parameters]\ntopology = \"dumbbell\"\nduration = \"{SECONDS}s\"\nwarm_up = \"0s\"\ndrain = \"0s\"\n\
         [links.bottleneck]\nrate = \"10Mbit/s\"\ndelay = \"40ms\"\nqueue = 100\n\
         [links.access]\nrate = \"1Gbit/s\"\ndelay = \"10us\"\n\
         [flows.greedy]\ncount = {flows}\nstack = \"tcp-new-reno\"\nworkload = \"greedy\"\nstagger = \"100ms\"\n"
    )
}

/// Runs the scenario once; the time it took and the goodput in Mbit/s.
#[expect(clippy::disallowed_methods, reason = "it measures wall time")]
fn ours(flows: u32) -> Result<(Duration, f64), Box<dyn std::error::Error>> {
    let plan = PlanFile::parse("plan", &plan(flows))?.plan(&Scenario, Scale::Full)?;
    let points = plan.points();
    let began_at = Instant::now();
    let samples = Scenario.run(&points[0], 1);
    Ok((began_at.elapsed(), samples.values()["greedy: goodput Mbit/s"]))
}

/// Runs ns-3 once. Returns its run time and its output.
fn theirs(program: &str, flows: u32) -> Result<(Duration, String), Box<dyn std::error::Error>> {
    let output = Command::new(program).args([format!("--n={flows}"), format!("--t={SECONDS}")]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let wall =
        text.split_whitespace().skip_while(|word| *word != "wall").nth(1).and_then(|word| word.strip_suffix('s'));
    let seconds: f64 = wall.ok_or("ns-3 did not print its wall time")?.parse()?;
    Ok((Duration::from_secs_f64(seconds), text))
}

/// The one in the middle.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1);
    for flows in [4, 100] {
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let (took, goodput) = ours(flows)?;
            println!("{flows} flows, scenario: {:.1} ms, goodput {goodput:.2} Mbit/s", took.as_secs_f64() * 1e3);
            own.push(took);
            if let Some(program) = &program {
                let (took, text) = theirs(program, flows)?;
                println!("{flows} flows, ns-3: {text}");
                other.push(took);
            }
        }
        let own = median(own);
        print!("{flows} flows, medians: scenario {:.1} ms", own.as_secs_f64() * 1e3);
        if other.is_empty() {
            println!();
        } else {
            let other = median(other);
            println!(
                ", ns-3 {:.1} ms: {:.0} times",
                other.as_secs_f64() * 1e3,
                other.as_secs_f64() / own.as_secs_f64()
            );
        }
    }
    Ok(())
}
