//! Whether a server is ready, by the kernel's tables of sockets.

use std::fs;

use crate::tun::Namespace;

/// The state of a TCP socket that listens, as `/proc/net/tcp` writes it.
const TCP_LISTENS: &str = "0A";

/// Returns whether a TCP socket listens in the namespace, or a UDP socket is bound there. Sockets of other protocols
/// are not considered.
pub(super) fn somebody_listens(namespace: &Namespace) -> bool {
    namespace
        .run(|| {
            let table =
                |protocol: &str| fs::read_to_string(format!("/proc/thread-self/net/{protocol}")).unwrap_or_default();
            ["tcp", "tcp6"].map(table).iter().any(|table| has_socket(table, |state| state == TCP_LISTENS))
                || ["udp", "udp6"].map(table).iter().any(|table| has_socket(table, |_| true))
        })
        .unwrap_or(false)
}

/// Returns whether a socket of a table, whose first line is its heading, is in such a state.
fn has_socket(table: &str, state: impl Fn(&str) -> bool) -> bool {
    // The number, the local address, the remote address, the state.
    table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)).any(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";

    #[test]
    fn a_listening_socket_is_told_from_others_and_from_the_heading() {
        let listening = "   0: 0200004D0A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n";
        let connected = "   1: 0200004D0A:1F90 0100004D0A:C350 01 00000000:00000000 00:00000000 00000000     0\n";
        let listens = |table: &str| has_socket(table, |state| state == TCP_LISTENS);
        assert!(listens(&format!("{HEADING}{connected}{listening}")));
        assert!(!listens(&format!("{HEADING}{connected}")));
        assert!(!has_socket(HEADING, |_| true));
        assert!(!has_socket("", |_| true));
    }
}
