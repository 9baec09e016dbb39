//! Packets of a network interface, by a packet socket of Linux.
//!
//! The socket strips link headers itself, so that packets of Ethernet, loopback and tunnels all begin with IP, and gives the kernel's time of each.
//! A filter in the kernel lets pass what belongs to the interface: none of the safe interfaces to sockets can bind such a socket.

#[cfg(target_os = "linux")]
pub(super) use linux::Interface;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Interface;

#[cfg(target_os = "linux")]
mod linux {
    //! Linux.

    use std::io::{self, IoSliceMut};
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::sync::Mutex;

    use anyhow::{Context as _, Result, anyhow};
    use festina_trace::CapturedPacket;
    use festina_units::Instant;
    use nix::errno::Errno;
    use nix::libc;
    use nix::net::if_::{if_nameindex, if_nametoindex};
    use nix::sys::socket::{
        AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, getsockopt, recvmsg,
        setsockopt, socket, sockopt,
    };
    use nix::sys::time::TimeSpec;
    use nix::{getsockopt_impl, sockopt_impl};
    use socket2::{SockFilter, SockRef};
    use tokio::io::Interest;
    use tokio::net::UdpSocket;

    use crate::usage::UsageError;

    /// Packets that the kernel keeps while this program does not read.
    const BUFFER_BYTES: usize = 16 << 20;
    /// More than any packet has, as far as the kernel joins those of one connection.
    const PACKET_BYTES_MAX: usize = 1 << 18;
    /// Packets read before anything else gets its turn.
    const BATCH_MAX: usize = 1_024;
    /// What [`CapturedPacket`] calls packets that begin with IP.
    const BARE_IP: u16 = 101;

    sockopt_impl!(
        /// How many packets the kernel had and how many it dropped, since the last time.
        PacketStatistics,
        GetOnly,
        libc::SOL_PACKET,
        libc::PACKET_STATISTICS,
        libc::tpacket_stats
    );

    /// An interface that is listened to.
    pub(in super::super) struct Interface {
        /// To the runtime, which has no word for packet sockets, a socket that becomes readable.
        socket: UdpSocket,
        index: usize,
        reading: Mutex<Reading>,
    }

    struct Reading {
        buffer: Vec<u8>,
        packets: u64,
    }

    impl Interface {
        /// Begins to listen.
        pub(in super::super) fn open(name: &str) -> Result<Self> {
            let index = if_nametoindex(name).map_err(|_| unknown(name))?;
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll);
            let socket = socket.map_err(|error| match error {
                Errno::EPERM | Errno::EACCES => {
                    anyhow!("--interface needs the capability CAP_NET_RAW: run it as root, or give it to the program (man setcap)")
                }
                other => anyhow!("cannot open a packet socket: {other}"),
            })?;
            attach_filter(&socket, index).with_context(|| format!("cannot listen to {name} alone"))?;
            // Beyond the system's bound only with CAP_NET_ADMIN; less is enough for most.
            if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
                let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES);
            }
            setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
                .context("the kernel provides no packet timestamps")?;
            let reading = Mutex::new(Reading { buffer: vec![0; PACKET_BYTES_MAX], packets: 0 });
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            let interface = Self { socket: UdpSocket::from_std(socket.into())?, index, reading };
            // Packets received before the filter belong to any interface, and so does their count.
            interface.dropped()?;
            Ok(interface)
        }

        /// Waits for packets.
        pub(in super::super) async fn readable(&self) -> Result<()> {
            Ok(self.socket.readable().await?)
        }

        /// Passes received packets to `each`, a bounded number of them. Returns whether there may be more. `is_last` reads what the
        /// runtime has not noticed yet.
        pub(in super::super) fn take(&self, is_last: bool, mut each: impl FnMut(&CapturedPacket<'_>)) -> Result<bool> {
            let mut reading = self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            for _ in 0..BATCH_MAX {
                let next = match is_last {
                    true => self.next(&mut reading),
                    false => self.socket.try_io(Interest::READABLE, || self.next(&mut reading)),
                };
                match next {
                    Ok(None) => {}
                    Ok(Some((at, len, original_bytes))) => {
                        reading.packets += 1;
                        let number = reading.packets;
                        let data = reading.buffer.get(..len).unwrap_or_default();
                        each(&CapturedPacket {
                            number,
                            offset: 0,
                            at,
                            link_type: BARE_IP,
                            data,
                            original_bytes,
                            secrets: &[],
                        });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(true)
        }

        /// One packet into the buffer: when it came, its length there and on the link; `None` of what belongs elsewhere.
        fn next(&self, reading: &mut Reading) -> io::Result<Option<(Instant, usize, u32)>> {
            let mut control = nix::cmsg_space!(TimeSpec);
            let room = reading.buffer.len();
            let mut parts = [IoSliceMut::new(&mut reading.buffer)];
            // With this flag the length is that of the packet, not of what found room.
            let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
            let received = match recvmsg::<LinkAddr>(self.socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
                Err(Errno::EINTR) => return Ok(None),
                // Some other interface went down.
                Err(Errno::ENETDOWN) => return Ok(None),
                received => received?,
            };
            let is_ours = received.address.is_some_and(|from| {
                let is_echo = from.hatype() == LOOPBACK && from.pkttype() == OUTGOING;
                from.ifindex() == self.index && !is_echo
            });
            if !is_ours {
                return Ok(None);
            }
            let time = received.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(time) => Some(time),
                _ => None,
            });
            let at = time.map_or(Instant::ZERO, |time| {
                let [seconds, nanos] = [time.tv_sec(), time.tv_nsec()].map(|part| u64::try_from(part).unwrap_or(0));
                Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
            });
            Ok(Some((at, received.bytes.min(room), u32::try_from(received.bytes).unwrap_or(u32::MAX))))
        }

        /// Packets that the kernel dropped since the last call, because they were not read in time.
        pub(in super::super) fn dropped(&self) -> Result<u64> {
            let statistics = getsockopt(&self.socket, PacketStatistics);
            Ok(u64::from(statistics.context("the kernel does not report its drops")?.tp_drops))
        }
    }

    /// The kernel's constants for the loopback interface and for sent packets.
    const LOOPBACK: u16 = 772;
    const OUTGOING: u8 = 4;

    /// Makes the kernel pass only packets of the interface. On loopback sent packets are received too, and count once.
    fn attach_filter(socket: &OwnedFd, index: libc::c_uint) -> io::Result<()> {
        const LOAD_WORD: u16 = 0x20;
        const JUMP_IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        const ABOUT_THE_PACKET: u32 = 0xffff_f000;
        const KIND: u32 = ABOUT_THE_PACKET + 4;
        const INTERFACE: u32 = ABOUT_THE_PACKET + 8;
        const LINK: u32 = ABOUT_THE_PACKET + 28;

        SockRef::from(socket).attach_filter(&[
            SockFilter::new(LOAD_WORD, 0, 0, INTERFACE),
            SockFilter::new(JUMP_IF_EQUAL, 0, 5, index),
            SockFilter::new(LOAD_WORD, 0, 0, LINK),
            SockFilter::new(JUMP_IF_EQUAL, 0, 2, u32::from(LOOPBACK)),
            SockFilter::new(LOAD_WORD, 0, 0, KIND),
            SockFilter::new(JUMP_IF_EQUAL, 1, 0, u32::from(OUTGOING)),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
            SockFilter::new(RETURN, 0, 0, 0),
        ])
    }

    fn unknown(name: &str) -> anyhow::Error {
        let names: Vec<String> = if_nameindex().map_or(Vec::new(), |all| {
            all.iter().map(|interface| interface.name().to_string_lossy().into_owned()).collect()
        });
        UsageError::new(format!("there is no network interface \"{name}\"; there are {}", names.join(", "))).into()
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    //! Elsewhere there is none.

    use std::convert::Infallible;

    use anyhow::{Result, bail};
    use festina_trace::CapturedPacket;

    pub(in super::super) struct Interface(Infallible);

    impl Interface {
        pub(in super::super) fn open(_name: &str) -> Result<Self> {
            bail!("--interface needs Linux; capture with tcpdump and read from it: tcpdump -w - | festina trace thin -")
        }

        pub(in super::super) async fn readable(&self) -> Result<()> {
            match self.0 {}
        }

        pub(in super::super) fn take(&self, _is_last: bool, _each: impl FnMut(&CapturedPacket<'_>)) -> Result<bool> {
            match self.0 {}
        }

        pub(in super::super) fn dropped(&self) -> Result<u64> {
            match self.0 {}
        }
    }
}
