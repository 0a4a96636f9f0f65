//! Bytes into numbers and texts: every read is bounded, and a read beyond the end is `None`.

/// Values that mean "not defined".
pub(super) const UNDEFINED: u32 = u32::MAX;

/// A position in a run of bytes.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
    big: bool,
}

impl<'a> Cursor<'a> {
    /// The first byte of `data`; numbers are big-endian where `big`.
    pub fn new(data: &'a [u8], big: bool) -> Self {
        Self { data, at: 0, big }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.data.len() - self.at
    }

    /// How far from the first byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let bytes = self.data.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }

    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Eight bytes, as they are.
    #[inline]
    pub fn u64_full(&mut self) -> Option<u64> {
        let bytes: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(if self.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A number without its leading zero bytes, behind their count; a count of 255 is the undefined value.
    #[inline]
    fn packed(&mut self, most: u8) -> Option<u64> {
        let n = self.u8()?;
        if n == 0xff {
            return Some(u64::MAX);
        }
        if n > most {
            return None;
        }
        let bytes = self.take(usize::from(n))?;
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(if self.big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }

    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        // the low half of the undefined value is the undefined value
        Some(self.packed(4)? as u32)
    }

    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.packed(8)
    }

    pub fn i64(&mut self) -> Option<i64> {
        Some(self.packed(8)? as i64)
    }

    pub fn f64_full(&mut self) -> Option<f64> {
        Some(f64::from_bits(self.u64_full()?))
    }

    /// Bytes up to a zero byte, which is taken too.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.data.get(self.at..)?.iter().position(|b| *b == 0)?;
        let bytes = self.take(length)?;
        self.at += 1;
        Some(bytes)
    }

    /// The body of a record behind its length: one byte, or 255 and eight bytes.
    #[inline]
    pub fn body(&mut self) -> Option<Cursor<'a>> {
        let short = self.u8()?;
        let length = if short == 0xff { usize::try_from(self.u64_full()?).ok()? } else { usize::from(short) };
        Some(Cursor { data: self.take(length)?, at: 0, big: self.big })
    }

    /// The body of a record without a length, which is one packed number.
    #[inline]
    pub fn bare(&mut self) -> Option<Cursor<'a>> {
        let n = *self.data.get(self.at)?;
        let length = if n == 0xff { 1 } else { 1 + usize::from(n) };
        if n != 0xff && n > 8 {
            return None;
        }
        Some(Cursor { data: self.take(length)?, at: 0, big: self.big })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers() {
        let mut c = Cursor::new(&[0, 0xff, 1, 0x94, 2, 0x00, 0x40, 0xff, 8, 1, 0, 0, 0, 0, 0, 0, 0x80], false);
        assert_eq!((c.u32(), c.u32(), c.u32(), c.u32()), (Some(0), Some(u32::MAX), Some(0x94), Some(0x4000)));
        assert_eq!((c.u64(), c.i64()), (Some(u64::MAX), Some(i64::MIN + 1)));
        assert_eq!((c.left(), c.u32(), c.u8()), (0, None, None));
        assert_eq!(Cursor::new(&[2, 0x40, 0x00], true).u32(), Some(0x4000));
        assert_eq!(Cursor::new(&[5, 1, 1, 1, 1, 1], false).u32(), None);
        assert_eq!(Cursor::new(&[2, 1], false).u64(), None);
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(Cursor::new(&[3, 1, 2], false).body().is_none());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], false).body().is_none());
        assert_eq!(Cursor::new(&[2, 7, 8, 9], false).body().map(|b| b.left()), Some(2));
        assert_eq!(Cursor::new(&[1, 7, 8], false).bare().and_then(|mut b| b.u32()), Some(7));
        assert!(Cursor::new(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0], false).bare().is_none());
        assert_eq!(Cursor::new(b"ab\0c", false).text(), Some(&b"ab"[..]));
        assert!(Cursor::new(b"ab", false).text().is_none());
    }
}
