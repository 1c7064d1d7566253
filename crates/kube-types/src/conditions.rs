//! Status fields shared by all kinds: conditions, and the most recent transitions with sequence numbers.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of transitions kept in a status.
pub const MAX_TRANSITIONS: usize = 20;

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transition {
    pub sequence: i64,
    pub time: Time,
    /// Previous state, for example `Ready=False`.
    pub from: String,
    pub to: String,
    pub reason: String,
}

/// The condition of type `kind`, if present.
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

pub fn is_condition_true(conditions: &[Condition], kind: &str) -> bool {
    find_condition(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// A condition determined by a reconcile, to be written to the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    pub condition_type: &'static str,
    pub is_true: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Updates conditions. `lastTransitionTime` changes only with the status of a condition, and each such change appends
/// one transition with the next sequence number. Returns whether anything changed.
pub fn set_conditions(
    conditions: &mut Vec<Condition>,
    sequence: &mut i64,
    transitions: &mut Vec<Transition>,
    findings: &[ConditionUpdate],
    generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut changed = false;
    for ConditionUpdate { condition_type: kind, is_true: holds, reason, message } in findings {
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
    let surplus = transitions.len().saturating_sub(MAX_TRANSITIONS);
    transitions.drain(..surplus);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_conditions_changes_time_and_sequence_only_on_status_change() {
        let (mut conditions, mut sequence, mut transitions) = (Vec::new(), 0, Vec::new());
        let mut update = |holds, message: &str, second| {
            let finding = ConditionUpdate {
                condition_type: "Ready",
                is_true: holds,
                reason: "Test",
                message: message.to_owned(),
            };
            let now = Timestamp::from_second(second).unwrap();
            let changed =
                set_conditions(&mut conditions, &mut sequence, &mut transitions, &[finding], Some(1), now);
            (changed, sequence, conditions[0].last_transition_time.0.as_second())
        };
        assert_eq!(update(false, "a", 1), (true, 1, 1));
        assert_eq!(update(false, "a", 2), (false, 1, 1));
        assert_eq!(update(false, "b", 3), (true, 1, 1));
        assert_eq!(update(true, "b", 4), (true, 2, 4));
        for second in 5..50 {
            update(second % 2 == 0, "c", second);
        }
        assert_eq!(transitions.len(), MAX_TRANSITIONS);
        assert_eq!(transitions.last().unwrap().sequence, sequence);
    }
}
