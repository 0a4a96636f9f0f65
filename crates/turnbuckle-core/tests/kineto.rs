//! Chrome traces of PyTorch: whole, broken, packed and hostile.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::PathBuf;
use turnbuckle_core::kineto::{Options, read};
use turnbuckle_core::recording::Recording;
use turnbuckle_core::{ReadError, recording::Fact};

const HEAD: &str = "{\n \"schemaVersion\": 1,\n \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA A100\", \"totalGlobalMem\": 42, \"numSms\": 108}],\n \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8},\n \"baseTimeNanoseconds\": 1735632360000000000,\n \"traceEvents\": [\n";

fn event(category: &str, name: &str, pid: i64, tid: i64, at: f64, lasts: f64, args: &str) -> String {
    format!(
        " {{\n  \"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid},\n  \"ts\": {at:.3}, \"dur\": {lasts:.3},\n  \"args\": {{{args}}}\n }}"
    )
}

fn trace(count: usize) -> String {
    let mut events = Vec::new();
    for k in 0..count {
        let at = 4_458_676_522_709.059 + 100.0 * k as f64;
        let c = 2 * k + 1;
        events.push(event("cuda_runtime", "cudaLaunchKernel", 41, 42, at, 5.25, &format!("\"correlation\": {c}")));
        let args =
            format!("\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": {c}, \"grid\": [4, 2, 1], \"block\": [64, 1, 1]");
        events.push(event("kernel", &format!("kernel<{}>", k % 3), 0, 7, at + 9.5, 50.125, &args));
        let args = format!("\"device\": 0, \"stream\": 7, \"correlation\": {}, \"bytes\": 4096", c + 1);
        events.push(event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 7, at + 60.0, 3.0, &args));
        events.push(event("python_function", "a.py(1): \\\"f\\\"", 41, 42, at, 90.0, ""));
    }
    format!("{HEAD}{}\n ],\n \"traceName\": \"/home/someone/t.json\"\n}}\n", events.join(",\n"))
}

fn on(bytes: &[u8], name: &str, member: Option<&str>, threads: usize) -> Result<Recording, ReadError> {
    let folder = tempfile::tempdir().expect("folder");
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    read(&path, &Options { threads, member: member.map(str::to_owned) }, &mut |_| true)
}

fn rows(recording: &Recording, table: &str) -> usize {
    recording.table(table).map_or(0, |t| t.rows)
}

fn count(recording: &Recording, code: &str) -> u64 {
    recording.findings.iter().filter(|f| f.code == code).map(|f| f.count).sum()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

#[test]
fn collectives_have_bytes_and_members() {
    let told = "\"Collective name\": \"allreduce\", \"In msg nelems\": 100, \"Out msg nelems\": 100, \"Group size\": 4, \"dtype\": \"BFloat16\", \"Global rank start\": 1, \"Global rank stride\": 8";
    let at = 4_458_676_522_709.0;
    let kernel = format!("\"device\": 0, \"stream\": 7, \"correlation\": 5, {told}");
    let events = [
        event("cpu_op", "record_param_comms", 41, 42, at, 9.0, told),
        event("user_annotation", "nccl:all_reduce", 41, 42, at + 1.0, 7.0, "\"Input Dims\": [[10, 5]], \"Input type\": [\"float\"]"),
        event("user_annotation", "nccl:coalesced", 41, 42, at + 2.0, 1.0, "\"Input Dims\": [[7]], \"Input type\": [\"Tuple\"]"),
        event("cpu_op", "aten::add", 41, 42, at + 3.0, 1.0, "\"Input Dims\": [[7]], \"Input type\": [\"float\"]"),
        event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()", 0, 7, at + 20.0, 30.0, &kernel),
    ];
    let text = format!("{HEAD}{}\n ]\n}}\n", events.join(",\n"));
    let recording = on(text.as_bytes(), "a.json", None, 1).expect("read");
    let table = recording.table("collectives").expect("collectives");
    let column = |name: &str| (0..3).map(|row| table.column(name).and_then(|c| c.get(row))).collect::<Vec<_>>();
    assert_eq!(table.rows, 3);
    assert_eq!(column("size_bytes"), [Some(200), Some(200), Some(200)]);
    assert_eq!(column("receive_bytes"), [Some(200), None, Some(200)]);
    assert_eq!(column("ranks"), [Some(4), None, Some(4)]);
    assert_eq!(column("rank_stride"), [Some(8), None, Some(8)]);
    assert_eq!(column("correlation"), [None, None, Some(5)]);
    assert_eq!(column("thread").iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn a_trace_becomes_tables() {
    let text = trace(50);
    let recording = on(text.as_bytes(), "a.json", None, 2).expect("read");
    assert_eq!((rows(&recording, "api"), rows(&recording, "kernels"), rows(&recording, "copies")), (50, 50, 50));
    let kernels = recording.table("kernels").expect("kernels");
    let at = |column: &str, row: usize| kernels.column(column).and_then(|c| c.get(row));
    assert_eq!((at("start_ns", 0), at("end_ns", 0)), (Some(1000 + 9500), Some(1000 + 9500 + 50_125)));
    assert_eq!((at("blocks", 1), at("threads", 1), at("stream", 1), at("process", 1)), (Some(8), Some(64), Some(7), Some(41 << 24)));
    let api = recording.table("api").expect("api");
    assert_eq!(api.column("thread").and_then(|c| c.get(0)), Some(41 << 24 | 42));
    assert_eq!(recording.fact("rank"), Some(&Fact::Int(3)));
    assert_eq!(recording.fact("session_start_utc_ns"), Some(&Fact::Int(1_735_632_360_000_000_000 + 4_458_676_522_709_059 - 1000)));
    assert_eq!((count(&recording, "P165"), count(&recording, "P119"), count(&recording, "P162")), (0, 1, 0));
    let ranges = recording.table("ranges").expect("ranges");
    assert_eq!(
        (ranges.rows, ranges.column("kind").and_then(|c| c.get(49)), ranges.column("start_ns").and_then(|c| c.get(1))),
        (50, Some(2), Some(101_000))
    );
}

#[test]
fn operators_and_functions_are_ranges_outer_first() {
    let events = [
        event("python_function", "<built-in f of Tensor object at 0x7f01>", 41, 42, 20.0, 5.0, "\"bytes\": \"x\""),
        event("cpu_op", "aten::empty", 41, 42, 30.0, 5.0, ""),
        event("cpu_op", "aten::mul", 41, 42, 30.0, 9.0, ""),
        event("user_annotation", "forward", 41, 42, 20.0, 60.0, ""),
        event("Operator", "aten::add", 41, 43, 50.0, 5.0, ""),
        event("python_function", "<built-in f of Tensor object at 0x7f02>", 41, 42, 60.0, 5.0, ""),
        event("kernel", "k", 0, 7, 25.0, 1.0, "\"device\": 0, \"stream\": 7"),
    ];
    let recording = on(format!("[{}]", events.join(",")).as_bytes(), "a.json", None, 1).expect("read");
    let ranges = recording.table("ranges").expect("ranges");
    let at = |column: &str, row: usize| ranges.column(column).and_then(|c| c.get(row)).expect("value");
    let name = |row: usize| recording.names[usize::try_from(at("name", row)).expect("name")].as_str();
    let rows: Vec<_> = (0..ranges.rows).map(|r| (name(r), at("kind", r), at("start_ns", r), at("thread", r) & 0xFF)).collect();
    let function = "<built-in f of Tensor object>";
    assert_eq!(
        rows,
        [
            ("forward", 59, 1000, 42),
            (function, 2, 1000, 42),
            ("aten::mul", 1, 11_000, 42),
            ("aten::empty", 1, 11_000, 42),
            ("aten::add", 1, 31_000, 43),
            (function, 2, 41_000, 42)
        ]
    );
    assert_eq!(recording.names.iter().filter(|n| n.as_str() == function).count(), 1);
    assert_eq!((count(&recording, "P165"), count(&recording, "P105")), (0, 0));
}

#[test]
fn threads_pieces_and_packing_change_nothing() {
    let text = trace(3000); // several pieces
    let one = on(text.as_bytes(), "a.json", None, 1).expect("read");
    for (bytes, name, threads) in [(text.as_bytes().to_vec(), "a.json", 5), (packed(text.as_bytes()), "a.json.gz", 3)] {
        let other = on(&bytes, name, None, threads).expect("read");
        assert_eq!(one.names, other.names);
        for table in &one.tables {
            let same = other.table(table.spec.name).expect("table");
            for (a, b) in table.columns.iter().zip(&same.columns) {
                assert_eq!((&a.values, &a.valid), (&b.values, &b.valid), "{}", table.spec.name);
            }
        }
    }
}

#[test]
fn halves_are_paired_and_open_ends_counted() {
    let half = |phase: &str, name: &str, at: i64| {
        format!("{{\"ph\": \"{phase}\", \"cat\": \"cuda_runtime\", \"name\": \"{name}\", \"pid\": 1, \"tid\": 2, \"ts\": {at}}}")
    };
    let events = [half("B", "outer", 10), half("B", "inner", 12), half("E", "", 14), half("E", "", 20), half("B", "open", 30)];
    let recording = on(format!("[{}]", events.join(",")).as_bytes(), "a.json", None, 1).expect("read");
    let api = recording.table("api").expect("api");
    let ends: Vec<_> = (0..api.rows).map(|r| api.column("end_ns").and_then(|c| c.get(r))).collect();
    assert_eq!(ends, [Some(11_000), Some(5_000)]);
    assert_eq!(count(&recording, "P164"), 1);
}

#[test]
fn broken_text_is_read_as_far_as_it_goes() {
    let text = trace(40);
    let cut = on(&text.as_bytes()[..text.len() * 3 / 4], "a.json", None, 2).expect("cut off");
    assert!(rows(&cut, "kernels") >= 29 && rows(&cut, "kernels") < 40);
    assert_eq!((count(&cut, "P163"), count(&cut, "P162")), (1, 1));

    let quoted = text.replacen("kernel<1>", "kernel<\"x, \"y\">", 3);
    let quoted = on(quoted.as_bytes(), "a.json", None, 2).expect("quotes");
    assert_eq!((rows(&quoted, "kernels"), count(&quoted, "P162")), (40, 0));
    assert!(quoted.names.iter().any(|n| n == "kernel<\"x, \"y\">"));
    assert_eq!(quoted.fact("rank"), Some(&Fact::Int(3)));
    assert_eq!(rows(&quoted, "devices"), 1);

    let mut bad = text.clone().into_bytes();
    let at = text.find("kernel<2>").expect("there");
    bad[at] = 0xFF;
    let bad = on(&bad, "a.json", None, 2).expect("UTF-8");
    assert_eq!((rows(&bad, "kernels"), count(&bad, "P107")), (40, 1));

    let short = packed(text.as_bytes());
    let short = on(&short[..short.len() / 2], "a.json.gz", None, 2).expect("packed and cut off");
    assert!(rows(&short, "kernels") > 0 && count(&short, "P163") == 1);

    let one_line = quoted_on_one_line();
    let one_line = on(one_line.as_bytes(), "a.json", None, 1).expect("one line");
    assert_eq!((rows(&one_line, "kernels"), count(&one_line, "P162")), (3, 0));
}

fn quoted_on_one_line() -> String {
    let kernel = |name: &str, at: u32| {
        format!(
            "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{name}\", \"pid\": 0, \"tid\": 7, \"ts\": {at}, \"dur\": 1, \"args\": {{}}}}"
        )
    };
    format!("{{\"traceEvents\": [{}, {}, {}]}}", kernel("a", 1), kernel("b \"c", 3), kernel("d", 5))
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let code = |bytes: &[u8], name: &str, member: Option<&str>| on(bytes, name, member, 2).err().map(|e| e.code().to_owned());
    for text in ["", "{}", "[]", "{\"traceEvents\": []}", "<html><body>{\"ph\"</body></html>", "{\"a\": 1}", "nonsense", "]", "\"", "[1, 2"]
    {
        assert_eq!(code(text.as_bytes(), "a.json", None).as_deref(), Some("P035"), "{text}");
    }
    let host = "[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::add\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1}]";
    assert_eq!(code(host.as_bytes(), "a.json", None).as_deref(), Some("P036"));
    let mut spoilt = packed(trace(2).as_bytes());
    spoilt[12..40].fill(0xAA);
    assert!(matches!(code(&spoilt, "a.json.gz", None).as_deref(), Some("P025" | "P035")));
    assert_eq!(code(&packed(b"no archive"), "a.tar.gz", Some("x")).as_deref(), Some("P037"));
}

#[test]
fn hostile_events_do_no_harm() {
    let deep = format!("[{}1{}]", "{\"args\":".repeat(200_000), "}".repeat(200_000));
    assert_eq!(on(deep.as_bytes(), "a.json", None, 1).err().map(|e| e.code().to_owned()).as_deref(), Some("P035"));
    let broken = format!("[{{\"name\": \"a\nb\"}}, {{\"ph\": 1, \"args\": {}1{}}}]", "[".repeat(300_000), "]".repeat(300_000));
    assert!(on(broken.as_bytes(), "a.json", None, 1).is_err());
    let head =
        format!("{{\"deviceProperties\": {}1{}, \"traceEvents\": [{{\"ph\": \"a\nb\"}}]}}", "[".repeat(300_000), "]".repeat(300_000));
    assert!(on(head.as_bytes(), "a.json", None, 1).is_err());
    let kernel = |times: &str, args: &str| {
        format!("{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, {times}, \"args\": {{{args}}}}}")
    };
    let events = [
        kernel("\"ts\": 5, \"dur\": 1", ""),
        kernel("\"ts\": 1e300, \"dur\": 1", ""),
        kernel("\"ts\": 9, \"dur\": 9223372036854775807", ""),
        kernel("\"ts\": 9223372036854775, \"dur\": 9223372036854775", ""),
        kernel("\"ts\": 7, \"ts\": 8, \"dur\": 1", "\"stream\": 99999999999, \"correlation\": \"x\", \"grid\": [9223372036854775807, 9]"),
        kernel("\"ts\": null, \"dur\": 1", ""),
    ];
    let recording = on(format!("[{}]", events.join(",")).as_bytes(), "a.json", None, 1).expect("read");
    let kernels = recording.table("kernels").expect("kernels");
    assert_eq!(kernels.rows, 2 + usize::from(kernels.rows == 3));
    assert_eq!(kernels.column("start_ns").and_then(|c| c.get(1)), Some(4000));
    assert!(count(&recording, "P164") >= 3 && count(&recording, "P106") >= 2 && count(&recording, "P105") == 1);
}

#[test]
fn members_of_archives_are_read() {
    let text = trace(3);
    let mut tar = Vec::new();
    for (name, content) in [("runs/other.txt", "nothing"), ("runs/rank0.json", text.as_str())] {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        tar.extend_from_slice(&header);
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().div_ceil(512) * 512, 0);
    }
    tar.resize(tar.len() + 1024, 0);
    for (bytes, name) in [(packed(&tar), "a.tar.gz"), (tar, "a.tar")] {
        assert_eq!(rows(&on(&bytes, name, Some("runs/rank0.json"), 2).expect("member"), "kernels"), 3);
        let error = on(&bytes, name, Some("rank1.json"), 2).expect_err("no such member");
        assert_eq!(error.code(), "P037");
        assert!(error.to_string().contains("runs/rank0.json"));
    }
}

#[test]
fn changed_bytes_never_panic() {
    let text = trace(4).into_bytes();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    for _ in 0..400 {
        let mut bytes = text.clone();
        bytes.extend_from_slice(b"  "); // never empty
        for _ in 0..=next(6) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes[at] = next(256) as u8,
                1 => bytes[at] = b"{}[]\",:\\\n0"[next(10)],
                2 => {
                    bytes.remove(at);
                }
                _ => bytes.truncate(at.max(9)),
            }
        }
        match on(&bytes, "a.json", None, 1) {
            Ok(recording) => assert!(recording.tables.into_iter().all(|t| t.into_batch().is_ok())),
            Err(error) => assert!(matches!(error.code(), "P029" | "P035" | "P036"), "{error}"),
        }
    }
}
