//! Dispatch of subresources and review kinds.

use serde_json::Value;

use super::body::decode_as;
use super::{ResourceRequest, ResourceResponse, body, evict, logs, patch, pods, read, scale, update};
use crate::access::reviews::{self, ReviewScope};
use crate::access::{MASTERS, RBAC_GROUP, csr, tokens};
use crate::admission::{self, Operation, nodes};
use crate::error::{ApiError, Result};
use crate::schema::resources::Resource;

/// Executes a call of a subresource.
pub async fn handle(call: &ResourceRequest) -> Result<ResourceResponse> {
    let Some(door) = call.resource.subresource(&call.subresource) else {
        return Err(if call.resource.is_custom() { call.not_found() } else { ApiError::no_such_resource() });
    };
    if matches!(&*door.name, "exec" | "attach" | "portforward" | "proxy") {
        return Err(pods::not_simulated(call, &*call.get_live()?));
    }
    if !door.verbs.iter().any(|verb| verb.as_ref() == call.verb) {
        return Err(if call.resource.is_custom() {
            ApiError::verb_not_supported(call.verb, &call.resource.group, &call.resource.name)
        } else {
            ApiError::method_not_allowed()
        });
    }
    match (&*door.name, call.verb) {
        ("scale", _) => scale::handle(call).await,
        ("log", _) => logs::get_log(call),
        ("eviction", _) => evict::evict(call).await,
        ("binding", _) => pods::bind_pod(call).await,
        ("token", _) => create_token(call),
        ("approval" | "status", "update" | "patch") if call.resource.storage.as_ref() == csr::STORAGE => {
            update_csr(call).await
        }
        (_, "get") => read::get(call),
        (_, "update") => update::replace(call).await,
        (_, "patch") => patch::patch(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Whether the kind is a review, which is answered and not stored.
pub fn is_review(resource: &Resource) -> bool {
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
}

/// Size of the rules that a review lists, or that are compared before a role or binding is written.
pub fn rules_weight(call: &ResourceRequest) -> usize {
    /// Limit beyond which rules are neither listed nor compared.
    const MAX_RULES_WEIGHT: usize = 1 << 20;
    let authorizer = call.cluster.authorizer();
    let is_reviewed = call.resource.kind.as_ref() == "SelfSubjectRulesReview" && call.verb == "create";
    let is_granted = call.resource.group.as_ref() == RBAC_GROUP
        && matches!(call.verb, "create" | "update" | "patch")
        && !call.user.in_group(MASTERS);
    // A larger body already runs on the pool.
    if !(is_reviewed || is_granted) || call.body.len() > call.cluster.inline_bytes() {
        return 0;
    }
    if is_reviewed {
        let Some(review) = json_body(call) else { return MAX_RULES_WEIGHT };
        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
        return authorizer.bytes_of_rules(&call.user, namespace).min(MAX_RULES_WEIGHT);
    }
    let held = authorizer.bytes_of_rules(&call.user, &call.namespace);
    let is_binding = matches!(&*call.resource.kind, "RoleBinding" | "ClusterRoleBinding");
    let wanted = if is_binding { bound_role_bytes(call).unwrap_or(MAX_RULES_WEIGHT) } else { 0 };
    held.saturating_add(wanted).min(MAX_RULES_WEIGHT)
}

/// Reads the object in the body; null if it is invalid. `None` for a body that is not JSON, whose decoding can take long.
fn json_body(call: &ResourceRequest) -> Option<Value> {
    let is_json = call.content_type.as_deref().is_none_or(|media| media.starts_with("application/json"));
    is_json.then(|| body::read_object(call).unwrap_or_default())
}

/// Size of the role to which a binding refers, which a patch cannot change. `None` for a body that is not JSON.
fn bound_role_bytes(call: &ResourceRequest) -> Option<usize> {
    let binding = if call.verb == "patch" {
        let live = call.get_live().ok().filter(|live| live.bytes.len() <= call.cluster.inline_bytes());
        live.map_or(Value::Null, |live| live.value())
    } else {
        json_body(call)?
    };
    let role = &binding["roleRef"];
    let namespace = if role["kind"] == "Role" { call.namespace.as_str() } else { "" };
    Some(call.cluster.authorizer().bytes_of_role(namespace, role["name"].as_str().unwrap_or_default()))
}

pub fn create_review(call: &ResourceRequest) -> Result<ResourceResponse> {
    call.query.check_write("CreateOptions", None)?;
    let object = body::read_object(call)?;
    let (authorizer, caller) = (call.cluster.authorizer(), &call.user);
    let answer = match call.resource.kind.as_ref() {
        "SubjectAccessReview" => reviews::review_access(authorizer, caller, ReviewScope::Any, object),
        "LocalSubjectAccessReview" => {
            reviews::review_access(authorizer, caller, ReviewScope::Local(&call.namespace), object)
        }
        "SelfSubjectAccessReview" => reviews::review_access(authorizer, caller, ReviewScope::Caller, object),
        "SelfSubjectRulesReview" => reviews::review_rules(authorizer, caller, &object),
        "SelfSubjectReview" => Ok(reviews::whoami(caller, call.cluster.clock())),
        "TokenReview" => tokens::review_token(call.cluster.authenticator(), object),
        _ => Err(ApiError::method_not_allowed()),
    }?;
    Ok(ResourceResponse::OtherKind(201, answer))
}

fn create_token(call: &ResourceRequest) -> Result<ResourceResponse> {
    let body = decode_as(call, "authentication.TokenRequest")?;
    let (store, now) = (call.cluster.store(), call.cluster.clock().now());
    let place = (call.namespace.as_str(), call.name.as_str());
    nodes::check_token(store, call.cluster.authorizer(), &call.user, place, &body)?;
    let key = call.cluster.pki().signing_key();
    let request = call.admission(Operation::Create, &call.name, None);
    let admit = |token: &Value| {
        admission::evaluate_policies(&call.cluster, &request, Some(token), &mut |warning| call.warn(warning))
    };
    let answer = tokens::create_token(store, &key, now, place, &body, admit)?;
    Ok(ResourceResponse::OtherKind(201, answer))
}

/// Approval and signing need permissions beyond that for the update.
async fn update_csr(call: &ResourceRequest) -> Result<ResourceResponse> {
    let change =
        |object: &mut Value| csr::prepare_update(&call.cluster, &call.user, &call.subresource, object);
    if call.verb == "update" {
        update::replace_with(call, change).await
    } else {
        patch::patch_with(call, change).await
    }
}
