//! Streams of jobs on a cluster for Python: arrays in, bytes out.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use turnbuckle_core::jobs::{Class, Hosts, Jobs, Policy, run};

use super::timeline::bytes;

/// Run a stream of jobs.  Arrays are contiguous: float64 for times and bandwidths, int64 for cores, memory and GPUs (thousandths), uint32 for
/// the rest; `classes` are slowdown, bandwidth of a GPU, exposed and moving share; `policy` is ``order``, ``backfill`` or ``any``.
/// It is given up once all jobs
/// together have waited `patience` seconds.  Returns `start` and `end` of jobs (float64), what was in use in the `window`, and the number of `events`.
#[pyfunction]
#[pyo3(signature = (*, arrival, work, limit, parts, cores, memory, gpus, class_of, pool, host_cores, host_memory, pool_gpus, trunk, classes,
                    policy, depth, window, patience))]
#[allow(clippy::too_many_arguments, reason = "one argument an array")]
pub fn run_jobs<'py>(
    py: Python<'py>,
    arrival: PyReadonlyArray1<'py, f64>,
    work: PyReadonlyArray1<'py, f64>,
    limit: PyReadonlyArray1<'py, f64>,
    parts: PyReadonlyArray1<'py, u32>,
    cores: PyReadonlyArray1<'py, i64>,
    memory: PyReadonlyArray1<'py, i64>,
    gpus: PyReadonlyArray1<'py, i64>,
    class_of: PyReadonlyArray1<'py, u32>,
    pool: PyReadonlyArray1<'py, u32>,
    host_cores: PyReadonlyArray1<'py, i64>,
    host_memory: PyReadonlyArray1<'py, i64>,
    pool_gpus: PyReadonlyArray1<'py, u32>,
    trunk: PyReadonlyArray1<'py, f64>,
    classes: Vec<(f64, f64, f64, f64)>,
    policy: &str,
    depth: usize,
    window: (f64, f64),
    patience: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let policy = match policy {
        "order" => Policy::Order,
        "backfill" => Policy::Backfill,
        "any" => Policy::Any,
        _ => return Err(PyValueError::new_err("no such policy")),
    };
    let class = |(slowdown, bandwidth, exposed, moving)| Class { slowdown, bandwidth, exposed, moving };
    let classes: Vec<Class> = classes.into_iter().map(class).collect();
    let jobs = Jobs {
        arrival: arrival.as_slice()?,
        work: work.as_slice()?,
        limit: limit.as_slice()?,
        parts: parts.as_slice()?,
        cores: cores.as_slice()?,
        memory: memory.as_slice()?,
        gpus: gpus.as_slice()?,
        class: class_of.as_slice()?,
    };
    let hosts = Hosts {
        pool: pool.as_slice()?,
        cores: host_cores.as_slice()?,
        memory: host_memory.as_slice()?,
        gpus: pool_gpus.as_slice()?,
        trunk: trunk.as_slice()?,
    };
    let lengths =
        [jobs.work.len(), jobs.limit.len(), jobs.parts.len(), jobs.cores.len(), jobs.memory.len(), jobs.gpus.len(), jobs.class.len()];
    let same =
        lengths.iter().all(|&l| l == jobs.arrival.len()) && hosts.cores.len() == hosts.pool.len() && hosts.memory.len() == hosts.pool.len();
    if !same || hosts.trunk.len() != hosts.gpus.len() || jobs.class.iter().any(|&c| c as usize >= classes.len()) {
        return Err(PyValueError::new_err("arrays differ in length, or a class is not there"));
    }
    let outcome = py.detach(|| run(&jobs, &hosts, &classes, policy, depth, window, patience));
    let out = PyDict::new(py);
    out.set_item("start", bytes(py, &outcome.start, f64::to_le_bytes)?)?;
    out.set_item("end", bytes(py, &outcome.end, f64::to_le_bytes)?)?;
    out.set_item("gpu_seconds", outcome.gpu_seconds)?;
    out.set_item("core_seconds", outcome.core_seconds)?;
    out.set_item("stranded_gpu_seconds", outcome.stranded_gpu_seconds)?;
    out.set_item("stranded_core_seconds", outcome.stranded_core_seconds)?;
    out.set_item("events", outcome.events)?;
    out.set_item("given_up", outcome.given_up)?;
    Ok(out)
}
