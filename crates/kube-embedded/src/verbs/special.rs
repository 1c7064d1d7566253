//! Subresources, and the kinds that are questions: which door leads where.

use serde_json::Value;

use super::{Answer, Call, body, patch, pods, read, scale, update};
use crate::access::{csr, reviews, tokens};
use crate::decode;
use crate::error::{ApiError, Result};
use crate::schema::resources::Resource;

/// Answers a call to a subresource.
pub async fn answer(call: &Call) -> Result<Answer> {
    let Some(door) = call.resource.subresource(&call.subresource) else {
        return Err(ApiError::no_such_resource());
    };
    if matches!(&*door.name, "exec" | "attach" | "portforward" | "proxy") {
        return Err(pods::not_simulated(call));
    }
    if !door.verbs.iter().any(|verb| verb.as_ref() == call.verb) {
        return Err(ApiError::method_not_allowed());
    }
    match (&*door.name, call.verb) {
        ("scale", _) => scale::answer(call).await,
        ("log", _) => pods::log(call),
        ("eviction", _) => pods::evict(call).await,
        ("binding", _) => pods::bind(call).await,
        ("token", _) => token(call),
        ("approval", "update" | "patch") => approve(call).await,
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
    let mut object = body::read(call)?;
    super::meta::place(call, &mut object)?;
    let answer = reviews::review(&call.cluster, &call.resource.kind, &call.namespace, &call.user, object)?;
    Ok(Answer::Other(201, answer))
}

fn token(call: &Call) -> Result<Answer> {
    let account = call.live()?;
    let request = decode::object(call.content_type.as_deref(), &call.body, "TokenRequest")?.value;
    let answer = tokens::request(&call.cluster, &account, request)?;
    Ok(Answer::Other(201, answer))
}

/// An approval is a change of the conditions; an approved request is signed in the same write.
async fn approve(call: &Call) -> Result<Answer> {
    let sign = |object: &mut Value| csr::sign_if_approved(&call.cluster, object);
    if call.verb == "update" { update::replace_then(call, sign).await } else { patch::patch_then(call, sign).await }
}
