//! Text of values that have names.

/// Implements `Display` and `FromStr` for a type by its method `name` and the iterator `$all` over its named values, and declares the error of
/// the latter, which lists the names.
#[macro_export]
macro_rules! text_is_name {
    ($type:ty, $all:expr, $(#[$doc:meta])* $unknown:ident, $noun:literal) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::core::str::FromStr for $type {
            type Err = $unknown;

            fn from_str(text: &str) -> Result<Self, $unknown> {
                $all.find(|named| named.name() == text).ok_or_else(|| $unknown { text: text.to_owned() })
            }
        }

        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $unknown {
            text: String,
        }

        impl ::core::fmt::Display for $unknown {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let names: Vec<&str> = $all.map(|named| named.name()).collect();
                write!(f, concat!("unknown ", $noun, " {:?}, expected one of: {}"), self.text, names.join(", "))
            }
        }

        impl ::core::error::Error for $unknown {}

        $crate::debug_is_display!($unknown);
    };
}
