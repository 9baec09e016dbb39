//! Addresses of both sides that come and go.

use std::sync::Arc;

use festina_sctp::{Context, PathId};
use festina_units::Instant;
use rustls::Side;

use super::SecureAssociation;

impl SecureAssociation {
    /// The endpoint has the addresses of another context now, in place of those of `before`: this side names them to the peer, until that acknowledges
    /// it.
    pub fn use_addresses(&mut self, now: Instant, (before, after): (&Arc<Context>, &Arc<Context>)) {
        self.context = Arc::clone(after);
        (self.ends.local, self.ends.sent_from) = (None, None);
        let Some(core) = self.core.as_mut().filter(|core| !core.is_closed()) else { return };
        core.use_addresses(before, after);
        let list = after.address_list(core.remote().ip());
        if !list.is_empty() {
            let may_leave = self.is_adopted && (self.is_confirmed || self.channel.side() == Side::Server);
            self.channel.send_list(if may_leave { now } else { Instant::MAX }, list);
        }
        if self.is_adopted {
            self.look_for_several_paths();
        }
    }

    /// The peer may have named its addresses again.
    pub(super) fn follow_names(&mut self, now: Instant) {
        let Some(core) = self.core.as_mut().filter(|_| self.is_adopted) else { return };
        if let Some(list) = self.channel.take_list() {
            core.name_addresses(now, &list);
            // Candidates may be addresses of paths of their own now.
            if let Some(moves) = &mut self.moves {
                moves.end();
            }
            self.look_for_several_paths();
        }
    }

    /// The path by which leaves what belongs to none.
    pub(super) fn usual_path(&self) -> PathId {
        self.core.as_ref().map_or(PathId::PRIMARY, |core| core.usual_path())
    }
}
