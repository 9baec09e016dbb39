//! The hosts of the simulator: associations, TCP and UDP over simulated paths.

mod companion;
mod delivery;
mod own_controller;
mod tail;
mod tcp_and_udp;
mod thin_stream;
