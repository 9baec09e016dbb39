//! Resident memory.

/// Returns the resident memory of a process, now and at most, where the system reports it.
pub(crate) fn resident_bytes(pid: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name| {
        let line = status.lines().find_map(|line: &str| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
    };
    Some((bytes("VmRSS:")?, bytes("VmHWM:")?))
}
