//! Pod templates and controller revisions, which are only stored.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::default_if_absent;
use super::{defaults, template, warnings};

pub const POD_TEMPLATE: KindRules = KindRules {
    kind: "PodTemplate",
    generation: GenerationPolicy::Content,
    default: |object| {
        default_if_absent(object, "template", json!({}));
        defaults::template(object, "template");
    },
    validate: validate_template,
    validate_update: |new, _| validate_template(new),
    warnings: |new, old| warnings::for_controller(new, old, "template", false),
    ..DEFAULT_RULES
};

pub const CONTROLLER_REVISION: KindRules = KindRules {
    group: "apps",
    kind: "ControllerRevision",
    validate: |object| {
        let revision = PathValue::root(object);
        let mut errs = FieldErrors::new();
        check::not_negative(&revision.get("revision"), &mut errs);
        let data = revision.get("data");
        match data.value {
            None => errs.push(FieldError::required(&data.path, "data is mandatory")),
            Some(Value::Object(_)) => {}
            Some(_) => errs.push(FieldError::required(&data.path, "data must be a valid JSON object")),
        }
        errs
    },
    validate_update: |new, old| {
        let (new, old) = (PathValue::root(new), PathValue::root(old));
        let mut errs = FieldErrors::new();
        check::not_negative(&new.get("revision"), &mut errs);
        check::immutable(&new.get("data"), &old.get("data"), &mut errs);
        errs
    },
    ..DEFAULT_RULES
};

fn validate_template(object: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    template::validate(&PathValue::root(object).get("template"), &mut errs);
    errs
}
