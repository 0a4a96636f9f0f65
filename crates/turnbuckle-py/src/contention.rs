//! The contention replay for Python: buffers in, bytes out.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::atomic::{AtomicBool, Ordering};
use turnbuckle_core::contention::{Fidelity, LogP, Messages, Network, Program, RunError, Shape, run};

use super::timeline::{bytes, taken};

/// Waiting processes named in an error: enough to show a circle.
const NAMED: usize = 64;

fn refused(error: RunError) -> PyErr {
    match error {
        RunError::Stopped => PyKeyboardInterrupt::new_err(()),
        RunError::Deadlock(waiting) => {
            let named: Vec<(u32, u32)> = waiting.iter().take(NAMED).copied().collect();
            PyRuntimeError::new_err((waiting.len(), named))
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Replay a program on a network.  Arrays are contiguous buffers: uint8, uint32, uint64; times are picoseconds, bandwidths bytes a picosecond.
///
/// `down`, `up` and `cables` describe a fat tree, and are empty for a single switch; `fidelity` is ``logp`` or ``flow``.
/// Returns a dictionary: `ends`, `waited` of processes, with `traced` also `began` and `arrived` of messages and `done` of
/// operations (uint64), `carried` by links (float64), and the number of `events`.
#[pyfunction]
#[pyo3(signature = (*, first, code, arg, durations, resource, takes, capacity, host, source, target, size, leaves, limit, hosts, down, up, cables,
                    bandwidth, hop, inside, inside_latency, latency, send_overhead, receive_overhead, gap, per_byte, overhead_per_byte,
                    fidelity, traced))]
#[allow(clippy::too_many_arguments, reason = "one argument an array or a number of the network")]
pub fn contend<'py>(
    py: Python<'py>,
    first: PyBuffer<u32>,
    code: PyBuffer<u8>,
    arg: PyBuffer<u32>,
    durations: PyBuffer<u64>,
    resource: PyBuffer<u32>,
    takes: PyBuffer<u64>,
    capacity: PyBuffer<u32>,
    host: PyBuffer<u32>,
    source: PyBuffer<u32>,
    target: PyBuffer<u32>,
    size: PyBuffer<u64>,
    leaves: PyBuffer<u8>,
    limit: PyBuffer<f64>,
    hosts: u32,
    down: Vec<u32>,
    up: Vec<u32>,
    cables: Vec<u32>,
    bandwidth: f64,
    hop: u64,
    inside: f64,
    inside_latency: u64,
    latency: u64,
    send_overhead: u64,
    receive_overhead: u64,
    gap: u64,
    per_byte: f64,
    overhead_per_byte: f64,
    fidelity: &str,
    traced: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let fidelity = match fidelity {
        "logp" => Fidelity::LogP,
        "flow" => Fidelity::Flow,
        _ => return Err(PyValueError::new_err("no such fidelity")),
    };
    let shape = if down.is_empty() { Shape::Switch } else { Shape::FatTree { down, up, cables } };
    let logp = LogP { latency, send_overhead, receive_overhead, gap, per_byte, overhead_per_byte };
    let network = Network::new(shape, hosts, bandwidth, hop, (inside, inside_latency), logp, fidelity).map_err(refused)?;
    let (first, code, arg) = (taken(py, &first)?, taken(py, &code)?, taken(py, &arg)?);
    let (durations, capacity, host) = (taken(py, &durations)?, taken(py, &capacity)?, taken(py, &host)?);
    let uses: Vec<(u32, u64)> = taken(py, &resource)?.into_iter().zip(taken(py, &takes)?).collect();
    let (from, to, size, leaves) = (taken(py, &source)?, taken(py, &target)?, taken(py, &size)?, taken(py, &leaves)?);
    let limit = taken(py, &limit)?;
    let stopped = AtomicBool::new(false);
    let stop = || {
        if Python::attach(|py| py.check_signals()).is_err() {
            stopped.store(true, Ordering::Relaxed);
        }
        stopped.load(Ordering::Relaxed)
    };
    let done = py
        .detach(|| {
            let program =
                Program { first: &first, code: &code, arg: &arg, durations: &durations, uses: &uses, capacity: &capacity, host: &host };
            let messages = Messages { from: &from, to: &to, bytes: &size, leaves: &leaves, limit: &limit };
            run(program, messages, &network, traced, &stop)
        })
        .map_err(refused)?;
    let out = PyDict::new(py);
    for (name, values) in
        [("ends", &done.ends), ("waited", &done.waited), ("began", &done.began), ("arrived", &done.arrived), ("done", &done.done)]
    {
        out.set_item(name, bytes(py, values, u64::to_le_bytes)?)?;
    }
    let carried: Bound<'_, PyBytes> = bytes(py, &done.carried, f64::to_le_bytes)?;
    out.set_item("carried", carried)?;
    out.set_item("events", done.events)?;
    Ok(out)
}
