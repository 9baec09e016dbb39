//! Rows as a Parquet file, if the command was built with that.

#[cfg(not(feature = "parquet"))]
pub(super) use absent::ParquetFile;
#[cfg(feature = "parquet")]
pub(super) use present::ParquetFile;

#[cfg(feature = "parquet")]
mod present {
    use std::fs::File;
    use std::path::Path;

    use anyhow::{Context as _, Result};
    use festina_trace::StreamReport;
    use festina_trace::analysis::batch::ParquetRows;

    /// A file that grows by a row for each stream.
    pub(in super::super) struct ParquetFile {
        rows: ParquetRows<File>,
        problem: String,
    }

    impl ParquetFile {
        pub(in super::super) fn create(path: &Path) -> Result<Self> {
            let problem = format!("cannot write {}", path.display());
            let file = File::create(path).with_context(|| problem.clone())?;
            Ok(Self { rows: ParquetRows::new(file).with_context(|| problem.clone())?, problem })
        }

        pub(in super::super) fn write(&mut self, stream: &StreamReport) -> Result<()> {
            self.rows.write(stream.clone()).with_context(|| self.problem.clone())
        }

        pub(in super::super) fn finish(self) -> Result<()> {
            self.rows.finish().map(drop).context(self.problem)
        }
    }
}

#[cfg(not(feature = "parquet"))]
mod absent {
    use std::convert::Infallible;
    use std::path::Path;

    use anyhow::Result;
    use festina_trace::StreamReport;

    use crate::usage::UsageError;

    /// There is none.
    pub(in super::super) struct ParquetFile(Infallible);

    impl ParquetFile {
        pub(in super::super) fn create(_path: &Path) -> Result<Self> {
            let problem = "this festina was built without Parquet, which makes it larger: build it with --features parquet, or take \
                           the same rows from --csv or --json";
            Err(UsageError::new(problem).into())
        }

        pub(in super::super) fn write(&mut self, _stream: &StreamReport) -> Result<()> {
            match self.0 {}
        }

        pub(in super::super) fn finish(self) -> Result<()> {
            match self.0 {}
        }
    }
}
