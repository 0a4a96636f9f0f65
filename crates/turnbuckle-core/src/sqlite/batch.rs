//! A few hundred rows, one slot a wanted column: what both decoders fill and the readers convert.

/// Kind of one cell, as stored in the file.
pub mod kind {
    /// SQL NULL.
    pub const NULL: u8 = 0;
    /// Integer.
    pub const INT: u8 = 1;
    /// Floating point; the value holds its bits.
    pub const REAL: u8 = 2;
    /// Text; the value holds offset and length in the batch's bytes.
    pub const TEXT: u8 = 3;
    /// Blob; the value is not kept.
    pub const BLOB: u8 = 4;
}

/// Rows a decoder puts into one batch at most.
pub const BATCH_ROWS: usize = 512;
const BATCH_BYTES: usize = 4 << 20;

/// One wanted column of a batch; only the first rows of a batch's length mean anything.
#[derive(Debug)]
pub struct Slot {
    /// Kind of each cell, see [`kind`].
    pub kinds: Box<[u8; BATCH_ROWS]>,
    /// Value of each cell; 0 where it has none.
    pub values: Box<[i64; BATCH_ROWS]>,
    /// One bit for every kind that occurs.
    pub seen: u8,
}

impl Default for Slot {
    fn default() -> Self {
        Self { kinds: Box::new([0; BATCH_ROWS]), values: Box::new([0; BATCH_ROWS]), seen: 0 }
    }
}

impl Slot {
    /// Set the cell of a row below [`BATCH_ROWS`].
    #[inline]
    pub fn set(&mut self, row: usize, kind: u8, value: i64) {
        self.kinds[row % BATCH_ROWS] = kind;
        self.values[row % BATCH_ROWS] = value;
        self.seen |= 1 << kind;
    }

    /// Whether no kind but `kind` occurs.
    pub fn only(&self, kind: u8) -> bool {
        self.seen & !(1 << kind) == 0
    }

    /// Value and kind of the first `rows` cells.
    pub fn cells(&self, rows: usize) -> impl Iterator<Item = (i64, u8)> {
        self.values[..rows].iter().copied().zip(self.kinds[..rows].iter().copied())
    }
}

/// Rows in columns.
#[derive(Debug, Default)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// The wanted columns.
    pub slots: Vec<Slot>,
    /// The texts.
    pub bytes: Vec<u8>,
}

impl Batch {
    /// An empty batch of `slots` columns.
    pub fn new(slots: usize) -> Self {
        Self { rows: 0, slots: (0..slots).map(|_| Slot::default()).collect(), bytes: Vec::new() }
    }

    /// Forget the rows, keep the memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.bytes.clear();
        for slot in &mut self.slots {
            slot.seen = 0;
        }
    }

    /// Whether the batch should be converted before another row goes in.
    pub fn full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes.len() >= BATCH_BYTES
    }

    /// Set a text cell of the row that is being filled.
    pub fn set_text(&mut self, slot: usize, text: &[u8]) {
        let place = ((self.bytes.len() as i64) << 32) | text.len() as i64;
        self.bytes.extend_from_slice(text);
        self.slots[slot].set(self.rows, kind::TEXT, place);
    }

    /// The bytes of a text cell's value.
    pub fn text(&self, value: i64) -> &[u8] {
        let (start, length) = ((value >> 32) as usize, (value & 0xFFFF_FFFF) as usize);
        self.bytes.get(start..start + length).unwrap_or(&[])
    }
}
