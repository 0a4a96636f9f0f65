//! The contention replay for Python: arrays in, bytes out; nothing that goes in is copied.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;
use turnbuckle_core::contention::{Fidelity, LogP, Messages, Network, Node, Packing, Program, RunError, Shape, Wire, run};

use super::timeline::bytes;

/// Waiting processes named in an error: enough for any circle.
const NAMED: usize = 1 << 20;

fn refused(error: RunError) -> PyErr {
    match error {
        RunError::Stopped => PyKeyboardInterrupt::new_err(()),
        RunError::Deadlock(waiting) => {
            let named: Vec<(u32, u32, u32)> = waiting.iter().take(NAMED).copied().collect();
            PyRuntimeError::new_err((waiting.len(), named))
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// A shape by its name and its numbers; a switch by its backbone too.
fn shape_of(name: &str, numbers: Vec<Vec<u32>>, backbone: Option<(f64, u64)>) -> PyResult<Shape> {
    let wrong = || PyValueError::new_err("no such shape of a network");
    let mut lists = numbers.into_iter();
    let mut list = || lists.next().ok_or_else(wrong);
    match name {
        "switch" => Ok(backbone.map_or(Shape::Switch, |(bandwidth, latency)| Shape::Backbone { bandwidth, latency })),
        "fat-tree" => Ok(Shape::FatTree { down: list()?, up: list()?, cables: list()? }),
        "torus" => Ok(Shape::Torus { dims: list()?, cards: *list()?.first().ok_or_else(wrong)? }),
        "dragonfly" => match list()?[..] {
            [groups, routers, cards, channels] => Ok(Shape::Dragonfly { groups, routers, cards, channels }),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Replay a program on a network.  Arrays are contiguous: uint8, uint32, uint64, float64; times are picoseconds, bandwidths bytes a picosecond.
///
/// `shape` is ``switch``, ``fat-tree`` (down, up, cables), ``torus`` (dimensions, cards of a router) or ``dragonfly`` (groups, routers, cards,
/// channels); `backbone` holds bandwidth and latency of the link that all messages through a switch share; `wires` of a node: from, to, bandwidth, latency, whether both ways share it; `logp` holds latency, overheads of sending and
/// receiving, and gap, `per_byte` the time a byte on the link and on the processor; `packing` the bytes of a message in a packet, those
/// beside them, and the room before a link.  `tells` is called with the share of the work
/// done, now and then.  Returns a dictionary: `ends`, `waited` of processes, with `traced` also `began` and `arrived` of messages
/// and `done` of operations (uint64), `carried` by links (float64), and the number of `events`.
#[pyfunction]
#[pyo3(signature = (*, first, code, arg, durations, resource, takes, rank, capacity, place, source, target, size, leaves, limit, delay, start, end,
                    shape, numbers, backbone, nodes, bandwidth, hop, parts, wires, cards, passes, logp, per_byte, fidelity, handshake, packing, traced, tells))]
#[allow(clippy::too_many_arguments, reason = "one argument an array or a number of the network")]
pub fn contend<'py>(
    py: Python<'py>,
    first: PyReadonlyArray1<'py, u32>,
    code: PyReadonlyArray1<'py, u8>,
    arg: PyReadonlyArray1<'py, u32>,
    durations: PyReadonlyArray1<'py, u64>,
    resource: PyReadonlyArray1<'py, u32>,
    takes: PyReadonlyArray1<'py, u64>,
    rank: PyReadonlyArray1<'py, u32>,
    capacity: PyReadonlyArray1<'py, u32>,
    place: PyReadonlyArray1<'py, u32>,
    source: PyReadonlyArray1<'py, u32>,
    target: PyReadonlyArray1<'py, u32>,
    size: PyReadonlyArray1<'py, u64>,
    leaves: PyReadonlyArray1<'py, u8>,
    limit: PyReadonlyArray1<'py, f64>,
    delay: PyReadonlyArray1<'py, u64>,
    start: PyReadonlyArray1<'py, u32>,
    end: PyReadonlyArray1<'py, u32>,
    shape: &str,
    numbers: Vec<Vec<u32>>,
    backbone: Option<(f64, u64)>,
    nodes: u32,
    bandwidth: f64,
    hop: u64,
    parts: u32,
    wires: Vec<(u32, u32, f64, u64, bool)>,
    cards: Vec<u32>,
    passes: Vec<bool>,
    logp: (u64, u64, u64, u64),
    per_byte: (f64, f64),
    fidelity: &str,
    handshake: bool,
    packing: (u32, u32, u32),
    traced: bool,
    tells: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let fidelity = match fidelity {
        "logp" => Fidelity::LogP,
        "flow" => Fidelity::Flow,
        "packet" => Fidelity::Packet,
        _ => return Err(PyValueError::new_err("no such fidelity")),
    };
    let (latency, send_overhead, receive_overhead, gap) = logp;
    let logp = LogP { latency, send_overhead, receive_overhead, gap, per_byte: per_byte.0, overhead_per_byte: per_byte.1 };
    let node = node_of(parts, wires, cards, passes);
    let mut network = Network::new(shape_of(shape, numbers, backbone)?, nodes, bandwidth, hop, &node, logp, fidelity).map_err(refused)?;
    network.handshake = handshake;
    network.packing = Packing { payload: packing.0, header: packing.1, buffer: packing.2 };
    let program = Program {
        first: first.as_slice()?,
        code: code.as_slice()?,
        arg: arg.as_slice()?,
        durations: durations.as_slice()?,
        resource: resource.as_slice()?,
        takes: takes.as_slice()?,
        rank: rank.as_slice()?,
        capacity: capacity.as_slice()?,
        place: place.as_slice()?,
    };
    let messages = Messages {
        from: source.as_slice()?,
        to: target.as_slice()?,
        bytes: size.as_slice()?,
        leaves: leaves.as_slice()?,
        limit: limit.as_slice()?,
        delay: delay.as_slice()?,
        start: start.as_slice()?,
        end: end.as_slice()?,
    };
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let stop = |share: f64| {
        let asked = Python::attach(|py| {
            py.check_signals()?;
            tells.as_ref().map_or(Ok(()), |tells| tells.call1(py, (share,)).map(|_| ()))
        });
        let mut raised = raised.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Err(error) = asked {
            *raised = Some(error);
        }
        raised.is_some()
    };
    let done = py.detach(|| run(program, messages, &network, traced, &stop));
    if let Some(error) = raised.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let done = done.map_err(refused)?;
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

/// Links between pairs of places on a network given as for [`contend`]: first link of each pair and the end of the last, and the links.
#[pyfunction]
#[pyo3(signature = (start, end, *, shape, numbers, backbone, nodes, parts, wires, cards, passes))]
#[allow(clippy::too_many_arguments, reason = "one argument an array or a number of the network")]
pub fn routes<'py>(
    py: Python<'py>,
    start: PyReadonlyArray1<'py, u32>,
    end: PyReadonlyArray1<'py, u32>,
    shape: &str,
    numbers: Vec<Vec<u32>>,
    backbone: Option<(f64, u64)>,
    nodes: u32,
    parts: u32,
    wires: Vec<(u32, u32, f64, u64, bool)>,
    cards: Vec<u32>,
    passes: Vec<bool>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let node = node_of(parts, wires, cards, passes);
    let network =
        Network::new(shape_of(shape, numbers, backbone)?, nodes, 1.0, 0, &node, LogP::default(), Fidelity::Flow).map_err(refused)?;
    let (start, end) = (start.as_slice()?, end.as_slice()?);
    if start.len() != end.len() {
        return Err(refused(RunError::Lengths));
    }
    let (mut first, mut links, mut route) = (vec![0_u64], Vec::new(), Vec::new());
    for (from, to) in start.iter().zip(end) {
        if *from >= network.places() || *to >= network.places() {
            return Err(refused(RunError::Value));
        }
        if !network.joined(*from, *to) {
            return Err(refused(RunError::Unreached));
        }
        network.route(*from, *to, &mut route);
        links.extend_from_slice(&route);
        first.push(links.len() as u64);
    }
    Ok((bytes(py, &first, u64::to_le_bytes)?, bytes(py, &links, u32::to_le_bytes)?))
}

fn node_of(parts: u32, wires: Vec<(u32, u32, f64, u64, bool)>, cards: Vec<u32>, passes: Vec<bool>) -> Node {
    let wire = |(from, to, bandwidth, latency, shared)| Wire { from, to, bandwidth, latency, shared };
    Node { parts, wires: wires.into_iter().map(wire).collect(), cards, passes }
}
