//! Log output to standard error, as text or JSON, and the audit log, to standard error or a file.
//!
//! Invariants:
//! - Writing a log line never fails and never panics. A line that cannot be written is dropped and counted ([`LostLinesCollector`]); the
//!   next line that can be written reports the number. The same holds for audit lines: the request is served nevertheless, because a full
//!   disk must not stop the platform.
//! - One event is one line. Control characters in text from tenants are escaped, so that no text forges a line or sends control
//!   sequences to a terminal.

use std::borrow::Cow;
use std::fs::{DirBuilder, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use events::audit::{AuditRecord, AuditRecordSink, StderrSink, to_json_line};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Log lines dropped since the start, and how many of them no later line has reported.
static LOST_LINES: AtomicU64 = AtomicU64::new(0);
static UNREPORTED_LINES: AtomicU64 = AtomicU64::new(0);
static LOST_AUDIT_LINES: AtomicU64 = AtomicU64::new(0);

/// Installs the log writer. `RUST_LOG` sets the filter; the default level is `info`.
pub fn install(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false).with_target(false);
    // A second call (in tests) finds a writer installed already and leaves it.
    let _ = match format {
        LogFormat::Json => {
            builder.json().with_writer(|| LogWriter { out: io::stderr(), colour: false }).try_init()
        }
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            // The formatter escapes control sequences in messages and values itself, but not line breaks.
            builder.with_ansi(colour).with_writer(move || LogWriter { out: io::stderr(), colour }).try_init()
        }
    };
}

/// A log writer that accepts every line. One call of `write` is one line.
struct LogWriter<W> {
    out: W,
    /// Whether lines contain the formatter's own control sequences.
    colour: bool,
}

/// The line with the control characters inside of it escaped.
fn escape(line: &[u8], colour: bool) -> Cow<'_, [u8]> {
    let (inner, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |inner| (inner, b"\n"));
    let is_kept = |byte: u8| !byte.is_ascii_control() || byte == b'\t' || (colour && byte == 0x1b);
    if inner.iter().all(|&byte| is_kept(byte)) {
        return line.into();
    }
    let mut escaped = Vec::with_capacity(line.len() + 16);
    for &byte in inner {
        if is_kept(byte) {
            escaped.push(byte);
        } else {
            escaped.extend(byte.escape_ascii());
        }
    }
    escaped.extend_from_slice(end);
    escaped.into()
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, taken: &[u8]) -> io::Result<usize> {
        let line = &*escape(taken, self.colour);
        let lost = UNREPORTED_LINES.load(Ordering::Relaxed);
        let written = if lost == 0 {
            self.out.write_all(line)
        } else {
            // The lost line may have been written in part, so the report starts on a new line.
            let report = format!("\n{{\"level\":\"WARN\",\"message\":\"{lost} log lines were lost\"}}\n");
            self.out.write_all(&[report.as_bytes(), line].concat())
        };
        if let Ok(()) = written {
            UNREPORTED_LINES.fetch_sub(lost, Ordering::Relaxed);
        } else {
            LOST_LINES.fetch_add(1, Ordering::Relaxed);
            UNREPORTED_LINES.fetch_add(1, Ordering::Relaxed);
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Audit trail on standard error or in a file. A record that cannot be written is counted; the caller handles the error.
#[derive(Clone, Debug)]
pub enum AuditLog {
    Stderr,
    File(Arc<File>),
}

impl AuditLog {
    /// Opens the file, or standard error without one. The file is appended to, and only its owner can read it.
    pub fn open(file: Option<&Path>) -> io::Result<Self> {
        let Some(file) = file else { return Ok(Self::Stderr) };
        // The data directory does not exist before the first start.
        if let Some(directory) = file.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let opened = File::options().append(true).create(true).mode(0o600).open(file)?;
        Ok(Self::File(Arc::new(opened)))
    }
}

impl AuditRecordSink for AuditLog {
    fn write(&self, record: &AuditRecord) -> io::Result<()> {
        let written = match self {
            Self::Stderr => StderrSink.write(record),
            // One call for each line: lines of several threads are appended one after the other.
            Self::File(file) => to_json_line(record).and_then(|line| (&**file).write_all(line.as_bytes())),
        };
        written.inspect_err(|_| {
            LOST_AUDIT_LINES.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// The metrics `longshore_log_lines_lost_total` and `longshore_audit_lines_lost_total`.
#[derive(Debug)]
pub struct LostLinesCollector;

impl LostLinesCollector {
    pub fn register(registry: &mut Registry) {
        registry.register_collector(Box::new(Self));
    }
}

impl Collector for LostLinesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = [
            ("log_lines_lost", "Log lines that standard error did not take", &LOST_LINES),
            ("audit_lines_lost", "Audit lines that could not be written", &LOST_AUDIT_LINES),
        ];
        for (name, help, count) in counts {
            let counter = ConstCounter::new(count.load(Ordering::Relaxed));
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Mutex;

    use events::audit::AuditOutcome;
    use jiff::Timestamp;

    use super::*;

    /// A writer that fails once the disk is full.
    #[derive(Default)]
    struct FakeDisk {
        written: Vec<u8>,
        is_full: bool,
    }

    impl Write for &mut FakeDisk {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A disk shared by several writers.
    #[derive(Clone, Default)]
    struct SharedDisk(Arc<Mutex<FakeDisk>>);

    impl Write for SharedDisk {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            (&mut *self.0.lock().unwrap()).write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn log_line_that_cannot_be_written_is_counted_and_reported_later() {
        let mut disk = FakeDisk { is_full: true, ..FakeDisk::default() };
        let before = LOST_LINES.load(Ordering::Relaxed);
        for _ in 0..3 {
            LogWriter { out: &mut disk, colour: false }.write_all(b"lost\n").unwrap();
        }
        assert_eq!(LOST_LINES.load(Ordering::Relaxed), before + 3);
        disk.is_full = false;
        LogWriter { out: &mut disk, colour: false }.write_all(b"one\n").unwrap();
        LogWriter { out: &mut disk, colour: false }.write_all(b"two\n").unwrap();
        let text = String::from_utf8(disk.written).unwrap();
        assert_eq!(text, "\n{\"level\":\"WARN\",\"message\":\"3 log lines were lost\"}\none\ntwo\n");
    }

    #[test]
    fn audit_lines_are_appended_to_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/audit.log");
        let record = AuditRecord {
            time: Timestamp::UNIX_EPOCH,
            who: None,
            via: None,
            act: "users.create",
            option: None,
            object: None,
            from: None,
            result: AuditOutcome::Done,
            status: Some(201),
            request_id: "r-1".to_owned(),
        };
        for _ in 0..2 {
            AuditLog::open(Some(&file)).unwrap().write(&record).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), to_json_line(&record).unwrap().repeat(2));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(AuditLog::open(Some(folder.path())).is_err(), "a directory");
    }

    #[test]
    fn control_characters_in_names_of_tenants_do_not_forge_log_lines() {
        let (shared, colour) = (SharedDisk::default(), false);
        let writer = shared.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(colour)
            .with_writer(move || LogWriter { out: writer.clone(), colour })
            .finish();
        let name = "a\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[2Jcleared\u{7}";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(name, shown = %name, debug = ?name, "the name is {name}");
            tracing::warn!("next");
        });
        let text = String::from_utf8(shared.0.lock().unwrap().written.clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(text.contains("forged") && text.contains("cleared"), "{text}");
    }
}
