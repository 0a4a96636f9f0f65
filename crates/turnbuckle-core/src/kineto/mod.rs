//! Chrome traces of PyTorch's profiler (Kineto), as JSON or packed by gzip, of NVIDIA and AMD devices.
//!
//! One thread unpacks, one finds where events begin and end, the others read them.  Text that is no proper JSON is read a second
//! time: events are then found by how they begin, mended where that is possible, and counted where it is not.

mod about;
mod event;
mod finish;
mod gather;
mod mend;
mod scan;
mod source;

use crate::ReadError;
use crate::digest;
use crate::progress::Watch;
use crate::recording::{Fact, Finding, Recording};
use about::About;
use finish::Rows;
use gather::Part;
use mend::Resync;
use scan::{Lost, Piece, Scanner};
use source::End;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How to read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Threads that read; 0 takes as many as there are cores.
    pub threads: usize,
    /// The member to read where the file is a packed archive.
    pub member: Option<String>,
}

/// Called with the share of the work done: 0 at the start, 1 at the end, often in between; returning false stops the read.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> bool;

/// Pieces that wait for a thread.
const QUEUE: usize = 4;
const TICK: Duration = Duration::from_millis(50);
/// What an event that the end of the file cut off may have at most.
const CUT: usize = 1 << 20;

/// Read a trace.
///
/// # Errors
/// P001, P002, P005, P009 and P010 as the other readers; P025 and P026 a packed file that is damaged or grows beyond measure; P029 a
/// NUL byte in the text; P035 no trace at all, P036 a trace without GPU activity, P037 an archive without that member.  Never panics
/// on any content of the file.
pub fn read(path: &Path, options: &Options, progress: Progress<'_>) -> Result<Recording, ReadError> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(ReadError::new("P002", "the path is a directory", "", "", "name the .json or .json.gz file inside it"));
    }
    let size = meta.len();
    if !progress(0.0) {
        return Err(ReadError::Cancelled);
    }
    let watch = Watch::default();
    let (outcome, digest) = std::thread::scope(|scope| {
        let hashing = scope.spawn(|| digest::sha256(&file, size, &watch));
        let outcome = both(path, size, options, progress);
        if outcome.is_err() {
            watch.stop();
        }
        (outcome, hashing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (outcome, digest) = (outcome?, digest?);
    let now = file.metadata()?;
    if (now.len(), now.mtime(), now.mtime_nsec()) != (size, meta.mtime(), meta.mtime_nsec()) {
        return Err(ReadError::locked("the file changed while it was read"));
    }
    let mut recording = recording(outcome)?;
    if !progress(1.0) {
        return Err(ReadError::Cancelled);
    }
    recording.facts.push(("size_bytes", Fact::Int(i64::try_from(size).unwrap_or(i64::MAX))));
    recording.facts.push(("sha256", Fact::Text(digest)));
    Ok(recording)
}

/// What one pass over the text found.
struct Pass {
    parts: Vec<Part>,
    about: About,
    /// Events lost between others.
    strange: u64,
    cut: bool,
    /// The text is not what it should be, so that another pass may find more.
    lost: bool,
    /// A list of events was there.
    listed: bool,
}

impl Pass {
    fn events(&self) -> u64 {
        self.parts.iter().map(|p| p.events).sum()
    }

    fn unread(&self) -> u64 {
        self.strange + self.parts.iter().map(|p| p.flaws.unread).sum::<u64>()
    }
}

fn both(path: &Path, size: u64, options: &Options, progress: Progress<'_>) -> Result<Pass, ReadError> {
    let strict = pass(path, size, options, false, progress)?;
    if !strict.lost && strict.parts.iter().all(|p| p.flaws.unread == 0) {
        return Ok(strict);
    }
    let lenient = pass(path, size, options, true, progress)?;
    let better = strict.lost || lenient.events() > strict.events();
    Ok(if better { Pass { listed: lenient.listed || strict.listed, ..lenient } } else { strict })
}

/// Either way of finding events.
enum Finder {
    Strict(Box<Scanner>),
    Lenient(Box<Resync>),
}

/// One pass over the text.
fn pass(path: &Path, size: u64, options: &Options, lenient: bool, progress: Progress<'_>) -> Result<Pass, ReadError> {
    let file = File::open(path)?;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
    .min(64);
    let done = AtomicU64::new(0);
    let (text_to, text_from) = sync_channel::<Vec<u8>>(QUEUE);
    let (piece_to, piece_from) = sync_channel::<(u64, Piece)>(QUEUE);
    let piece_from = Mutex::new(piece_from);
    std::thread::scope(|scope| {
        let done_ref = &done;
        let member = options.member.as_deref();
        let reading = scope.spawn(move || source::send(file, member, done_ref, &text_to));
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&piece_from, lenient))).collect();
        let mut finder = if lenient { Finder::Lenient(Box::default()) } else { Finder::Strict(Box::default()) };
        let (mut number, mut lost, mut cancelled) = (0u64, false, false);
        loop {
            if !progress(done.load(Ordering::Relaxed) as f64 / size.max(1) as f64 * 0.99) {
                cancelled = true;
                break;
            }
            let text = match text_from.recv_timeout(TICK) {
                Ok(text) => text,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let piece = match &mut finder {
                Finder::Lenient(resync) => Ok(resync.feed(&text, false)),
                Finder::Strict(scanner) => scanner.feed(&text),
            };
            match piece {
                Ok(Some(piece)) => {
                    if piece_to.send((number, piece)).is_err() {
                        break;
                    }
                    number += 1;
                }
                Ok(None) => {}
                Err(_) => {
                    lost = true;
                    break;
                }
            }
        }
        drop(text_from);
        if let (Finder::Lenient(resync), false) = (&mut finder, cancelled)
            && let Some(piece) = resync.feed(b"", true)
        {
            let _ = piece_to.send((number, piece));
        }
        drop(piece_to);
        let parts: Vec<Part> = workers.into_iter().map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect();
        let end = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if cancelled {
            return Err(ReadError::Cancelled);
        }
        ended(finder, parts, end, lost)
    })
}

fn work(pieces: &Mutex<Receiver<(u64, Piece)>>, lenient: bool) -> Part {
    let mut part = Part::default();
    loop {
        let next = pieces.lock().map_or(None, |from| from.recv().ok());
        match next {
            Some((number, piece)) => part.take(number, &piece, lenient),
            None => return part,
        }
    }
}

fn ended(finder: Finder, parts: Vec<Part>, end: End, lost: bool) -> Result<Pass, ReadError> {
    let pass = match finder {
        Finder::Strict(scanner) => {
            let closed = scanner.end();
            let cut = closed == Err(Lost::Short);
            // an event without its end is no reason to read everything again, a list of events that was swallowed by one is
            let rest = scanner.rest();
            let swallowed = cut && (rest.len() > CUT || mend::holds_another(rest));
            let lost = lost || closed == Err(Lost::Form) || swallowed;
            let open = u64::from(cut && scanner.found_list() && rest.first() == Some(&b'{'));
            Pass { parts, about: About::of(&scanner.about), strange: scanner.strange + open, cut, lost, listed: scanner.found_list() }
        }
        Finder::Lenient(resync) => {
            let listed = memchr::memmem::find(&resync.head, b"\"traceEvents\"").is_some();
            let tail = resync.head.trim_ascii_end();
            let cut = !tail.ends_with(b"}") && !tail.ends_with(b"]");
            Pass { parts, about: About::found_in(&resync.head), strange: resync.strange, cut, lost: false, listed }
        }
    };
    match end {
        End::Spoilt(found) if pass.events() == 0 || !pass.cut => {
            if pass.events() > 0 {
                return Ok(pass); // something stands behind the end of a whole trace
            }
            Err(ReadError::new(
                "P025",
                "the packed file is damaged or cut off",
                found,
                "it was not copied or written to its end",
                "copy it again, or unpack it with another tool and name what comes out",
            ))
        }
        End::Whole => Ok(pass),
        _ => Ok(Pass { cut: true, ..pass }),
    }
}

fn recording(pass: Pass) -> Result<Recording, ReadError> {
    if pass.events() == 0 {
        let found = match (pass.listed, pass.unread()) {
            (true, 0) => "the list of events is empty".to_owned(),
            (_, 0) => "no list of events".to_owned(),
            (_, n) => format!("{n} events, none of which can be read"),
        };
        return Err(ReadError::new(
            "P035",
            "the file is not a trace of PyTorch's profiler",
            found,
            "another program wrote it, or it was not written to its end",
            "write one with torch.profiler: prof.export_chrome_trace(\"trace.json.gz\")",
        ));
    }
    let (strange, cut) = (pass.unread(), pass.cut);
    let about = pass.about;
    let rows = Rows::new(pass.parts);
    if rows.kernels.is_empty() && rows.copies.is_empty() && rows.sets.is_empty() && rows.calls.is_empty() {
        let events = rows.events;
        return Err(ReadError::new(
            "P036",
            "the trace holds no GPU activity",
            format!("{events} events, no kernel, copy or call of a GPU runtime among them"),
            "it was recorded without the GPU's activities, or by another program that writes Chrome traces",
            "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
        ));
    }
    let mut findings = Vec::new();
    let mut found = |code: &'static str, count: u64, detail: String| {
        if count > 0 {
            findings.push(Finding { code, count, detail });
        }
    };
    found("P107", rows.flaws.mended, "events mended before they could be read".to_owned());
    found("P119", u64::from(about.secrets > 0), format!("{} entries beside the events", about.secrets));
    found("P123", u64::from(!about.names_devices()), String::new());
    found("P130", u64::from(rows.kernels.is_empty() && rows.copies.is_empty() && rows.sets.is_empty()), String::new());
    found("P162", strange, String::new());
    found("P163", u64::from(cut), String::new());
    let unread: Vec<(&String, &u64)> = rows.counts.iter().filter(|(c, _)| !READ.contains(&c.as_str())).collect();
    let listed: Vec<String> = unread.iter().map(|(c, n)| format!("{c} {n}")).collect();
    found("P165", unread.iter().map(|(_, n)| **n).sum(), listed.join(", "));
    let mut facts = vec![("format", Fact::Text("kineto".to_owned()))];
    facts.extend(about.facts(rows.origin));
    facts.push(("tables", Fact::Counts(rows.counts.iter().map(|(c, n)| (c.clone(), i64::try_from(*n).unwrap_or(i64::MAX))).collect())));
    let (tables, names) = rows.tables(&about, &mut findings);
    Ok(Recording { tables, names, facts, findings })
}

/// Categories whose events are read.
const READ: [&str; 27] = [
    "kernel",
    "Kernel",
    "concurrent_kernel",
    "gpu_memcpy",
    "Memcpy",
    "gpu_memset",
    "Memset",
    "cuda_runtime",
    "Runtime",
    "hip_runtime",
    "xpu_runtime",
    "privateuse1_runtime",
    "cuda_driver",
    "hip_driver",
    "xpu_driver",
    "privateuse1_driver",
    "cuda_sync",
    "hip_sync",
    "user_annotation",
    "cpu_op",
    "Operator",
    "python_function",
    "overhead",
    "cpu_instant_event",
    "metadata",
    "flow",
    "Trace",
];
