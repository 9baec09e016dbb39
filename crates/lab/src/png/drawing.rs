//! Draws an SVG into a PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::PngError;

/// Pixels per unit of the SVG: sharp on today's screens and in print at column width.
const SCALE: f32 = 2.0;

/// The fonts that figures are drawn with, the first that the system has.
const FAMILIES: [&str; 5] = ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans"];

pub(super) fn draw(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let has = |family: &str| fonts.faces().any(|face| face.families.iter().any(|(name, _)| name == family));
    let any = || fonts.faces().next().and_then(|face| face.families.first()).map(|(name, _)| name.clone());
    let family = FAMILIES.into_iter().find(|family| has(family)).map(str::to_owned).or_else(any);
    let family = family.ok_or(PngError::NoFont)?;
    fonts.set_sans_serif_family(family);

    let options = Options { fontdb: std::sync::Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| PngError::Svg(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let mut pixels = size
        .and_then(|size| Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| PngError::Svg("it has no extent".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Svg(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20">
        <rect width="30" height="20" fill="#ff0000"/></svg>"##;

    /// The picture; `None` on a system without fonts, where there can be none. Continuous integration has a font.
    fn drawn(svg: &str) -> Option<Vec<u8>> {
        match draw(svg) {
            Err(PngError::NoFont) if std::env::var_os("CI").is_none() => {
                eprintln!("skipped: this system has no font");
                None
            }
            result => Some(result.expect("a sound SVG, and a font")),
        }
    }

    #[test]
    fn the_picture_has_twice_the_size_of_the_svg_and_its_colours() {
        let Some(png) = drawn(RED) else { return };
        let pixels = Pixmap::decode_png(&png).expect("a sound PNG");
        assert_eq!((pixels.width(), pixels.height()), (60, 40));
        let middle = pixels.pixel(30, 20).expect("inside").demultiply();
        assert_eq!((middle.red(), middle.green(), middle.blue(), middle.alpha()), (255, 0, 0, 255));
    }

    #[test]
    fn text_is_drawn() {
        let text = r#"<text x="2" y="15" font-family="sans-serif" font-size="14">W</text></svg>"#;
        let Some(png) = drawn(&RED.replace("</svg>", text)) else { return };
        let pixels = Pixmap::decode_png(&png).expect("a sound PNG");
        assert!(pixels.pixels().iter().any(|pixel| pixel.red() < 50), "the letter is black on red");
    }

    #[test]
    fn what_is_no_svg_is_refused() {
        assert!(matches!(draw("<html></html>"), Err(PngError::Svg(_) | PngError::NoFont)));
    }
}
