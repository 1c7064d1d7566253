//! The verb `update`, and the write path that updates, patches and applies share.
//!
//! A change is computed from the newest state and committed only if that is still the newest. After a conflict the change is computed
//! again, unless the client set a `resourceVersion`.

use serde_json::Value;

use super::body::{self, rules_of};
use super::convert::from_storage;
use super::{ResourceRequest, ResourceResponse, create, managed_fields, meta};
use crate::admission::{self, Operation};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::workloads::subresource;
use crate::rules::{self, rest_strategy};
use crate::store::{Change, CommitError, Expect, Object, Op};
use crate::write::apply;

/// Maximum number of attempts after conflicts.
pub const MAX_CONFLICT_ATTEMPTS: usize = 20;

pub async fn replace(call: &ResourceRequest) -> Result<ResourceResponse> {
    replace_with(call, |_| Ok(())).await
}

/// Replaces an object; `finish` completes it before it is validated.
pub async fn replace_with(
    call: &ResourceRequest,
    finish: impl Fn(&mut Value) -> Result<()>,
) -> Result<ResourceResponse> {
    call.query.check_write("UpdateOptions", None)?;
    let mut object = body::read_object(call)?;
    meta::set_namespace(call, &mut object)?;
    let versioned = object["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
    let creates =
        rest_strategy::creates_on_update(&call.resource) && !versioned && call.subresource.is_empty();
    for _ in 0..MAX_CONFLICT_ATTEMPTS {
        call.check_interrupt()?;
        let exists = call.exists();
        let answer = if exists {
            replace_existing(call, &object, &finish).await
        } else if creates {
            create::insert(call, object.clone(), |call, object| managed_fields::update(call, None, object))
                .await
        } else {
            Err(call.not_found())
        };
        if !has_lost_race(call, exists, &answer) {
            return answer;
        }
    }
    Err(stale_version(call))
}

/// Whether the object appeared during its creation, or disappeared during its change, so that the request must be handled again.
pub fn has_lost_race(call: &ResourceRequest, existed: bool, answer: &Result<ResourceResponse>) -> bool {
    let Err(error) = answer else { return false };
    let expected = if existed { "NotFound" } else { "AlreadyExists" };
    error.reason == expected && call.exists() != existed
}

/// Replaces an existing object.
async fn replace_existing(
    call: &ResourceRequest,
    object: &Value,
    finish: &impl Fn(&mut Value) -> Result<()>,
) -> Result<ResourceResponse> {
    modify(call, |live| {
        let mut object = object.clone();
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if matches!(version, "" | "0") && rest_strategy::requires_resource_version(&call.resource) {
            let path = Path::new("metadata.resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            // This message names the resource where all others name the kind.
            return Err(ApiError::invalid(&call.resource.group, &call.resource.name, &call.name, &[error]));
        }
        keep_fields_of_other_endpoints(call, &mut object, live);
        managed_fields::update(call, Some(live), &mut object);
        finish(&mut object)?;
        Ok(object)
    })
    .await
}

/// Computes a change from the newest state with `make` (which returns the object in stored form, with its managed fields), validates and
/// commits it.
pub async fn modify(
    call: &ResourceRequest,
    make: impl Fn(&Value) -> Result<Value>,
) -> Result<ResourceResponse> {
    for _ in 0..MAX_CONFLICT_ATTEMPTS {
        call.check_interrupt()?;
        let live = call.get_live()?;
        let mut old = live.value();
        if call.resource.is_custom() {
            from_storage(&call.resource, &mut old);
        }
        call.check_interrupt()?;
        let mut object = make(&old)?;
        check_preconditions(call, &object, &live)?;
        object["metadata"]["resourceVersion"] = live.version.to_string().into();
        let prepared = prepare(call, &mut object, &old)?;
        if apply::is_same_object(&old, &object) {
            return Ok(ResourceResponse::Stored(200, live));
        }
        if call.query.is_dry_run() {
            from_storage(&call.resource, &mut object);
            return Ok(ResourceResponse::Document(200, object));
        }
        call.check_interrupt()?;
        let expect = Expect::Version(live.version);
        let key = call.key(&call.name);
        let committed = if is_finished(&call.resource, &object) {
            let also = admission::on_delete(
                &call.cluster,
                &call.admission(Operation::Delete, &call.name, Some(&old)),
            );
            let result = call.cluster.commit(Change { key, expect, op: Op::Delete }, also).await;
            result.map(|_| {
                from_storage(&call.resource, &mut object);
                ResourceResponse::Document(200, object)
            })
        } else {
            create::custom_to_storage(call, &mut object);
            let allowance = call.allowance(Some((&old, &object)));
            let result = call
                .cluster
                .commit_with_allowance(
                    Change { key, expect, op: Op::Put(object) },
                    prepared.extra_changes,
                    allowance,
                    prepared.reserved,
                )
                .await;
            result.map(|stored| ResourceResponse::Stored(200, stored))
        };
        match committed {
            Ok(answer) => return Ok(answer),
            // A concurrent write changed the object or a quota. If the client set a `resourceVersion`, the next attempt returns the
            // conflict.
            Err(CommitError::Conflict(..) | CommitError::Exists(_)) => {}
            Err(CommitError::OverBudget(why)) => {
                return Err(ApiError::over_budget(
                    &call.resource.group,
                    &call.resource.name,
                    &call.name,
                    &why,
                ));
            }
            Err(CommitError::TooLarge(size)) => return Err(ApiError::object_too_large(size)),
            Err(CommitError::OutcomeUnknown(why)) => return Err(ApiError::unknown_write_outcome(&why)),
            Err(CommitError::Unavailable(why)) => return Err(ApiError::unavailable(&why)),
        }
    }
    Err(stale_version(call))
}

pub fn stale_version(call: &ResourceRequest) -> ApiError {
    ApiError::outdated_version(&call.resource.group, &call.resource.name, &call.name)
}

/// The conflict of a write whose uid precondition names an earlier object of the same name.
pub fn uid_conflict(call: &ResourceRequest, meant: &str, found: &str) -> ApiError {
    let root = if call.query.is_dry_run() { "" } else { "/registry" };
    let place = rest_strategy::etcd_path(&call.resource, &call.namespace, &call.name);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}{place}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {meant}, UID in object meta: {found}"
    );
    ApiError::conflict(&call.resource.group, &call.resource.name, &call.name, why)
}

/// Checks the preconditions `resourceVersion`, and for a PUT `uid`.
fn check_preconditions(call: &ResourceRequest, object: &Value, live: &Object) -> Result<()> {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let uid = text("uid");
    if call.verb == "update" && !uid.is_empty() && uid != live.uid.as_ref() {
        return Err(uid_conflict(call, uid, &live.uid));
    }
    match text("resourceVersion") {
        "" => Ok(()),
        version => match version.parse::<u64>() {
            Ok(version) if version == 0 || version == live.version => Ok(()),
            Ok(_) => Err(stale_version(call)),
            Err(_) => {
                let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                Err(ApiError::new(500, "", why))
            }
        },
    }
}

/// Whether a terminating object has no finalizers and no grace period left.
fn is_finished(resource: &crate::schema::resources::Resource, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let held = metadata["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    let graceful = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
    let namespace_held = resource.name.as_ref() == "namespaces"
        && resource.group.is_empty()
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    !metadata["deletionTimestamp"].is_null() && !held && !graceful && !namespace_held
}

/// Restricts a change to the fields that the endpoint (main resource, `/status`, ...) may change; other fields keep the old state.
pub fn keep_fields_of_other_endpoints(call: &ResourceRequest, object: &mut Value, old: &Value) {
    match call.subresource.as_str() {
        "" if call.resource.subresource("status").is_some() => {
            copy(object, old, "status");
        }
        "status" => {
            let mut whole = old.clone();
            copy(&mut whole, object, "status");
            let metadata = rest_strategy::mutable_status_metadata(&call.resource);
            for key in metadata.iter().chain(&["resourceVersion", "uid"]) {
                if let Some(value) = object["metadata"].get(*key) {
                    whole["metadata"][*key] = value.clone();
                } else if !matches!(*key, "uid") {
                    whole["metadata"].as_object_mut().expect("stored objects have metadata").remove(*key);
                }
            }
            // A status update without a QoS class keeps the pod's class.
            let class = &old["status"]["qosClass"];
            if call.resource.kind.as_ref() == "Pod"
                && whole["status"]["qosClass"].is_null()
                && !class.is_null()
            {
                whole["status"]["qosClass"] = class.clone();
            }
            *object = whole;
        }
        "ephemeralcontainers" => subresource::keep_ephemeral(object, old),
        "resize" => subresource::keep_resize(object, old),
        "finalize" => {
            let mut whole = old.clone();
            whole["spec"]["finalizers"] = object["spec"]["finalizers"].take();
            *object = whole;
        }
        _ => {}
    }
}

fn copy(to: &mut Value, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => to[key] = value.clone(),
        None => {
            to.as_object_mut().expect("objects are objects").remove(key);
        }
    }
}

struct PreparedUpdate {
    extra_changes: Vec<Change>,
    reserved: admission::AdmissionReservation,
}

fn prepare(call: &ResourceRequest, object: &mut Value, old: &Value) -> Result<PreparedUpdate> {
    let rules = rules_of(&call.resource);
    let request = call.admission(Operation::Update, &call.name, Some(old));
    call.check_interrupt()?;
    admission::mutate(&call.cluster, &request, object)?;
    meta::set_namespace(call, object)?;
    meta::keep_system_fields(object, old);
    let reserved = admission::reserve(&call.cluster, &request, object)?;
    if call.subresource.is_empty() {
        (rules.prepare_for_update)(object, old);
    }
    body::default_and_normalise(&call.resource, object);
    body::as_stored(&call.resource, object);
    if matches!(call.subresource.as_str(), "" | "ephemeralcontainers" | "resize") {
        meta::bump_generation(&call.resource, object, old);
    }
    call.check_interrupt()?;
    let errors = validate(call, object, old);
    if !errors.is_empty() {
        return Err(call.invalid(object, &errors));
    }
    if call.subresource.is_empty() {
        call.warn_all((rules.warnings)(object, Some(old)));
    }
    call.check_interrupt()?;
    admission::establish(&call.cluster, &request, object);
    let also = admission::validate(&call.cluster, &request, Some(object), &mut |warning| call.warn(warning))?;
    Ok(PreparedUpdate { extra_changes: also, reserved })
}

fn validate(call: &ResourceRequest, object: &Value, old: &Value) -> FieldErrors {
    let rules = rules_of(&call.resource);
    let namespaced = call.resource.namespaced;
    let (new_meta, old_meta) = (&object["metadata"], &old["metadata"]);
    if let Some(custom) = &call.resource.custom {
        let errors = rules::meta::validate_custom_update(new_meta, old_meta, namespaced);
        let verdict = match call.subresource.as_str() {
            "status" => custom.validate_status(object, old, errors),
            _ => custom.validate(object, Some(old), errors),
        };
        verdict.warnings.into_iter().for_each(|warning| call.warn(warning));
        return verdict.errors;
    }
    if call.subresource.is_empty() {
        return rules::validate_update(rules, object, old, namespaced);
    }
    let mut errors = rules::meta::validate_update(new_meta, old_meta, namespaced);
    errors.append(match call.subresource.as_str() {
        "status" => (rules.validate_status)(object, old),
        "finalize" => rules::core::cluster::validate_namespace_finalizers(object, true),
        "ephemeralcontainers" => subresource::validate_ephemeral(object, old),
        "resize" => subresource::validate_resize(object, old),
        _ => FieldErrors::new(),
    });
    errors
}
