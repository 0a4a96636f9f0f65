//! TOML that somebody wrote, with the place of every key and value.
//!
//! The parser takes time and memory in proportion to the text, refuses more than 80 brackets inside each other and more than 80 parts of a key.

use toml::Spanned;
pub use toml::de::{DeTable, DeValue};

/// Line and column, both from 1; columns count characters.
pub type Place = (usize, usize);

/// Why a text is no TOML, and where if one place is to blame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// What is wrong, without a full stop.
    pub why: String,
    /// Where it stands.
    pub place: Option<Place>,
}

/// Parse a text.
///
/// # Errors
/// The first [`Flaw`].
pub fn parsed<'t>(text: &'t str, places: &Places) -> Result<Spanned<DeTable<'t>>, Flaw> {
    DeTable::parse(text).map_err(|error| {
        let deep = error.message().contains("recurs");
        let why = if deep { "nested too deeply" } else { error.message() };
        Flaw { why: why.to_owned(), place: error.span().map(|span| places.of(span.start)) }
    })
}

/// Finds the place of a byte of a text.
#[derive(Debug)]
pub struct Places {
    /// Where each line begins.
    lines: Vec<usize>,
    /// Bytes that do not begin a character.
    inner: Vec<usize>,
}

impl Places {
    /// The places of a text.
    pub fn new(text: &str) -> Self {
        let begins = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let inner = text.bytes().enumerate().filter(|(_, byte)| byte & 0xC0 == 0x80).map(|(at, _)| at);
        Self { lines: std::iter::once(0).chain(begins).collect(), inner: inner.collect() }
    }

    /// The place of the byte at `at`.
    pub fn of(&self, at: usize) -> Place {
        let line = self.lines.partition_point(|&begin| begin <= at);
        let begin = self.lines[line - 1];
        let before = |byte| self.inner.partition_point(|&inner| inner < byte);
        (line, at - begin - (before(at) - before(begin)) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(text: &str) -> Flaw {
        parsed(text, &Places::new(text)).expect_err(&text[..text.len().min(40)])
    }

    #[test]
    fn places_count_characters() {
        let places = Places::new("é = 1\n\u{1f600}ab");
        assert_eq!([0, 3, 6, 7, 11, 13].map(|at| places.of(at)), [(1, 1), (1, 3), (1, 6), (2, 1), (2, 2), (2, 4)]);
    }

    #[test]
    fn hostile_texts_are_refused_in_time() {
        for text in [
            "a = [\n".to_owned() + &"[\n".repeat(100_000),
            "x = {".to_owned() + &"a.".repeat(500_000) + "b = 1}",
            "a.".repeat(500_000) + "b = 1",
        ] {
            assert_eq!(flaw(&text).why, "nested too deeply");
        }
        for line in ["[a]\n", "a = 1\n", "'''", "\"\"\"", "\"", "a = '\n", "= 1\n", "[[a]]\n[a]\n", "{", "a = {a = ", "[a.b]\n[a]\n"] {
            assert!(!flaw(&line.repeat(20_000)).why.is_empty(), "{line}");
        }
    }
}
