//! The thin shell: paths and Arrow in, Arrow out, GIL released, errors translated.  Nothing else.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{LargeStringArray, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turnbuckle_core::error::{ReadError, Trouble};
use turnbuckle_core::recording::{Fact, Recording};
use turnbuckle_core::{kineto, nsys, otf2};

mod activities;
mod contention;
mod demangle;
mod distributions;
mod jobs;
mod script;
mod timeline;
mod toml_text;

/// Shortest time between two calls of the progress function.
const TICK: Duration = Duration::from_millis(50);

/// One table that any Arrow consumer can take without a copy (`__arrow_c_stream__`).
#[pyclass(frozen, module = "turnbuckle._native")]
struct ArrowTable {
    batch: RecordBatch,
}

#[pymethods]
impl ArrowTable {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(&self, py: Python<'py>, requested_schema: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

fn internal(message: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("{message}"))
}

/// The Python error of a class of `turnbuckle.errors`.
fn coded(py: Python<'_>, class: &str, trouble: &Trouble) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let kwargs = PyDict::new(py);
        kwargs.set_item("found", &trouble.found)?;
        kwargs.set_item("cause", &trouble.cause)?;
        kwargs.set_item("fix", &trouble.fix)?;
        let error = py.import("turnbuckle.foundation.errors")?.getattr(class)?.call((trouble.code, &trouble.what), Some(&kwargs))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|error| error)
}

/// The error for a panic: a defect of ours, never the user's.
fn defect(py: Python<'_>, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    let trouble = Trouble {
        code: "I001",
        what: "the native reader failed".to_owned(),
        found: text.unwrap_or_else(|| "a panic without a message".to_owned()),
        cause: "a defect of Turnbuckle".to_owned(),
        fix: "please report it, with the profiler's version and without the file".to_owned(),
    };
    coded(py, "InternalError", &trouble)
}

/// Read an Nsight Systems SQLite export.
///
/// Returns `{"tables": {name: ArrowTable}, "names": ArrowTable with one column, "facts": {...}, "findings": [(code, count, detail)]}`.
/// Raises `turnbuckle.errors.ProfileError`.  `progress` is called with the share of the work done; what it raises stops the read.
#[pyfunction]
#[pyo3(signature = (path, *, threads=0, progress=None))]
fn read_nsys<'py>(py: Python<'py>, path: PathBuf, threads: usize, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
    let read = |tick: Tick<'_>| nsys::read(&path, nsys::Options { threads }, tick);
    reading(py, progress, read)
}

/// Read an OTF2 archive; `path` is its anchor file.  Returns and raises what `read_nsys` does.
#[pyfunction]
#[pyo3(signature = (path, *, threads=0, progress=None))]
fn read_otf2<'py>(py: Python<'py>, path: PathBuf, threads: usize, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
    let read = |tick: Tick<'_>| otf2::read(&path, otf2::Options { threads }, tick);
    reading(py, progress, read)
}

/// Read a Chrome trace of PyTorch's profiler; `member` is the file inside a packed archive.  Returns and raises what `read_nsys` does.
#[pyfunction]
#[pyo3(signature = (path, *, member=None, threads=0, progress=None))]
fn read_kineto<'py>(
    py: Python<'py>,
    path: PathBuf,
    member: Option<String>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = kineto::Options { threads, member };
    reading(py, progress, |tick: Tick<'_>| kineto::read(&path, &options, tick))
}

/// What the readers call with the share of the work done.
type Tick<'a> = &'a mut dyn FnMut(f64) -> bool;

/// Run a reader without the GIL; progress and signals are looked after now and then.
fn reading<'py>(
    py: Python<'py>,
    progress: Option<Py<PyAny>>,
    read: impl FnOnce(Tick<'_>) -> Result<Recording, ReadError> + Send,
) -> PyResult<Bound<'py, PyDict>> {
    let mut raised: Option<PyErr> = None;
    let mut last: Option<Instant> = None;
    let outcome = py.detach(|| {
        let mut tick = |share: f64| {
            if share < 1.0 && last.is_some_and(|l| l.elapsed() < TICK) {
                return true;
            }
            last = Some(Instant::now());
            Python::attach(|py| {
                let called = py.check_signals().and_then(|()| match &progress {
                    Some(function) => function.call1(py, (share,)).map(|_| ()),
                    None => Ok(()),
                });
                match called {
                    Ok(()) => true,
                    Err(error) => {
                        raised = Some(error);
                        false
                    }
                }
            })
        };
        catch_unwind(AssertUnwindSafe(|| read(&mut tick)))
    });
    if let Some(error) = raised {
        return Err(error);
    }
    match outcome {
        Ok(Ok(recording)) => python(py, recording),
        Ok(Err(ReadError::Profile(trouble))) => Err(coded(py, "ProfileError", &trouble)),
        Ok(Err(ReadError::Cancelled)) => Err(internal("the read was cancelled")),
        Err(panic) => Err(defect(py, panic.as_ref())),
    }
}

fn python(py: Python<'_>, recording: Recording) -> PyResult<Bound<'_, PyDict>> {
    let tables = PyDict::new(py);
    for table in recording.tables {
        let name = table.spec.name;
        tables.set_item(name, ArrowTable { batch: table.into_batch().map_err(internal)? })?;
    }
    let names = LargeStringArray::from_iter_values(&recording.names);
    let schema = Schema::new(vec![Field::new("name", DataType::LargeUtf8, false)]);
    let names = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(names)]).map_err(internal)?;
    let facts = PyDict::new(py);
    for (key, fact) in recording.facts {
        match fact {
            Fact::Int(value) => facts.set_item(key, value)?,
            Fact::Text(value) => facts.set_item(key, value)?,
            Fact::Missing => facts.set_item(key, py.None())?,
            Fact::Counts(list) => {
                let counts = PyDict::new(py);
                for (name, count) in list {
                    counts.set_item(name, count)?;
                }
                facts.set_item(key, counts)?;
            }
        }
    }
    let findings = PyList::empty(py);
    for finding in recording.findings {
        findings.append((finding.code, finding.count, finding.detail))?;
    }
    let out = PyDict::new(py);
    out.set_item("tables", tables)?;
    out.set_item("names", ArrowTable { batch: names })?;
    out.set_item("facts", facts)?;
    out.set_item("findings", findings)?;
    Ok(out)
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("__build__", env!("TURNBUCKLE_BUILD"))?;
    m.add_class::<ArrowTable>()?;
    m.add_class::<timeline::Timeline>()?;
    m.add_function(wrap_pyfunction!(activities::exposed, m)?)?;
    m.add_function(wrap_pyfunction!(activities::numbered, m)?)?;
    m.add_function(wrap_pyfunction!(contention::contend, m)?)?;
    m.add_function(wrap_pyfunction!(contention::routes, m)?)?;
    m.add_function(wrap_pyfunction!(demangle::demangle, m)?)?;
    m.add_function(wrap_pyfunction!(distributions::student_quantile, m)?)?;
    m.add_function(wrap_pyfunction!(distributions::student_cdf, m)?)?;
    m.add_function(wrap_pyfunction!(distributions::f_tail, m)?)?;
    m.add_function(wrap_pyfunction!(distributions::beta_quantile, m)?)?;
    m.add_function(wrap_pyfunction!(distributions::gamma_tail, m)?)?;
    m.add_function(wrap_pyfunction!(jobs::run_jobs, m)?)?;
    m.add_function(wrap_pyfunction!(read_kineto, m)?)?;
    m.add_function(wrap_pyfunction!(read_nsys, m)?)?;
    m.add_function(wrap_pyfunction!(read_otf2, m)?)?;
    m.add_function(wrap_pyfunction!(script::run_script, m)?)?;
    m.add_function(wrap_pyfunction!(toml_text::parse_toml, m)?)?;
    Ok(())
}
