//! The native half of the Python package `festina`. The other half, which programs use, is in [`python/festina`](../python/festina).
//!
//! | room | what lives there |
//! |---|---|
//! | `hub` | what wakes an event loop, and operations that it waits for |
//! | `endpoint`, `association` | the objects behind those of the package |
//! | `config` | settings from keyword arguments |
//! | `security` | identities, trust, and clients that wait for a decision |
//! | `convert` | messages, statistics and events as Python objects |
//! | `failure` | errors as exceptions |
//! | `logs` | log records on their way to `logging` |
//!
//! Nothing here waits, except that opening an endpoint waits for its thread. An operation is polled by the thread of the event loop; if it has to
//! wait, its waker notes its number and rings a descriptor that the event loop watches. No other thread ever runs Python code or takes the GIL. A
//! message is taken from the receive buffer in the same step in which the coroutine that asked gets it, so that a cancelled one takes none.

#![forbid(unsafe_code)]

mod association;
mod config;
mod convert;
mod endpoint;
mod failure;
mod hub;
mod locks;
mod logs;
mod security;

use pyo3::prelude::*;

/// The module `festina._festina`.
#[pymodule]
mod _festina {
    use festina::{CongestionControl, DEFAULT_SCTP_PORT, Profile};
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    #[pymodule_export]
    use crate::association::Association;
    #[pymodule_export]
    use crate::config::Config;
    #[pymodule_export]
    use crate::convert::Message;
    #[pymodule_export]
    use crate::endpoint::{Endpoint, Listener};
    #[pymodule_export]
    use crate::hub::{Hub, Operation};
    #[pymodule_export]
    use crate::logs::take_logs;
    #[pymodule_export]
    use crate::security::{Identity, Request, Sessions, Trust};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        crate::logs::subscribe();
        module.add("PROFILES", PyTuple::new(py, Profile::all().iter().map(|profile| profile.name()))?)?;
        module.add("CONGESTION", PyTuple::new(py, CongestionControl::all().iter().map(|control| control.name()))?)?;
        module.add("DEFAULT_SCTP_PORT", DEFAULT_SCTP_PORT)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
