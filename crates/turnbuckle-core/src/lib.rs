//! Readers of big profiles, activities as columns, and the timeline replay.  Nothing here knows Python.
//!
//! [`nsys::read`] turns an Nsight Systems SQLite export into a [`Recording`]: typed columns in the vocabulary of
//! `src/turnbuckle/foundation/schema/trace.csv`, one array of names, a few facts and counted flaws.  [`otf2::read`] does the same for OTF2
//! archives, [`kineto::read`] for Chrome traces of PyTorch.

pub mod activities;
pub mod contention;
pub mod demangle;
pub mod digest;
pub mod distributions;
pub mod error;
pub mod jobs;
pub mod kineto;
mod making;
pub mod nsys;
pub mod otf2;
pub mod progress;
pub mod recording;
pub mod schema;
pub mod script;
pub mod sqlite;
pub mod timeline;
pub mod toml_text;

pub use error::ReadError;
pub use recording::Recording;
