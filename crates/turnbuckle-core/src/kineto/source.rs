//! The text of a trace: as it stands, packed by gzip, or a member of a packed archive.

use crate::ReadError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Bytes that are handed on at once.
const PIECE: usize = 1 << 20;
/// What a packed file may grow to at any point of it: this, or this many times what was read of it so far if that is more.
const FREE: u64 = 64 << 20;
const GROWTH: u64 = 200;
/// Bytes of one header of an archive, and members that are listed.
const BLOCK: usize = 512;
const LISTED: usize = 8;

/// How a text ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// At its end.
    Whole,
    /// The packed file ends inside a block.
    Short,
    /// The packed file contradicts itself.
    Spoilt(String),
}

struct Counting<'a> {
    file: File,
    done: &'a AtomicU64,
}

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Unpacked bytes, refused from the point on where they outgrow the packed ones.
struct Bounded<'a, R> {
    text: R,
    grown: u64,
    packed: &'a AtomicU64,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        self.grown += count as u64;
        let packed = self.packed.load(Ordering::Relaxed);
        if self.grown > FREE.max(GROWTH.saturating_mul(packed)) {
            return Err(io::Error::other(Swollen(self.grown, packed)));
        }
        Ok(count)
    }
}

/// Unpacked and packed bytes at which a file was given up.
#[derive(Debug)]
struct Swollen(u64, u64);

impl std::fmt::Display for Swollen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes from the first {} packed ones", self.0, self.1)
    }
}

impl std::error::Error for Swollen {}

/// Send the text, piece by piece, until its end or until nobody listens.
///
/// # Errors
/// P026 where a packed file grows beyond measure, P029 where a NUL byte stands in the text, P037 where the archive has no such member,
/// failures of the system.
pub(super) fn send(file: File, member: Option<&str>, done: &AtomicU64, to: &SyncSender<Vec<u8>>) -> Result<End, ReadError> {
    let mut raw = BufReader::with_capacity(1 << 18, Counting { file, done });
    if !raw.fill_buf()?.starts_with(&[0x1F, 0x8B]) {
        return text(&mut raw, member, to);
    }
    let unpacked = Bounded { text: MultiGzDecoder::new(raw), grown: 0, packed: done };
    text(&mut BufReader::with_capacity(1 << 18, unpacked), member, to)
}

fn text(from: &mut impl Read, member: Option<&str>, to: &SyncSender<Vec<u8>>) -> Result<End, ReadError> {
    match member {
        Some(member) => archive(from, member, to),
        None => pieces(from, to),
    }
}

fn pieces(text: &mut impl Read, to: &SyncSender<Vec<u8>>) -> Result<End, ReadError> {
    let mut before = 0u64;
    loop {
        let (piece, end) = take(text, PIECE)?;
        if let Some(at) = memchr::memchr(0, &piece) {
            return Err(no_text(before + at as u64));
        }
        before += piece.len() as u64;
        if !piece.is_empty() && to.send(piece).is_err() {
            return Ok(End::Whole);
        }
        if let Some(end) = end {
            return Ok(end);
        }
    }
}

/// Up to `most` bytes, and how the text ended if it did.
fn take(text: &mut impl Read, most: usize) -> Result<(Vec<u8>, Option<End>), ReadError> {
    let mut piece = vec![0u8; most];
    let mut filled = 0;
    while filled < most {
        match text.read(&mut piece[filled..]) {
            Ok(0) => {
                piece.truncate(filled);
                return Ok((piece, Some(End::Whole)));
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                piece.truncate(filled);
                let end = match error.kind() {
                    io::ErrorKind::UnexpectedEof => End::Short,
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => End::Spoilt(error.to_string()),
                    _ => return Err(failed(error)),
                };
                return Ok((piece, Some(end)));
            }
        }
    }
    Ok((piece, None))
}

/// The text of one member of a tar archive.
fn archive(text: &mut impl Read, member: &str, to: &SyncSender<Vec<u8>>) -> Result<End, ReadError> {
    let mut seen: Vec<String> = Vec::new();
    let mut long: Option<String> = None;
    loop {
        let (header, end) = take(text, BLOCK)?;
        if header.len() < BLOCK || header.iter().all(|b| *b == 0) {
            let short = matches!(end, Some(End::Short | End::Spoilt(_)));
            return Err(no_member(&seen, short));
        }
        let length = octal(&header[124..136]).ok_or_else(|| no_member(&seen, true))?;
        let kind = header[156];
        let name = long.take().unwrap_or_else(|| named(&header));
        if matches!(kind, b'0' | 0 | b'7') && name.trim_start_matches("./") == member.trim_start_matches("./") {
            return pieces(&mut text.take(length), to);
        }
        let padded = length.div_ceil(BLOCK as u64) * BLOCK as u64;
        if matches!(kind, b'L' | b'x') && length <= 1 << 16 {
            let (block, _) = take(text, usize::try_from(padded).unwrap_or(0))?;
            let own = &block[..block.len().min(usize::try_from(length).unwrap_or(0))];
            long = if kind == b'L' { Some(plain(own)) } else { pax_path(own) };
            continue;
        }
        if matches!(kind, b'0' | 0 | b'7') && seen.len() < LISTED {
            seen.push(name);
        }
        if let Err(error) = io::copy(&mut text.take(padded), &mut io::sink()) {
            return Err(if swollen(&error).is_some() { failed(error) } else { no_member(&seen, true) });
        }
    }
}

fn plain(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn named(header: &[u8]) -> String {
    let (name, prefix) = (plain(&header[..100]), plain(&header[345..500]));
    if header[257..262] == *b"ustar" && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

fn pax_path(block: &[u8]) -> Option<String> {
    block.split(|b| *b == b'\n').find_map(|line| {
        let line = String::from_utf8_lossy(line);
        line.split_once(" path=").map(|(_, path)| path.to_owned())
    })
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = plain(field);
    let digits = text.trim();
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn swollen(error: &io::Error) -> Option<&Swollen> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

fn failed(error: io::Error) -> ReadError {
    let Some(swollen) = swollen(&error) else {
        return error.into();
    };
    ReadError::new(
        "P026",
        "the packed file grows beyond measure",
        swollen.to_string(),
        "it is not a recording, or one that repeats itself without end",
        "unpack it yourself and name the unpacked file",
    )
}

fn no_text(before: u64) -> ReadError {
    ReadError::new(
        "P029",
        "the recording is not the text that its begin promises",
        format!("a NUL byte behind {before} bytes of text"),
        "the file was not copied or written to its end, or is binary",
        format!("copy it again from where it was recorded; of the unpacked text head -c {before} keeps what can be read"),
    )
}

fn no_member(seen: &[String], damaged: bool) -> ReadError {
    let readable = |n: &String| n.chars().filter(|c| !c.is_control()).take(120).collect::<String>();
    let listed: Vec<String> = seen.iter().map(readable).collect();
    ReadError::new(
        "P037",
        if damaged { "the archive is damaged, or not a tar archive" } else { "the archive has no such member" },
        if listed.is_empty() { "no members".to_owned() } else { format!("its first members are {}", listed.join(", ")) },
        if damaged { "it was not copied or written to its end" } else { "the name after :: must be the member's whole path" },
        "list it with tar -tf, and name one as ARCHIVE::MEMBER",
    )
}
