//! Broken text: where events begin whatever stands between them, and events made readable again.

use super::scan::{DEEPEST, Piece};
use memchr::memchr_iter;

/// Keys that an event may begin with.
const FIRST: [&[u8]; 7] = [b"ph", b"cat", b"name", b"ts", b"pid", b"tid", b"dur"];
/// Bytes after a bracket that tell whether an event begins there.
const AHEAD: usize = 256;
const LONGEST: usize = 64 << 20;
/// Bytes of the head and of the end that are kept.
const KEPT: usize = 8 << 20;

/// Whether an event begins at `at`, which is a bracket; `None` where the text ends too early to tell.
fn begins(b: &[u8], at: usize) -> Option<bool> {
    let before = b[..at].iter().rev().find(|c| !c.is_ascii_whitespace());
    if !matches!(before, None | Some(b',' | b'[')) {
        return Some(false);
    }
    let mut rest = b[at + 1..].iter().skip_while(|c| c.is_ascii_whitespace()).copied();
    match rest.next() {
        None => return None,
        Some(b'"') => {}
        Some(_) => return Some(false),
    }
    let mut key = [0u8; 8];
    for (length, c) in rest.enumerate() {
        if c == b'"' {
            return Some(FIRST.contains(&&key[..length]));
        }
        if length == key.len() {
            return Some(false);
        }
        key[length] = c;
    }
    None
}

/// Whether another event begins in what should be one.
pub(super) fn holds_another(b: &[u8]) -> bool {
    memchr_iter(b'{', b).skip(1).any(|at| begins(b, at) == Some(true))
}

/// Finds events by how they begin.
#[derive(Default)]
pub(super) struct Resync {
    buffer: Vec<u8>,
    at: usize,
    began: Option<usize>,
    /// What stands before the first event, and after the last one.
    pub head: Vec<u8>,
    /// Text that was given up as too long to be an event.
    pub strange: u64,
}

impl Resync {
    /// Take more text; gives the events that are complete, each to the begin of the next.
    pub fn feed(&mut self, more: &[u8], last: bool) -> Option<Piece> {
        self.buffer.extend_from_slice(more);
        let until = if last { self.buffer.len() } else { self.buffer.len().saturating_sub(AHEAD) };
        let mut events = Vec::new();
        if self.at < until {
            for found in memchr_iter(b'{', &self.buffer[self.at..until]) {
                let here = self.at + found;
                if begins(&self.buffer, here) == Some(true) {
                    match self.began.replace(here) {
                        Some(before) => events.push((before, here)),
                        None => keep(&mut self.head, &self.buffer[..here]),
                    }
                }
            }
            self.at = until;
        }
        if last {
            if let Some(before) = self.began.take() {
                keep(&mut self.head, &self.buffer[before..]);
                events.push((before, self.buffer.len()));
            } else {
                keep(&mut self.head, &self.buffer);
            }
        }
        let mut from = self.began.unwrap_or(0);
        if self.buffer.len() - from > LONGEST {
            self.strange += u64::from(self.began.is_some());
            keep(&mut self.head, &self.buffer[from..]);
            from = self.at.saturating_sub(1);
            self.began = None;
        }
        let rest = self.buffer[from..].to_vec();
        let bytes = std::mem::replace(&mut self.buffer, rest);
        self.at -= from;
        self.began = self.began.map(|b| b - from);
        (!events.is_empty()).then_some(Piece { bytes, events })
    }
}

fn keep(head: &mut Vec<u8>, more: &[u8]) {
    let room = KEPT.saturating_sub(head.len());
    head.extend_from_slice(&more[..more.len().min(room)]);
}

/// The value of a key in the head, as text; the first one that is whole.
pub(super) fn value<'h>(head: &'h [u8], key: &str) -> Option<&'h [u8]> {
    let wanted = format!("\"{key}\"");
    let found = memchr::memmem::find(head, wanted.as_bytes())? + wanted.len();
    let rest = head[found..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = match rest.first()? {
        b'{' | b'[' | b'"' => balanced(rest)?,
        _ => rest.iter().position(|c| matches!(c, b',' | b'}' | b'\n'))?,
    };
    Some(rest[..end].trim_ascii())
}

/// Where the value that `b` begins with ends, by brackets and quotes.
pub(super) fn balanced(b: &[u8]) -> Option<usize> {
    let (mut depth, mut in_text, mut at) = (0u32, false, 0);
    while at < b.len() {
        match b[at] {
            b'\\' if in_text => at += 1,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether a reader of JSON would find more brackets inside each other than an event may have.
pub(super) fn too_deep(b: &[u8]) -> bool {
    let (mut depth, mut in_text, mut at) = (0u32, false, 0);
    while at < b.len() {
        match b[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > DEEPEST {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// An event that sonic-rs refuses, made readable: bad UTF-8, control characters and back-slashes in texts, numbers that are none, and,
/// if `quotes`, quotation marks inside texts.  `None` where it stays broken.
pub(super) fn mended(raw: &[u8], quotes: bool) -> Option<String> {
    let text = String::from_utf8_lossy(raw);
    let b = text.as_bytes();
    let mut out = String::with_capacity(b.len() + 64);
    let mut open: Vec<u8> = Vec::new();
    let mut wants_key = false;
    let mut at = 0;
    while at < b.len() {
        match b[at] {
            b'"' => {
                let key = wants_key && open.last() == Some(&b'{');
                let end = closing(b, at + 1, key, open.last() == Some(&b'['), quotes)?;
                out.push('"');
                escaped(&text[at + 1..end], &mut out);
                out.push('"');
                at = end;
            }
            c @ (b'{' | b'[') => {
                if open.len() >= DEEPEST as usize {
                    return None;
                }
                open.push(c);
                wants_key = c == b'{';
                out.push(char::from(c));
            }
            c @ (b'}' | b']') => {
                open.pop()?;
                out.push(char::from(c));
                if open.is_empty() {
                    return Some(out);
                }
            }
            c @ (b',' | b':') => {
                wants_key = c == b',';
                out.push(char::from(c));
            }
            c if c.is_ascii_whitespace() => out.push(char::from(c)),
            _ => {
                let word = b[at..].iter().position(|c| matches!(c, b',' | b'}' | b']' | b':' | b'"') || c.is_ascii_whitespace());
                let end = word.map_or(b.len(), |w| at + w);
                out.push_str(literal(&text[at..end]));
                at = end;
                continue;
            }
        }
        at += 1;
    }
    None
}

/// A number or word outside texts; `null` where JSON has none like it.
fn literal(word: &str) -> &str {
    let number = word.strip_prefix('-').unwrap_or(word);
    let good = number.starts_with(|c: char| c.is_ascii_digit()) && number.bytes().all(|c| c.is_ascii_digit() || b".eE+-".contains(&c));
    if good || matches!(word, "true" | "false" | "null") { word } else { "null" }
}

/// Where the text that begins at `from` ends.
fn closing(b: &[u8], from: usize, key: bool, in_list: bool, quotes: bool) -> Option<usize> {
    let mut at = from;
    while at < b.len() {
        match b[at] {
            b'\\' => at += 1,
            b'"' if !quotes || ends_text(&b[at + 1..], key, in_list) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether what follows a quotation mark is what follows the end of a text.
fn ends_text(rest: &[u8], key: bool, in_list: bool) -> bool {
    let rest = rest.trim_ascii_start();
    match rest.first() {
        Some(b':') => key,
        _ if key => false,
        None | Some(b'}' | b']') => true,
        Some(b',') => {
            let next = rest[1..].trim_ascii_start();
            if in_list {
                return matches!(next.first(), Some(b'"' | b'[' | b'{' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'));
            }
            // a key and its colon
            next.strip_prefix(b"\"")
                .and_then(|n| n.iter().take(AHEAD).position(|c| *c == b'"').map(|end| &n[end + 1..]))
                .is_some_and(|n| n.trim_ascii_start().first() == Some(&b':'))
        }
        _ => false,
    }
}

/// Append a text with what JSON does not allow in it escaped.
fn escaped(text: &str, out: &mut String) {
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\\' => match letters.peek() {
                Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
                    out.push('\\');
                    out.extend(letters.next());
                }
                _ => out.push_str("\\\\"),
            },
            '"' => out.push_str("\\\""),
            c if c < ' ' => out.push(' '),
            c => out.push(c),
        }
    }
}

/// What of a candidate is the event: to its closing bracket where that can be told.
pub(super) fn trimmed(raw: &[u8]) -> &[u8] {
    balanced(raw).map_or(raw, |end| &raw[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_in_broken_text() {
        let text = "{\"s\": 1, \"traceEvents\": [\n {\"ph\": \"X\", \"name\": \"a \"b\" c\", \"args\": {\"name\": 1}}, {\"ph\": \"Y\"}, oops {\"name\": 3}";
        for step in 1..text.len() {
            let mut resync = Resync::default();
            let mut found = Vec::new();
            let mut pieces: Vec<Option<Piece>> = text.as_bytes().chunks(step).map(|c| resync.feed(c, false)).collect();
            pieces.push(resync.feed(b"", true));
            for piece in pieces.into_iter().flatten() {
                found.extend(piece.events.iter().map(|(a, b)| String::from_utf8_lossy(&piece.bytes[*a..*b]).into_owned()));
            }
            assert_eq!(found.len(), 2, "{step}: {found:?}");
            assert_eq!(value(&resync.head, "s"), Some(b"1".as_slice()));
        }
    }

    #[test]
    fn broken_events_are_mended() {
        let good = |raw: &[u8]| sonic_rs::from_str::<sonic_rs::Value>(&mended(raw, true).expect("mended")).expect("json");
        use sonic_rs::JsonValueTrait;
        assert_eq!(good(br#"{"name": "a "b" c", "ts": 1}"#)["name"].as_str(), Some("a \"b\" c"));
        assert_eq!(good(br#"{"name": "a, "b", c", "ts": 1}"#)["ts"].as_i64(), Some(1));
        assert_eq!(good(b"{\"name\": \"a\xFFb\", \"x\": nan, \"y\": -inf}")["name"].as_str(), Some("a\u{FFFD}b"));
        assert_eq!(good(br#"{"name": "C:\Users", "l": ["a", "b"]}"#)["name"].as_str(), Some("C:\\Users"));
        assert!(mended(br#"{"name": "a"#, true).is_none());
        assert!(mended("[".repeat(5000).as_bytes(), true).is_none());
    }
}
