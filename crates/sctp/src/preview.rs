//! Debug output of types with payloads.

/// Implements `Debug` for a struct, with a preview of the payload instead of all its bytes: it may be long and secret. Every field has to be named.
macro_rules! debug_with_preview {
    ($type:ident $(<$lifetime:lifetime>)?, $payload:ident, [$($field:ident),*]) => {
        impl core::fmt::Debug for $type $(<$lifetime>)? {
            fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let Self { $payload, $($field),* } = self;
                let mut shown = formatter.debug_struct(stringify!($type));
                shown.field(stringify!($payload), &festina_units::Preview($payload));
                $(shown.field(stringify!($field), $field);)*
                shown.finish()
            }
        }
    };
}

pub(crate) use debug_with_preview;
