//! The dendrogram: merged clusters, and their distances.

use std::fmt::Write as _;

use kodama::Step;

use crate::count::as_f64;

/// Leaves that are drawn; a leaf of a larger tree stands for all flows that merged below.
const LEAVES_MAX: usize = 40;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
/// Room for words.
const MARGIN: f64 = 50.0;

/// Where a cluster hangs.
#[derive(Clone, Copy, Debug)]
struct Knot {
    x: f64,
    distance: f64,
    flows: usize,
}

/// The tree as SVG, and a line where it is cut into `count` clusters.
pub(super) fn svg(steps: &[Step<f64>], points: usize, count: usize) -> String {
    let hidden = points.saturating_sub(LEAVES_MAX);
    let highest = steps.last().map_or(1.0, |step| step.dissimilarity).max(1e-9);
    let y = |distance: f64| MARGIN + (HEIGHT - 2.0 * MARGIN) * (1.0 - distance / highest);
    let mut leaves = Vec::new();
    if let Some(last) = steps.len().checked_sub(1) {
        order(steps, points, hidden, points + last, &mut leaves);
    }
    let gap = (WIDTH - 2.0 * MARGIN) / as_f64(leaves.len().max(1));
    let mut knots: Vec<Option<Knot>> = vec![None; points + steps.len()];
    for (place, leaf) in leaves.iter().enumerate() {
        let flows = leaf.checked_sub(points).map_or(1, |step| steps[step].size);
        knots[*leaf] = Some(Knot { x: MARGIN + (as_f64(place) + 0.5) * gap, distance: 0.0, flows });
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"16\">How flows merge into clusters</text>\n"
    );
    for (index, step) in steps.iter().enumerate().skip(hidden) {
        let (Some(left), Some(right)) = (knots[step.cluster1], knots[step.cluster2]) else { continue };
        let (top, middle) = (y(step.dissimilarity), f64::midpoint(left.x, right.x));
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {:.1}V{top:.1}H{:.1}V{:.1}\" fill=\"none\" stroke=\"#1f4e79\" stroke-width=\"1.5\"/>",
            left.x,
            y(left.distance),
            right.x,
            y(right.distance)
        );
        knots[points + index] = Some(Knot { x: middle, distance: step.dissimilarity, flows: step.size });
    }
    for knot in leaves.iter().filter_map(|leaf| knots[*leaf]) {
        let below = y(0.0) + 14.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
            knot.x, knot.flows
        );
    }
    let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{:.1}\">flows of each branch</text>", HEIGHT - 12.0);
    if let Some(cut) = cut_at(steps, points, count) {
        let (from, to) = (MARGIN, WIDTH - MARGIN);
        let _ = writeln!(
            svg,
            "<path d=\"M{from} {0:.1}H{to}\" stroke=\"#b00020\" stroke-dasharray=\"6 4\"/>\n\
             <text x=\"{to}\" y=\"{1:.1}\" text-anchor=\"end\" fill=\"#b00020\">{count} clusters</text>",
            y(cut),
            y(cut) - 4.0
        );
    }
    svg + "</svg>\n"
}

/// Half-way between the last merger below the cut and the first above.
fn cut_at(steps: &[Step<f64>], points: usize, count: usize) -> Option<f64> {
    let below = points.checked_sub(count)?;
    let above = steps.get(below)?.dissimilarity;
    let last = below.checked_sub(1).and_then(|index| steps.get(index)).map_or(0.0, |step| step.dissimilarity);
    Some(f64::midpoint(last, above))
}

/// The leaves from left to right so that no lines cross; clusters that merged in the first `hidden` steps are leaves.
fn order(steps: &[Step<f64>], points: usize, hidden: usize, root: usize, leaves: &mut Vec<usize>) {
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match node.checked_sub(points) {
            Some(index) if index >= hidden => open.extend([steps[index].cluster2, steps[index].cluster1]),
            _ => leaves.push(node),
        }
    }
}
