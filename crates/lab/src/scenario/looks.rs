//! How senders look in figures: each has a form and a colour to itself, and the same in every figure of a run.

use festina_recovery::Profile;

use crate::figure::{Color, Marker};
use crate::summary::Results;

/// The default sender's look; no other has its colour.
const DEFAULT: (Marker, Color) = (Marker::Dot, Color::Vermilion);
const COLORS: [Color; 6] = [Color::Blue, Color::Green, Color::Orange, Color::Pink, Color::Sky, Color::Gray];
const MARKERS: [Marker; 7] =
    [Marker::Dot, Marker::Cross, Marker::Triangle, Marker::Ring, Marker::Diamond, Marker::Plus, Marker::Dash];

/// A sender of a plan and its look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) sender: &'static str,
    pub(crate) marker: Marker,
    pub(crate) color: Color,
}

/// The sender that an application gets if it asks for nothing.
pub(crate) fn default_sender() -> &'static str {
    Profile::default().name()
}

/// The looks of all senders of a plan, in the plan's order.
pub(crate) fn looks(results: &Results) -> Vec<Look> {
    let mut senders: Vec<&'static str> = Vec::new();
    for summary in results.points() {
        let sender = summary.point().choice("sender");
        if !senders.contains(&sender) {
            senders.push(sender);
        }
    }
    senders.into_iter().enumerate().map(|(index, sender)| look(index, sender)).collect()
}

/// Six colours and seven forms come together again only after 42 senders.
fn look(index: usize, sender: &'static str) -> Look {
    let (marker, color) = if sender == default_sender() {
        DEFAULT
    } else {
        (MARKERS[index % MARKERS.len()], COLORS[index % COLORS.len()])
    };
    Look { sender, marker, color }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment as _;
    use crate::experiments::ThinLatency;
    use crate::plan::Kind;

    #[test]
    fn no_two_senders_look_alike() {
        let parameters = ThinLatency.parameters();
        let Kind::Choice(names) = parameters[0].kind else { panic!("the sender is chosen") };
        let looks: Vec<Look> = names.iter().enumerate().map(|(index, name)| look(index, name)).collect();
        for (index, one) in looks.iter().enumerate() {
            let is_alike = |other: &&Look| (other.marker, other.color) == (one.marker, one.color);
            assert!(looks[..index].iter().find(is_alike).is_none(), "{}", one.sender);
        }
    }
}
