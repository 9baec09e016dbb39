//! Settings of one association that may change while it lasts.

use festina_units::Instant;

use super::Association;
use super::state::State;
use crate::config::{Config, ConfigError};

impl Association {
    /// Applies some settings of `config` to this association alone, from now on: `mechanisms`, `timers`, `retries`, `peer_timeout`, and the delay and
    /// number of packets in `sack`. All others are fixed when an association begins, and are ignored. A timer that runs is not changed.
    ///
    /// # Errors
    /// A setting is out of range. Nothing has changed.
    pub fn set_timing(&mut self, now: Instant, config: &Config) -> Result<(), ConfigError> {
        self.context = self.context.with_timing(config)?;
        if *self.mechanisms() != config.mechanisms {
            self.set_mechanisms(now, config.mechanisms);
        }
        let is_open = matches!(self.state, State::Established);
        for path in self.paths.iter_mut() {
            path.sending.set_rto_max(config.timers.rto_max);
            if is_open {
                let pause = path.heartbeat_pause(now, &self.context, self.tags.local);
                path.set_heartbeat_pause(now, pause);
            }
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.set_sack_policy(&config.sack);
        }
        Ok(())
    }
}
