//! Which colour each curve and each series of points has: the same sender has the same one in every figure.

use super::pen::COLORS;
use crate::figure::Figure;

/// Where the senders of most figures stand in the order of strokes; see [`Stroke::of`](super::pen::Stroke::of).
const HOMES: [(&str, usize); 12] = [
    ("rfc9260", 0),
    ("lksctp-2006", 1),
    ("petlund-2010", 2),
    ("rack", 3),
    ("festina", 4),
    ("tlp", 5),
    ("tlpr", 6),
    ("pedersen-2006", 7),
    ("rto-restart", 8),
    ("early-retransmit", 9),
    ("freebsd-efr", 10),
    ("tcp", 12),
];

/// Variants of one sender that have its colour: in full, dashed and dotted.
const VARIANTS_MAX: usize = 3;

/// The place of each curve, and behind them of each series of points, in the order of strokes.
pub(super) fn of(figure: &Figure) -> Vec<usize> {
    let curves = figure.curves.iter().map(|curve| curve.name.as_str());
    let names: Vec<&str> = curves.chain(figure.points.iter().map(|series| series.name.as_str())).collect();
    by_sender(&names).unwrap_or_else(|| (0..names.len()).collect())
}

/// The place of each name by its sender; names without a sender get the free places, and a variant of such a name that of its colour. `None` if a sender has more variants than its colour has
/// strokes, or if two names would look alike.
fn by_sender(names: &[&str]) -> Option<Vec<usize>> {
    let mut variants = [0; HOMES.len()];
    let mut taken = Vec::new();
    let mut places = Vec::new();
    for name in names {
        let place = sender(name).map(|(index, home)| {
            let place = home + variants[index] * COLORS.len();
            variants[index] += 1;
            (place, variants[index] <= VARIANTS_MAX)
        });
        if place.is_some_and(|(place, fits)| !fits || taken.contains(&place)) {
            return None;
        }
        taken.extend(place.map(|(place, _)| place));
        places.push(place.map(|(place, _)| place));
    }
    for index in 0..names.len() {
        if places[index].is_none() {
            let is_free = |place: &usize| !taken.contains(place);
            let place = match whole_of(names, &places, index) {
                Some(whole) => (1..).map(|variant| whole + variant * COLORS.len()).find(is_free)?,
                None => (0..).find(is_free)?,
            };
            taken.push(place);
            places[index] = Some(place);
        }
    }
    places.into_iter().collect()
}

/// The place of `tcp-thin` for a name such as `tcp-thin, simulated`, if it has one.
fn whole_of(names: &[&str], places: &[Option<usize>], index: usize) -> Option<usize> {
    let (whole, _) = names[index].rsplit_once(", ")?;
    let position = names.iter().position(|name| *name == whole)?;
    *places.get(position)?
}

/// Returns the number and the colour of the sender that a name starts with.
fn sender(name: &str) -> Option<(usize, usize)> {
    let is_it = |sender: &str| {
        let rest = name.strip_prefix(sender)?;
        (!rest.starts_with(|next: char| next.is_alphanumeric() || next == '-')).then_some(())
    };
    HOMES.iter().enumerate().find_map(|(index, &(sender, home))| is_it(sender).map(|()| (index, home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_its_colour_whoever_stands_beside_it() {
        let color = |names: &[&str], name: &str| {
            let index = names.iter().position(|&it| it == name).expect("it is there");
            by_sender(names).expect("there are strokes")[index] % COLORS.len()
        };
        let alone = color(&["festina"], "festina");
        let names = ["udp", "tcp-thin", "festina", "udp, simulated", "festina, simulated", "tcp-thin, simulated"];
        for name in ["udp", "tcp-thin"] {
            assert_eq!(color(&names, name), color(&names, &format!("{name}, simulated")));
        }
        assert_ne!(color(&names, "udp"), color(&names, "tcp-thin"));
        for names in [&["rfc9260", "festina"][..], &["paper", "festina", "rack"], &["festina, simulated", "festina"]] {
            assert_eq!(color(names, "festina"), alone, "{names:?}");
        }
        assert_eq!(sender("tlpr, 5%"), Some((6, 6)));
        assert_eq!(sender("tcp-like"), None);
    }

    #[test]
    fn no_two_names_look_alike() {
        let all: Vec<&str> = HOMES.iter().map(|&(name, _)| name).chain(["x", "y", "z"]).collect();
        let mut places = by_sender(&all).expect("there are strokes");
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), all.len());
        assert_eq!(by_sender(&["rack, 1", "rack, 2", "rack, 3", "rack, 4"]), None);
        assert_eq!(by_sender(&["rfc9260, 1", "rfc9260, 2", "pedersen-2006"]), None);
    }

    #[test]
    fn without_senders_the_order_decides() {
        assert_eq!(by_sender(&["a", "b", "c"]), Some(vec![0, 1, 2]));
    }
}
