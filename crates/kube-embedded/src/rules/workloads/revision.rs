//! Pod templates and controller revisions, which are only stored.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, At};
use crate::rules::{Generation, PLAIN, Rules};

use super::fill::missing;
use super::{defaults, template, warnings};

pub const POD_TEMPLATE: Rules = Rules {
    kind: "PodTemplate",
    generation: Generation::Content,
    default: |object| {
        missing(object, "template", json!({}));
        defaults::template(object, "template");
    },
    validate: validate_template,
    validate_update: |new, _| validate_template(new),
    warnings: |new, old| warnings::of_maker(new, old, "template", false),
    ..PLAIN
};

pub const CONTROLLER_REVISION: Rules = Rules {
    group: "apps",
    kind: "ControllerRevision",
    validate: |object| {
        let revision = At::root(object);
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
        let (new, old) = (At::root(new), At::root(old));
        let mut errs = FieldErrors::new();
        check::not_negative(&new.get("revision"), &mut errs);
        check::immutable(&new.get("data"), &old.get("data"), &mut errs);
        errs
    },
    ..PLAIN
};

fn validate_template(object: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    template::validate(&At::root(object).get("template"), &mut errs);
    errs
}
