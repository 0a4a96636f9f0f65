//! Names of C++ for Python: names in, names out.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use turnbuckle_core::demangle::demangled;

/// Names between two looks at the keyboard.
const PIECE: usize = 64;

/// Return names as C++ writes them; one that is not mangled, or not understood, stays as it is.
#[pyfunction]
pub fn demangle(py: Python<'_>, names: Vec<PyBackedStr>) -> PyResult<Vec<String>> {
    let mut out = Vec::with_capacity(names.len());
    for piece in names.chunks(PIECE) {
        py.check_signals()?;
        py.detach(|| out.extend(piece.iter().map(|name| demangled(name).unwrap_or_else(|| name.to_string()))));
    }
    Ok(out)
}
