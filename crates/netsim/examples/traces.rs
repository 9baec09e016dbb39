//! Writes the synthetic traces as files in Mahimahi's format.
//!
//! ```sh
//! cargo run -p festina-netsim --example traces -- experiments/traces
//! ```

use std::path::PathBuf;

use festina_netsim::MadeTrace;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    for made in MadeTrace::ALL {
        let trace = made.trace();
        std::fs::write(folder.join(format!("{}.trace", made.name())), trace.text())?;
        println!("{}: {trace:?}, {} opportunities", made.name(), trace.opportunities_ms().len());
    }
    Ok(())
}
