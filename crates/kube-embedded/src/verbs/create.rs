//! The verb `create`.

use serde_json::Value;

use super::body::{self, rules_of};
use super::convert::to_storage;
use super::{Answer, Call, managed, meta};
use crate::admission::{self, Operation};
use crate::error::{ApiError, Result};
use crate::field::FieldErrors;
use crate::rules;
use crate::store::{Change, CommitError, Expect, Op};

/// Maximum number of attempts with a generated name before the client gets a conflict.
const NAME_TRIES: usize = 8;
/// Maximum number of attempts when quotas change concurrently.
const TRIES: usize = 20;

pub async fn create(call: &Call) -> Result<Answer> {
    call.query.check_write("CreateOptions", None)?;
    let object = body::read(call)?;
    let versioned = object["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
    if versioned && !call.query.is_dry_run() {
        return Err(ApiError::internal("resourceVersion should not be set on objects to be created").bare());
    }
    insert(call, object, |call, object| managed::update(call, None, object)).await
}

/// Stores a new object in stored form. `own` sets its managed fields.
pub async fn insert(call: &Call, given: Value, own: impl Fn(&Call, &mut Value)) -> Result<Answer> {
    for attempt in 1..=TRIES {
        call.check_interrupt()?;
        let mut object = given.clone();
        meta::stamp_new(call, &mut object)?;
        own(call, &mut object);
        let generated = given["metadata"]["name"].as_str().unwrap_or_default().is_empty();
        let prepared = prepare(call, object, generated)?;
        let name = prepared.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if call.query.is_dry_run() {
            return dry_run(call, &name, prepared.value);
        }
        call.check_interrupt()?;
        let mut value = prepared.value;
        to_storage_late(call, &mut value);
        let change = Change { key: call.key(&name), expect: Expect::Absent, op: Op::Put(value) };
        match call.cluster.commit_within(change, prepared.also, call.allowance(None), prepared.reserved).await
        {
            Ok(stored) => return Ok(Answer::Stored(201, stored)),
            Err(CommitError::Exists(key))
                if key.name.as_ref() == name && key.storage == call.resource.storage =>
            {
                if !generated || attempt >= NAME_TRIES {
                    return Err(exists(call, &name));
                }
            }
            // A quota was changed or deleted: count again.
            Err(CommitError::Moved(..) | CommitError::Exists(_)) => {}
            Err(CommitError::OverBudget(why)) => {
                return Err(ApiError::over_budget(&call.resource.group, &call.resource.name, &name, &why));
            }
            Err(CommitError::TooLarge(size)) => return Err(ApiError::object_too_large(size)),
            Err(CommitError::Unknown(why)) => return Err(ApiError::unknown_outcome(&why)),
            Err(CommitError::Unavailable(why)) => return Err(ApiError::unavailable(&why)),
        }
    }
    Err(quota_conflict(call))
}

/// The error when the quotas of the namespace changed during every attempt.
pub fn quota_conflict(call: &Call) -> ApiError {
    let why = "the resource quotas of the namespace changed during the request; please try again";
    ApiError::conflict(&call.resource.group, &call.resource.name, &call.name, why)
}

/// Converts a custom resource to its storage version. Until then it is processed in the request's version.
pub fn to_storage_late(call: &Call, value: &mut Value) {
    if call.resource.is_custom() {
        to_storage(&call.resource, value);
    }
}

/// A validated object, and the changes to commit with it.
struct Prepared {
    value: Value,
    also: Vec<Change>,
    /// Reserved addresses; dropping it releases those that were not stored.
    reserved: admission::Reserved,
}

fn prepare(call: &Call, mut object: Value, generated: bool) -> Result<Prepared> {
    let rules = rules_of(&call.resource);
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (name, prefix) = (text("name"), text("generateName"));
    call.check_interrupt()?;
    // Admission errors at this point have no generated name in Kubernetes.
    let early = call.admission(Operation::Create, if generated { &prefix } else { &name }, None);
    admission::mutate(&call.cluster, &early, &mut object)?;
    let request = call.admission(Operation::Create, &name, None);
    if call.resource.subresource("status").is_some() && !rules.status_on_create {
        object.as_object_mut().expect("objects are objects").remove("status");
    }
    let reserved = admission::reserve(&call.cluster, &request, &mut object)?;
    (rules.create)(&mut object);
    body::complete(&call.resource, &mut object);
    body::as_stored(&call.resource, &mut object);
    call.check_interrupt()?;
    let errors = complaints(call, &object);
    if !errors.is_empty() {
        return Err(call.invalid(&object, &errors));
    }
    call.warn_all((rules.warnings)(&object, None));
    call.check_interrupt()?;
    admission::establish(&call.cluster, &request, &mut object);
    let also =
        admission::validate(&call.cluster, &request, Some(&object), &mut |warning| call.warn(warning))?;
    Ok(Prepared { value: object, also, reserved })
}

/// Validates a new object: errors of the kind first, as in Kubernetes.
fn complaints(call: &Call, object: &Value) -> FieldErrors {
    let rules = rules_of(&call.resource);
    let (metadata, namespaced) = (&object["metadata"], call.resource.namespaced);
    match &call.resource.custom {
        Some(custom) => {
            let errors = rules::meta::validate_custom_create(metadata, namespaced);
            custom.review(object, None, errors).errors
        }
        None => rules::validate_create(rules, object, namespaced),
    }
}

fn dry_run(call: &Call, name: &str, mut value: Value) -> Result<Answer> {
    if call.cluster.store().get(&call.resource.storage, &call.namespace, name).is_some() {
        return Err(exists(call, name));
    }
    super::convert::from_storage(&call.resource, &mut value);
    Ok(Answer::Document(201, value))
}

fn exists(call: &Call, name: &str) -> ApiError {
    let mut error = ApiError::already_exists(&call.resource.group, &call.resource.name, name);
    let found = call.cluster.store().get(&call.resource.storage, &call.namespace, name);
    if found.is_some_and(|object| object.deleting) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}
