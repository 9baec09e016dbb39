//! Calls of the program's own functions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function of the program. If it panics, this is reported and `otherwise` is returned: the endpoint also serves others.
pub(crate) fn call<R>(function: &'static str, otherwise: R, call: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        tracing::error!(function, panic = text(&*payload), "a function of the program panicked");
        otherwise
    })
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref().copied()).unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_program_is_answered_with_the_default() {
        assert_eq!(call("test", 1, || 2), 2);
        assert_eq!(call("test", 1, || panic!("a bug of the program")), 1);
        assert_eq!((text(&"bug"), text(&"bug".to_owned()), text(&7)), ("bug", "bug", "no text"));
    }
}
