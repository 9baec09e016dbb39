//! The packets of an emulated network as pcapng: an interface for each end, on which a packet is seen when it enters the
//! network, with a comment if it is lost there, and when it leaves it.

use std::io;

use festina_emulate::{Direction, TapEvent};
use festina_trace::ip;

use crate::capture::{self, CaptureFile};

/// The interfaces of `tap` captures, in their order, are the one where the way there begins and the one where it ends.
#[derive(Clone, Copy)]
enum Side {
    Near = 0,
    Far = 1,
}

/// The side on which something is seen, and a comment.
fn seen(direction: Direction, event: TapEvent) -> (Side, Option<&'static str>) {
    let (entrance, exit) = match direction {
        Direction::Forward => (Side::Near, Side::Far),
        Direction::Backward => (Side::Far, Side::Near),
    };
    match event {
        TapEvent::Offered(admission) => (entrance, capture::fate(admission)),
        TapEvent::Delivered => (exit, None),
    }
}

/// What shows the packets between two TUN devices to the capture.
#[cfg(target_os = "linux")]
pub(super) fn tun_tap(file: CaptureFile) -> festina_emulate::TunTap {
    Box::new(move |record| {
        let (side, comment) = seen(record.direction, record.event);
        file.write(side as usize, record.at, || Ok(record.packet.to_vec()), comment);
    })
}

/// What shows the datagrams of a proxy to the capture.
pub(super) fn udp_tap(file: CaptureFile) -> festina_emulate::Tap {
    Box::new(move |record| {
        let (side, comment) = seen(record.direction, record.event);
        let (from, to) = (record.source(), record.destination());
        let packet = || ip::encapsulate_udp(from, to, record.payload).map_err(io::Error::other);
        file.write(side as usize, record.at, packet, comment);
    })
}
