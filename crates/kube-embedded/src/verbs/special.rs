//! Subresources, and the kinds that are questions: which door leads where.

use serde_json::Value;

use super::body::decode_as;
use super::{Answer, Call, body, evict, logs, patch, pods, read, scale, update};
use crate::access::reviews::{self, Scope};
use crate::access::{csr, tokens};
use crate::admission::{self, Operation, nodes};
use crate::error::{ApiError, Result};
use crate::schema::resources::Resource;

/// Answers a call to a subresource.
pub async fn answer(call: &Call) -> Result<Answer> {
    let Some(door) = call.resource.subresource(&call.subresource) else {
        return Err(if call.resource.is_custom() { call.not_found() } else { ApiError::no_such_resource() });
    };
    if matches!(&*door.name, "exec" | "attach" | "portforward" | "proxy") {
        return Err(pods::not_simulated(call, &*call.live()?));
    }
    if !door.verbs.iter().any(|verb| verb.as_ref() == call.verb) {
        return Err(if call.resource.is_custom() {
            ApiError::verb_not_supported(call.verb, &call.resource.group, &call.resource.name)
        } else {
            ApiError::method_not_allowed()
        });
    }
    match (&*door.name, call.verb) {
        ("scale", _) => scale::answer(call).await,
        ("log", _) => logs::log(call),
        ("eviction", _) => evict::evict(call).await,
        ("binding", _) => pods::bind(call).await,
        ("token", _) => token(call),
        ("approval" | "status", "update" | "patch") if call.resource.storage.as_ref() == csr::STORAGE => {
            change_csr(call).await
        }
        (_, "get") => read::get(call),
        (_, "update") => update::replace(call).await,
        (_, "patch") => patch::patch(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Kinds that are asked, not stored.
pub fn is_review(resource: &Resource) -> bool {
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
}

pub fn review(call: &Call) -> Result<Answer> {
    call.query.check_write("CreateOptions", None)?;
    let object = body::read(call)?;
    let (authorizer, caller) = (call.cluster.authorizer(), &call.user);
    let answer = match call.resource.kind.as_ref() {
        "SubjectAccessReview" => reviews::access(authorizer, caller, Scope::Any, object),
        "LocalSubjectAccessReview" => {
            reviews::access(authorizer, caller, Scope::Local(&call.namespace), object)
        }
        "SelfSubjectAccessReview" => reviews::access(authorizer, caller, Scope::Own, object),
        "SelfSubjectRulesReview" => reviews::rules(authorizer, caller, &object),
        "SelfSubjectReview" => Ok(reviews::whoami(caller, call.cluster.clock())),
        "TokenReview" => tokens::review(call.cluster.authenticator(), object),
        _ => Err(ApiError::method_not_allowed()),
    }?;
    Ok(Answer::Other(201, answer))
}

fn token(call: &Call) -> Result<Answer> {
    let body = decode_as(call, "authentication.TokenRequest")?;
    let (store, now) = (call.cluster.store(), call.cluster.clock().now());
    let place = (call.namespace.as_str(), call.name.as_str());
    nodes::check_token(store, call.cluster.authorizer(), &call.user, place, &body)?;
    let key = call.cluster.pki().signing_key();
    let request = call.admission(Operation::Create, &call.name, None);
    let admit = |token: &Value| {
        admission::evaluate_policies(&call.cluster, &request, Some(token), &mut |warning| call.warn(warning))
    };
    let answer = tokens::request(store, &key, now, place, &body, admit)?;
    Ok(Answer::Other(201, answer))
}

/// Approving and signing need more than the right to write.
async fn change_csr(call: &Call) -> Result<Answer> {
    let change = |object: &mut Value| csr::change(&call.cluster, &call.user, &call.subresource, object);
    if call.verb == "update" {
        update::replace_then(call, change).await
    } else {
        patch::patch_then(call, change).await
    }
}
