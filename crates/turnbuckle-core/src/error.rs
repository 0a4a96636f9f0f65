//! What stops a read, said so that the user can mend it.

use std::fmt;
use std::io;

/// The code, what happened, what was found, the likely cause and the fix: the fields of `turnbuckle.errors.ProfileError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Stable identifier, for example `P005`.
    pub code: &'static str,
    /// One line, no full stop.
    pub what: String,
    /// What was found in the file; never text from the recorded process.
    pub found: String,
    /// The likely cause.
    pub cause: String,
    /// What to do about it.
    pub fix: String,
}

/// Why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The recording is missing, damaged, locked or not one that this reader knows.
    Profile(Box<Trouble>),
    /// The caller's progress function asked to stop.
    Cancelled,
}

const EXPORT_AGAIN: &str = "export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep";

impl ReadError {
    /// An error with all its fields.
    pub fn new(
        code: &'static str,
        what: impl Into<String>,
        found: impl Into<String>,
        cause: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::Profile(Box::new(Trouble { code, what: what.into(), found: found.into(), cause: cause.into(), fix: fix.into() }))
    }

    /// P005: the file is SQLite but its content contradicts itself.
    pub fn damaged(found: impl Into<String>) -> Self {
        Self::new(
            "P005",
            "the file is damaged or cut off",
            found,
            "the copy or the export was interrupted, or the disk was full",
            EXPORT_AGAIN,
        )
    }

    /// P009: somebody else is writing the file.
    pub fn locked(found: impl Into<String>) -> Self {
        Self::new(
            "P009",
            "the file is in use by another program",
            found,
            "another program is writing the file, or one crashed while it wrote",
            "wait until the export has finished, or copy the file and read the copy",
        )
    }

    /// The error for a failure of the operating system.
    pub fn io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new("P001", "there is no such file", "", "", "check the path"),
            io::ErrorKind::PermissionDenied => {
                Self::new("P010", "no permission to read the file", "", "", "ask its owner, or copy it to a place of your own")
            }
            io::ErrorKind::UnexpectedEof => Self::damaged("the file ends before its last page"),
            _ => Self::new(
                "P005",
                "the file cannot be read",
                error.to_string(),
                "the disk or the network file system failed",
                "copy the file to a local disk",
            ),
        }
    }

    /// The code, or an empty text for a cancelled read.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Profile(trouble) => trouble.code,
            Self::Cancelled => "",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(t) if t.found.is_empty() => write!(f, "{}: {}", t.code, t.what),
            Self::Profile(t) => write!(f, "{}: {} ({})", t.code, t.what, t.found),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::io(&error)
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as C;
        let Some(code) = error.sqlite_error_code() else {
            return Self::damaged(error.to_string());
        };
        match code {
            C::DatabaseBusy | C::DatabaseLocked | C::ReadOnly | C::FileLockingProtocolFailed => {
                Self::locked("SQLite could not get a read lock")
            }
            C::CannotOpen | C::PermissionDenied => Self::new(
                "P010",
                "SQLite cannot open the file",
                "",
                "the file, its folder or a journal beside it may not be read",
                "copy the file to a place of your own and read the copy",
            ),
            C::OperationInterrupted => Self::Cancelled,
            _ => Self::damaged(format!("SQLite says: {code:?}")),
        }
    }
}
