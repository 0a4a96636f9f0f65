//! The anchor file: what the archive is, and how its other files are cut.

use super::bytes::Cursor;
use super::chunks::{Flaw, Part, damaged, foreign};
use crate::ReadError;

/// An anchor file holds a few texts; more than this is something else [B].
const MOST: u64 = 1 << 20;
const POSIX: u8 = 1;
const UNCOMPRESSED: u8 = 1;

/// What the anchor file says.
#[derive(Debug)]
pub(super) struct Anchor {
    /// Size of a chunk of events [B].
    pub event_chunk: u64,
    /// Size of a chunk of definitions [B].
    pub definition_chunk: u64,
    /// The tracer, as it names itself; may be empty.
    pub creator: String,
    /// Version of the library that wrote the archive.
    pub version: String,
}

/// Read an anchor file.
pub(super) fn read(part: &Part) -> Result<(Anchor, Vec<u8>), ReadError> {
    let data = part.whole(MOST)?;
    let big = data.get(1) == Some(&0x23);
    let mut cursor = Cursor::new(&data, big);
    let anchor = parse(&mut cursor).map_err(|what| damaged(&part.name, (what, cursor.position() as u64) as Flaw))?;
    let (anchor, substrate, compression) = anchor;
    if substrate != POSIX {
        return Err(foreign(
            "its files are packed into a SION container",
            "record with one file a location (SCOREP_TRACING_USE_SION=false)",
        ));
    }
    if compression != UNCOMPRESSED {
        return Err(foreign("its files are compressed", "record without compression (SCOREP_TRACING_COMPRESS=false)"));
    }
    Ok((anchor, data))
}

fn parse(cursor: &mut Cursor<'_>) -> Result<(Anchor, u8, u8), &'static str> {
    const CUT: &str = "the anchor file ends";
    let head = cursor.take(2).ok_or(CUT)?;
    if !matches!(head, [3, 0x42 | 0x23]) || cursor.text().ok_or(CUT)? != b"OTF2" {
        return Err("this is no anchor file");
    }
    let mut fields = || -> Option<(Anchor, u8, u8)> {
        cursor.take(2)?; // layouts of the anchor and of the trace: both only grow
        let version = [cursor.u8()?, cursor.u8()?, cursor.u8()?].map(|v| v.to_string()).join(".");
        let (event_chunk, definition_chunk) = (cursor.u64_full()?, cursor.u64_full()?);
        let (substrate, compression) = (cursor.u8()?, cursor.u8()?);
        cursor.take(16)?; // numbers of locations and of definitions: the definitions themselves tell
        cursor.text()?; // the machine's name is not ours to read
        let creator = String::from_utf8_lossy(cursor.text()?).into_owned();
        Some((Anchor { event_chunk, definition_chunk, creator, version }, substrate, compression))
    };
    fields().ok_or(CUT)
}
