//! `festina emulate tun`: two TUN devices with a bad network between them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_emulate::{MTU_BYTES, Namespace, TunEnd, TunPair};

use super::NetworkArgs;
use super::capture::tun_tap;
use super::report::Report;
use crate::args;
use crate::usage::UsageError;
use crate::{output, signal};

/// What a device must carry at the least (RFC 791).
const MTU_BYTES_MIN: u16 = 68;

const EXAMPLES: &str = "\
Examples:
  ip netns add far                                       a second network on this machine, and then
  festina emulate tun --right far --rate 10Mbit/s --delay 40ms --queue 100p
  ip netns exec far python3 -m http.server               a server behind the bad network,
  curl http://10.77.0.2:8000                             and a client in front of it

  festina emulate tun --left near --right far --delay 50ms --lose 12,14-16   exactly these packets there

Each end is a device with an address in a network namespace. What holds for the way there (from left to right) holds \
for the way back too, unless a flag says otherwise; only --lose is for the way there alone. The devices carry \
IPv4, and IPv6 if both have an address for it. A \
queue that manages itself marks packets that are capable of ECN. On Ctrl-C, or after --time, the devices are \
removed, and the report is printed.";

/// Arguments of `festina emulate tun`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TunArgs {
    /// The network namespace of the left device, made by `ip netns add`; without it, that of this command
    #[arg(long, value_name = "NAME")]
    left: Option<String>,
    /// The network namespace of the right device
    #[arg(long, value_name = "NAME")]
    right: String,
    /// The left device's address, and how many bits of it the network has
    #[arg(long, value_name = "IPV4/BITS", default_value = "10.77.0.1/24")]
    left_address: Address<Ipv4Addr>,
    /// The right device's address
    #[arg(long, value_name = "IPV4/BITS", default_value = "10.77.0.2/24")]
    right_address: Address<Ipv4Addr>,
    /// The left device's IPv6 address; without both of them the devices carry IPv4 only
    #[arg(long, value_name = "IPV6/BITS", requires = "right_ipv6")]
    left_ipv6: Option<Address<Ipv6Addr>>,
    /// The right device's IPv6 address
    #[arg(long, value_name = "IPV6/BITS", requires = "left_ipv6")]
    right_ipv6: Option<Address<Ipv6Addr>>,
    /// The left device's name
    #[arg(long, value_name = "NAME", default_value = "festina0")]
    left_device: String,
    /// The right device's name
    #[arg(long, value_name = "NAME", default_value = "festina1")]
    right_device: String,
    /// The largest packet that the devices take
    #[arg(long, value_name = "SIZE", default_value_t = MTU_BYTES, value_parser = args::size(MTU_BYTES_MIN..=u16::MAX))]
    mtu: u16,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Emulates until interrupted or the time is over, then prints the report.
pub(super) async fn run(arguments: TunArgs) -> Result<()> {
    let links = arguments.network.links()?;
    if arguments.left.as_ref() == Some(&arguments.right) {
        return Err(
            UsageError::new("--left and --right name the same network namespace; traffic would stay inside").into()
        );
    }
    let (left, right) = ends(&arguments)?;
    let capture = arguments.network.capture([&left.device, &right.device])?;
    let mut pair = TunPair::create(&left, &right, arguments.mtu, links, arguments.network.seed)?;
    if let Some(file) = &capture {
        pair = pair.with_tap(tun_tap(file.clone()));
    }
    let pair = pair.spawn().context("cannot start the emulation")?;
    let described = [&left, &right].map(|end| format!("{} ({})", end.address, end.device));
    let interruption = signal::interruption();
    output::notice(&format!("{} and {} are joined", described[0], described[1]));
    arguments.network.wait_for_the_end(&pair, true, interruption).await;
    let counters = pair.stop().context("the emulation failed")?;
    let report = Report::of_devices(format!("{} to {}", left.address, right.address), &counters);
    crate::capture::finish(capture, arguments.network.pcap.as_deref())?;
    output::print_in_turn(report.render(arguments.network.json)?).await
}

fn ends(arguments: &TunArgs) -> Result<(TunEnd, TunEnd)> {
    let left = TunEnd {
        device: arguments.left_device.clone(),
        namespace: arguments.left.as_deref().map(namespace).transpose()?,
        address: arguments.left_address.address,
        prefix_bits: arguments.left_address.prefix_bits,
        ipv6: arguments.left_ipv6.map(|ipv6| (ipv6.address, ipv6.prefix_bits)),
    };
    let right = TunEnd {
        device: arguments.right_device.clone(),
        namespace: Some(namespace(&arguments.right)?),
        address: arguments.right_address.address,
        prefix_bits: arguments.right_address.prefix_bits,
        ipv6: arguments.right_ipv6.map(|ipv6| (ipv6.address, ipv6.prefix_bits)),
    };
    Ok((left, right))
}

fn namespace(name: &str) -> Result<Namespace> {
    Namespace::named(name).with_context(|| format!("no network namespace {name} (`ip netns add {name}` makes one)"))
}

/// An address and how many of its bits are the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address<A> {
    address: A,
    prefix_bits: u8,
}

/// A kind of addresses.
trait Family: FromStr {
    const NAME: &'static str;
    const EXAMPLE: &'static str;
    /// There must be room for two hosts.
    const PREFIX_BITS_MAX: u8;
}

impl Family for Ipv4Addr {
    const NAME: &'static str = "IPv4";
    const EXAMPLE: &'static str = "10.77.0.1/24";
    const PREFIX_BITS_MAX: u8 = 31;
}

impl Family for Ipv6Addr {
    const NAME: &'static str = "IPv6";
    const EXAMPLE: &'static str = "fd77::1/64";
    const PREFIX_BITS_MAX: u8 = 127;
}

impl<A: Family> FromStr for Address<A> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(address, bits)| Some((address.parse().ok()?, bits.parse().ok()?)));
        match parts {
            Some((address, prefix_bits)) if (1..=A::PREFIX_BITS_MAX).contains(&prefix_bits) => {
                Ok(Self { address, prefix_bits })
            }
            _ => Err(format!(
                "\"{text}\" is no {} address with its network's bits; write for example \"{}\"",
                A::NAME,
                A::EXAMPLE
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_with_the_bits_of_its_network() {
        let expected = Address { address: Ipv4Addr::new(10, 1, 2, 3), prefix_bits: 30 };
        assert_eq!("10.1.2.3/30".parse(), Ok(expected));
        for bad in ["10.1.2.3", "10.1.2.3/0", "10.1.2.3/33", "10.1.2/24", "::1/64", ""] {
            assert!(bad.parse::<Address<Ipv4Addr>>().is_err(), "{bad}");
        }
        let expected = Address { address: Ipv6Addr::LOCALHOST, prefix_bits: 64 };
        assert_eq!("::1/64".parse(), Ok(expected));
        assert!("::1/128".parse::<Address<Ipv6Addr>>().is_err());
    }
}
