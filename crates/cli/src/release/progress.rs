//! Progress of an operation, object by object, on standard error.
//!
//! Prints one line per change and per new reason for waiting, which suits logs and terminals alike.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};

use kube_apply::{Id, Outcome, Step, Tell};
use std::sync::{Mutex, PoisonError};

/// Progress sink that prints to standard error.
pub struct Progress {
    coloured: bool,
    /// Last reason printed per waiting object.
    said: Mutex<HashMap<Id, String>>,
}

#[derive(Clone, Copy)]
enum Colour {
    Green,
    Yellow,
    Red,
}

impl Progress {
    pub fn new() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { coloured: !plain && std::io::stderr().is_terminal(), said: Mutex::default() }
    }

    fn line(&self, step: Step) -> Option<String> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Applying { .. }
            | Step::Removing { .. }
            | Step::Applied { outcome: Outcome::Unchanged, .. } => None,
            Step::Applied { id, outcome: Outcome::Created } => Some(self.word(&id, Colour::Green, "created")),
            Step::Applied { id, outcome: Outcome::Changed } => {
                Some(self.word(&id, Colour::Yellow, "changed"))
            }
            Step::Removed { id } => Some(self.word(&id, Colour::Yellow, "removed")),
            Step::Kept { id, reason } => {
                Some(format!("{} {reason}", self.word(&id, Colour::Yellow, "kept:")))
            }
            Step::Ready { id } => {
                // An object that was ready from the start is not printed.
                said.remove(&id).map(|_| self.word(&id, Colour::Green, "ready"))
            }
            Step::Failed { id, reason } => {
                Some(format!("{} {reason}", self.word(&id, Colour::Red, "failed:")))
            }
            Step::Waiting { id, reason, event } => {
                let event = event.map(|event| format!(" ({event})")).unwrap_or_default();
                let why = format!("{reason}{event}");
                if said.get(&id) == Some(&why) {
                    return None;
                }
                let line = format!("{} {why}", self.word(&id, Colour::Yellow, "waits:"));
                said.insert(id, why);
                Some(line)
            }
        }
    }

    /// `Deployment shop/web created`
    fn word(&self, id: &Id, colour: Colour, word: &str) -> String {
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

impl Tell for Progress {
    fn tell(&self, step: Step) {
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
    fn a_reason_is_told_once() {
        let id = || Id {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        let waiting =
            |reason: &str| Step::Waiting { id: id(), reason: reason.into(), event: Some("Pulling".into()) };
        let steps = [
            Step::Ready { id: id() },
            Step::Applying { id: id() },
            Step::Applied { id: id(), outcome: Outcome::Created },
            waiting("0 of 1 ready"),
            waiting("0 of 1 ready"),
            waiting("1 of 2 ready"),
            Step::Ready { id: id() },
            Step::Ready { id: id() },
            Step::Applied { id: id(), outcome: Outcome::Unchanged },
        ];
        let progress = Progress { coloured: false, said: Mutex::default() };
        let lines: Vec<String> = steps.into_iter().filter_map(|step| progress.line(step)).collect();
        let expected = [
            "Deployment shop/web created",
            "Deployment shop/web waits: 0 of 1 ready (Pulling)",
            "Deployment shop/web waits: 1 of 2 ready (Pulling)",
            "Deployment shop/web ready",
        ];
        assert_eq!(lines, expected);
        let coloured = Progress { coloured: true, said: Mutex::default() };
        let line = coloured.line(Step::Failed { id: id(), reason: "no image".into() }).unwrap();
        assert_eq!(line, "Deployment shop/web \x1b[31mfailed:\x1b[0m no image");
    }
}
