//! The verb `create`.

use serde_json::Value;

use super::body::{self, rules_of};
use super::convert::to_storage;
use super::{ResourceRequest, ResourceResponse, managed_fields, meta};
use crate::admission::{self, Operation};
use crate::error::{ApiError, Result};
use crate::field::FieldErrors;
use crate::rules;
use crate::store::{Change, CommitError, Expect, Op};

/// Maximum number of attempts with a generated name before the client gets a conflict.
const MAX_NAME_ATTEMPTS: usize = 8;
/// Maximum number of attempts when quotas change concurrently.
const MAX_QUOTA_ATTEMPTS: usize = 20;

pub async fn create(call: &ResourceRequest) -> Result<ResourceResponse> {
    call.query.check_write("CreateOptions", None)?;
    let object = body::read_object(call)?;
    let versioned = object["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty());
    if versioned && !call.query.is_dry_run() {
        return Err(
            ApiError::internal("resourceVersion should not be set on objects to be created").without_reason()
        );
    }
    insert(call, object, |call, object| managed_fields::update(call, None, object)).await
}

/// Stores a new object in stored form. `own` sets its managed fields.
pub async fn insert(
    call: &ResourceRequest,
    given: Value,
    own: impl Fn(&ResourceRequest, &mut Value),
) -> Result<ResourceResponse> {
    for attempt in 1..=MAX_QUOTA_ATTEMPTS {
        call.check_interrupt()?;
        let mut object = given.clone();
        meta::set_system_fields(call, &mut object)?;
        own(call, &mut object);
        let generated = given["metadata"]["name"].as_str().unwrap_or_default().is_empty();
        let prepared = prepare(call, object, generated)?;
        let name = prepared.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if call.query.is_dry_run() {
            return dry_run(call, &name, prepared.value);
        }
        call.check_interrupt()?;
        let mut value = prepared.value;
        custom_to_storage(call, &mut value);
        let change = Change { key: call.key(&name), expect: Expect::Absent, op: Op::Put(value) };
        match call
            .cluster
            .commit_with_allowance(change, prepared.extra_changes, call.allowance(None), prepared.reserved)
            .await
        {
            Ok(stored) => return Ok(ResourceResponse::Stored(201, stored)),
            Err(CommitError::Exists(key))
                if key.name.as_ref() == name && key.storage == call.resource.storage =>
            {
                if !generated || attempt >= MAX_NAME_ATTEMPTS {
                    return Err(already_exists(call, &name));
                }
            }
            // A quota was changed or deleted: count again.
            Err(CommitError::Conflict(..) | CommitError::Exists(_)) => {}
            Err(CommitError::OverBudget(why)) => {
                return Err(ApiError::over_budget(&call.resource.group, &call.resource.name, &name, &why));
            }
            Err(CommitError::TooLarge(size)) => return Err(ApiError::object_too_large(size)),
            Err(CommitError::OutcomeUnknown(why)) => return Err(ApiError::unknown_write_outcome(&why)),
            Err(CommitError::Unavailable(why)) => return Err(ApiError::unavailable(&why)),
        }
    }
    Err(quota_conflict(call))
}

/// The error when the quotas of the namespace changed during every attempt.
pub fn quota_conflict(call: &ResourceRequest) -> ApiError {
    let why = "the resource quotas of the namespace changed during the request; please try again";
    ApiError::conflict(&call.resource.group, &call.resource.name, &call.name, why)
}

/// Converts a custom resource to its storage version. Until then it is processed in the request's version.
pub fn custom_to_storage(call: &ResourceRequest, value: &mut Value) {
    if call.resource.is_custom() {
        to_storage(&call.resource, value);
    }
}

/// A validated object, and the changes to commit with it.
struct PreparedCreate {
    value: Value,
    extra_changes: Vec<Change>,
    /// Reserved addresses; dropping it releases the addresses that were not stored.
    reserved: admission::AdmissionReservation,
}

fn prepare(call: &ResourceRequest, mut object: Value, generated: bool) -> Result<PreparedCreate> {
    let rules = rules_of(&call.resource);
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (name, prefix) = (text("name"), text("generateName"));
    call.check_interrupt()?;
    // Admission errors at this point have no generated name in Kubernetes.
    let early = call.admission(Operation::Create, if generated { &prefix } else { &name }, None);
    admission::mutate(&call.cluster, &early, &mut object)?;
    let request = call.admission(Operation::Create, &name, None);
    if call.resource.subresource("status").is_some() && !rules.keeps_status_on_create {
        object.as_object_mut().expect("objects are objects").remove("status");
    }
    let reserved = admission::reserve(&call.cluster, &request, &mut object)?;
    (rules.prepare_for_create)(&mut object);
    body::default_and_normalise(&call.resource, &mut object);
    body::as_stored(&call.resource, &mut object);
    call.check_interrupt()?;
    let errors = validate(call, &object);
    if !errors.is_empty() {
        return Err(call.invalid(&object, &errors));
    }
    call.warn_all((rules.warnings)(&object, None));
    call.check_interrupt()?;
    admission::establish(&call.cluster, &request, &mut object);
    let also =
        admission::validate(&call.cluster, &request, Some(&object), &mut |warning| call.warn(warning))?;
    Ok(PreparedCreate { value: object, extra_changes: also, reserved })
}

/// Validates a new object: errors of the kind first, as in Kubernetes.
fn validate(call: &ResourceRequest, object: &Value) -> FieldErrors {
    let rules = rules_of(&call.resource);
    let (metadata, namespaced) = (&object["metadata"], call.resource.namespaced);
    match &call.resource.custom {
        Some(custom) => {
            let errors = rules::meta::validate_custom_create(metadata, namespaced);
            custom.validate(object, None, errors).errors
        }
        None => rules::validate_create(rules, object, namespaced),
    }
}

fn dry_run(call: &ResourceRequest, name: &str, mut value: Value) -> Result<ResourceResponse> {
    if call.cluster.store().get(&call.resource.storage, &call.namespace, name).is_some() {
        return Err(already_exists(call, name));
    }
    super::convert::from_storage(&call.resource, &mut value);
    Ok(ResourceResponse::Document(201, value))
}

fn already_exists(call: &ResourceRequest, name: &str) -> ApiError {
    let mut error = ApiError::already_exists(&call.resource.group, &call.resource.name, name);
    let found = call.cluster.store().get(&call.resource.storage, &call.namespace, name);
    if found.is_some_and(|object| object.is_deleting) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}
