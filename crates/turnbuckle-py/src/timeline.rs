//! The timeline replay for Python: buffers in, bytes out.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};
use turnbuckle_core::timeline::{Edges, GraphError, Timeline as Core};

/// A graph of instants, ready to be replayed.  Arrays are contiguous buffers: uint32, int64 and float64.
#[pyclass(frozen, module = "turnbuckle._native")]
pub struct Timeline {
    core: Core,
}

fn refused(error: GraphError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn taken<T: pyo3::buffer::Element>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    buffer.to_vec(py)
}

fn bytes<'py, T: Copy, const N: usize>(py: Python<'py>, values: &[T], to: impl Fn(T) -> [u8; N]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * N, |out| {
        for (place, value) in out.chunks_exact_mut(N).zip(values) {
            place.copy_from_slice(&to(*value));
        }
        Ok(())
    })
}

#[pymethods]
impl Timeline {
    /// Build from edges (`source`, `target`: uint32, `lag`: int64 ns, two terms of parameter: uint32 and amount: float64) and residuals.
    #[new]
    #[pyo3(signature = (instants, source, target, lag, parameter, amount, second_parameter, second_amount, residual, parameters))]
    #[allow(clippy::too_many_arguments, reason = "one argument an array")]
    fn new(
        py: Python<'_>,
        instants: usize,
        source: PyBuffer<u32>,
        target: PyBuffer<u32>,
        lag: PyBuffer<i64>,
        parameter: PyBuffer<u32>,
        amount: PyBuffer<f64>,
        second_parameter: PyBuffer<u32>,
        second_amount: PyBuffer<f64>,
        residual: PyBuffer<i64>,
        parameters: usize,
    ) -> PyResult<Self> {
        let (source, target, lag) = (taken(py, &source)?, taken(py, &target)?, taken(py, &lag)?);
        let (parameter, amount) = (taken(py, &parameter)?, taken(py, &amount)?);
        let (second_parameter, second_amount) = (taken(py, &second_parameter)?, taken(py, &second_amount)?);
        let residual = taken(py, &residual)?;
        let core = py.detach(|| {
            let edges =
                Edges { from: &source, to: &target, lag: &lag, terms: [(&parameter, &amount), (&second_parameter, &second_amount)] };
            Core::new(instants, edges, &residual, parameters)
        });
        Ok(Self { core: core.map_err(refused)? })
    }

    /// Every recorded instant as little-endian int64 [ns].
    fn recorded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let instants = py.detach(|| self.core.recorded());
        bytes(py, &instants, i64::to_le_bytes)
    }

    /// Every instant under one scenario (float64 values of all parameters) as float64 [ns], and the edges of its critical path, last first, as uint32.
    fn replayed<'py>(&self, py: Python<'py>, scenario: PyBuffer<f64>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let scenario = taken(py, &scenario)?;
        let (instants, path) = py.detach(|| self.core.replayed(&scenario)).map_err(refused)?;
        Ok((bytes(py, &instants, f64::to_le_bytes)?, bytes(py, &path, u32::to_le_bytes)?))
    }

    /// The last instant [ns] of each scenario (rows of float64 values) as float64.  Ctrl-C stops it.
    #[pyo3(signature = (scenarios, *, threads))]
    fn last<'py>(&self, py: Python<'py>, scenarios: PyBuffer<f64>, threads: usize) -> PyResult<Bound<'py, PyBytes>> {
        let scenarios = taken(py, &scenarios)?;
        let stopped = AtomicBool::new(false);
        let stop = || {
            if Python::attach(|py| py.check_signals()).is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            stopped.load(Ordering::Relaxed)
        };
        let last = py.detach(|| self.core.last(&scenarios, threads, &stop)).map_err(refused)?;
        if stopped.load(Ordering::Relaxed) {
            return Err(pyo3::exceptions::PyKeyboardInterrupt::new_err(()));
        }
        bytes(py, &last, f64::to_le_bytes)
    }
}
