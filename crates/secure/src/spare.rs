//! Connection IDs that take the place of others at a move. They follow from these by a keyed permutation, so that an endpoint finds the association of one
//! without keeping any: it inverts the permutation.

use festina_sctp::Context;

use crate::wire::ConnectionId;

/// Rounds of a Feistel network on halves of 32 bits. With four rounds a distinguisher needs the IDs of 2^16 associations, with six far more.
const ROUNDS: u8 = 6;
/// Among the numbers of the context that follow from another one.
const FIRST_ROUND: u8 = 240;

/// Returns the connection ID that takes the place of this one.
#[must_use]
pub fn next_id(context: &Context, id: ConnectionId) -> ConnectionId {
    let (left, right) = halves(id);
    let (left, right) =
        (0..ROUNDS).fold((left, right), |(left, right), round| (right, left ^ mix(context, round, right)));
    joined(left, right)
}

/// Returns the connection ID whose place this one takes.
#[must_use]
pub fn previous_id(context: &Context, id: ConnectionId) -> ConnectionId {
    let (left, right) = halves(id);
    let (left, right) =
        (0..ROUNDS).rev().fold((left, right), |(left, right), round| (right ^ mix(context, round, left), left));
    joined(left, right)
}

#[expect(clippy::cast_possible_truncation, reason = "32 bits of a hash are as good as all")]
fn mix(context: &Context, round: u8, half: u32) -> u32 {
    context.number_below(half.into(), FIRST_ROUND + round) as u32
}

fn halves(ConnectionId([a, b, c, d, e, f, g, h]): ConnectionId) -> (u32, u32) {
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

fn joined(left: u32, right: u32) -> ConnectionId {
    ConnectionId((u64::from(left) << 32 | u64::from(right)).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use festina_sctp::Config;

    use super::*;

    #[test]
    fn the_permutation_is_inverted_and_depends_on_the_secret_and_every_bit() {
        let [one, other] = [1, 2].map(|secret| Context::new(Config::default(), [secret; 16]).unwrap());
        let mut seen = HashSet::new();
        for bit in 0..64 {
            let id = ConnectionId((1_u64 << bit).to_be_bytes());
            let next = next_id(&one, id);
            assert_eq!((previous_id(&one, next), next_id(&one, previous_id(&one, id))), (id, id));
            assert_ne!(next, next_id(&other, id));
            assert!(seen.insert(next));
        }
        let changed = |bit: u32| {
            let next = |id: u64| u64::from_be_bytes(next_id(&one, ConnectionId(id.to_be_bytes())).0);
            (next(0) ^ next(1 << bit)).count_ones()
        };
        assert!((0..64).all(|bit| (10..54).contains(&changed(bit))), "a changed bit changes about half of them");
    }
}
