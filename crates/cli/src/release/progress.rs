//! Progress of an operation, object by object, on standard error.
//!
//! Prints one line per change and per new reason for waiting, which suits logs and terminals alike.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};

use kube_apply::{ObjectId, ProgressEvent, ProgressSink, WriteOutcome};
use std::sync::{Mutex, PoisonError};

/// Progress sink that prints to standard error.
pub struct StderrProgress {
    coloured: bool,
    /// Last reason printed per waiting object.
    last_reasons: Mutex<HashMap<ObjectId, String>>,
}

#[derive(Clone, Copy)]
enum Colour {
    Green,
    Yellow,
    Red,
}

impl StderrProgress {
    pub fn new() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { coloured: !plain && std::io::stderr().is_terminal(), last_reasons: Mutex::default() }
    }

    fn line(&self, step: ProgressEvent) -> Option<String> {
        let mut last_reasons = self.last_reasons.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            ProgressEvent::Applying { .. }
            | ProgressEvent::Removing { .. }
            | ProgressEvent::Applied { outcome: WriteOutcome::Unchanged, .. } => None,
            ProgressEvent::Applied { id, outcome: WriteOutcome::Created } => {
                Some(self.styled(&id, Colour::Green, "created"))
            }
            ProgressEvent::Applied { id, outcome: WriteOutcome::Changed } => {
                Some(self.styled(&id, Colour::Yellow, "changed"))
            }
            ProgressEvent::Removed { id } => Some(self.styled(&id, Colour::Yellow, "removed")),
            ProgressEvent::Kept { id, reason } => {
                Some(format!("{} {reason}", self.styled(&id, Colour::Yellow, "kept:")))
            }
            ProgressEvent::Ready { id } => {
                // An object that was ready from the start is not printed.
                last_reasons.remove(&id).map(|_| self.styled(&id, Colour::Green, "ready"))
            }
            ProgressEvent::Failed { id, reason } => {
                Some(format!("{} {reason}", self.styled(&id, Colour::Red, "failed:")))
            }
            ProgressEvent::Waiting { id, reason, event } => {
                let event = event.map(|event| format!(" ({event})")).unwrap_or_default();
                let why = format!("{reason}{event}");
                if last_reasons.get(&id) == Some(&why) {
                    return None;
                }
                let line = format!("{} {why}", self.styled(&id, Colour::Yellow, "waits:"));
                last_reasons.insert(id, why);
                Some(line)
            }
        }
    }

    /// `Deployment shop/web created`
    fn styled(&self, id: &ObjectId, colour: Colour, word: &str) -> String {
        if !self.coloured {
            return format!("{id} {word}");
        }
        let code = match colour {
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Red => 31,
        };
        format!("{id} \x1b[{code}m{word}\x1b[0m")
    }
}

impl ProgressSink for StderrProgress {
    fn report(&self, step: ProgressEvent) {
        if let Some(line) = self.line(step) {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_prints_each_reason_once() {
        let id = || ObjectId {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        let waiting = |reason: &str| ProgressEvent::Waiting {
            id: id(),
            reason: reason.into(),
            event: Some("Pulling".into()),
        };
        let steps = [
            ProgressEvent::Ready { id: id() },
            ProgressEvent::Applying { id: id() },
            ProgressEvent::Applied { id: id(), outcome: WriteOutcome::Created },
            waiting("0 of 1 ready"),
            waiting("0 of 1 ready"),
            waiting("1 of 2 ready"),
            ProgressEvent::Ready { id: id() },
            ProgressEvent::Ready { id: id() },
            ProgressEvent::Applied { id: id(), outcome: WriteOutcome::Unchanged },
        ];
        let progress = StderrProgress { coloured: false, last_reasons: Mutex::default() };
        let lines: Vec<String> = steps.into_iter().filter_map(|step| progress.line(step)).collect();
        let expected = [
            "Deployment shop/web created",
            "Deployment shop/web waits: 0 of 1 ready (Pulling)",
            "Deployment shop/web waits: 1 of 2 ready (Pulling)",
            "Deployment shop/web ready",
        ];
        assert_eq!(lines, expected);
        let coloured = StderrProgress { coloured: true, last_reasons: Mutex::default() };
        let line = coloured.line(ProgressEvent::Failed { id: id(), reason: "no image".into() }).unwrap();
        assert_eq!(line, "Deployment shop/web \x1b[31mfailed:\x1b[0m no image");
    }
}
