//! The emulator on real sockets and on TUN devices.

mod tun;
mod udp_proxy;
