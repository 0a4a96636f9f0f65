//! Columns of activities for Python: arrays in, bytes out; nothing that goes in is copied.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use turnbuckle_core::activities::{self, Lengths, Spans};

use super::timeline::bytes;

fn refused(error: Lengths) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Numbers of rows and first rows, as bytes.
type Numbers<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Exposed time, tails, time of each level, as bytes; whether rows are tied.
type Exposures<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Vec<i64>, bool);

/// Number the combinations of values of some int64 columns in the order they first occur: number of each row, first row of each, as uint32.
#[pyfunction]
pub(crate) fn numbered<'py>(py: Python<'py>, columns: Vec<PyReadonlyArray1<'py, i64>>) -> PyResult<Numbers<'py>> {
    let columns = columns.iter().map(|column| column.as_slice()).collect::<Result<Vec<_>, _>>()?;
    let found = py.detach(|| activities::numbered(&columns)).map_err(refused)?;
    Ok((bytes(py, &found.number, u32::to_le_bytes)?, bytes(py, &found.first, u32::to_le_bytes)?))
}

/// Give each instant to one activity; `start`, `end`, `felt` [ns] and `tie` are int64, `level` int8, an empty `tie` tells nothing apart.
///
/// Returns int64 [ns] and bool of each activity, nanoseconds of each level, and whether two begin and end together that no tie tells apart.
#[pyfunction]
pub(crate) fn exposed<'py>(
    py: Python<'py>,
    start: PyReadonlyArray1<'py, i64>,
    end: PyReadonlyArray1<'py, i64>,
    level: PyReadonlyArray1<'py, i8>,
    felt: PyReadonlyArray1<'py, i64>,
    tie: PyReadonlyArray1<'py, i64>,
) -> PyResult<Exposures<'py>> {
    let on =
        Spans { start: start.as_slice()?, end: end.as_slice()?, level: level.as_slice()?, felt: felt.as_slice()?, tie: tie.as_slice()? };
    let found = py.detach(|| activities::exposed(on)).map_err(refused)?;
    let tail = bytes(py, &found.tail, |exposed| [u8::from(exposed)])?;
    Ok((bytes(py, &found.own, i64::to_le_bytes)?, tail, found.by_level, found.tied))
}
