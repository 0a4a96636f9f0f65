//! Files of an archive, chunk by chunk: memory stays at one chunk a thread, whatever a file holds.

use super::bytes::Cursor;
use crate::ReadError;
use crate::progress::Watch;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const END_OF_CHUNK: u8 = 0;
const END_OF_FILE: u8 = 2;
const CHUNK_HEADER: u8 = 3;
const TIMESTAMP: u8 = 5;
const ATTRIBUTES: u8 = 6;
const LITTLE: u8 = 0x42;
const BIG: u8 = 0x23;
/// First byte, byte order, numbers of the first and the last event.
const HEADER: usize = 18;
/// Sizes that a chunk may have [B].
const CHUNK_SIZES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 24;

/// What is wrong with a file, and where [B].
pub(super) type Flaw = (&'static str, u64);

/// P016: a file of the archive contradicts itself.
pub(super) fn damaged(name: &str, (what, at): Flaw) -> ReadError {
    ReadError::new(
        "P016",
        "the OTF2 archive is damaged or cut off",
        format!("{name}: {what} at byte {at}"),
        "the copy was interrupted, or the program was killed before the tracer had written everything",
        "copy the whole archive again, or record again and let the program end by itself",
    )
}

/// P017: not every way to write an archive is read.
pub(super) fn foreign(found: impl Into<String>, fix: &'static str) -> ReadError {
    ReadError::new("P017", "the OTF2 archive is written in a way that is not read", found, "", fix)
}

/// One file of an archive; it is open only while it is read, for an archive may have more files than a process may open.
pub(super) struct Part {
    /// File name, for messages.
    pub name: String,
    path: PathBuf,
    /// Its size [B].
    pub size: u64,
}

impl Part {
    /// The file, or `None` where there is none.
    pub fn find(path: &Path) -> Result<Option<Self>, ReadError> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let meta = match path.metadata() {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !meta.is_file() {
            return Err(damaged(&name, ("it is no ordinary file,", 0)));
        }
        Ok(Some(Self { name, path: path.to_owned(), size: meta.len() }))
    }

    fn open(&self) -> Result<File, ReadError> {
        Ok(File::open(&self.path)?)
    }

    fn fill(&self, file: &File, bytes: &mut [u8], at: u64) -> Result<(), ReadError> {
        file.read_exact_at(bytes, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged(&self.name, ("the file became shorter", at)),
            _ => error.into(),
        })
    }

    /// The whole file, if it is not larger than `most`.
    pub fn whole(&self, most: u64) -> Result<Vec<u8>, ReadError> {
        if self.size > most {
            return Err(damaged(&self.name, ("it goes on", most)));
        }
        let mut data = vec![0; usize::try_from(self.size).unwrap_or(0)];
        self.fill(&self.open()?, &mut data, 0)?;
        Ok(data)
    }

    /// SHA-256 of a run of bytes that has been read, in hexadecimal.
    pub fn hex(hash: Sha256) -> String {
        let mut text = String::with_capacity(64);
        for byte in hash.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Give every record to `each`, with its kind, its body and the time stamp it stands under (0 in definitions).
    ///
    /// In files of events (`EVENTS`) time stamps and attribute lists are records of their own, and some events have no length.
    /// Returns the SHA-256 of the file.
    pub fn records<const EVENTS: bool>(
        &self,
        chunk_size: u64,
        watch: &Watch,
        mut each: impl FnMut(u8, Cursor<'_>, u64) -> Result<(), &'static str>,
    ) -> Result<String, ReadError> {
        if !CHUNK_SIZES.contains(&chunk_size) {
            return Err(foreign(format!("chunks of {chunk_size} bytes"), "write the archive with Score-P's or EZTrace's own settings"));
        }
        let file = self.open()?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0u8; usize::try_from(chunk_size.min(self.size)).unwrap_or(0)];
        let (mut start, mut time) = (0u64, 0u64);
        loop {
            if watch.stopped() {
                return Err(ReadError::Cancelled);
            }
            let length = usize::try_from(chunk_size.min(self.size.saturating_sub(start))).unwrap_or(0);
            let chunk = &mut buffer[..length];
            self.fill(&file, chunk, start)?;
            hash.update(&chunk);
            watch.advance(length as u64);
            let flaw = |what: &'static str, at: usize| damaged(&self.name, (what, start + at as u64));
            let big = match chunk {
                [CHUNK_HEADER, LITTLE, ..] if length >= HEADER => false,
                [CHUNK_HEADER, BIG, ..] if length >= HEADER => true,
                _ => return Err(flaw("no chunk begins", 0)),
            };
            let mut cursor = Cursor::new(chunk, big);
            cursor.take(HEADER);
            let done = loop {
                let at = cursor.position();
                let Some(kind) = cursor.u8() else { return Err(flaw("the file ends inside a chunk", at)) };
                match kind {
                    END_OF_CHUNK => break false,
                    END_OF_FILE => break true,
                    TIMESTAMP if EVENTS => time = cursor.u64_full().ok_or_else(|| flaw("a time stamp is cut", at))?,
                    ATTRIBUTES if EVENTS => {
                        cursor.body().ok_or_else(|| flaw("a list of attributes is cut", at))?;
                    }
                    _ => {
                        let body = if EVENTS && bare(kind) { cursor.bare() } else { cursor.body() };
                        let body = body.ok_or_else(|| flaw("a record is cut", at))?;
                        each(kind, body, time).map_err(|what| flaw(what, at))?;
                    }
                }
            };
            if done {
                // what stands behind the end is hashed too: the digest is the file's
                start += length as u64;
                self.rest(&file, start, &mut hash, &mut buffer, watch)?;
                return Ok(Self::hex(hash));
            }
            start += chunk_size;
        }
    }

    fn rest(&self, file: &File, mut start: u64, hash: &mut Sha256, buffer: &mut [u8], watch: &Watch) -> Result<(), ReadError> {
        while start < self.size && !buffer.is_empty() {
            if watch.stopped() {
                return Err(ReadError::Cancelled);
            }
            let length = buffer.len().min(usize::try_from(self.size - start).unwrap_or(usize::MAX));
            self.fill(file, &mut buffer[..length], start)?;
            hash.update(&buffer[..length]);
            watch.advance(length as u64);
            start += length as u64;
        }
        Ok(())
    }
}

/// Events without a length: enter, leave, four about MPI requests, four about OpenMP.
fn bare(kind: u8) -> bool {
    matches!(kind, 12 | 13 | 16 | 17 | 20 | 21 | 24 | 28 | 29 | 30)
}
