use festina_units::Duration;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn message(id: u64) -> OutboundMessage {
    OutboundMessage::new(Instant::ZERO, &Message::new("x"), MessageId(id), Expiry::AtOnce)
}

fn filled(count: u64) -> (Messages, Vec<MessageSlot>) {
    let mut messages = Messages::new();
    let slots = (0..count).map(|id| messages.insert(message(id))).collect();
    (messages, slots)
}

#[test]
fn a_slot_is_used_again_once_its_message_has_left() {
    let (mut messages, slots) = filled(3);
    assert_eq!(messages.settle_piece(slots[1]).map(|message| message.id), Some(MessageId(1)));
    assert_eq!(messages.get(slots[1]), None);
    assert_eq!(messages.insert(message(3)), slots[1]);
    assert_eq!(messages.get(slots[1]).map(|message| message.id), Some(MessageId(3)));
    assert_eq!(messages.len(), 3);
}

#[test]
fn a_message_leaves_with_its_last_piece_whichever_that_is() {
    let (mut messages, slots) = filled(1);
    messages.split(slots[0]);
    messages.split(slots[0]);
    assert_eq!(messages.settle_piece(slots[0]), None);
    assert_eq!(messages.settle_piece(slots[0]), None);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages.settle_piece(slots[0]).map(|message| message.id), Some(MessageId(0)));
    assert_eq!(messages.len(), 0);
}

#[test]
fn emptied_slots_stay_for_a_burst_then_for_a_thin_stream_and_not_while_it_rests() {
    for count in [1, 4, 5, 1_000] {
        let (mut messages, slots) = filled(count);
        let grown = messages.capacity();
        assert!(grown >= slots.len());
        messages.give_back_memory();
        assert_eq!(messages.len() as usize, slots.len(), "no message is lost");
        for slot in slots {
            messages.settle_piece(slot);
        }
        let expected = if count > 32 { 0 } else { grown };
        assert_eq!(messages.capacity(), expected, "{count}");
        messages.calm_down();
        assert!(messages.capacity() <= SLOTS_KEPT, "{count}");
        messages.give_back_memory();
        assert_eq!(messages.capacity(), 0);
    }
}

#[test]
fn growth_leaves_a_third_of_the_slots_idle_at_most_but_for_the_first() {
    let mut messages = Messages::new();
    for id in 0..10_000 {
        messages.insert(message(id));
        let used = usize::try_from(messages.len()).expect("few");
        assert!(messages.capacity() <= (used * 3 / 2).max(SLOTS_SECOND), "{} for {used}", messages.capacity());
    }
}

#[test]
fn a_slot_is_no_larger_than_its_message() {
    assert_eq!(size_of::<Slot>(), size_of::<OutboundMessage>());
    assert!(size_of::<Slot>() <= 40, "{} bytes", size_of::<Slot>());
}

#[test]
fn a_lifetime_ends_at_its_deadline_unless_a_fragment_has_a_tsn_section_11_1_5() {
    let at = Instant::from_millis;
    let new = |message: Message| OutboundMessage::new(at(100), &message, MessageId(0), Expiry::AtOnce);
    let brief = new(Message::new("x").with_lifetime(Duration::from_millis(10)));
    assert_eq!(brief.obstacle(at(109), false, 1), None);
    assert_eq!(brief.obstacle(at(110), false, 1), Some(AbandonReason::Expired));
    assert_eq!(brief.obstacle(at(110), true, 1), None);
    assert_eq!(new(Message::new("x")).obstacle(Instant::from_secs(1 << 30), false, 1), None);
}

#[test]
fn the_earlier_of_lifetime_and_deadline_holds() {
    let at = Instant::from_millis;
    let expires = |message: Message| OutboundMessage::new(at(100), &message, MessageId(0), Expiry::AtOnce).expires_at;
    let brief = Message::new("x").with_lifetime(Duration::from_millis(10));
    assert_eq!(expires(brief.clone().with_deadline(at(105))), at(105));
    assert_eq!(expires(brief.with_deadline(at(115))), at(110));
    assert_eq!(expires(Message::new("x").with_deadline(at(115))), at(115));
    assert_eq!(expires(Message::new("x").with_lifetime(Duration::MAX)), Instant::MAX);
}

#[test]
fn rfc7496_3_1_a_chunk_may_leave_again_as_often_as_its_limit_says() {
    let new = |message: Message| OutboundMessage::new(Instant::ZERO, &message, MessageId(0), Expiry::AtOnce);
    let limited = |limit| new(Message::new("x").with_max_retransmissions(limit));
    let again = |message: OutboundMessage, transmissions| message.obstacle_again(Instant::ZERO, transmissions);
    let exhausted = Some(AbandonReason::RetransmissionsExhausted);
    assert_eq!(again(limited(0), 1), exhausted);
    assert_eq!((again(limited(2), 2), again(limited(2), 3)), (None, exhausted));
    assert_eq!((again(limited(254), 255), again(limited(255), 255)), (exhausted, None));
    assert_eq!(again(new(Message::new("x")), 255), None);
}

proptest! {
    /// Against a list: no slot is shared, lost or left in use.
    #[test]
    fn the_slots_in_use_are_those_of_the_messages(steps in vec((0..4_u8, any::<prop::sample::Index>()), 0..300)) {
        let mut messages = Messages::new();
        let mut model: Vec<(MessageSlot, MessageId, u32)> = Vec::new();
        let mut peak = 0;
        for (id, (step, which)) in (0..).zip(steps) {
            if model.is_empty() || step == 0 {
                let slot = messages.insert(message(id));
                prop_assert!(model.iter().all(|&(used, ..)| used != slot));
                model.push((slot, MessageId(id), 1));
                peak = peak.max(model.len());
            } else {
                let place = which.index(model.len());
                let (slot, id, pieces) = &mut model[place];
                if step == 1 {
                    messages.split(*slot);
                    *pieces += 1;
                } else {
                    *pieces -= 1;
                    let left = (*pieces == 0).then_some(*id);
                    prop_assert_eq!(messages.settle_piece(*slot).map(|message| message.id), left);
                    if left.is_some() {
                        model.swap_remove(place);
                    }
                }
            }
            prop_assert_eq!(messages.len() as usize, model.len());
            prop_assert!(messages.capacity() <= (peak * 3 / 2).max(SLOTS_SECOND));
            for (slot, id, _) in &model {
                prop_assert_eq!(messages.get(*slot).map(|message| message.id), Some(*id));
            }
        }
    }
}
