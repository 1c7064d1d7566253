//! Reports panics on standard error: the first ones of a minute with a backtrace, further ones as one line each, the
//! rest as a count.
//!
//! A caught panic is an error of one request or one object. Callers can repeat a request that causes one: a backtrace
//! has tens of kilobytes, and unlimited lines fill a disk too.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FULL_REPORTS: u32 = 5;
/// Reports per window, including the full ones.
const REPORTS: u32 = 50;
const WINDOW: Duration = Duration::from_mins(1);

/// Reports of the current window.
#[derive(Default)]
struct ReportBudget {
    began: Option<Instant>,
    panicked: u32,
}

/// Form of a panic report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    Full,
    Line,
    /// The last line of the window: further panics are only counted.
    LastLine,
    Nothing,
}

impl ReportBudget {
    /// How to report a panic at `now`, and the number of unreported panics of the previous window.
    fn admit(&mut self, now: Instant) -> (Report, u32) {
        let mut suppressed = 0;
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            suppressed = self.panicked.saturating_sub(REPORTS);
            *self = Self { began: Some(now), panicked: 0 };
        }
        self.panicked = self.panicked.saturating_add(1);
        let report = match self.panicked {
            number if number <= FULL_REPORTS => Report::Full,
            number if number < REPORTS => Report::Line,
            REPORTS => Report::LastLine,
            _ => Report::Nothing,
        };
        (report, suppressed)
    }
}

/// Installs the hook, which wraps the standard library's.
pub fn install() {
    let full = std::panic::take_hook();
    let budget = Mutex::new(ReportBudget::default());
    std::panic::set_hook(Box::new(move |panic| {
        // The state of a poisoned lock is still valid.
        let (report, suppressed) =
            budget.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now());
        if suppressed > 0 {
            report_line(format_args!(
                "{suppressed} more panics were not reported (more than {REPORTS} in a minute)"
            ));
        }
        let line = || {
            if let Some(at) = panic.location() {
                report_line(format_args!(
                    "a thread panicked at {at} (backtrace omitted: more than {FULL_REPORTS} panics in a minute)"
                ));
            }
        };
        match report {
            Report::Full => full(panic),
            Report::Line => line(),
            Report::LastLine => {
                line();
                report_line(format_args!("further panics of this minute are counted, not reported"));
            }
            Report::Nothing => {}
        }
    }));
}

/// Writes a line to standard error and ignores errors: a panic inside the hook would end the process.
fn report_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    /// Set for the child process of [`caught_panics_do_not_end_a_process_whose_standard_error_fails`].
    const CHILD: &str = "LONGSHORE_TEST_PANICS_CHILD";

    #[test]
    fn caught_panics_do_not_end_a_process_whose_standard_error_fails() {
        let path = concat!(module_path!(), "::caught_panics_do_not_end_a_process_whose_standard_error_fails");
        let (_, name) = path.split_once("::").expect("a module is in a crate");
        if std::env::var_os(CHILD).is_some() {
            install();
            for _ in 0..REPORTS + 10 {
                assert!(std::panic::catch_unwind(|| panic!("caught")).is_err());
            }
            return;
        }
        let child = |stderr: Stdio| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(CHILD, "1")
                .stdout(Stdio::piped())
                .stderr(stderr)
                .output()
                .unwrap()
        };
        let (closed, pipe) = io::pipe().unwrap();
        drop(closed);
        let full = File::options().write(true).open("/dev/full").unwrap();
        for (failure, stderr) in [("full disk", full.into()), ("closed pipe", pipe.into())] {
            let output = child(stderr);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{failure}: {}: {said}",
                output.status
            );
        }
        let output = child(Stdio::piped());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let lines = |text: &str| said.lines().filter(|line| line.contains(text)).count();
        let counts = [lines("panicked at"), lines("backtrace omitted"), lines("further panics")];
        assert_eq!(counts, [REPORTS as usize, (REPORTS - FULL_REPORTS) as usize, 1], "{said}");
    }

    #[test]
    fn panics_are_reported_within_a_budget_per_minute_and_the_rest_is_counted() {
        let mut budget = ReportBudget::default();
        let now = Instant::now();
        let reports: Vec<_> = (0..1_000).map(|_| budget.admit(now)).collect();
        let count = |wanted: Report| reports.iter().filter(|(report, _)| *report == wanted).count();
        let counts = [Report::Full, Report::Line, Report::LastLine, Report::Nothing].map(count);
        assert_eq!(counts, [5, 44, 1, 950]);
        assert!(reports.iter().all(|(_, suppressed)| *suppressed == 0));
        assert_eq!(budget.admit(now + WINDOW), (Report::Full, 950));
        assert_eq!(budget.admit(now + WINDOW), (Report::Full, 0));
    }
}
