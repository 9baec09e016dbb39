//! Bytes in debug output.

use core::fmt;

/// Bytes that are shown.
const SHOWN_BYTES: usize = 8;

/// Bytes in debug output: their number and the first eight. A whole payload fills logs, and may be secret.
///
/// ```
/// use festina_units::Preview;
///
/// assert_eq!(format!("{:?}", Preview(b"hello")), r#"5 bytes "hello""#);
/// assert_eq!(format!("{:?}", Preview(&[b'a'; 1_000])), r#"1000 bytes "aaaaaaaa"..."#);
/// ```
#[derive(Clone, Copy)]
pub struct Preview<'a>(pub &'a [u8]);

impl fmt::Debug for Preview<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN_BYTES).unwrap_or(self.0);
        let rest = if shown.len() < self.0.len() { "..." } else { "" };
        write!(formatter, "{} bytes \"{}\"{rest}", self.0.len(), shown.escape_ascii())
    }
}
