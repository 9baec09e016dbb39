//! File descriptors: a program's own files come first, connections get the rest.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::spool::FILES_MAX;

/// Descriptors for sockets towards collectors, the runtime, counters and everything else that is few.
const OTHERS: u64 = 64;

/// Descriptors of one input of files.
const PER_FILE_INPUT: u64 = 20;

/// TCP connections, at most.
const CONNECTIONS_MAX: u64 = 4_096;

/// Raises the process's soft limit of open descriptors to the hard one. Returns the limit that holds now.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        return maximum.unwrap_or(u64::MAX);
    }
    current.unwrap_or(u64::MAX)
}

/// Number of TCP connections that leaves enough descriptors for everything else: a quarter of the limit if it is very low.
pub(crate) fn connections_max(limit: u64, inputs: usize, file_inputs: usize) -> usize {
    let own = FILES_MAX as u64 + OTHERS + 2 * inputs as u64 + PER_FILE_INPUT * file_inputs as u64;
    let left = limit.saturating_sub(own).max(limit / 4).clamp(1, CONNECTIONS_MAX);
    usize::try_from(left).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_spool() {
        let left = |limit, files| limit - connections_max(limit, 2, files) as u64;
        assert!(left(1_024, 0) >= FILES_MAX as u64 + OTHERS, "{}", left(1_024, 0));
        assert!(left(1_024, 4) >= FILES_MAX as u64 + OTHERS + 80);
        assert_eq!(connections_max(u64::MAX, 1, 0), 4_096);
        assert_eq!(connections_max(64, 1, 0), 16);
    }
}
