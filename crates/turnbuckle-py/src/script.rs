//! Scripts for Python: texts in, texts out.

use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use turnbuckle_core::script::{ScriptError, run};

/// Load JavaScript `sources` in order, then return what the global function `name` answers to each of `inputs`.
///
/// The engine reaches no file and no network and uses at most `memory` bytes.  Raises `MemoryError`, or `RuntimeError` with the
/// number of inputs answered before and the script's message.
#[pyfunction]
#[pyo3(signature = (sources, name, inputs, *, memory))]
pub fn run_script(py: Python<'_>, sources: Vec<PyBackedStr>, name: &str, inputs: Vec<PyBackedStr>, memory: usize) -> PyResult<Vec<String>> {
    let sources: Vec<&str> = sources.iter().map(|s| &**s).collect();
    let inputs: Vec<&str> = inputs.iter().map(|s| &**s).collect();
    py.detach(|| run(&sources, name, &inputs, memory)).map_err(|error| match error {
        ScriptError::Memory => PyMemoryError::new_err(()),
        ScriptError::Failed(answered, message) => PyRuntimeError::new_err((answered, message)),
    })
}
