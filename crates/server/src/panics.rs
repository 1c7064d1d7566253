//! Reports of panics on standard error: with a backtrace for the first ones of a minute, one line for each other.
//!
//! A panic that is caught is an error of one request or one object. Whoever can cause it can cause it often, and a
//! backtrace has tens of kilobytes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FULL_REPORTS: u32 = 5;
const WINDOW: Duration = Duration::from_mins(1);

/// Full reports of the present window.
#[derive(Default)]
struct ReportBudget {
    began: Option<Instant>,
    reported: u32,
}

impl ReportBudget {
    /// Whether the panic at `now` is reported in full.
    fn admit(&mut self, now: Instant) -> bool {
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            *self = Self { began: Some(now), reported: 0 };
        }
        self.reported = self.reported.saturating_add(1);
        self.reported <= FULL_REPORTS
    }
}

/// Installs the hook over the one of the standard library.
pub fn install() {
    let full = std::panic::take_hook();
    let budget = Mutex::new(ReportBudget::default());
    std::panic::set_hook(Box::new(move |panic| {
        // A poisoned lock still counts.
        let is_full = budget.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now());
        if is_full {
            full(panic);
        } else if let Some(at) = panic.location() {
            eprintln!(
                "a thread panicked at {at} (backtrace omitted: more than {FULL_REPORTS} panics in a minute)"
            );
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtraces_are_reported_within_a_budget_per_minute() {
        let mut budget = ReportBudget::default();
        let now = Instant::now();
        let full = (0..1_000).filter(|_| budget.admit(now)).count();
        assert_eq!(full, 5);
        assert!(budget.admit(now + WINDOW));
    }
}
