//! Links and traces from outside.

mod conservation;
mod made_traces;
