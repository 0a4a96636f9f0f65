//! One event of a Chrome trace: what is kept of it, and numbers as they are written.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use sonic_rs::LazyValue;
use std::borrow::Cow;
use std::fmt;

/// A missing number.
pub(super) const NO: i64 = i64::MIN;

/// The fields of an event; of a key that stands twice the last value counts.
#[derive(Default)]
pub(super) struct Event<'a> {
    pub phase: Option<LazyValue<'a>>,
    pub category: Option<LazyValue<'a>>,
    pub name: Option<LazyValue<'a>>,
    pub pid: Option<LazyValue<'a>>,
    pub tid: Option<LazyValue<'a>>,
    pub time: Option<LazyValue<'a>>,
    pub duration: Option<LazyValue<'a>>,
    pub args: Option<LazyValue<'a>>,
}

/// The arguments that are read.
#[derive(Default)]
pub(super) struct Args<'a> {
    pub device: Option<LazyValue<'a>>,
    pub context: Option<LazyValue<'a>>,
    pub stream: Option<LazyValue<'a>>,
    pub correlation: Option<LazyValue<'a>>,
    pub bytes: Option<LazyValue<'a>>,
    pub registers: Option<LazyValue<'a>>,
    pub shared: Option<LazyValue<'a>>,
    pub grid: Option<LazyValue<'a>>,
    pub block: Option<LazyValue<'a>>,
    pub node: Option<LazyValue<'a>>,
    pub graph: Option<LazyValue<'a>>,
    pub kind: Option<LazyValue<'a>>,
    pub from: Option<LazyValue<'a>>,
    pub to: Option<LazyValue<'a>>,
    pub waits_on: Option<LazyValue<'a>>,
    pub event: Option<LazyValue<'a>>,
    pub record: Option<LazyValue<'a>>,
    pub address: Option<LazyValue<'a>>,
    pub device_type: Option<LazyValue<'a>>,
    pub collective: Option<LazyValue<'a>>,
    pub put_in: Option<LazyValue<'a>>,
    pub got_out: Option<LazyValue<'a>>,
    pub element: Option<LazyValue<'a>>,
    pub members: Option<LazyValue<'a>>,
    pub first_rank: Option<LazyValue<'a>>,
    pub rank_stride: Option<LazyValue<'a>>,
    pub shapes: Option<LazyValue<'a>>,
    pub types: Option<LazyValue<'a>>,
}

/// Key of an object: borrowed where it holds no escape.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Take)
    }
}

/// A map whose known keys fill fields of `$into`.
macro_rules! fields {
    ($into:ident, $what:literal, $($($key:literal)|+ => $field:ident),+ $(,)?) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $into<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Take;
                impl<'de> Visitor<'de> for Take {
                    type Value = $into<'de>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut out = $into::default();
                        while let Some(Key(key)) = map.next_key()? {
                            match key.as_ref() {
                                $($($key)|+ => out.$field = Some(map.next_value()?),)+
                                _ => {
                                    map.next_value::<IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(out)
                    }
                }
                deserializer.deserialize_map(Take)
            }
        }
    };
}

fields!(Event, "an event",
    "ph" => phase, "cat" => category, "name" => name, "pid" => pid, "tid" => tid, "ts" => time, "dur" => duration, "args" => args);

fields!(Args, "arguments",
    "device" | "Device Id" => device, "context" => context, "stream" => stream, "correlation" => correlation,
    "bytes" | "size" | "Bytes" => bytes, "registers per thread" => registers, "shared memory" => shared, "grid" => grid, "block" => block,
    "graph node id" | "graph_node_id" => node, "graph id" | "graph_id" => graph, "kind" | "cuda_sync_kind" => kind,
    "fromDevice" => from, "toDevice" => to, "wait_on_stream" => waits_on, "wait_on_cuda_event_id" => event,
    "wait_on_cuda_event_record_corr_id" => record, "Addr" => address, "Device Type" => device_type,
    "Collective name" => collective, "In msg nelems" => put_in, "Out msg nelems" => got_out, "dtype" => element, "Group size" => members,
    "Global rank start" => first_rank, "Global rank stride" => rank_stride, "Input Dims" | "Input dims" => shapes, "Input type" => types);

/// A text as it reads, or `None` where the value is none.
pub(super) fn text<'v>(value: &'v Option<LazyValue<'_>>) -> Option<Cow<'v, str>> {
    let raw = value.as_ref()?.as_raw_str();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { sonic_rs::from_str::<String>(raw).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

/// What a value says, without the quotes of a text.
fn bare<'v>(value: &'v Option<LazyValue<'_>>) -> Option<&'v str> {
    let raw = value.as_ref()?.as_raw_str();
    let inner = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or(raw).trim();
    (!matches!(inner, "" | "null" | "true" | "false")).then_some(inner)
}

/// How reading a number went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// A whole number.
    Is(i64),
    /// Nothing is there.
    Absent,
    /// Too large for its column.
    Large,
    /// Something else than a number.
    Other,
}

/// A whole number, written as such, in quotes or in hexadecimal; fractions are cut off.
pub(super) fn whole(value: &Option<LazyValue<'_>>) -> Number {
    let Some(text) = bare(value) else { return Number::Absent };
    if let Some(digits) = text.strip_prefix("0x") {
        return match u64::from_str_radix(digits, 16) {
            Ok(n) => i64::try_from(n).map_or(Number::Large, Number::Is),
            Err(_) => Number::Other,
        };
    }
    scaled(text, 0, false)
}

/// A time in microseconds as nanoseconds, rounded to the nearest.
pub(super) fn nanoseconds(value: &Option<LazyValue<'_>>) -> Number {
    bare(value).map_or(Number::Absent, |text| scaled(text, 3, true))
}

/// Whether a time is written with digits below the microsecond.
pub(super) fn has_fraction(value: &Option<LazyValue<'_>>) -> bool {
    bare(value).and_then(|t| t.split_once('.')).is_some_and(|(_, after)| after.bytes().any(|b| (b'1'..=b'9').contains(&b)))
}

/// A decimal number times ten to the `shift`, exactly: what is left of a fraction is rounded or cut off.
fn scaled(text: &str, shift: i32, round: bool) -> Number {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        None => (digits, 0),
        Some(at) => match digits[at + 1..].parse::<i32>() {
            Ok(e) if e.abs() <= 400 => (&digits[..at], e),
            Ok(e) if e < 0 => return Number::Is(0),
            Ok(_) => return Number::Large,
            Err(_) => return Number::Other,
        },
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if before.is_empty() || before.len() + after.len() > 4096 || !before.bytes().chain(after.bytes()).all(|b| b.is_ascii_digit()) {
        return Number::Other;
    }
    // digits that stand before the point once the number is scaled
    let kept = i64::try_from(before.len()).unwrap_or(i64::MAX) + i64::from(shift) + i64::from(exponent);
    let mut value: i128 = 0;
    let mut all = before.bytes().chain(after.bytes());
    for _ in 0..kept.max(0) {
        value = value * 10 + i128::from(all.next().map_or(0, |b| b - b'0'));
        if value > i128::from(i64::MAX) {
            return Number::Large;
        }
    }
    if round && kept >= 0 && all.next().is_some_and(|b| b >= b'5') {
        value += 1;
    }
    i64::try_from(if negative { -value } else { value }).ok().filter(|n| n.unsigned_abs() < 1 << 62).map_or(Number::Large, Number::Is)
}

/// Product of the numbers of a list such as `[64, 1, 1]`.
pub(super) fn product(value: &Option<LazyValue<'_>>) -> Option<i64> {
    let raw = value.as_ref()?.as_raw_str();
    let inner = raw.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').try_fold(1i64, |all, one| one.trim().parse::<i64>().ok().filter(|n| *n >= 0).and_then(|n| all.checked_mul(n)))
}

/// Bytes of an element by the name that PyTorch gives its type.
pub(super) fn element_bytes(name: &str) -> Option<i64> {
    let name = name.trim().trim_matches('"').trim_start_matches("c10::").to_ascii_lowercase();
    Some(match name.as_str() {
        "double" | "long" | "long int" | "int64" | "float64" | "complexfloat" | "complex<float>" => 8,
        "float" | "int" | "float32" | "int32" => 4,
        "half" | "bfloat16" | "short" | "short int" | "float16" | "int16" => 2,
        "byte" | "char" | "bool" | "unsigned char" | "signed char" | "int8" | "uint8" => 1,
        _ if name.starts_with("float8") => 1,
        _ => return None,
    })
}

/// Bytes of tensors by their shapes, `[[64, 3], [8]]`, and the names of their types, `["float", "float"]`; `None` where one is not known.
pub(super) fn tensors_bytes(shapes: &Option<LazyValue<'_>>, types: &Option<LazyValue<'_>>) -> Option<i64> {
    let shapes: Vec<Vec<i64>> = sonic_rs::from_str(shapes.as_ref()?.as_raw_str()).ok()?;
    let types: Vec<String> = sonic_rs::from_str(types.as_ref()?.as_raw_str()).ok()?;
    let mut all = 0i64;
    for (shape, kind) in shapes.iter().zip(&types).filter(|(shape, _)| !shape.is_empty()) {
        let count = shape.iter().try_fold(1i64, |n, d| (*d >= 0).then(|| n.checked_mul(*d)).flatten())?;
        all = all.checked_add(count.checked_mul(element_bytes(kind)?)?)?;
    }
    (all > 0).then_some(all)
}

/// What stands for a process or thread: its number, that of a text such as `stream 7`, or a number made of the text.
pub(super) fn place(value: &Option<LazyValue<'_>>) -> i64 {
    let Some(text) = bare(value) else { return NO };
    let digits = text.rsplit(' ').next().unwrap_or(text);
    if let Number::Is(n) = scaled(digits, 0, false)
        && n.abs() < 1 << 61
    {
        return n;
    }
    // FNV-1a, beyond the numbers that a system gives
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    (1 << 61) | i64::try_from(hash >> 4).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Option<LazyValue<'_>> {
        Some(sonic_rs::from_str(json).expect("json"))
    }

    #[test]
    fn times_are_exact() {
        for (text, ns) in [
            ("1712195495519695.8", 1_712_195_495_519_695_800),
            ("4458676522709.059", 4_458_676_522_709_059),
            ("7", 7000),
            ("0.0004", 0),
            ("0.0005", 1),
            ("1.5e3", 1_500_000),
            ("\"12.5\"", 12_500),
            ("-1.25", -1250),
        ] {
            assert_eq!(nanoseconds(&value(text)), Number::Is(ns), "{text}");
        }
        assert_eq!(nanoseconds(&value("1e300")), Number::Large);
        assert_eq!(nanoseconds(&value("1e999999999")), Number::Large);
        assert_eq!(nanoseconds(&value("\"soon\"")), Number::Other);
        assert_eq!(nanoseconds(&value("null")), Number::Absent);
    }

    #[test]
    fn numbers_and_places() {
        assert_eq!(whole(&value("\"0x10\"")), Number::Is(16));
        assert_eq!(whole(&value("18446744073709551615")), Number::Large);
        assert_eq!(product(&value("[3, 2, 1]")), Some(6));
        assert_eq!(product(&value("[9223372036854775807, 2]")), None);
        assert_eq!(place(&value("\"stream 7\"")), 7);
        assert_eq!(place(&value("\"25738\"")), 25738);
        assert!(place(&value("\"Spans\"")) >= 1 << 61);
    }

    #[test]
    fn tensors_have_bytes() {
        let bytes = |shapes, types| tensors_bytes(&value(shapes), &value(types));
        assert_eq!(bytes("[[64, 3], [8]]", r#"["float", "c10::BFloat16"]"#), Some(64 * 3 * 4 + 8 * 2));
        assert_eq!(bytes("[[65536, 384], [], []]", r#"["float", "Scalar", ""]"#), Some(65536 * 384 * 4));
        assert_eq!(bytes("[[4]]", r#"["Tuple"]"#), None);
        assert_eq!(bytes("[[9223372036854775807, 2]]", r#"["float"]"#), None);
        assert_eq!(bytes("[[[4]]]", r#"["TensorList"]"#), None);
        assert_eq!(bytes("[[-1]]", r#"["float"]"#), None);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let event: Event<'_> = sonic_rs::from_str(r#"{"ph":"X","name":"a","name":"b\n","args":{"bytes":1,"bytes":2}}"#).expect("event");
        assert_eq!(text(&event.name).as_deref(), Some("b\n"));
        let args: Args<'_> = sonic_rs::from_str(event.args.as_ref().expect("args").as_raw_str()).expect("args");
        assert_eq!(whole(&args.bytes), Number::Is(2));
    }
}
