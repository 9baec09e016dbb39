//! Experiments, captures and documents from outside.

mod documents;
mod quick;
mod scratch;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod trace_loss;
mod trace_slow_start;
mod trace_truth;
mod trace_what_if;
mod wrong_models;
