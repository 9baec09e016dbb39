//! A queue from which messages leave anywhere at a cost that hardly depends on its length.
//!
//! Each message has a key that grows along the queue, so it is found by bisection. One that leaves the middle leaves a gap behind; gaps at
//! the ends go at once, and the others when they are many.

use std::collections::VecDeque;

use bytes::Bytes;

use super::Unsent;
use crate::outstanding::MessageSlot;

/// Marks a gap. The key of the message that was there stands in `fragment`.
const GAP: MessageSlot = MessageSlot(u32::MAX);

/// Number of gaps that are kept at least.
const GAPS_KEPT: usize = 32;

/// Returns the position of a message. `key` returns the key of each message that waits as a whole; a partly sent one is in front.
pub(super) fn find(queue: &VecDeque<Unsent>, message: MessageSlot, key: impl Fn(MessageSlot) -> u32) -> Option<usize> {
    if queue.front()?.message == message {
        return Some(0);
    }
    let target = key(message);
    let is_before = |unsent: &Unsent| match unsent {
        Unsent { message: GAP, fragment, .. } => fragment.wrapping_sub(target).cast_signed() < 0,
        unsent => unsent.has_tsn() || key(unsent.message).wrapping_sub(target).cast_signed() < 0,
    };
    let place = queue.partition_point(is_before);
    queue.get(place).filter(|unsent| unsent.message == message).map(|_| place)
}

/// Removes the message at `place`, whose key is `key`. `left` messages remain, which decides whether to shrink the queue.
pub(super) fn take_out(queue: &mut VecDeque<Unsent>, place: usize, key: u32, left: usize) -> Option<Unsent> {
    let gap = Unsent { rest: Bytes::new(), message: GAP, fragment: key };
    let message = std::mem::replace(queue.get_mut(place)?, gap);
    trim(queue);
    while queue.back().is_some_and(is_gap) {
        queue.pop_back();
    }
    if queue.len() > left + left / 2 + GAPS_KEPT {
        queue.retain(|unsent| !is_gap(unsent));
    }
    Some(message)
}

/// Returns whether the message behind one that was taken has left before.
#[inline]
pub(super) fn begins_with_gap(queue: &VecDeque<Unsent>) -> bool {
    queue.front().is_some_and(is_gap)
}

/// Drops gaps in front: the first entry is a message, if there is any.
#[cold]
pub(super) fn trim(queue: &mut VecDeque<Unsent>) {
    while begins_with_gap(queue) {
        queue.pop_front();
    }
}

/// The messages.
pub(super) fn messages(queue: &VecDeque<Unsent>) -> impl Iterator<Item = &Unsent> {
    queue.iter().filter(|unsent| !is_gap(unsent))
}

#[inline]
fn is_gap(unsent: &Unsent) -> bool {
    unsent.message == GAP
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// Keys wrap around within the queues below.
    const FIRST: u32 = u32::MAX - 20;

    fn key(message: MessageSlot) -> u32 {
        FIRST.wrapping_add(message.0)
    }

    fn unsent(number: u32) -> Unsent {
        Unsent::new(Bytes::from_static(b"x"), MessageSlot(number))
    }

    fn numbers(queue: &VecDeque<Unsent>) -> Vec<u32> {
        messages(queue).map(|unsent| unsent.message.0).collect()
    }

    proptest! {
        #[test]
        fn messages_are_found_and_leave_as_from_a_plain_list(steps in prop::collection::vec(any::<(bool, prop::sample::Index)>(), 1..300)) {
            let (mut queue, mut plain, mut next) = (VecDeque::new(), Vec::new(), 0);
            for (takes, index) in steps {
                if takes && !plain.is_empty() {
                    let number = plain.remove(index.index(plain.len()));
                    let place = find(&queue, MessageSlot(number), key).expect("it waits");
                    let taken = take_out(&mut queue, place, key(MessageSlot(number)), plain.len());
                    prop_assert_eq!(taken.map(|unsent| unsent.message.0), Some(number));
                    prop_assert_eq!(find(&queue, MessageSlot(number), key), None);
                } else {
                    queue.push_back(unsent(next));
                    plain.push(next);
                    next += 1;
                }
                prop_assert_eq!(&numbers(&queue), &plain);
                prop_assert!(queue.front().is_none_or(|unsent| !is_gap(unsent)));
                prop_assert!(queue.len() <= plain.len() + plain.len() / 2 + GAPS_KEPT);
            }
        }
    }

    #[test]
    fn a_message_of_which_a_part_has_left_is_found_in_front_and_hides_no_other() {
        let mut queue: VecDeque<_> = (0..10).map(unsent).collect();
        queue[0].fragment = 3;
        // Its key is gone: something else stands in its place.
        let key = |message: MessageSlot| if message.0 == 0 { 77 } else { key(message) };
        assert!((0..10).all(|number| find(&queue, MessageSlot(number), key) == usize::try_from(number).ok()));
    }

    #[test]
    fn the_keys_looked_at_grow_as_the_logarithm_of_the_queue() {
        for (len, looks_max) in [(10, 8), (1_000, 14), (60_000, 20)] {
            let queue: VecDeque<_> = (0..len).map(unsent).collect();
            for number in [1, len / 3, len - 1] {
                let looks = Cell::new(0);
                let counted = |message| {
                    looks.set(looks.get() + 1);
                    key(message)
                };
                assert!(find(&queue, MessageSlot(number), counted).is_some());
                assert!(looks.get() <= looks_max, "{} looks at {len} messages", looks.get());
            }
        }
    }
}
