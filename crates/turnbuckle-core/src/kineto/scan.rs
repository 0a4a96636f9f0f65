//! Where the events of a trace begin and end, while its text comes in piece by piece.

use memchr::memchr3;

/// Bytes that one event or one value of the head may take.
const LONGEST: usize = 64 << 20;
/// Brackets inside each other that an event may have; the arguments of real ones have four.
pub(super) const DEEPEST: u32 = 100;

/// Why the text is not followed any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The text is no JSON of this form, or a quote is missing or one too many.
    Form,
    /// It ends before its last bracket is closed.
    Short,
}

/// What a piece of text holds.
#[derive(Default)]
pub(super) struct Piece {
    /// The text.
    pub bytes: Vec<u8>,
    /// Where each event stands in it.
    pub events: Vec<(usize, usize)>,
}

/// Follows the text of a trace: strings, brackets, and what stands where.
#[derive(Default)]
pub(super) struct Scanner {
    buffer: Vec<u8>,
    /// How far the buffer has been looked at.
    at: usize,
    /// Begin of what is not handed on yet.
    kept: Option<usize>,
    depth: u32,
    deepest: u32,
    in_text: bool,
    text_began: usize,
    /// Depth at which events lie, once the list of events is open.
    list: Option<u32>,
    ended: bool,
    root_is_list: bool,
    /// Last text at the outermost level, which is a key if a colon follows.
    last: String,
    key: Option<String>,
    value_began: usize,
    events: Vec<(usize, usize)>,
    /// Values beside the list of events: key and text.
    pub about: Vec<(String, Vec<u8>)>,
    /// Entries of the list that are no events, or are too deep.
    pub strange: u64,
}

impl Scanner {
    /// Take more text; gives what is complete of it.
    ///
    /// # Errors
    /// [`Lost::Form`] where the text is not of the form that was expected.
    pub fn feed(&mut self, more: &[u8]) -> Result<Option<Piece>, Lost> {
        self.buffer.extend_from_slice(more);
        self.follow()?;
        let keep = self.kept.unwrap_or(self.at).min(self.at);
        if self.buffer.len() - keep > LONGEST {
            return Err(Lost::Form);
        }
        let rest = self.buffer[keep..].to_vec();
        let bytes = std::mem::replace(&mut self.buffer, rest);
        self.at -= keep;
        self.kept = self.kept.map(|k| k - keep);
        self.text_began = self.text_began.saturating_sub(keep);
        self.value_began = self.value_began.saturating_sub(keep);
        let events = std::mem::take(&mut self.events);
        Ok((!events.is_empty()).then_some(Piece { bytes, events }))
    }

    /// What to do at the end of the text.
    ///
    /// # Errors
    /// [`Lost::Short`] where something is still open; [`Lost::Form`] where no trace was there at all.
    pub fn end(&self) -> Result<(), Lost> {
        match (self.ended, self.depth) {
            (true, _) => Ok(()),
            (false, 0) => Err(Lost::Form),
            _ => Err(Lost::Short),
        }
    }

    /// What was begun and not completed.
    pub fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// Whether the list of events was found.
    pub fn found_list(&self) -> bool {
        self.list.is_some()
    }

    fn follow(&mut self) -> Result<(), Lost> {
        let buffer = std::mem::take(&mut self.buffer);
        let outcome = self.bytes(&buffer);
        self.buffer = buffer;
        outcome
    }

    fn bytes(&mut self, b: &[u8]) -> Result<(), Lost> {
        while self.at < b.len() {
            if self.in_text {
                let Some(found) = memchr3(b'"', b'\\', b'\n', &b[self.at..]) else {
                    self.at = b.len();
                    break;
                };
                self.at += found;
                match b[self.at] {
                    b'\\' if self.at + 1 >= b.len() => break, // the next piece tells
                    b'\\' => self.at += 2,
                    b'"' => {
                        self.in_text = false;
                        if self.depth == 1 && !self.root_is_list {
                            self.last = String::from_utf8_lossy(b.get(self.text_began + 1..self.at).unwrap_or(&[])).into_owned();
                        }
                        self.at += 1;
                    }
                    _ => return Err(Lost::Form), // a line never ends inside a text
                }
                continue;
            }
            match b[self.at] {
                b'"' => {
                    if self.depth == 0 {
                        return Err(Lost::Form);
                    }
                    self.in_text = true;
                    self.text_began = self.at;
                    if self.depth == 1 && self.key.is_none() && !self.root_is_list {
                        self.kept = Some(self.at);
                    }
                    if self.inside_list() {
                        self.strange += 1;
                    }
                }
                b'{' | b'[' => self.open(b[self.at])?,
                b'}' | b']' => self.close(b)?,
                b':' if self.depth == 1 && !self.root_is_list => {
                    self.key = Some(std::mem::take(&mut self.last));
                    self.value_began = self.at + 1;
                    self.kept = Some(self.value_began);
                }
                b',' if self.depth == 1 && !self.root_is_list => self.value_ends(b),
                b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => {}
                0xEF | 0xBB | 0xBF if self.depth == 0 && !self.ended => {}
                _ if self.depth == 0 && !self.ended => return Err(Lost::Form),
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    fn inside_list(&self) -> bool {
        self.list == Some(self.depth)
    }

    fn open(&mut self, bracket: u8) -> Result<(), Lost> {
        if self.depth == 0 {
            if self.ended {
                return Err(Lost::Form);
            }
            if bracket == b'[' {
                self.root_is_list = true;
                self.list = Some(1);
            }
        } else if self.inside_list() {
            self.kept = Some(self.at);
            self.deepest = 0;
            self.strange += u64::from(bracket == b'[');
        } else if self.depth == 1 && bracket == b'[' && self.key.as_deref() == Some("traceEvents") && !self.root_is_list {
            self.list = Some(2);
            self.kept = None;
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        Ok(())
    }

    fn close(&mut self, b: &[u8]) -> Result<(), Lost> {
        if self.depth == 0 {
            return Err(Lost::Form);
        }
        let was_list = self.inside_list();
        self.depth -= 1;
        if self.inside_list() {
            let began = self.kept.take().unwrap_or(self.at);
            if b.get(began) == Some(&b'{') {
                if self.deepest > DEEPEST {
                    self.strange += 1;
                } else {
                    self.events.push((began, self.at + 1));
                }
            }
        } else if was_list && self.depth == 1 {
            self.key = None;
            self.list = Some(u32::MAX); // found, and behind us
        } else if self.depth == 0 {
            self.at = self.at.min(b.len());
            self.value_ends(b);
            self.ended = true;
        }
        Ok(())
    }

    fn value_ends(&mut self, b: &[u8]) {
        if let Some(key) = self.key.take() {
            let value = b.get(self.value_began..self.at).unwrap_or(&[]);
            if key.len() <= 256 && self.deepest <= DEEPEST && self.about.len() < 4096 {
                self.about.push((key, value.trim_ascii().to_vec()));
            }
        }
        self.deepest = 0;
        self.kept = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = (Vec<String>, Vec<(String, String)>, Result<(), Lost>);

    fn events(text: &str, step: usize) -> Found {
        let mut scanner = Scanner::default();
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(step) {
            match scanner.feed(chunk) {
                Ok(Some(piece)) => {
                    out.extend(piece.events.iter().map(|(a, b)| String::from_utf8_lossy(&piece.bytes[*a..*b]).into_owned()));
                }
                Ok(None) => {}
                Err(lost) => return (out, vec![], Err(lost)),
            }
        }
        let about = scanner.about.iter().map(|(k, v)| (k.clone(), String::from_utf8_lossy(v).into_owned())).collect();
        (out, about, scanner.end())
    }

    #[test]
    fn pieces_of_any_length_give_the_same_events() {
        let text = r#"{"a": [1, {"b": "]}\""}], "traceEvents": [{"n": "{\\", "args": {"x": [1]}}, 7, {"m": 2} ], "n": 5, "s": "x,y"}"#;
        for step in 1..text.len() {
            let (found, about, end) = events(text, step);
            assert_eq!(found, [r#"{"n": "{\\", "args": {"x": [1]}}"#, r#"{"m": 2}"#], "{step}");
            let wanted = [("a", r#"[1, {"b": "]}\""}]"#), ("n", "5"), ("s", r#""x,y""#)];
            assert_eq!(about, wanted.map(|(k, v)| (k.to_owned(), v.to_owned())), "{step}");
            assert_eq!(end, Ok(()));
        }
        assert_eq!(events(r#"[{"a": 1}, {"b": 2}]"#, 3).0, [r#"{"a": 1}"#, r#"{"b": 2}"#]);
    }

    #[test]
    fn broken_text_is_told() {
        assert_eq!(events(r#"{"traceEvents": [{"a": 1}, {"b""#, 5).2, Err(Lost::Short));
        assert_eq!(events("{\"traceEvents\": [{\"a\": \"x\ny\"}]}", 5).2, Err(Lost::Form));
        assert_eq!(events("<html>", 5).2, Err(Lost::Form));
        assert_eq!(events("]", 5).2, Err(Lost::Form));
        let deep = format!("[{}{}]", "{\"a\":".repeat(4000), "}".repeat(4000));
        assert_eq!(events(&deep, 64).0.len(), 0);
    }
}
