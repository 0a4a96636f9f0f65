//! What a trace says beside its events: devices, versions, rank, the time its clock counts from.

use super::mend;
use crate::making::Making;
use crate::recording::{Fact, Table};
use sonic_rs::{JsonContainerTrait, JsonValueTrait, Value};

/// Values that are read; everything else is only looked at for what it may give away.
const READ: [&str; 9] = [
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "baseTimeNanoseconds",
    "cupti_version",
    "roctracer_version",
    "cuda_driver_version",
    "traceName",
    "hip_driver_version",
];
/// Most devices that are believed.
const MOST_DEVICES: usize = 1024;
/// Times of the epoch that are believed [ns]: 2015 to 2100.
const BELIEVED: std::ops::Range<i128> = 1_420_000_000_000_000_000..4_100_000_000_000_000_000;

struct Device {
    number: i64,
    name: Option<String>,
    memory: Option<i64>,
    processors: Option<i64>,
    major: Option<i64>,
    minor: Option<i64>,
}

/// Facts about the recording.
#[derive(Default)]
pub(super) struct About {
    devices: Vec<Device>,
    /// Whether an AMD profiler wrote it.
    pub amd: bool,
    schema: Option<String>,
    product: Option<String>,
    base: Option<i64>,
    rank: Option<i64>,
    world: Option<i64>,
    /// Entries that may hold the environment, hosts, users or paths.
    pub secrets: u64,
}

impl About {
    /// From the values beside the list of events.
    pub fn of(values: &[(String, Vec<u8>)]) -> Self {
        let mut about = Self::default();
        for (key, raw) in values {
            about.secrets += u64::from(tells_secrets(key, raw));
            if READ.contains(&key.as_str())
                && !mend::too_deep(raw)
                && let Ok(value) = sonic_rs::from_str::<Value>(&String::from_utf8_lossy(raw))
            {
                about.read(key, &value);
            }
        }
        about
    }

    /// From text that is broken somewhere: what can be found in it.
    pub fn found_in(head: &[u8]) -> Self {
        let values: Vec<(String, Vec<u8>)> =
            READ.iter().filter_map(|key| mend::value(head, key).map(|raw| ((*key).to_owned(), raw.to_vec()))).collect();
        Self::of(&values)
    }

    fn read(&mut self, key: &str, value: &Value) {
        match key {
            "schemaVersion" => self.schema = version(value),
            "baseTimeNanoseconds" => self.base = value.as_i64(),
            "cupti_version" => self.product = version(value).map(|v| format!("PyTorch profiler (CUPTI {v})")),
            "roctracer_version" => {
                self.amd = true;
                self.product = version(value).map(|v| format!("PyTorch profiler (roctracer {v})"));
            }
            "hip_driver_version" => self.amd = true,
            "distributedInfo" => {
                self.rank = value.get("rank").and_then(|r| r.as_i64()).filter(|r| *r >= 0);
                self.world = value.get("world_size").and_then(|r| r.as_i64()).filter(|r| *r > 0);
            }
            "deviceProperties" => {
                let list = value.as_array();
                self.devices = list.into_iter().flat_map(|l| l.iter()).take(MOST_DEVICES).filter_map(device).collect();
            }
            _ => {}
        }
    }

    /// Plain facts; `origin` is the time of the trace at which the recording's clock is 0 [ns].
    pub fn facts(&self, origin: i64) -> Vec<(&'static str, Fact)> {
        let text = |t: &Option<String>| t.clone().map_or(Fact::Missing, Fact::Text);
        let number = |n: Option<i64>| n.map_or(Fact::Missing, Fact::Int);
        let began = i128::from(self.base.unwrap_or(0)) + i128::from(origin);
        let began = BELIEVED.contains(&began).then(|| i64::try_from(began).ok()).flatten();
        vec![
            ("schema_version", text(&self.schema)),
            ("product_version", text(&self.product)),
            ("session_start_utc_ns", number(began)),
            ("analysis_duration_ns", Fact::Missing),
            ("rank", number(self.rank)),
            ("world_size", number(self.world)),
        ]
    }

    /// The table of devices; none where the trace describes none.
    pub fn devices(&self) -> Option<Table> {
        // AMD's numbers name an instruction set, not a compute capability
        let capability = |n: Option<i64>| n.filter(|_| !self.amd);
        Making::new("devices", self.devices.len())
            .with("device", self.devices.iter().map(|d| Some(d.number)))
            .texts("name", self.devices.iter().map(|d| d.name.clone()).collect())
            .with("memory_bytes", self.devices.iter().map(|d| d.memory))
            .with("multiprocessors", self.devices.iter().map(|d| d.processors))
            .with("compute_major", self.devices.iter().map(|d| capability(d.major)))
            .with("compute_minor", self.devices.iter().map(|d| capability(d.minor)))
            .done()
    }

    /// Whether the trace names its devices.
    pub fn names_devices(&self) -> bool {
        self.devices.iter().any(|d| d.name.is_some())
    }
}

fn device(value: &Value) -> Option<Device> {
    let number = |key: &str| value.get(key).and_then(|v| v.as_i64()).filter(|n| *n >= 0);
    let small = |key: &str| number(key).filter(|n| i32::try_from(*n).is_ok());
    Some(Device {
        number: small("id")?,
        name: value.get("name").and_then(|v| v.as_str()).map(str::trim).filter(|n| !n.is_empty() && n.len() <= 256).map(str::to_owned),
        memory: number("totalGlobalMem"),
        processors: small("numSms"),
        major: small("computeMajor"),
        minor: small("computeMinor"),
    })
}

/// A version: digits and points only.
fn version(value: &Value) -> Option<String> {
    let text = value.to_string();
    let text = text.trim_matches('"');
    (!text.is_empty() && text.len() <= 24 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')).then(|| text.to_owned())
}

/// Whether an entry may hold the environment, hosts, users or their folders.
fn tells_secrets(key: &str, raw: &[u8]) -> bool {
    let key = key.to_ascii_lowercase();
    let named = ["env", "user", "host", "job", "cluster", "command", "argv", "token"].iter().any(|word| key.contains(word));
    let holds = |word: &str| memchr::memmem::find(raw, word.as_bytes()).is_some();
    !READ[..7].contains(&key.as_str()) && (named || ["/home/", "/Users/", "TOKEN", "environ", "HOME"].iter().any(|w| holds(w)))
}
