//! `festina key`: the fingerprint of a key, and the peers that are known.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use festina::security::Fingerprint;

use crate::address::{self, HostPort};
use crate::{keys, output};

const EXAMPLES: &str = "\
Examples:
  festina key                            the fingerprint of this user's key, which is created at its first use
  festina key --of server.pem            that of the first certificate in a PEM file
  festina key --forget 192.0.2.7:9899    accept another key of this peer at the next connection

The key and the known peers are in $XDG_CONFIG_HOME/festina, by default ~/.config/festina: identity.pem and known_peers. To \
replace the key, remove identity.pem.";

/// Arguments of `festina key`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KeyArgs {
    /// Print the fingerprint of the first certificate in this PEM file
    #[arg(long, value_name = "FILE")]
    of: Option<PathBuf>,
    /// Forget the key of this peer: HOST, HOST:PORT or [IPV6]:PORT, as it was written to connect
    #[arg(long, value_name = "HOST:PORT", value_parser = address::peer, conflicts_with = "of")]
    forget: Option<HostPort>,
}

/// Prints a fingerprint, or forgets a peer.
pub(crate) fn run(arguments: &KeyArgs) -> Result<()> {
    if let Some(peer) = &arguments.forget {
        let peers = keys::known_peers()?;
        if !peers.forget(&peer.to_string())? {
            bail!("{peer} is not in {}", peers.path().display());
        }
        output::notice(&format!("{peer} is forgotten"));
        return Ok(());
    }
    let fingerprint = match &arguments.of {
        Some(path) => Fingerprint::of_file(path)?,
        None => keys::own_identity()?.fingerprint(),
    };
    output::print(&format!("sha256:{fingerprint}"))
}
