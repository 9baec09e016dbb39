//! Every sample as Parquet: the columns of `samples.csv`, one row group for each run of a point.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::ReportError;
use crate::plan::{Plan, Point};
use crate::samples::Samples;

/// The samples of a run. The swept parameters and the series are texts; times and delays are nanoseconds.
pub(super) struct Table<'p> {
    plan: &'p Plan,
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl<'p> Table<'p> {
    /// Starts the table.
    pub(super) fn create(plan: &'p Plan, path: PathBuf) -> Result<Self, ReportError> {
        let file = File::create(&path).map_err(|source| ReportError::File { path: path.clone(), source })?;
        // Without a name of its own the library would write its version, and the bytes would change with it.
        let properties = WriterProperties::builder().set_created_by("festina".to_owned()).build();
        let writer = schema(plan)
            .and_then(|schema| SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)))
            .map_err(failed(&path))?;
        Ok(Self { plan, path, writer })
    }

    /// Adds the measurements of a repetition, counted from zero, of a point.
    pub(super) fn add(&mut self, point: &Point, repetition: u32, samples: &Samples) -> Result<(), ReportError> {
        let rows: usize = samples.series().values().map(Vec::len).sum();
        if rows == 0 {
            return Ok(());
        }
        let text = |value: String| ByteArray::from(value.into_bytes());
        let swept = self.plan.swept().filter_map(|name| point.value(name)).map(|value| text(value.to_string()));
        let swept: Vec<ByteArray> = swept.collect();
        let number = i32::try_from(repetition).unwrap_or(i32::MAX - 1) + 1;
        let all = || samples.series().values().flatten();
        let series: Vec<ByteArray> = samples
            .series()
            .iter()
            .flat_map(|(name, samples)| std::iter::repeat_n(text(name.clone()), samples.len()))
            .collect();
        let sent: Vec<i64> = all().map(|sample| nanoseconds(u128::from(sample.sent_at.as_nanos()))).collect();
        let delays: Vec<i64> = all().map(|sample| nanoseconds(sample.delay.as_nanos())).collect();
        let write = || {
            let mut group = self.writer.next_row_group()?;
            for value in swept {
                column::<ByteArrayType>(&mut group, &vec![value; rows])?;
            }
            column::<Int32Type>(&mut group, &vec![number; rows])?;
            column::<ByteArrayType>(&mut group, &series)?;
            column::<Int64Type>(&mut group, &sent)?;
            column::<Int64Type>(&mut group, &delays)?;
            group.close().map(|_| ())
        };
        write().map_err(failed(&self.path))
    }

    /// Ends the table.
    pub(super) fn finish(self) -> Result<(), ReportError> {
        self.writer.close().map(|_| ()).map_err(failed(&self.path))
    }
}

fn failed(path: &Path) -> impl Fn(ParquetError) -> ReportError {
    let path = path.to_owned();
    move |error| ReportError::File { path: path.clone(), source: std::io::Error::other(error) }
}

fn schema(plan: &Plan) -> Result<Type, ParquetError> {
    let column = |name: &str, physical, logical| {
        let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        column.with_logical_type(logical).build().map(Arc::new)
    };
    let text = |name: &str| column(name, PhysicalType::BYTE_ARRAY, Some(LogicalType::String));
    let mut columns = plan.swept().map(text).collect::<Result<Vec<_>, _>>()?;
    columns.push(column("repetition", PhysicalType::INT32, None)?);
    columns.push(text("series")?);
    columns.push(column("sent_ns", PhysicalType::INT64, None)?);
    columns.push(column("delay_ns", PhysicalType::INT64, None)?);
    Type::group_type_builder("samples").with_fields(columns).build()
}

/// Writes the next column of a row group.
fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: &[T::T]) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("there are more values than columns".to_owned()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// Durations above 292 years count as 292 years.
fn nanoseconds(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use festina_units::Instant;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::super::files::PARQUET;
    use super::*;
    use crate::experiments::Md1;
    use crate::plan::{Plan, Scale};
    use crate::samples::Sample;

    #[test]
    fn the_file_has_every_sample_with_its_point_and_repetition() {
        let folder = std::env::temp_dir().join(format!("festina-lab-parquet-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let plan = Plan::own(&Md1, Scale::Quick);
        let mut table = Table::create(&plan, folder.join(PARQUET)).expect("the folder can be written");
        let mut samples = Samples::new();
        for ms in [5, 7] {
            let delay = Duration::from_millis(ms);
            samples.record("waiting", Sample { sent_at: Instant::from_millis(10 * ms), delay });
        }
        for (repetition, point) in (0..).zip(&plan.points()) {
            table.add(point, repetition, &samples).expect("it can be written");
        }
        table.add(&plan.points()[0], 9, &Samples::new()).expect("nothing is written");
        table.finish().expect("it can be written");

        let file = File::open(folder.join(PARQUET)).expect("it was written");
        let reader = SerializedFileReader::new(file).expect("a sound file");
        let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string());
        let rows: Vec<String> = rows.collect();
        std::fs::remove_dir_all(&folder).expect("the folder can be removed");
        assert_eq!(rows.len(), 2 * plan.points().len());
        let expected = ["{load: \"30%\", repetition: 1, series: \"waiting\", sent_ns: 50000000, delay_ns: 5000000}"]
            .map(str::to_owned);
        assert_eq!(rows[..1], expected);
        assert!(rows[3].contains("repetition: 2") && rows[3].contains("delay_ns: 7000000"), "{rows:?}");
    }
}
