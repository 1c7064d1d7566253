//! Mutating admission policies: validated and stored, not evaluated yet.
//!
//! Shares code with validating policies in [`super::webhooks`].

use serde_json::Value;

use super::check::{self, PathValue};
use super::webhooks::{default_binding, default_policy, validate_binding_common, validate_policy_common};
use super::{DEFAULT_RULES, GenerationPolicy, KindRules};
use crate::field::{FieldError, FieldErrors};

const GROUP: &str = "admissionregistration.k8s.io";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: GROUP,
        kind: "MutatingAdmissionPolicy",
        allows_any_finalizer: true,
        generation: GenerationPolicy::Content,
        default: default_policy,
        validate: validate_policy,
        validate_update: |new, _| validate_policy(new),
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "MutatingAdmissionPolicyBinding",
        allows_any_finalizer: true,
        generation: GenerationPolicy::Content,
        default: default_binding,
        validate: validate_binding,
        validate_update: |new, _| validate_binding(new),
        ..DEFAULT_RULES
    },
];

/// The forms of a mutation: the value of `patchType`, and the field of its expression.
const PATCH_TYPES: [(&str, &str); 2] =
    [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];

fn validate_policy(policy: &Value) -> FieldErrors {
    let spec = PathValue::root(policy).get("spec");
    let mut errs = FieldErrors::new();
    validate_policy_common(&spec, &mut errs);
    validate_operations(&spec.get("matchConstraints"), &mut errs);
    let mutations = spec.get("mutations");
    if mutations.is_empty() {
        errs.push(FieldError::required(&mutations.path, "mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        validate_mutation(&mutation, &mut errs);
    }
    check::required_one_of(&spec.get("reinvocationPolicy"), &["IfNeeded", "Never"], &mut errs);
    errs
}

fn validate_binding(binding: &Value) -> FieldErrors {
    let spec = PathValue::root(binding).get("spec");
    let mut errs = FieldErrors::new();
    validate_binding_common(&spec, &mut errs);
    validate_operations(&spec.get("matchResources"), &mut errs);
    errs
}

/// DELETE cannot be mutated.
fn validate_operations(matching: &PathValue, errs: &mut FieldErrors) {
    let rules = matching.get("resourceRules");
    let told_at = rules.path.field("operations");
    for rule in rules.items() {
        for operation in rule.get("operations").items() {
            check::one_of(&operation.with_path(told_at.clone()), &["*", "CONNECT", "CREATE", "UPDATE"], errs);
        }
    }
}

fn validate_mutation(mutation: &PathValue, errs: &mut FieldErrors) {
    let kind = mutation.get("patchType");
    check::required_one_of(&kind, &PATCH_TYPES.map(|(word, _)| word), errs);
    if !PATCH_TYPES.iter().any(|(word, _)| *word == kind.text()) {
        return;
    }
    for (word, field) in PATCH_TYPES {
        let form = mutation.get(field);
        if word != kind.text() {
            if form.exists() {
                let words = format!("must not be specified when patchType is {}", kind.text());
                errs.push(FieldError::invalid(&form.path, format!("{{{field}}}"), words));
            }
        } else if form.exists() {
            check::required(&form.get("expression"), errs);
        } else {
            errs.push(FieldError::required(
                &form.path,
                format!("must be specified when patchType is {word}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mutating_policy_errors_when_empty_or_ambiguous() {
        let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
            "operations": ["DELETE"], "scope": "*"}]);
        let mutations = json!([{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]);
        let mut policy =
            json!({"spec": {"matchConstraints": {"resourceRules": rules}, "mutations": mutations}});
        default_policy(&mut policy);
        let told =
            |policy: &Value| validate_policy(policy).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            told(&policy),
            [
                "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.reinvocationPolicy: Required value",
            ]
        );
        assert_eq!(
            told(&json!({"spec": {"failurePolicy": "Fail"}})),
            [
                "spec.matchConstraints: Required value",
                "spec.mutations: Required value: mutations must contain at least one item",
                "spec.reinvocationPolicy: Required value",
            ]
        );
    }
}
