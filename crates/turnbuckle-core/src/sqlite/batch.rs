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

/// One wanted column of a batch.
#[derive(Debug, Default)]
pub struct Slot {
    /// Kind of each cell, see [`kind`].
    pub kinds: Vec<u8>,
    /// Value of each cell; 0 where it has none.
    pub values: Vec<i64>,
    /// One bit for every kind that occurs.
    pub seen: u8,
}

impl Slot {
    /// Append a cell.
    #[inline]
    pub fn push(&mut self, kind: u8, value: i64) {
        self.kinds.push(kind);
        self.values.push(value);
        self.seen |= 1 << kind;
    }

    /// Whether no kind but `kind` occurs.
    pub fn only(&self, kind: u8) -> bool {
        self.seen & !(1 << kind) == 0
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
        let slot = || Slot { kinds: Vec::with_capacity(BATCH_ROWS), values: Vec::with_capacity(BATCH_ROWS), seen: 0 };
        Self { rows: 0, slots: (0..slots).map(|_| slot()).collect(), bytes: Vec::new() }
    }

    /// Forget the rows, keep the memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.bytes.clear();
        for slot in &mut self.slots {
            slot.kinds.clear();
            slot.values.clear();
            slot.seen = 0;
        }
    }

    /// Whether the batch should be converted before another row goes in.
    pub fn full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes.len() >= BATCH_BYTES
    }

    /// Append a text cell.
    pub fn push_text(&mut self, slot: usize, text: &[u8]) {
        let place = ((self.bytes.len() as i64) << 32) | text.len() as i64;
        self.bytes.extend_from_slice(text);
        self.slots[slot].push(kind::TEXT, place);
    }

    /// The bytes of a text cell's value.
    pub fn text(&self, value: i64) -> &[u8] {
        let (start, length) = ((value >> 32) as usize, (value & 0xFFFF_FFFF) as usize);
        self.bytes.get(start..start + length).unwrap_or(&[])
    }
}
