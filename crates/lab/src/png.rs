//! Figures as PNG, for where SVG is not welcome. The feature `png` builds what draws them.

#[cfg(feature = "png")]
mod drawing;

/// Why there is no PNG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The crate was built without its feature `png`.
    #[error("this build draws no PNG; one with the feature \"png\" does")]
    NotBuilt,
    /// The system has no font to write the text with.
    #[error("the system has no font for the figure's text; install one, for example DejaVu Sans")]
    NoFont,
    /// Caller: this is no SVG that can be drawn.
    #[error("the SVG cannot be drawn: {0}")]
    Svg(String),
}

/// Draws an SVG with twice its width and height in pixels. The text is written in the system's fonts, so the bytes depend
/// on the machine.
///
/// # Errors
/// If the feature `png` is off, the system has no fonts or the SVG cannot be drawn.
pub fn from_svg(svg: &str) -> Result<Vec<u8>, PngError> {
    #[cfg(feature = "png")]
    return drawing::draw(svg);
    #[cfg(not(feature = "png"))]
    {
        let _ = svg;
        Err(PngError::NotBuilt)
    }
}
