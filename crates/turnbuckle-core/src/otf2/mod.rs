//! OTF2 archives, as Score-P and EZTrace write them.
//!
//! An archive is an anchor file, a file of global definitions and, for each location, a file of local definitions and one of
//! events.  [`read`] takes the anchor's path.  Locations are read by all threads, each chunk by chunk; what an MPI call did is
//! put together from the records between its enter and its leave; what the tracer left out is counted, never made up.

mod anchor;
mod assemble;
mod bytes;
mod calls;
mod chunks;
mod clocks;
mod definitions;
mod local;
mod location;
mod messages;
mod records;
mod regions;
mod tables;

use crate::ReadError;
use crate::progress::Watch;
use crate::recording::{Fact, Recording};
use anchor::Anchor;
use assemble::Assembled;
use calls::Seen;
use chunks::{Part, damaged};
use definitions::{Clock, Definitions, Location};
use local::{Local, Ticks};
use location::{Around, Reader};
use regions::Regions;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Threads that read; 0 takes as many as there are cores.
    pub threads: usize,
}

/// Called with the share of the work done: 0 at the start, 1 at the end, often in between; returning false stops the read.
pub type Progress<'a> = &'a mut dyn FnMut(f64) -> bool;

const ACCELERATOR: u8 = 2;
/// Read an archive.
///
/// # Errors
/// Coded errors P001, P007, P010 and P015 to P018; see the manual's list.  Never panics on any content of the files.
pub fn read(path: &Path, options: Options, progress: Progress<'_>) -> Result<Recording, ReadError> {
    if !progress(0.0) {
        return Err(ReadError::Cancelled);
    }
    let Some(part) = Part::find(path)? else {
        return Err(ReadError::new("P001", "there is no such file", "", "", "check the path"));
    };
    let (anchor, data) = anchor::read(&part)?;
    let folder = path.with_extension("");
    let definitions_path = path.with_extension("def");
    let definitions = Part::find(&definitions_path)?.ok_or_else(|| absent(&definitions_path))?;
    let watch = Watch::default();
    watch.expect(definitions.size);
    let archive = Archive { anchor, folder, watch: &watch, threads: options.threads };
    let mut size = data.len() as u64 + definitions.size;
    let mut hash = Sha256::new();
    hash.update(&data);
    let (definitions, digest) = Definitions::read(&definitions, archive.anchor.definition_chunk, &watch)?;
    hash.update(digest.as_bytes());
    let regions = Regions::new(&definitions);
    let files = archive.files(&definitions)?;
    let seen = archive.locations(&definitions, &regions, &files, progress)?;
    for (seen, file) in seen.iter().zip(&files) {
        size += file.local.as_ref().map_or(0, |f| f.size) + file.events.as_ref().map_or(0, |f| f.size);
        hash.update(seen.digest.as_bytes());
    }
    let mut recording = Assembled::new(&archive.anchor, &definitions, &regions, seen)?.recording()?;
    if !progress(1.0) {
        return Err(ReadError::Cancelled);
    }
    recording.facts.push(("size_bytes", Fact::Int(i64::try_from(size).unwrap_or(i64::MAX))));
    recording.facts.push(("sha256", Fact::Text(Part::hex(hash))));
    Ok(recording)
}

/// P015: a file of the archive is not there.
fn absent(path: &Path) -> ReadError {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    ReadError::new(
        "P015",
        "the OTF2 archive is not complete",
        format!("{name} is missing"),
        "an archive is several files: X.otf2, X.def and the folder X beside it; some were not copied",
        "copy the whole folder that holds the .otf2 file",
    )
}

/// The two files of one location.
struct Files {
    local: Option<Part>,
    events: Option<Part>,
}

struct Archive<'a> {
    anchor: Anchor,
    folder: PathBuf,
    watch: &'a Watch,
    threads: usize,
}

impl Archive<'_> {
    /// Open the files of every location.
    ///
    /// # Errors
    /// P015 where events are missing, or local definitions that other locations have: their ids would mean something else.
    fn files(&self, definitions: &Definitions) -> Result<Vec<Files>, ReadError> {
        let mut all = Vec::with_capacity(definitions.locations.len());
        for location in &definitions.locations {
            let name = |suffix: &str| self.folder.join(format!("{}.{suffix}", location.id));
            let events = Part::find(&name("evt"))?;
            if events.is_none() && location.events > 0 {
                return Err(absent(&name("evt")));
            }
            let local = Part::find(&name("def"))?;
            self.watch.expect(events.as_ref().map_or(0, |f| f.size) + local.as_ref().map_or(0, |f| f.size));
            all.push(Files { local, events });
        }
        let lacking = all.iter().position(|f: &Files| f.local.is_none() && f.events.is_some());
        if let Some(at) = lacking.filter(|_| all.iter().any(|f| f.local.is_some())) {
            return Err(absent(&self.folder.join(format!("{}.def", definitions.locations[at].id))));
        }
        Ok(all)
    }

    /// Read all locations, by all threads.
    fn locations(
        &self,
        definitions: &Definitions,
        regions: &Regions,
        files: &[Files],
        progress: Progress<'_>,
    ) -> Result<Vec<Seen>, ReadError> {
        let clock = definitions.clock.filter(|c| c.resolution > 0).ok_or_else(|| {
            damaged(
                &format!("{}.def", self.folder.file_name().unwrap_or_default().to_string_lossy()),
                ("the clock's rate is not defined", 0),
            )
        })?;
        let threads = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            some => some,
        };
        let next = AtomicUsize::new(0);
        let found: Mutex<Vec<Option<Seen>>> = Mutex::new((0..files.len()).map(|_| None).collect());
        let trouble: Mutex<Option<(usize, ReadError)>> = Mutex::new(None);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(location), false) = (definitions.locations.get(at), self.watch.stopped()) else { return };
                match self.location(definitions, regions, clock, location, at, &files[at]) {
                    Ok(seen) => {
                        if let Some(slot) = found.lock().unwrap_or_else(|p| p.into_inner()).get_mut(at) {
                            *slot = Some(seen);
                        }
                    }
                    Err(error) => {
                        let mut first = trouble.lock().unwrap_or_else(|p| p.into_inner());
                        if error != ReadError::Cancelled && first.as_ref().is_none_or(|(before, _)| at < *before) {
                            *first = Some((at, error));
                        }
                        self.watch.stop();
                    }
                }
            }
        };
        let mut cancelled = false;
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.min(files.len()).max(1)).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|w| !w.is_finished()) {
                if !cancelled && !progress(self.watch.fraction() * 0.95) {
                    cancelled = true;
                    self.watch.stop();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        if cancelled {
            return Err(ReadError::Cancelled);
        }
        if let Some((_, error)) = trouble.into_inner().unwrap_or_else(|p| p.into_inner()) {
            return Err(error);
        }
        found.into_inner().unwrap_or_else(|p| p.into_inner()).into_iter().map(|s| s.ok_or(ReadError::Cancelled)).collect()
    }

    fn location(
        &self,
        definitions: &Definitions,
        regions: &Regions,
        clock: Clock,
        location: &Location,
        at: usize,
        files: &Files,
    ) -> Result<Seen, ReadError> {
        let mut digest = String::new();
        let mut local = Local::default();
        if let Some(part) = &files.local {
            let (found, hash) = Local::read(part, self.anchor.definition_chunk, self.watch)?;
            local = found;
            digest = hash;
        }
        let around = Around { definitions, regions, local: &local, location: at as u32, accelerator: location.kind == ACCELERATOR };
        let mut reader = Reader::new(around, Ticks::new(clock, &local.offsets));
        if let Some(part) = &files.events {
            let hash = part.records::<true>(self.anchor.event_chunk, self.watch, |kind, body, tick| reader.event(kind, body, tick))?;
            digest.push_str(&hash);
        }
        let mut seen = reader.finish(digest);
        seen.corrected = !local.offsets.is_empty();
        Ok(seen)
    }
}
