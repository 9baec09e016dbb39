//! Finds free places for the curves' names: next to the curve, away from other curves, names and marks.

use super::draw::SCALE;

/// Size of the names, in CSS pixels.
pub(super) const FONT_SIZE: i32 = 13;

/// Half the height of a name's box and the gap between curve and name, in canvas units.
const HALF_HEIGHT: i32 = 9 * SCALE;
const GAP: i32 = 9 * SCALE;
/// Half the height of a point and a little more: texts above and below one stay so far away from its middle.
const POINT_HALF_HEIGHT: i32 = 5 * SCALE;
/// Distance between curves and the ends of a name: more than half the distance between two dots of a curve, and its width.
const CLEARANCE: i32 = 5 * SCALE;

/// Costs of collisions: a curve through a name is as bad as another name below it; a thin dashed line is tolerable.
const CURVE_COST: i64 = 20;
const LABEL_COST: i64 = 2_000;
const MARK_COST: i64 = 40;

/// The part of the canvas that names may use.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
}

/// Where a curve's name goes: `at` is the middle of its left edge.
pub(super) struct Placed {
    pub(super) index: usize,
    pub(super) at: (i32, i32),
}

struct Rectangle {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Rectangle {
    /// Whether a point lies inside or so close that a line through it would touch the text.
    fn contains(&self, (x, y): (i32, i32)) -> bool {
        (self.left - CLEARANCE..=self.right + CLEARANCE).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    fn overlaps(&self, other: &Rectangle) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

/// An estimate of the width of `text` in CSS pixels. The exact width depends on the reader's font.
pub(super) fn text_width(text: &str, font_size: i32) -> i32 {
    let characters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 1_000);
    characters * font_size * 55 / 100
}

/// `text` in lines of at most `width` CSS pixels, broken at blanks.
pub(super) fn wrap(text: &str, font_size: i32, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, font_size) + text_width(word, font_size) + font_size / 2 <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Chooses a place for each name whose curve has a point. A name without a place away from all curves and other names gets none. Deterministic: the
/// first of the cheapest places wins.
pub(super) fn place(names: &[&str], paths: &[Vec<(i32, i32)>], mark_xs: &[i32], area: &Area) -> Vec<Placed> {
    let dotted: Vec<Vec<(i32, i32)>> = paths.iter().map(|path| dots_along(path)).collect();
    let mut taken: Vec<Rectangle> = Vec::new();
    let mut placed = Vec::new();
    // The last curve is the one that the figure is about, so it chooses first.
    for (index, (name, dots)) in names.iter().zip(&dotted).enumerate().rev() {
        let width = text_width(name, FONT_SIZE) * SCALE;
        let best = candidates(dots, width)
            .filter(|candidate| fits(candidate, area))
            .min_by_key(|candidate| cost(candidate, index, &dotted, &taken, mark_xs, area));
        let is_free = |rectangle: &Rectangle| {
            !dotted.iter().flatten().any(|dot| rectangle.contains(*dot))
                && !taken.iter().any(|other| rectangle.overlaps(other))
        };
        if let Some(rectangle) = best.filter(is_free) {
            placed.push(Placed { index, at: (rectangle.left, rectangle.top + HALF_HEIGHT) });
            taken.push(rectangle);
        }
    }
    placed
}

/// The middles of the left edges of texts, each close to its place: left, right, above or below, wherever it covers the fewest
/// other texts, points and curves.
pub(super) fn beside(
    texts: &[(&str, (i32, i32))],
    points: &[(i32, i32)],
    paths: &[Vec<(i32, i32)>],
    area: &Area,
) -> Vec<(i32, i32)> {
    let dots: Vec<(i32, i32)> = paths.iter().flat_map(|path| dots_along(path)).collect();
    let mut taken: Vec<Rectangle> = Vec::new();
    let mut places = Vec::new();
    for &(text, at) in texts {
        let width = text_width(text, FONT_SIZE) * SCALE;
        let hits = |candidate: &Rectangle| {
            let labels = taken.iter().filter(|other| candidate.overlaps(other)).count();
            let points = points.iter().filter(|point| candidate.contains(**point)).count();
            (labels + points, dots.iter().filter(|dot| candidate.contains(**dot)).count())
        };
        let best = around(at, width).into_iter().filter(|candidate| fits(candidate, area)).min_by_key(hits);
        places.push(best.as_ref().map_or((at.0 + GAP, at.1), |place| (place.left, place.top + HALF_HEIGHT)));
        taken.extend(best);
    }
    places
}

/// Places left and right of a point, then above and below it, aside of that or farther away.
fn around((x, y): (i32, i32), width: i32) -> Vec<Rectangle> {
    let from = |left: i32, middle: i32| Rectangle {
        left,
        right: left + width,
        top: middle - HALF_HEIGHT,
        bottom: middle + HALF_HEIGHT,
    };
    let away = HALF_HEIGHT + POINT_HALF_HEIGHT;
    let mut places = vec![from(x - GAP - width, y), from(x + GAP, y)];
    for rows in [0, 1] {
        for away in [-away - rows * 2 * HALF_HEIGHT, away + rows * 2 * HALF_HEIGHT] {
            places.extend([x - width / 2, x, x - width].map(|left| from(left, y + away)));
        }
    }
    places
}

/// Places right and left of the curve.
fn candidates(dots: &[(i32, i32)], width: i32) -> impl Iterator<Item = Rectangle> {
    dots.iter().flat_map(move |&(x, y)| {
        [x + GAP, x - GAP - width].map(|left| Rectangle {
            left,
            right: left + width,
            top: y - HALF_HEIGHT,
            bottom: y + HALF_HEIGHT,
        })
    })
}

fn fits(rectangle: &Rectangle, area: &Area) -> bool {
    rectangle.left >= area.left
        && rectangle.right <= area.right
        && rectangle.top >= area.top + SCALE
        && rectangle.bottom <= area.bottom - SCALE
}

fn cost(
    candidate: &Rectangle,
    index: usize,
    dotted: &[Vec<(i32, i32)>],
    taken: &[Rectangle],
    mark_xs: &[i32],
    area: &Area,
) -> i64 {
    let hits = |dots: &Vec<(i32, i32)>| dots.iter().filter(|dot| candidate.contains(**dot)).count();
    let curve_hits: usize = dotted.iter().map(hits).sum();
    let label_hits = taken.iter().filter(|other| candidate.overlaps(other)).count();
    let mark_hits = mark_xs.iter().filter(|x| (candidate.left..=candidate.right).contains(x)).count();
    let own = dotted.get(index).map_or(0, hits);
    // Low on the page the curves are farthest apart, and there the difference lies: but not on the very edge.
    let middle = area.top + (area.bottom - area.top) * 3 / 5;
    let off_middle = i64::from((candidate.top - middle).abs() / (4 * SCALE));
    let count = |hits: usize| i64::try_from(hits).unwrap_or(i64::MAX / LABEL_COST);
    count(curve_hits + own) * CURVE_COST
        + count(label_hits) * LABEL_COST
        + count(mark_hits) * MARK_COST
        + nearness_to_others(candidate, index, dotted)
        + off_middle
}

/// A name nearer to another curve than to its own would be misread.
fn nearness_to_others(candidate: &Rectangle, index: usize, dotted: &[Vec<(i32, i32)>]) -> i64 {
    let grown = Rectangle {
        left: candidate.left - 2 * GAP,
        right: candidate.right + 2 * GAP,
        top: candidate.top,
        bottom: candidate.bottom,
    };
    let others = dotted.iter().enumerate().filter(|(other, _)| *other != index);
    let near = others.filter(|(_, dots)| dots.iter().any(|dot| grown.contains(*dot))).count();
    i64::try_from(near).unwrap_or(i64::MAX / LABEL_COST) * CURVE_COST
}

/// Points along the path, no farther apart than four CSS pixels.
fn dots_along(path: &[(i32, i32)]) -> Vec<(i32, i32)> {
    let mut dots = Vec::new();
    for pair in path.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        let steps = ((x1 - x0).abs().max((y1 - y0).abs()) / (4 * SCALE)).max(1);
        dots.extend((0..steps).map(|step| (x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps)));
    }
    dots.extend(path.last());
    dots
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area = Area { left: 0, right: 3_000, top: 0, bottom: 1_500 };

    fn rectangle(placed: &Placed, name: &str) -> Rectangle {
        Rectangle {
            left: placed.at.0,
            right: placed.at.0 + text_width(name, FONT_SIZE) * SCALE,
            top: placed.at.1 - HALF_HEIGHT,
            bottom: placed.at.1 + HALF_HEIGHT,
        }
    }

    #[test]
    fn names_overlap_neither_each_other_nor_a_curve() {
        let names = ["first", "second", "third"];
        let paths: Vec<Vec<(i32, i32)>> =
            [500, 1_000, 1_040].iter().map(|x| vec![(*x, 10), (*x + 300, 1_490)]).collect();
        let placed = place(&names, &paths, &[700], &AREA);
        assert_eq!(placed.len(), 3);
        let rectangles: Vec<Rectangle> = placed.iter().map(|label| rectangle(label, names[label.index])).collect();
        for (number, one) in rectangles.iter().enumerate() {
            assert!(rectangles.iter().skip(number + 1).all(|other| !one.overlaps(other)));
            assert!(paths.iter().all(|path| !dots_along(path).iter().any(|dot| one.contains(*dot))));
        }
    }

    #[test]
    fn texts_beside_points_in_a_row_cover_neither_each_other_nor_a_point_nor_a_curve() {
        let texts = [("fast retransmit", (1_000, 700)), ("fast retransmit", (1_200, 700)), ("probe", (1_260, 700))];
        let points: Vec<(i32, i32)> = texts.iter().map(|(_, at)| *at).chain([(1_600, 700)]).collect();
        let above = vec![(900, 640), (1_150, 640)];
        let places = beside(&texts, &points, std::slice::from_ref(&above), &AREA);
        let boxes: Vec<Rectangle> =
            (0..).zip(&places).map(|(index, at)| rectangle(&Placed { index, at: *at }, texts[index].0)).collect();
        for (number, one) in boxes.iter().enumerate() {
            assert!(boxes.iter().skip(number + 1).all(|other| !one.overlaps(other)), "{places:?}");
            assert!(!points.iter().any(|point| one.contains(*point)), "{places:?}");
            assert!(!dots_along(&above).iter().any(|dot| one.contains(*dot)), "{places:?}");
        }
    }

    #[test]
    fn a_text_beside_a_point_in_a_corner_stays_inside() {
        let at = (2_990, 5);
        let places = beside(&[("timeout", at)], &[at], &[], &AREA);
        let placed = rectangle(&Placed { index: 0, at: places[0] }, "timeout");
        assert!(fits(&placed, &AREA), "{places:?}");
    }

    #[test]
    fn long_text_is_broken_at_blanks() {
        let text = "rtt 100ms, loss 5%, interval 250ms";
        let lines = wrap(text, FONT_SIZE, 120);
        assert!(lines.len() > 1 && lines.iter().all(|line| text_width(line, FONT_SIZE) <= 120), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap("onelongword", FONT_SIZE, 10), ["onelongword"]);
    }

    #[test]
    fn a_name_without_a_free_place_is_left_out() {
        let paths: Vec<Vec<(i32, i32)>> = (0..60).map(|n| vec![(n * 50, 0), (n * 50, 1_500)]).collect();
        assert!(place(&["crowded"; 60], &paths, &[], &AREA).is_empty());
    }

    #[test]
    fn a_curve_without_points_gets_no_name() {
        assert!(place(&["empty"], &[Vec::new()], &[], &AREA).is_empty());
    }
}
