//! SHA-256 of a file's content: the file's identity in the cache and in every report's provenance.

use crate::ReadError;
use crate::progress::Watch;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Lower-case hexadecimal SHA-256 of the first `size` bytes of the file.
///
/// # Errors
/// A coded error where the file cannot be read, [`ReadError::Cancelled`] where `watch` says stop.
pub fn sha256(file: &File, size: u64, watch: &Watch) -> Result<String, ReadError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0u8; 1 << 18];
    let mut at = 0u64;
    while at < size {
        if watch.stopped() {
            return Err(ReadError::Cancelled);
        }
        let want = buffer.len().min((size - at).try_into().unwrap_or(usize::MAX));
        file.read_exact_at(&mut buffer[..want], at)?;
        hash.update(&buffer[..want]);
        at += want as u64;
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
