//! The verb `delete`: immediate, graceful, or after the last finalizer is removed.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{ResourceRequest, ResourceResponse};
use crate::admission::{self, Operation};
use crate::clock::rfc3339;
use crate::control::Propagation;
use crate::crd;
use crate::decode::{
    body,
    conform::{ErrorStyle, conform},
};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::http::query::{check_dry_run, check_errors};
use crate::rules::rest_strategy;
use crate::schema::{builtin, protobuf};
use crate::store::{Change, CommitError, Expect, Object, Op};

/// Delete options.
#[derive(Clone, Debug, Default)]
pub struct DeletionOptions {
    pub uid: Option<String>,
    pub version: Option<String>,
    pub grace_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

const MAX_DELETE_ATTEMPTS: usize = 20;

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub async fn delete(call: &ResourceRequest) -> Result<ResourceResponse> {
    let options = options(call)?;
    remove(call, &options).await
}

/// Reads the options from the body, or if it is empty from the query.
pub fn options(call: &ResourceRequest) -> Result<DeletionOptions> {
    let body = if call.body.is_empty() {
        call.query.deletion_error.clone().map_or(Ok(()), Err)?;
        json!({
            "dryRun": call.query.dry_run,
            "gracePeriodSeconds": call.query.grace_period_seconds,
            "propagationPolicy": call.query.propagation_policy,
            "orphanDependents": call.query.orphan_dependents,
            "preconditions": {"uid": call.query.get("uid"), "resourceVersion": call.query.get("resourceVersion")},
        })
    } else {
        body_options(call)?
    };
    let dry_run: Vec<String> = body["dryRun"].as_array().into_iter().flatten().map(text).collect();
    let mut errors = check_dry_run(&dry_run);
    let policy = body["propagationPolicy"].as_str();
    let orphan = body["orphanDependents"].as_bool();
    let path = Path::new("propagationPolicy");
    if policy.is_some() && orphan.is_some() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, why));
    }
    let propagation = match (policy, orphan) {
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::unsupported(&path, other, &supported));
            None
        }
        (None, None) => None,
    };
    check_errors("DeleteOptions", &errors)?;
    if propagation.is_none()
        && let Some(warning) = rest_strategy::deletion_warning(&call.resource)
    {
        call.warn(warning);
    }
    let precondition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
    Ok(DeletionOptions {
        uid: precondition("uid"),
        version: precondition("resourceVersion"),
        grace_seconds: body["gracePeriodSeconds"].as_i64(),
        propagation,
        dry_run: !dry_run.is_empty(),
    })
}

/// Reads the options in the body.
fn body_options(call: &ResourceRequest) -> Result<Value> {
    let mut given = body::decode_options(call.content_type.as_deref(), &call.body, protobuf::decode)?.value;
    let text = |key: &str| given[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let ty =
        builtin::types().by_name(DELETE_OPTIONS).expect("the schema describes the options of a deletion");
    conform(ty, &mut given, ErrorStyle::Json).map_err(ApiError::bad_request)?;
    Ok(given)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Deletes `call.name`, or marks it as deleted.
pub async fn remove(call: &ResourceRequest, options: &DeletionOptions) -> Result<ResourceResponse> {
    for _ in 0..MAX_DELETE_ATTEMPTS {
        call.check_interrupt()?;
        let live = call.get_live()?;
        check_preconditions(call, &live, options)?;
        let old = live.value();
        let request = call.admission(Operation::Delete, &call.name, Some(&old));
        let mut also = admission::validate(&call.cluster, &request, None, &mut |warning| call.warn(warning))?;
        let expect = Expect::Version(live.version);
        let key = call.key(&call.name);
        let step = decide(call, &old, options);
        call.check_interrupt()?;
        if options.dry_run {
            return Ok(match step {
                DeleteAction::Remove(last) => removal_response(call, &live, last),
                DeleteAction::SetDeletionTimestamp(value) => document_response(call, value),
                DeleteAction::NoChange => ResourceResponse::Stored(200, live),
            });
        }
        let done = match step {
            DeleteAction::NoChange => return Ok(ResourceResponse::Stored(200, live)),
            DeleteAction::Remove(mut last) => {
                also.extend(admission::on_delete(&call.cluster, &request));
                let done = call.cluster.commit(Change { key, expect, op: Op::Delete }, also).await;
                done.map(|gone| {
                    last["metadata"]["resourceVersion"] = gone.version.to_string().into();
                    removal_response(call, &live, last)
                })
            }
            DeleteAction::SetDeletionTimestamp(value) => {
                let done = call.cluster.commit(Change { key, expect, op: Op::Put(value) }, Vec::new()).await;
                done.map(|stored| ResourceResponse::Stored(200, stored))
            }
        };
        match done {
            Ok(answer) => return Ok(answer),
            // A concurrent write changed the object or a quota.
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
    Err(ApiError::outdated_version(&call.resource.group, &call.resource.name, &call.name))
}

fn document_response(call: &ResourceRequest, mut value: Value) -> ResourceResponse {
    super::convert::from_storage(&call.resource, &mut value);
    ResourceResponse::Document(200, value)
}

/// The response to an immediate removal: the object itself for some kinds, a Status for the others.
fn removal_response(call: &ResourceRequest, live: &Object, last: Value) -> ResourceResponse {
    let resource = &call.resource;
    if rest_strategy::delete_returns_object(resource) {
        return document_response(call, last);
    }
    let mut details = json!({"name": &*live.name, "kind": &*resource.name, "uid": &*live.uid});
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_ref().into();
    }
    ResourceResponse::OtherKind(
        200,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}),
    )
}

fn check_preconditions(call: &ResourceRequest, live: &Object, options: &DeletionOptions) -> Result<()> {
    let conflict = |why: String| {
        // These messages name the kind where all others name the resource.
        Err(ApiError::conflict(&call.resource.group, &call.resource.kind, &call.name, why))
    };
    if let Some(uid) = &options.uid
        && uid.as_str() != live.uid.as_ref()
    {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            live.uid
        ));
    }
    if let Some(version) = &options.version
        && *version != live.version.to_string()
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            live.version
        ));
    }
    Ok(())
}

/// The effect of a deletion on an object.
enum DeleteAction {
    /// Removes the object; its last state is in the response.
    Remove(Value),
    /// No change: the deletion is already in progress.
    NoChange,
    /// Keeps the object for now, with a `deletionTimestamp`.
    SetDeletionTimestamp(Value),
}

fn decide(call: &ResourceRequest, old: &Value, options: &DeletionOptions) -> DeleteAction {
    let resource = &call.resource;
    let metadata = &old["metadata"];
    let is_core = |name: &str| resource.group.is_empty() && resource.name.as_ref() == name;
    let marked_grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let grace = match marked_grace {
        _ if !is_core("pods") => 0,
        // A repeated deletion can only shorten the grace period, and only explicitly.
        Some(marked) => options.grace_seconds.map_or(marked, |asked| clamp_grace_period(asked).min(marked)),
        None => pod_grace_period(old, options),
    };
    let mut finalizers = finalizers(call, metadata, options);
    let is_crd = resource.storage.as_ref() == "customresourcedefinitions.apiextensions.k8s.io";
    let held =
        !finalizers.is_empty() || is_crd || (is_core("namespaces") && has_items(&old["spec"]["finalizers"]));
    if !held && grace == 0 && !is_core("pods") {
        return DeleteAction::Remove(old.clone());
    }
    let mut new = old.clone();
    if is_crd && metadata["deletionTimestamp"].is_null() {
        // Custom resources are deleted first; then the controller removes the finalizer.
        crd::status::set_terminating(&mut new, call.cluster.clock().now());
        if !finalizers.iter().any(|finalizer| finalizer == CRD_CLEANUP) {
            finalizers.push(CRD_CLEANUP.into());
        }
    }
    let fields = new["metadata"].as_object_mut().expect("stored objects have metadata");
    if finalizers.is_empty() {
        fields.remove("finalizers");
    } else {
        fields.insert("finalizers".to_owned(), finalizers.into());
    }
    // Namespaces and CRDs are finalized by their controllers and have no grace period.
    let by_controller = is_crd || is_core("namespaces");
    if by_controller && metadata["deletionTimestamp"].is_null() {
        fields.insert("deletionTimestamp".to_owned(), rfc3339(call.cluster.clock().now()).into());
    } else if metadata["deletionTimestamp"].is_null() {
        let at = grace_period_end(call.cluster.clock().now(), grace);
        fields.insert("deletionTimestamp".to_owned(), rfc3339(at).into());
        fields.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        if let Some(generation) = metadata["generation"].as_i64() {
            fields.insert("generation".to_owned(), generation.saturating_add(1).into());
        }
    } else if marked_grace.is_some_and(|marked| grace < marked) {
        let at = grace_period_end(call.cluster.clock().now(), grace);
        fields.insert("deletionTimestamp".to_owned(), rfc3339(at).into());
        fields.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
    if is_core("namespaces") {
        new["status"]["phase"] = "Terminating".into();
    }
    if !held && grace == 0 {
        return DeleteAction::Remove(new);
    }
    if new == *old { DeleteAction::NoChange } else { DeleteAction::SetDeletionTimestamp(new) }
}

/// Returns the finalizers after a deletion, including the changes by the propagation policy.
fn finalizers(call: &ResourceRequest, metadata: &Value, options: &DeletionOptions) -> Vec<Value> {
    let mut list: Vec<Value> = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    let has = |list: &[Value], name: &str| list.iter().any(|finalizer| finalizer == name);
    let policy = options.propagation.or_else(|| {
        // An earlier policy stands unless this request sets another.
        let chosen = has(&list, "orphan") || has(&list, "foregroundDeletion");
        (!chosen).then(|| rest_strategy::default_propagation(&call.resource))
    });
    let (orphan, foreground) = match policy {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        None => return list,
    };
    for (name, wanted) in [("orphan", orphan), ("foregroundDeletion", foreground)] {
        if wanted && !has(&list, name) {
            list.push(name.into());
        } else if !wanted {
            list.retain(|finalizer| finalizer != name);
        }
    }
    list
}

/// Returns the end of a grace period. Kubernetes has no upper bound for the period; the result is capped at the maximum timestamp.
fn grace_period_end(now: Timestamp, seconds: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Returns the grace period of a pod in seconds.
fn pod_grace_period(pod: &Value, options: &DeletionOptions) -> i64 {
    let unassigned = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unassigned || finished {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    clamp_grace_period(options.grace_seconds.unwrap_or(own))
}

/// A negative period means one second, as in Kubernetes.
fn clamp_grace_period(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

fn has_items(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}
