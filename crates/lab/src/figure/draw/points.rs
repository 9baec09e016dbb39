//! Points, their whiskers, and annotations.

use plotters::style::RGBColor;

use super::Axes;
use super::pen::{Drawn, Pen, Point, SCALE, Stroke};
use super::places;
use crate::figure::{Figure, Marker, PointSeries};

/// Half the width of a point and of a whisker's ends.
const RADIUS: i32 = 4 * SCALE;
const CAP: i32 = 3 * SCALE;

/// The line of the series at `index`.
pub(super) fn stroke(figure: &Figure, index: usize, series: &PointSeries) -> Stroke {
    let index = figure.curves.len() + index;
    let stroke = Stroke::of(places::of(figure).get(index).copied().unwrap_or(index), 2);
    match series.color {
        Some(color) => Stroke { color: color.into(), dashes: None, ..stroke },
        None => stroke,
    }
}

/// Draws all series of points.
pub(super) fn draw(pen: &Pen<'_>, axes: &Axes<'_>, figure: &Figure) -> Drawn {
    for (index, series) in figure.points.iter().enumerate() {
        let stroke = stroke(figure, index, series);
        let places: Vec<Point> = series.points.iter().map(|point| axes.point((point.x, point.y))).collect();
        if series.is_joined && places.len() > 1 {
            pen.line(&places, stroke)?;
        }
        for (point, at) in series.points.iter().zip(&places) {
            if let Some((low, high)) = point.whisker {
                let across = series.has_whiskers_across;
                let ends =
                    [low, high].map(|value| axes.point(if across { (value, point.y) } else { (point.x, value) }));
                whisker(pen, ends, Stroke { dashes: None, width: SCALE, ..stroke })?;
            }
            marker(pen, *at, series.marker, stroke.color)?;
        }
    }
    Ok(())
}

/// A thin line with short ends.
pub(super) fn whisker(pen: &Pen<'_>, ends: [Point; 2], stroke: Stroke) -> Drawn {
    pen.line(&ends, stroke)?;
    let [(from_x, from_y), (to_x, to_y)] = ends;
    let (across, upwards) = if from_y == to_y && from_x != to_x { (0, CAP) } else { (CAP, 0) };
    ends.into_iter().try_for_each(|(x, y)| pen.line(&[(x - across, y - upwards), (x + across, y + upwards)], stroke))
}

/// A point.
pub(super) fn marker(pen: &Pen<'_>, (x, y): Point, marker: Marker, color: RGBColor) -> Drawn {
    let thick = Stroke::solid(color, 2);
    let r = RADIUS;
    match marker {
        Marker::Dot => pen.circle((x, y), r * 7 / 8, color, None),
        Marker::Ring => pen.circle((x, y), r * 7 / 8, color, Some(2 * SCALE)),
        Marker::Plus => {
            pen.line(&[(x - r, y), (x + r, y)], thick)?;
            pen.line(&[(x, y - r), (x, y + r)], thick)
        }
        Marker::Cross => {
            pen.line(&[(x - r, y - r), (x + r, y + r)], thick)?;
            pen.line(&[(x - r, y + r), (x + r, y - r)], thick)
        }
        Marker::Triangle => {
            let half = r * 9 / 8;
            pen.filled(vec![(x, y - half), (x + half, y + half * 3 / 4), (x - half, y + half * 3 / 4)], color)
        }
        Marker::Diamond => {
            let half = r * 9 / 8;
            pen.filled(vec![(x, y - half), (x + half, y), (x, y + half), (x - half, y)], color)
        }
        Marker::Dash => pen.line(&[(x - r * 3 / 2, y), (x + r * 3 / 2, y)], thick),
    }
}
