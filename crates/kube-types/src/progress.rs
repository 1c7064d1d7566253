//! Status fields shared by all kinds: conditions, and the most recent transitions with sequence numbers.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of transitions kept in a status.
pub const KEPT: usize = 20;

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transition {
    pub sequence: i64,
    pub time: Time,
    /// What it was before, for example `Ready=False`.
    pub from: String,
    pub to: String,
    pub reason: String,
}

/// The condition of type `kind`, if present.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// A condition determined by a reconcile, to be written to the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: &'static str,
    pub holds: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Updates conditions. `lastTransitionTime` changes only with the status of a condition, and each such change appends
/// one transition with the next sequence number. Returns whether anything changed.
pub fn enter(
    conditions: &mut Vec<Condition>,
    sequence: &mut i64,
    transitions: &mut Vec<Transition>,
    findings: &[Finding],
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut changed = false;
    for Finding { kind, holds, reason, message } in findings {
        let status = if *holds { "True" } else { "False" };
        let found = Condition {
            type_: (*kind).to_owned(),
            status: status.to_owned(),
            reason: (*reason).to_owned(),
            message: message.clone(),
            observed_generation: generation,
            last_transition_time: Time(now),
        };
        let before = conditions.iter_mut().find(|condition| condition.type_ == *kind);
        let was = before.as_ref().map_or("Unknown", |condition| condition.status.as_str()).to_owned();
        if was != status {
            *sequence = sequence.saturating_add(1);
            transitions.push(Transition {
                sequence: *sequence,
                time: Time(now),
                from: format!("{kind}={was}"),
                to: format!("{kind}={status}"),
                reason: (*reason).to_owned(),
            });
        }
        match before {
            None => {
                conditions.push(found);
                changed = true;
            }
            Some(before) => {
                let time = if was == status { before.last_transition_time.clone() } else { Time(now) };
                let found = Condition { last_transition_time: time, ..found };
                changed |= *before != found;
                *before = found;
            }
        }
    }
    let surplus = transitions.len().saturating_sub(KEPT);
    transitions.drain(..surplus);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_turn_moves_the_time_and_the_number() {
        let (mut conditions, mut sequence, mut transitions) = (Vec::new(), 0, Vec::new());
        let mut tell = |holds, message: &str, second| {
            let finding = Finding { kind: "Ready", holds, reason: "Test", message: message.to_owned() };
            let now = Timestamp::from_second(second).unwrap();
            let changed = enter(&mut conditions, &mut sequence, &mut transitions, &[finding], Some(1), now);
            (changed, sequence, conditions[0].last_transition_time.0.as_second())
        };
        assert_eq!(tell(false, "a", 1), (true, 1, 1));
        assert_eq!(tell(false, "a", 2), (false, 1, 1));
        assert_eq!(tell(false, "b", 3), (true, 1, 1));
        assert_eq!(tell(true, "b", 4), (true, 2, 4));
        for second in 5..50 {
            tell(second % 2 == 0, "c", second);
        }
        assert_eq!(transitions.len(), KEPT);
        assert_eq!(transitions.last().unwrap().sequence, sequence);
    }
}
