//! Conformance to RFC 9260 as a peer sees it: each test names the section whose rule it holds. The table of all rules and
//! their tests is `docs/conformance.tsv`.

pub(crate) mod packet;
pub(crate) mod peer;
mod s3_formats;
mod s5_2_collisions;
mod s5_2_restarts;
mod s5_addresses;
mod s5_handshake;
mod s5_paths;
mod s6_1_transmission;
mod s6_2_acknowledgement;
mod s6_3_timer;
mod s6_4_multihoming;
mod s6_5_delivery;
mod s7_congestion;
mod s8_failure;
mod s8_paths;
mod s8_tags;
mod s9_termination;
