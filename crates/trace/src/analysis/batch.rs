//! Reports as a record batch of Arrow, for programs that compute with tables, and as a Parquet file.
//!
//! The columns are those of [`columns`](super::columns): texts as `Utf8`, counts as `UInt64`, other numbers as `Float64`, each null where nothing is
//! known.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::columns::{COLUMNS, Kind, Value, kind};
use super::report::StreamReport;

/// Names and types of the columns.
pub fn schema() -> Schema {
    let field = |name: &&str| {
        let data_type = match kind(name) {
            Kind::Text => DataType::Utf8,
            Kind::Count => DataType::UInt64,
            Kind::Number => DataType::Float64,
        };
        Field::new(*name, data_type, true)
    };
    Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>())
}

/// A row for each report.
///
/// # Errors
/// None is known: all columns have the same length and the types of [`schema`]. The error is Arrow's.
pub fn record_batch(reports: &[StreamReport]) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<Vec<Value>> = reports.iter().map(StreamReport::values).collect();
    let columns = COLUMNS.iter().enumerate().map(|(index, name)| {
        let values = rows.iter().map(|row| row.get(index).unwrap_or(&Value::Missing));
        column(kind(name), values)
    });
    RecordBatch::try_new(Arc::new(schema()), columns.collect())
}

fn column<'v>(kind: Kind, values: impl Iterator<Item = &'v Value>) -> ArrayRef {
    match kind {
        Kind::Text => Arc::new(StringArray::from_iter(values.map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }))),
        Kind::Count => Arc::new(UInt64Array::from_iter(values.map(|value| match value {
            Value::Count(count) => Some(*count),
            _ => None,
        }))),
        Kind::Number => Arc::new(Float64Array::from_iter(values.map(|value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        }))),
    }
}

#[cfg(feature = "parquet")]
pub use file::ParquetRows;

#[cfg(feature = "parquet")]
mod file {
    use std::io::Write;
    use std::sync::Arc;

    use parquet::arrow::ArrowWriter;
    use parquet::errors::Result;
    use parquet::file::properties::WriterProperties;

    use super::super::report::StreamReport;
    use super::{record_batch, schema};

    /// Rows written at once: enough for efficient columns, and few enough for memory.
    const ROWS_AT_ONCE: usize = 1_024;

    /// A Parquet file that grows by a row for each report.
    #[derive(Debug)]
    pub struct ParquetRows<W: Write + Send> {
        writer: ArrowWriter<W>,
        waiting: Vec<StreamReport>,
    }

    impl<W: Write + Send> ParquetRows<W> {
        /// Begins the file.
        ///
        /// # Errors
        /// If `target` cannot be written.
        pub fn new(target: W) -> Result<Self> {
            // Without a name of its own the library would write its version, and the bytes would change with it.
            let properties = WriterProperties::builder().set_created_by("festina".to_owned()).build();
            Ok(Self {
                writer: ArrowWriter::try_new(target, Arc::new(schema()), Some(properties))?,
                waiting: Vec::new(),
            })
        }

        /// Adds a row.
        ///
        /// # Errors
        /// If the target cannot be written.
        pub fn write(&mut self, report: StreamReport) -> Result<()> {
            self.waiting.push(report);
            if self.waiting.len() >= ROWS_AT_ONCE { self.hand_on() } else { Ok(()) }
        }

        /// Ends the file. Without this it cannot be read.
        ///
        /// # Errors
        /// If the target cannot be written.
        pub fn finish(mut self) -> Result<W> {
            self.hand_on()?;
            self.writer.into_inner()
        }

        fn hand_on(&mut self) -> Result<()> {
            let waiting = std::mem::take(&mut self.waiting);
            self.writer.write(&record_batch(&waiting)?)?;
            // One group of rows for each batch, so that written rows leave memory.
            self.writer.flush()
        }
    }
}
