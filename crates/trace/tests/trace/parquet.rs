//! Rows as Arrow and as Parquet, compared with those of JSON.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::DataType;
use festina_trace::analysis::batch::{ParquetRows, record_batch};
use festina_trace::analysis::columns::{COLUMNS, json_line};
use festina_trace::{Analyser, Finding, StreamReport, analyse};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// The streams of the capture that ships with the documentation.
fn streams() -> Vec<StreamReport> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/captures/thin.pcapng.gz");
    let mut streams = Vec::new();
    let (_, result) = analyse(File::open(path).expect("it ships"), Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding {
            streams.push(*stream);
        }
    });
    result.expect("a sound capture");
    streams
}

/// The value at a place in JSON's form: six digits behind the point.
fn json(batch: &RecordBatch, row: usize, column: usize) -> Value {
    let values = batch.column(column);
    if values.is_null(row) {
        return Value::Null;
    }
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value(row).into(),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().value(row).into(),
        _ => {
            let digits = format!("{:.6}", values.as_primitive::<Float64Type>().value(row));
            serde_json::from_str(&digits).expect("a number")
        }
    }
}

/// Two numbers are the same if JSON writes one as `2` and the other as `2.000000`.
fn same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.to_bits() == right.to_bits(),
        _ => left == right,
    }
}

fn assert_rows_are_those_of_json(batch: &RecordBatch, streams: &[StreamReport]) {
    assert_eq!((batch.num_rows(), batch.num_columns()), (streams.len(), COLUMNS.len()));
    for (row, stream) in streams.iter().enumerate() {
        let object: Value = serde_json::from_str(&json_line(stream)).expect("an object");
        for (column, name) in COLUMNS.iter().enumerate() {
            assert_eq!(batch.schema().field(column).name(), name);
            let (there, here) = (&object[*name], json(batch, row, column));
            assert!(same(there, &here), "{name} of stream {}: {there} and {here}", stream.id);
        }
    }
}

#[test]
fn record_batches_hold_what_the_lines_of_json_hold() {
    let streams = streams();
    assert_eq!(streams.len(), 8);
    assert_rows_are_those_of_json(&record_batch(&streams).expect("sound columns"), &streams);
    assert_eq!(record_batch(&[]).expect("sound columns").num_rows(), 0);
}

#[test]
fn what_is_written_as_parquet_reads_back_as_the_lines_of_json() {
    // More rows than are written at once.
    let streams: Vec<StreamReport> = streams().into_iter().cycle().take(1_500).collect();
    let mut rows = ParquetRows::new(Vec::new()).expect("memory does not fail");
    for stream in &streams {
        rows.write(stream.clone()).expect("memory does not fail");
    }
    let path = std::env::temp_dir().join(format!("festina-trace-{}.parquet", std::process::id()));
    std::fs::write(&path, rows.finish().expect("memory does not fail")).expect("the test can write its file");
    let file =
        ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("it was written")).expect("a sound file");
    assert_eq!(file.metadata().num_row_groups(), 2);
    let reader = file.with_batch_size(streams.len()).build().expect("a sound file");
    let mut seen = 0;
    for batch in reader {
        let batch = batch.expect("sound columns");
        let rows = streams.get(seen..seen + batch.num_rows()).expect("no more rows than were written");
        assert_rows_are_those_of_json(&batch, rows);
        seen += batch.num_rows();
    }
    std::fs::remove_file(&path).expect("it was written");
    assert_eq!(seen, streams.len());
}
