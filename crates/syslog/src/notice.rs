//! Messages for the operator.

use std::sync::Arc;

/// Receives messages for the operator. They never contain the content of a line.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;
