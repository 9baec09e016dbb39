//! Captures in and out, from outside.

mod analysis;
mod both_ends;
mod order;
#[cfg(feature = "parquet")]
mod parquet;
mod tshark;
