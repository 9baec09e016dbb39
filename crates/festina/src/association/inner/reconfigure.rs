//! Wishes for other streams (RFC 6525).

use std::sync::Arc;

use festina_sctp::{Association, ReconfigureError};
use festina_units::Instant;

use super::Inner;

impl Inner {
    /// Has the core do what `wish` says, and sends the request.
    pub(crate) fn reconfigure(
        self: &Arc<Self>,
        wish: impl FnOnce(&mut Association, Instant) -> Result<(), ReconfigureError>,
    ) -> Result<(), ReconfigureError> {
        self.change(|state, now| wish(&mut state.core, now))
    }
}
