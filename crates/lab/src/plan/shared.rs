//! Files with texts, parameters and assumptions that several experiments share.

/// A file's name and text.
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../experiments/shared/", $name, ".toml")))
    };
}

/// All of them.
pub(super) const FILES: [(&str, &str); 20] = [
    file!("cost"),
    file!("cost-checks"),
    file!("delivered"),
    file!("g02"),
    file!("p06"),
    file!("p10-congested"),
    file!("p10-fig13"),
    file!("p10-greedy"),
    file!("r12"),
    file!("r15-syslog"),
    file!("r15-syslog-congestion"),
    file!("r15-syslog-loss"),
    file!("r15-syslog-own"),
    file!("r15-syslog-trace"),
    file!("readings"),
    file!("thin-stream"),
    file!("two-paths"),
    file!("p10-modifications"),
    file!("p10-tcp"),
    file!("p10-causes"),
];
