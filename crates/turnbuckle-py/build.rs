//! Notes what the native core is built for, by which compiler and from which commit: `turnbuckle --version` says so.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TURNBUCKLE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let compiler = Command::new(var("RUSTC").expect("cargo sets RUSTC")).arg("--version").output().expect("the compiler runs");
    let version = String::from_utf8_lossy(&compiler.stdout);
    // the words behind the number are the compiler's own commit and date
    let version = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let commit = var("TURNBUCKLE_COMMIT").map(|commit| format!(", commit {commit}")).unwrap_or_default();
    println!("cargo:rustc-env=TURNBUCKLE_BUILD={}, {version}{commit}", var("TARGET").expect("cargo sets TARGET"));
}
