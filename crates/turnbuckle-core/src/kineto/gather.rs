//! Events into rows.

use super::event::{self, Args, Event, NO, Number};
use super::mend;
use super::scan::Piece;
use memchr::memmem;
use std::borrow::Cow;
use std::collections::HashMap;

/// What an event is, by its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Kernel,
    Copy,
    Set,
    Runtime,
    Driver,
    Sync,
    Range,
    Operator,
    Function,
    Overhead,
    Instant,
    /// Read nothing of it, count it.
    Counted,
}

fn sort_of(category: &str) -> Sort {
    match category {
        "kernel" | "Kernel" | "concurrent_kernel" => Sort::Kernel,
        "gpu_memcpy" | "Memcpy" => Sort::Copy,
        "gpu_memset" | "Memset" => Sort::Set,
        "cuda_runtime" | "Runtime" | "hip_runtime" | "xpu_runtime" | "privateuse1_runtime" => Sort::Runtime,
        "cuda_driver" | "hip_driver" | "xpu_driver" | "privateuse1_driver" => Sort::Driver,
        "cuda_sync" | "hip_sync" => Sort::Sync,
        "user_annotation" => Sort::Range,
        "cpu_op" | "Operator" => Sort::Operator,
        "python_function" => Sort::Function,
        "overhead" => Sort::Overhead,
        "cpu_instant_event" => Sort::Instant,
        _ => Sort::Counted,
    }
}

/// Where a row stands in the file, so that the order does not depend on who read it.
pub(super) type Order = (u64, u32);
/// Process and thread as the trace names them.
pub(super) type Caller = (i64, i64);

/// A kernel, copy or set.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub order: Order,
    pub start: i64,
    pub end: i64,
    pub name: u32,
    pub device: i64,
    pub context: i64,
    pub stream: i64,
    pub correlation: i64,
    pub size: i64,
    pub blocks: i64,
    pub threads: i64,
    pub registers: i64,
    pub shared: i64,
    pub node: i64,
    pub graph: i64,
    pub direction: i8,
    pub source: i8,
    pub target: i8,
    pub from: i64,
    pub to: i64,
}

/// A call of the host, or a range it marks; `size` is that of a copy where the call tells it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub order: Order,
    pub start: i64,
    pub end: i64,
    pub caller: Caller,
    pub name: u32,
    pub correlation: i64,
    pub size: i64,
    pub sort: Sort,
}

/// A wait that the profiler recorded.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub order: Order,
    pub start: i64,
    pub end: i64,
    pub device: i64,
    pub context: i64,
    pub stream: i64,
    pub correlation: i64,
    pub kind: i64,
    pub event: i64,
    pub record: i64,
    pub waits_on: i64,
}

/// Memory that PyTorch took or gave back on a device.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub order: Order,
    pub time: i64,
    pub caller: Caller,
    pub device: i64,
    pub bytes: i64,
    pub address: i64,
}

/// What a collective between GPUs moves, as the call that asked for it tells, or its kernel (`correlation`).
#[derive(Debug, Clone)]
pub(super) struct Collective {
    pub order: Order,
    pub start: i64,
    pub end: i64,
    pub caller: Option<Caller>,
    pub correlation: i64,
    pub name: u32,
    pub size: i64,
    pub received: i64,
    pub ranks: i64,
    pub first_rank: i64,
    pub rank_stride: i64,
}

/// Begin or end of an activity that is written as two events; `row` says where the begin was put.
#[derive(Debug, Clone)]
pub(super) struct Half {
    pub order: Order,
    pub time: i64,
    pub caller: Caller,
    pub row: Option<(bool, u32)>,
}

/// Counts of what is not as it should be.
#[derive(Debug, Default, Clone)]
pub(super) struct Flaws {
    /// Events that stay broken.
    pub unread: u64,
    /// Events read after repair.
    pub mended: u64,
    /// Activities without begin or end.
    pub endless: u64,
    /// Values of another type, and numbers too large.
    pub other: u64,
    pub large: u64,
    /// Copies whose direction is not known.
    pub directionless: u64,
    /// Activities with a time below the microsecond.
    pub fine: u64,
    /// Events that name the agents of an AMD system.
    pub agents: u64,
}

/// Rows that one thread read.
#[derive(Default)]
pub(super) struct Part {
    pub kernels: Vec<Work>,
    pub copies: Vec<Work>,
    pub sets: Vec<Work>,
    pub calls: Vec<Call>,
    pub ranges: Vec<Call>,
    pub overheads: Vec<Call>,
    pub waits: Vec<Wait>,
    pub collectives: Vec<Collective>,
    pub memory: Vec<Memory>,
    pub halves: Vec<Half>,
    pub names: Vec<String>,
    pub flaws: Flaws,
    /// Events by category.
    pub counts: HashMap<String, u64>,
    pub events: u64,
    known: HashMap<String, u32>,
}

/// What CUPTI writes for no stream.
const NONE_OF_32: i64 = 0xFFFF_FFFF;
/// Categories that are told apart; more are one.
const MOST_CATEGORIES: usize = 64;
/// End of a row whose end comes as an event of its own.
pub(super) const OPEN: i64 = NO + 1;

impl Part {
    /// Read all events of a piece.
    pub fn take(&mut self, number: u64, piece: &Piece, lenient: bool) {
        for (index, (from, to)) in (0u32..).zip(&piece.events) {
            let raw = piece.bytes.get(*from..*to).unwrap_or(&[]);
            let order = (number, index);
            let whole = if lenient { mend::trimmed(raw) } else { raw };
            // what stands behind an event and begins as none that is known
            self.flaws.unread += memmem::find_iter(&raw[whole.len()..], b"\"ph\"").count() as u64;
            if lenient && mend::too_deep(whole) {
                self.flaws.unread += 1;
                continue;
            }
            // sonic-rs takes lazy values for UTF-8 before it looks
            if let Some(event) = std::str::from_utf8(whole).ok().and_then(|text| sonic_rs::from_str::<Event<'_>>(text).ok()) {
                self.event(order, &event);
                continue;
            }
            let tries = [(whole, false), (raw, true)];
            let mut read = false;
            for (text, quotes) in tries.iter().take(if lenient { 2 } else { 1 }) {
                if let Some(text) = mend::mended(text, *quotes)
                    && let Ok(event) = sonic_rs::from_str::<Event<'_>>(&text)
                    // a text that lost its end takes in what follows it
                    && event::text(&event.phase).is_some_and(|p| p.len() == 1)
                {
                    self.flaws.mended += 1;
                    self.event(order, &event);
                    read = true;
                    break;
                }
            }
            self.flaws.unread += u64::from(!read);
        }
    }

    fn event(&mut self, order: Order, event: &Event<'_>) {
        self.events += 1;
        let phase = event::text(&event.phase);
        let sort = {
            let category = event::text(&event.category);
            let word = category.as_deref().unwrap_or("");
            self.count(match (word, phase.as_deref()) {
                ("", Some("M")) => "metadata",
                ("", Some("i" | "I")) => "instant",
                ("", _) => "uncategorised",
                (word, Some("s" | "t" | "f")) if word != "fwdbwd" => "flow",
                (word, _) => word,
            });
            match (word, phase.as_deref()) {
                ("", Some("i" | "I")) => Sort::Instant,
                _ => sort_of(word),
            }
        };
        match (phase.as_deref(), sort) {
            (Some("E"), _) => return self.half(order, event, None),
            (Some("i" | "I"), Sort::Instant) => return self.instant(order, event),
            (Some("X" | "B"), Sort::Instant | Sort::Counted) | (None, _) => return,
            (Some("X" | "B"), _) => {}
            _ => return,
        }
        let begins = phase.as_deref() == Some("B");
        let Some((start, end)) = self.span(event, begins) else {
            self.flaws.endless += 1;
            return;
        };
        if matches!(sort, Sort::Kernel | Sort::Copy | Sort::Set | Sort::Sync) && begins {
            self.flaws.endless += 1; // what runs on a device is written whole
            return;
        }
        if matches!(sort, Sort::Range | Sort::Operator | Sort::Function) {
            return self.range(order, event, sort, start, end);
        }
        self.flaws.fine += u64::from(event::has_fraction(&event.time) || event::has_fraction(&event.duration));
        let args = event.args.as_ref().and_then(|a| sonic_rs::from_str::<Args<'_>>(a.as_raw_str()).ok()).unwrap_or_default();
        match sort {
            Sort::Kernel | Sort::Copy | Sort::Set => self.work(order, event, &args, sort, start, end),
            Sort::Sync => self.wait(order, event, &args, start, end),
            _ => self.call(order, event, &args, sort, start, end),
        }
    }

    fn count(&mut self, category: &str) {
        if let Some(count) = self.counts.get_mut(category) {
            *count += 1;
            return;
        }
        let plain = category.len() <= 40 && category.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let category = if plain && self.counts.len() < MOST_CATEGORIES { category } else { "other" };
        *self.counts.entry(category.to_owned()).or_default() += 1;
    }

    /// Begin and end [ns]; the end is `OPEN` where it comes later.
    fn span(&mut self, event: &Event<'_>, begins: bool) -> Option<(i64, i64)> {
        let start = self.number(event::nanoseconds(&event.time))?;
        if begins {
            return Some((start, OPEN));
        }
        let duration = self.number(event::nanoseconds(&event.duration))?;
        start.checked_add(duration).map(|end| (start, end))
    }

    fn number(&mut self, number: Number) -> Option<i64> {
        match number {
            Number::Is(n) => Some(n),
            Number::Absent => None,
            Number::Large => {
                self.flaws.large += 1;
                None
            }
            Number::Other => {
                self.flaws.other += 1;
                None
            }
        }
    }

    fn whole(&mut self, value: &Option<sonic_rs::LazyValue<'_>>) -> i64 {
        self.number(event::whole(value)).unwrap_or(NO)
    }

    /// A number for a column of 32 bits.
    fn small(&mut self, value: &Option<sonic_rs::LazyValue<'_>>) -> i64 {
        let number = self.whole(value);
        if number == NO || i32::try_from(number).is_ok() {
            return number;
        }
        if number == NONE_OF_32 {
            return NO;
        }
        self.flaws.large += 1;
        NO
    }

    fn name(&mut self, text: &str) -> u32 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }

    fn caller(event: &Event<'_>) -> Caller {
        (event::place(&event.pid), event::place(&event.tid))
    }

    fn work(&mut self, order: Order, event: &Event<'_>, args: &Args<'_>, sort: Sort, start: i64, end: i64) {
        let text = event::text(&event.name).unwrap_or_default();
        let mut device = self.small(&args.device);
        let mut stream = self.small(&args.stream);
        let (pid, tid) = Self::caller(event);
        if device == NO && i32::try_from(pid).is_ok() {
            device = pid;
        }
        if stream == NO && i32::try_from(tid).is_ok() {
            stream = tid;
        }
        let kind = event::text(&args.kind).unwrap_or_default();
        self.flaws.agents += u64::from(kind.starts_with("Dispatch"));
        let name = self.name(&text);
        let mut work = Work {
            order,
            start,
            end,
            name,
            device,
            stream,
            context: self.small(&args.context),
            correlation: self.whole(&args.correlation),
            size: self.whole(&args.bytes),
            blocks: event::product(&args.grid).unwrap_or(NO),
            threads: event::product(&args.block).unwrap_or(NO),
            registers: self.small(&args.registers),
            shared: self.small(&args.shared),
            node: self.whole(&args.node),
            graph: self.whole(&args.graph),
            direction: 0,
            source: 0,
            target: 0,
            from: self.small(&args.from),
            to: self.small(&args.to),
        };
        if work.size < 0 && work.size != NO {
            self.flaws.other += 1;
            work.size = NO;
        }
        match sort {
            Sort::Kernel => {
                if args.collective.is_some() {
                    self.collective(order, None, work.correlation, args, &text, start, end);
                }
                self.kernels.push(work);
            }
            Sort::Set => {
                work.target = memory(inside(&text));
                self.sets.push(work);
            }
            _ => {
                (work.direction, work.source, work.target) = movement(&text, &kind);
                self.flaws.directionless += u64::from(work.direction == 0);
                self.copies.push(work);
            }
        }
    }

    fn call(&mut self, order: Order, event: &Event<'_>, args: &Args<'_>, sort: Sort, start: i64, end: i64) {
        let text = event::text(&event.name).unwrap_or_default();
        let name = self.name(&text);
        let size = if text.contains("emcpy") || text.contains("emset") { self.whole(&args.bytes) } else { NO };
        let caller = Self::caller(event);
        let correlation = self.whole(&args.correlation);
        let call = Call { order, start, end, caller, name, correlation, size, sort };
        match (sort, end) {
            (Sort::Overhead, OPEN) => self.flaws.endless += 1,
            (Sort::Overhead, _) => self.overheads.push(call),
            _ => {
                self.calls.push(call);
                self.begun(order, start, end, caller, (false, self.calls.len()));
            }
        }
    }

    /// What the host's program or framework marks; the arguments are read of collectives alone, for there are many.
    fn range(&mut self, order: Order, event: &Event<'_>, sort: Sort, start: i64, end: i64) {
        let text = event::text(&event.name).unwrap_or_default();
        if end != OPEN
            && (text == "record_param_comms" || text.starts_with("nccl:"))
            && let Some(args) = event.args.as_ref().and_then(|a| sonic_rs::from_str::<Args<'_>>(a.as_raw_str()).ok())
        {
            self.collective(order, Some(Self::caller(event)), NO, &args, &text, start, end);
        }
        let name = self.name(&if sort == Sort::Function { without_address(&text) } else { text });
        let caller = Self::caller(event);
        self.ranges.push(Call { order, start, end, caller, name, correlation: NO, size: NO, sort });
        self.begun(order, start, end, caller, (true, self.ranges.len()));
    }

    /// A collective whose bytes are told: by its numbers of elements, or by the tensors that it is given.
    #[allow(clippy::too_many_arguments)]
    fn collective(&mut self, order: Order, caller: Option<Caller>, correlation: i64, args: &Args<'_>, text: &str, start: i64, end: i64) {
        let named = event::text(&args.collective).filter(|n| !n.is_empty());
        let positive = |n: i64| if n < 0 { NO } else { n };
        let (size, received) = if named.is_some() {
            let each = event::text(&args.element).and_then(|e| event::element_bytes(&e));
            let mut bytes = |count| each.and_then(|b| positive(self.whole(count)).checked_mul(b)).filter(|b| *b >= 0).unwrap_or(NO);
            (bytes(&args.put_in), bytes(&args.got_out))
        } else {
            (event::tensors_bytes(&args.shapes, &args.types).unwrap_or(NO), NO)
        };
        if (size == NO && received == NO) || (named.is_none() && !text.starts_with("nccl:")) {
            return;
        }
        let name = self.name(&named.unwrap_or(Cow::Borrowed(text)));
        let (ranks, first_rank, rank_stride) =
            (positive(self.whole(&args.members)), positive(self.whole(&args.first_rank)), positive(self.whole(&args.rank_stride)));
        self.collectives.push(Collective { order, start, end, caller, correlation, name, size, received, ranks, first_rank, rank_stride });
    }

    /// Note where the latest row stands if its end comes as an event of its own.
    fn begun(&mut self, order: Order, time: i64, end: i64, caller: Caller, (is_range, rows): (bool, usize)) {
        if end == OPEN {
            let row = u32::try_from(rows - 1).unwrap_or(u32::MAX);
            self.halves.push(Half { order, time, caller, row: Some((is_range, row)) });
        }
    }

    fn half(&mut self, order: Order, event: &Event<'_>, row: Option<(bool, u32)>) {
        match self.number(event::nanoseconds(&event.time)) {
            Some(time) => self.halves.push(Half { order, time, caller: Self::caller(event), row }),
            None => self.flaws.endless += 1,
        }
    }

    fn wait(&mut self, order: Order, event: &Event<'_>, args: &Args<'_>, start: i64, end: i64) {
        let word = event::text(&args.kind).or_else(|| event::text(&event.name)).unwrap_or_default();
        let kind = match word.as_ref() {
            "Event Sync" => 1,
            "Stream Wait Event" => 2,
            "Stream Sync" => 3,
            "Context Sync" => 4,
            _ => NO,
        };
        let positive = |n: i64| if n < 0 { NO } else { n };
        let wait = Wait {
            order,
            start,
            end,
            kind,
            device: positive(self.small(&args.device)),
            context: positive(self.small(&args.context)),
            stream: positive(self.small(&args.stream)),
            correlation: self.whole(&args.correlation),
            event: positive(self.whole(&args.event)),
            record: positive(self.whole(&args.record)),
            waits_on: positive(self.small(&args.waits_on)),
        };
        self.waits.push(wait);
    }

    /// Memory of a device that PyTorch's allocator handed out or took back; other instants say nothing here.
    fn instant(&mut self, order: Order, event: &Event<'_>) {
        if event::text(&event.name).as_deref() != Some("[memory]") {
            return;
        }
        let args = event.args.as_ref().and_then(|a| sonic_rs::from_str::<Args<'_>>(a.as_raw_str()).ok()).unwrap_or_default();
        let (bytes, device, place) = (self.whole(&args.bytes), self.small(&args.device), self.whole(&args.device_type));
        // the host's own memory is of type 0 and device -1
        if bytes == NO || bytes == 0 || place == 0 || place == NO || device < 0 {
            return;
        }
        let address = self.whole(&args.address);
        if let Some(time) = self.number(event::nanoseconds(&event.time)).filter(|_| address != NO) {
            self.memory.push(Memory { order, time, caller: Self::caller(event), device, bytes, address });
        }
    }
}

/// What stands in the brackets of a name such as `Memcpy HtoD (Pinned -> Device)`.
fn inside(name: &str) -> &str {
    name.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inner, _)| inner.trim())
}

/// The name of a Python function without the place in memory of its object, which is another in every run and call:
/// `<built-in method size of Tensor object at 0x7f0e7ab66bc0>`.
fn without_address(name: &str) -> Cow<'_, str> {
    const PLACE: &str = " at 0x";
    let Some(at) = name.find(PLACE) else { return Cow::Borrowed(name) };
    let (before, rest) = name.split_at(at);
    let mut out = before.to_owned();
    for part in rest.split(PLACE).skip(1) {
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    Cow::Owned(out)
}

/// Index of a memory kind.
fn memory(word: &str) -> i8 {
    match word {
        "Pageable" => 1,
        "Pinned" => 2,
        "Device" => 3,
        "Array" => 4,
        "Managed" => 5,
        "Device Static" => 6,
        "Managed Static" => 7,
        _ => 0,
    }
}

/// Direction of a copy and the kinds of memory at its two ends.
fn movement(name: &str, kind: &str) -> (i8, i8, i8) {
    let (from, to) = inside(name).split_once("->").unwrap_or(("", ""));
    let (source, target) = (memory(from.trim()), memory(to.trim()));
    let word = name.split(' ').nth(1).unwrap_or("");
    let of_word = |word: &str| match word {
        "HtoD" | "HtoA" | "CopyHostToDevice" => 1,
        "DtoH" | "AtoH" | "CopyDeviceToHost" => 2,
        "DtoD" | "DtoA" | "AtoD" | "AtoA" | "CopyDeviceToDevice" => 3,
        "PtoP" | "P2P" => 4,
        "HtoH" => 5,
        _ => 0,
    };
    let direction = match (of_word(word), of_word(kind)) {
        (0, 0) => match (source, target) {
            (1 | 2, 3 | 4 | 6) => 1,
            (3 | 4 | 6, 1 | 2) => 2,
            (3 | 4 | 6, 3 | 4 | 6) => 3,
            (1 | 2, 1 | 2) => 5,
            _ => 0,
        },
        (0, other) => other,
        (known, _) => known,
    };
    (direction, source, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_by_their_names() {
        assert_eq!(movement("Memcpy HtoD (Pinned -> Device)", ""), (1, 2, 3));
        assert_eq!(movement("Memcpy DtoH (Device -> Pageable)", ""), (2, 3, 1));
        assert_eq!(movement("Memcpy PtoP (Device -> Device)", ""), (4, 3, 3));
        assert_eq!(movement("Memcpy HtoD (Host -> Device)", "HtoD"), (1, 0, 3));
        assert_eq!(movement("CopyDeviceToHost", "DtoH"), (2, 0, 0));
        assert_eq!(movement("Memcpy ? (Pinned -> Pageable)", ""), (5, 2, 1));
        assert_eq!(movement("Memcpy", ""), (0, 0, 0));
    }

    #[test]
    fn places_in_memory_are_no_part_of_a_name() {
        assert_eq!(without_address("<built-in method size of Tensor object at 0x7f0e7ab66bc0>"), "<built-in method size of Tensor object>");
        assert_eq!(without_address("<a at 0x1f> of <é at 0x2e>"), "<a> of <é>");
        assert_eq!(without_address("train.py(12): look at 0x"), "train.py(12): look");
        assert_eq!(without_address("train.py(12): main"), "train.py(12): main");
    }
}
