//! `--keys`: the secrets of encrypted associations.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_secure::reading::{KeyLog, Suites};
use festina_trace::{Analyser, AnalyserOptions, Decryption};

/// Bytes of a key log that are read: those of half a million secrets.
const KEY_LOG_BYTES_MAX: u64 = 1 << 26;

static SUITES: LazyLock<Suites> = LazyLock::new(|| {
    Suites::of(&rustls::crypto::ring::default_provider()).expect("the provider has the suite of Initial packets")
});

/// Secrets besides those that a capture holds.
#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    /// Decrypt associations with the secrets of this key log, in the format of SSLKEYLOGFILE. Secrets in the capture are used without it
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

impl KeysArgs {
    /// Reads the key log, if there is one.
    pub(super) fn read(&self) -> Result<Keys> {
        let mut keys = KeyLog::default();
        if let Some(path) = &self.keys {
            let mut text = Vec::new();
            let read = File::open(path).and_then(|file| file.take(KEY_LOG_BYTES_MAX + 1).read_to_end(&mut text));
            read.with_context(|| format!("cannot read {}", path.display()))?;
            let is_whole = text.len() as u64 <= KEY_LOG_BYTES_MAX;
            anyhow::ensure!(is_whole, "{} is longer than {} MiB", path.display(), KEY_LOG_BYTES_MAX >> 20);
            keys.add(&text);
            anyhow::ensure!(!keys.is_empty(), "{} holds no secret of an association", path.display());
        }
        Ok(Keys(Decryption { suites: &SUITES, keys }))
    }
}

/// How encrypted associations are read.
pub(super) struct Keys(pub(super) Decryption);

impl Keys {
    /// An analyser of a capture.
    pub(super) fn analyser(&self, options: AnalyserOptions) -> Analyser {
        Analyser::new(options).with_decryption(self.0.clone())
    }
}
