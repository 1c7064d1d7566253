//! `spec.patches`: strategic merge patches and JSON patches, in the syntax of kustomize and Flux.
//!
//! A strategic merge patch without a target applies to the object that it names, which must exist. A target may match any number of
//! objects.

use helm_template::budget::{Budget, VALUE_BYTES};
use helm_template::yaml;
use json_patch::PatchOperation;
use kube_apply::Object;
use kube_types::release::ManifestPatch;
use serde_json::Value;

use super::selector::TargetSelector;
use super::strategic;
use super::{PostRenderError, accounting, immutable_fields, json_patch as operations};

/// A parsed patch.
struct CompiledPatch {
    body: ParsedPatch,
    target: Option<TargetSelector>,
}

enum ParsedPatch {
    Strategic(Value),
    Operations(Vec<PatchOperation>),
}

pub fn apply(
    objects: Vec<Object>,
    patches: &[ManifestPatch],
    budget: &Budget<'_>,
) -> Result<Vec<Object>, PostRenderError> {
    let mut objects = objects;
    for (index, patch) in patches.iter().enumerate() {
        let place = format!("spec.patches[{index}]");
        let change = CompiledPatch::parse(patch, budget)
            .map_err(|why| PostRenderError { place: place.clone(), why })?;
        objects = change.apply(objects, budget).map_err(|why| PostRenderError { place, why })?;
    }
    Ok(objects)
}

impl CompiledPatch {
    fn parse(patch: &ManifestPatch, budget: &Budget<'_>) -> Result<Self, String> {
        // Two bytes of YAML can be one value of a list, and it is copied twice.
        accounting::charge_copy(budget, patch.patch.len().saturating_mul(VALUE_BYTES))?;
        let target = patch.target.as_ref().map(TargetSelector::parse).transpose()?;
        // The parser's message may quote the text, so only the path is reported.
        let data = yaml::parse(patch.patch.as_bytes()).map_err(|_| "patch is not valid YAML".to_owned())?;
        let value = kube_apply::manifest::yaml_to_json(data);
        let what = match value {
            Value::Array(_) if target.is_none() => {
                return Err("a JSON patch requires a target".to_owned());
            }
            Value::Array(items) => ParsedPatch::Operations(parse_operations(items)?),
            Value::Object(_) => ParsedPatch::Strategic(value),
            _ => return Err("patch must be a map or a list of operations".to_owned()),
        };
        Ok(Self { body: what, target })
    }

    fn apply(&self, objects: Vec<Object>, budget: &Budget<'_>) -> Result<Vec<Object>, String> {
        accounting::charge_match_all(budget, &objects)?;
        let mut found = false;
        let mut changed = Vec::with_capacity(objects.len());
        for object in objects {
            if self.matches(&object) {
                found = true;
                changed.extend(self.patch_object(&object, budget)?);
            } else {
                changed.push(object);
            }
        }
        match &self.body {
            ParsedPatch::Strategic(patch) if self.target.is_none() && !found => Err(format!(
                "the release has no {} {}, and the patch has no target",
                patch["kind"].as_str().unwrap_or("object"),
                patch["metadata"]["name"].as_str().unwrap_or("(without a name)"),
            )),
            _ => Ok(changed),
        }
    }

    fn matches(&self, object: &Object) -> bool {
        match (&self.target, &self.body) {
            (Some(target), _) => target.matches(object),
            (None, ParsedPatch::Strategic(patch)) => {
                let group = |api_version: &str| kube_apply::object::group(api_version).to_owned();
                let metadata = &patch["metadata"];
                patch["kind"] == object.kind()
                    && metadata["name"] == object.name()
                    && patch["apiVersion"].as_str().is_some_and(|v| group(v) == group(object.api_version()))
                    && metadata["namespace"].as_str().is_none_or(|name| object.namespace() == Some(name))
            }
            (None, ParsedPatch::Operations(_)) => false,
        }
    }

    /// The object after the patch; `None` if the patch deletes it.
    fn patch_object(&self, object: &Object, budget: &Budget<'_>) -> Result<Option<Object>, String> {
        let of = object.id();
        let at = |why: String| format!("{of}: {why}");
        let after = match &self.body {
            ParsedPatch::Strategic(patch) if strategic::is_deletion(patch) => return Ok(None),
            ParsedPatch::Strategic(patch) => {
                let copied = accounting::charge_copy(budget, accounting::bytes(patch));
                copied.and_then(|()| strategic::apply(object.value(), &self.without_identity(patch), budget))
            }
            ParsedPatch::Operations(list) => operations::apply(object.value(), list, budget),
        };
        let after = after.map_err(at)?;
        if let Some(field) = immutable_fields::changed_immutable_field(object, &after) {
            return Err(at(format!("{field} cannot be changed by a patch")));
        }
        object.with_value(after).map(Some).map_err(|error| at(error.why))
    }

    /// With a target, the names in a strategic merge patch are ignored.
    fn without_identity(&self, patch: &Value) -> Value {
        let mut patch = patch.clone();
        let Value::Object(fields) = &mut patch else { return patch };
        // The version may be an older one of the same group.
        fields.remove("apiVersion");
        if self.target.is_some() {
            fields.remove("kind");
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.remove("name");
                metadata.remove("namespace");
            }
        }
        patch
    }
}

/// Parses operations one by one, so that the error names the invalid one.
fn parse_operations(items: Vec<Value>) -> Result<Vec<PatchOperation>, String> {
    let read = |(index, item)| {
        serde_json::from_value(item).map_err(|_| {
            format!("operation {index} is invalid: it must have `op`, `path` and, depending on `op`, `value` or `from`")
        })
    };
    items.into_iter().enumerate().map(read).collect()
}
