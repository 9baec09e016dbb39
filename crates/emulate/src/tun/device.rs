//! Making a TUN device in a namespace.

use std::io;
use std::net::{Ipv6Addr, UdpSocket};
use std::thread::sleep;
use std::time::Duration;

use tun_rs::{DeviceBuilder, SyncDevice};

use super::{TunEnd, TunError};

/// The queue between the kernel and the emulator, in packets. The emulator reads at once, and packets should wait in
/// the link. So this queue is large, in case the emulator does not get CPU time.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;

/// Maximum time until programs can use a new IPv6 address, and the interval of checks.
const ADDRESS_MAX: Duration = Duration::from_secs(5);
const ADDRESS_CHECK: Duration = Duration::from_millis(1);

/// Creates the device, gives it its address, and sets it up.
pub(super) fn create(end: &TunEnd, mtu_bytes: u16) -> Result<SyncDevice, TunError> {
    let name = &end.device;
    let create = || {
        let device = DeviceBuilder::new()
            .name(name)
            .mtu(mtu_bytes)
            .ipv4(end.address, end.prefix_bits, None)
            .enable(false)
            .build_sync()?;
        // Only real root may do this; without it bursts are lost earlier, which is no reason not to start.
        let _ = device.set_tx_queue_len(DEVICE_QUEUE_PACKETS);
        match end.ipv6 {
            None => disable_ipv6(name)?,
            Some(_) => silence_ipv6(name)?,
        }
        device.enabled(true)?;
        if let Some((address, prefix_bits)) = end.ipv6 {
            device.add_address_v6(address, prefix_bits)?;
            wait_for(address)?;
        }
        device.set_nonblocking(true)?;
        Ok(device)
    };
    let created = match &end.namespace {
        Some(namespace) => namespace.run(create).unwrap_or_else(Err),
        None => create(),
    };
    created.map_err(|source| TunError::of(name, source))
}

/// Disables IPv6 on a device that carries IPv4 only: packets that IPv6 sends by itself would shift the lists of packets
/// to lose.
fn disable_ipv6(device: &str) -> io::Result<()> {
    match set(device, "disable_ipv6", "1") {
        // A system without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Keeps a device with IPv6 from giving itself a link-local address, without which it solicits no routers.
fn silence_ipv6(device: &str) -> io::Result<()> {
    const NONE: &str = "1";
    set(device, "addr_gen_mode", NONE)
}

/// Waits until programs may use the address: the kernel looks for duplicates first, though there can be none.
fn wait_for(address: Ipv6Addr) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match UdpSocket::bind((address, 0)) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && waited < ADDRESS_MAX => {
                sleep(ADDRESS_CHECK);
                waited += ADDRESS_CHECK;
            }
            outcome => return outcome.map(|_| ()),
        }
    }
}

/// Sets a parameter of the kernel's IPv6 for the device.
fn set(device: &str, parameter: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{parameter}"), value)
}
