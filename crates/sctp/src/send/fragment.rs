//! Chooses how much of a message goes into a packet (RFC 9260 §6.9).

/// Returns the payload bytes of the next piece of a message with `rest` unsent bytes, in a packet with `room` for them, if an empty packet has room
/// for `full`. `None` leaves the message to a later packet.
///
/// A piece that fits into an empty packet whole is never split merely to fill up a packet. Larger ones are cut to the available room, unless that
/// would make a piece of less than half a packet.
pub(super) fn piece_bytes(rest: usize, room: usize, full: usize) -> Option<usize> {
    if rest <= room {
        Some(rest)
    } else if rest > full && room >= full / 2 {
        Some(room)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_fits_goes_whole() {
        assert_eq!(piece_bytes(10, 10, 1_200), Some(10));
        assert_eq!(piece_bytes(1_200, 1_200, 1_200), Some(1_200));
    }

    #[test]
    fn a_message_that_an_empty_packet_could_hold_waits_for_one() {
        assert_eq!(piece_bytes(1_200, 1_184, 1_200), None);
    }

    #[test]
    fn a_long_message_takes_the_room_that_there_is_section_6_9() {
        assert_eq!(piece_bytes(5_000, 1_200, 1_200), Some(1_200));
        assert_eq!(piece_bytes(5_000, 1_180, 1_200), Some(1_180));
    }

    #[test]
    fn a_long_message_is_not_chopped_into_crumbs() {
        assert_eq!(piece_bytes(5_000, 599, 1_200), None);
    }

    #[test]
    fn the_last_piece_follows_the_same_rule() {
        assert_eq!(piece_bytes(200, 300, 1_200), Some(200));
        assert_eq!(piece_bytes(200, 100, 1_200), None);
    }
}
