//! The timeline replay for Python: buffers in, bytes out.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};
use turnbuckle_core::timeline::{GraphError, Stretch, Timeline as Core};

/// A graph of instants, ready to be replayed.  Arrays are contiguous buffers: uint32, int64 and float64.
#[pyclass(frozen, module = "turnbuckle._native")]
pub struct Timeline {
    core: Core,
}

/// Knots, run times, slopes, and the error left.
type LineBytes<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, f64);

fn refused(error: GraphError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn taken<T: Element>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    buffer.to_vec(py)
}

pub(crate) fn bytes<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    to: impl Fn(T) -> [u8; N],
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * N, |out| {
        for (place, value) in out.chunks_exact_mut(N).zip(values) {
            place.copy_from_slice(&to(*value));
        }
        Ok(())
    })
}

/// Work without the GIL that a signal stops.
fn stoppable<T: Send>(py: Python<'_>, work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<T, GraphError> + Send) -> PyResult<T> {
    let stopped = AtomicBool::new(false);
    let stop = || {
        if Python::attach(|py| py.check_signals()).is_err() {
            stopped.store(true, Ordering::Relaxed);
        }
        stopped.load(Ordering::Relaxed)
    };
    let done = py.detach(|| work(&stop)).map_err(refused)?;
    if stopped.load(Ordering::Relaxed) {
        return Err(pyo3::exceptions::PyKeyboardInterrupt::new_err(()));
    }
    Ok(done)
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
        // copies of the arrays are larger than the graph: each goes before the next is made
        let (from, to, own) = (taken(py, &source)?, taken(py, &target)?, taken(py, &residual)?);
        let mut core = py.detach(move || Core::ordered(instants, &from, &to, &own, parameters)).map_err(refused)?;
        let lag = taken(py, &lag)?;
        core = py.detach(move || core.with_lags(&lag)).map_err(refused)?;
        for (which, (parameter, amount)) in [(parameter, amount), (second_parameter, second_amount)].iter().enumerate() {
            let (parameter, amount) = (taken(py, parameter)?, taken(py, amount)?);
            core = py.detach(move || core.with_terms(which, &parameter, &amount)).map_err(refused)?;
        }
        Ok(Self { core })
    }

    /// Every recorded instant as little-endian int64 [ns].
    fn recorded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.core.len() * size_of::<i64>(), |out| {
            let (places, _) = out.as_chunks_mut();
            py.detach(|| self.core.recorded(|instant, at| places[instant] = at.to_le_bytes()));
            Ok(())
        })
    }

    /// Every instant under one scenario (float64 values of all parameters) as float64 [ns], and the edges of its critical path, last first, as uint32.
    fn replayed<'py>(&self, py: Python<'py>, scenario: PyBuffer<f64>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let scenario = taken(py, &scenario)?;
        let mut path = Vec::new();
        let instants = PyBytes::new_with(py, self.core.len() * size_of::<f64>(), |out| {
            let (places, _) = out.as_chunks_mut();
            path = py.detach(|| self.core.replayed(&scenario, |instant, at| places[instant] = at.to_le_bytes())).map_err(refused)?;
            Ok(())
        })?;
        Ok((instants, bytes(py, &path, u32::to_le_bytes)?))
    }

    /// The edges of the critical path under one scenario, last first, as uint32.
    fn path<'py>(&self, py: Python<'py>, scenario: PyBuffer<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let scenario = taken(py, &scenario)?;
        let path = py.detach(|| self.core.replayed(&scenario, |_, _| {})).map_err(refused)?;
        bytes(py, &path, u32::to_le_bytes)
    }

    /// Memory of the graph [bytes], and how much of it a pass reads.
    #[getter]
    fn size_bytes(&self) -> (usize, usize) {
        self.core.size_bytes()
    }

    /// Passes over the graph that `line` has made so far, and places it has looked at in them.
    #[getter]
    fn looks(&self) -> (usize, usize) {
        self.core.looks().into()
    }

    /// The last instant [ns] of each scenario (rows of float64 values) as float64.  Ctrl-C stops it.
    #[pyo3(signature = (scenarios, *, threads))]
    fn last<'py>(&self, py: Python<'py>, scenarios: PyBuffer<f64>, threads: usize) -> PyResult<Bound<'py, PyBytes>> {
        let scenarios = taken(py, &scenarios)?;
        let last = stoppable(py, |stop| self.core.last(&scenarios, threads, stop))?;
        bytes(py, &last, f64::to_le_bytes)
    }

    /// The last instant [ns] of one scenario where edges are left out (1) or lose the first (2) or second (4) term of their change: a byte an edge.
    fn last_sparing(&self, py: Python<'_>, scenario: PyBuffer<f64>, spared: PyBuffer<u8>) -> PyResult<f64> {
        let (scenario, spared) = (taken(py, &scenario)?, taken(py, &spared)?);
        py.detach(|| self.core.last_sparing(&scenario, &spared)).map_err(refused)
    }

    /// Run time, left and right derivative [ns] at `at` along each of `directions` (rows of float64 values), as rows of three float64.
    #[pyo3(signature = (at, directions, *, threads))]
    fn slopes<'py>(&self, py: Python<'py>, at: PyBuffer<f64>, directions: PyBuffer<f64>, threads: usize) -> PyResult<Bound<'py, PyBytes>> {
        let (at, directions) = (taken(py, &at)?, taken(py, &directions)?);
        let rows = stoppable(py, |stop| self.core.slopes(&at, &directions, threads, stop))?;
        let flat: Vec<f64> = rows.iter().flat_map(|row| [row.value, row.left, row.right]).collect();
        bytes(py, &flat, f64::to_le_bytes)
    }

    /// The last instant [ns] of each scenario (rows of float64 values) as float64, and the change of one longest path there for each unit of
    /// each parameter [ns], rows of float64.  Ctrl-C stops it.
    #[pyo3(signature = (scenarios, *, threads))]
    fn tangents<'py>(
        &self,
        py: Python<'py>,
        scenarios: PyBuffer<f64>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let scenarios = taken(py, &scenarios)?;
        let tangents = stoppable(py, |stop| self.core.tangents(&scenarios, threads, stop))?;
        let (last, slopes): (Vec<f64>, Vec<Vec<f64>>) = tangents.into_iter().map(|one| (one.value, one.slopes)).unzip();
        Ok((bytes(py, &last, f64::to_le_bytes)?, bytes(py, &slopes.concat(), f64::to_le_bytes)?))
    }

    /// Run time at `at + s * direction` for s from `first` to `last`: knots, run time at each and slope between them as float64, and the
    /// largest error left [ns], 0 unless there are more than `limit` breakpoints.  Ctrl-C stops it.
    #[pyo3(signature = (at, direction, first, last, *, limit, threads))]
    #[allow(clippy::too_many_arguments, reason = "one argument a part of the stretch")]
    fn line<'py>(
        &self,
        py: Python<'py>,
        at: PyBuffer<f64>,
        direction: PyBuffer<f64>,
        first: f64,
        last: f64,
        limit: usize,
        threads: usize,
    ) -> PyResult<LineBytes<'py>> {
        let (at, direction) = (taken(py, &at)?, taken(py, &direction)?);
        let on = Stretch { at: &at, direction: &direction, ends: (first, last) };
        let line = stoppable(py, |stop| self.core.line(on, limit, threads, stop))?;
        let floats = |values: &[f64]| bytes(py, values, f64::to_le_bytes);
        Ok((floats(&line.knots)?, floats(&line.values)?, floats(&line.slopes)?, line.gap))
    }
}
