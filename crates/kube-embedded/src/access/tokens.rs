//! `ServiceAccount` tokens: token requests, token Secrets, `TokenReview`.
//!
//! [`create_token`] handles `serviceaccounts/<name>/token`, the token controller writes the result of [`fill_token_secret`],
//! [`review_token`] answers `TokenReview`, and [`discovery`] is the `OpenID` discovery document. `super::authn` verifies tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::authn::{Authenticator, ISSUER, LEGACY_ISSUER};
use super::jwt::SigningKey;
use super::{items, service_account_username, text, texts};
use crate::clock::rfc3339;
use crate::control::view::Pod;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::go::quote;
use crate::store::Store;

const GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

/// Answers a `TokenRequest` for the `ServiceAccount` `name` (201). `body` is the posted object. `admit` is validating admission: as in
/// Kubernetes it gets the request with its defaults, after static validation and before the token is signed.
pub fn create_token(
    store: &Store,
    key: &SigningKey,
    now: Timestamp,
    (namespace, name): (&str, &str),
    body: &Value,
    admit: impl FnOnce(&Value) -> Result<()>,
) -> Result<Value> {
    let metadata = &body["metadata"];
    let given = text(metadata, "name");
    if !given.is_empty() && given != name {
        let path = Path::new("metadata.name");
        let error = FieldError::invalid(&path, given, "must match the service account name if specified");
        return Err(ApiError::invalid(GROUP, "TokenRequest", name, &[error]));
    }
    let given = text(metadata, "namespace");
    if !given.is_empty() && given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let account = store
        .get("serviceaccounts", namespace, name)
        .ok_or_else(|| ApiError::not_found("", "serviceaccounts", name))?;
    let given = text(metadata, "uid");
    if !given.is_empty() && given != &*account.uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(ApiError::conflict(GROUP, "TokenRequest", name, why));
    }
    let spec = &body["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let complaint = match seconds {
        ..MIN_SECONDS => Some("may not specify a duration less than 10 minutes"),
        s if s > MAX_SECONDS => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(detail) = complaint {
        let error = FieldError::invalid(&Path::new("spec.expirationSeconds"), seconds, detail);
        return Err(ApiError::invalid(GROUP, "TokenRequest", "", &[error]));
    }
    let mut audiences = texts(spec, "audiences");
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }

    let mut answer_metadata = metadata.as_object().cloned().unwrap_or_default();
    for (key, value) in [("name", name), ("namespace", namespace)] {
        answer_metadata.insert(key.to_owned(), value.into());
    }
    answer_metadata.insert("creationTimestamp".to_owned(), rfc3339(now).into());
    let reference = &spec["boundObjectRef"];
    let mut answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": answer_metadata,
        "spec": { "audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference },
    });
    admit(&answer)?;

    let mut private = json!({
        "namespace": namespace,
        "serviceaccount": { "name": name, "uid": account.uid },
    });
    if !reference.is_null() {
        bind_to_object(store, namespace, name, reference, &mut private)?;
    }
    let issued = now.as_second();
    let expires = issued.saturating_add(seconds);
    let token = key.sign(&json!({
        "aud": audiences, "exp": expires, "iat": issued, "iss": ISSUER,
        "jti": uuid::Uuid::new_v4().to_string(), "kubernetes.io": private, "nbf": issued,
        "sub": service_account_username(namespace, name),
    }));
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    answer["metadata"]["uid"] = account.uid.as_ref().into();
    answer["status"] = json!({ "token": token, "expirationTimestamp": rfc3339(end) });
    Ok(answer)
}

/// Writes the object that the token is bound to into its private claims.
fn bind_to_object(
    store: &Store,
    namespace: &str,
    account: &str,
    reference: &Value,
    private: &mut Value,
) -> Result<()> {
    let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (claim, storage, space) = match (group, kind) {
        ("", "Pod") => ("pod", "pods", namespace),
        ("", "Node") => ("node", "nodes", ""),
        ("", "Secret") => ("secret", "secrets", namespace),
        _ => {
            let what = format!("{group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(format!("cannot bind token to object of type {what}")));
        }
    };
    let name = text(reference, "name");
    let found = store.get(storage, space, name).ok_or_else(|| ApiError::not_found("", storage, name))?;
    if claim == "pod" {
        let pod = found.view::<Pod>();
        let runs_as = &pod.spec.service_account_name;
        if runs_as != account {
            let account = quote(account);
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {account} to pod running with different serviceaccount name."
            )));
        }
        let node = pod.spec.node_name.as_str();
        if !node.is_empty() {
            private["node"] = match store.get("nodes", "", node) {
                Some(found) => json!({ "name": node, "uid": found.uid }),
                None => json!({ "name": node }),
            };
        }
    }
    let wanted = text(reference, "uid");
    if !wanted.is_empty() && wanted != &*found.uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", kind, name, why));
    }
    private[claim] = json!({ "name": name, "uid": found.uid });
    Ok(())
}

/// Returns a Secret of type `kubernetes.io/service-account-token` with `token`, `ca.crt` and `namespace` filled in; `None` if nothing is
/// missing or it is not for this `ServiceAccount`.
pub fn fill_token_secret(key: &SigningKey, account: &Value, secret: &Value, ca_pem: &str) -> Option<Value> {
    let (of, metadata) = (&account["metadata"], &secret["metadata"]);
    let annotations = &metadata["annotations"];
    let uid = text(annotations, "kubernetes.io/service-account.uid");
    let (namespace, name) = (text(of, "namespace"), text(of, "name"));
    let fits = secret["type"] == "kubernetes.io/service-account-token"
        && text(metadata, "namespace") == namespace
        && text(annotations, "kubernetes.io/service-account.name") == name
        && (uid.is_empty() || uid == text(of, "uid"));
    if !fits {
        return None;
    }
    let mut filled = secret.clone();
    if filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"].is_null() {
        filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = text(of, "uid").into();
    }
    if !filled["data"].is_object() {
        filled["data"] = Value::Object(Map::new());
    }
    filled["data"]["ca.crt"] = STANDARD.encode(ca_pem).into();
    filled["data"]["namespace"] = STANDARD.encode(namespace).into();
    if text(&secret["data"], "token").is_empty() {
        let claim = "kubernetes.io/serviceaccount";
        let token = key.sign(&json!({
            "iss": LEGACY_ISSUER,
            "sub": service_account_username(namespace, name),
            format!("{claim}/namespace"): namespace,
            format!("{claim}/secret.name"): text(metadata, "name"),
            format!("{claim}/service-account.name"): name,
            format!("{claim}/service-account.uid"): text(of, "uid"),
        }));
        filled["data"]["token"] = STANDARD.encode(token).into();
    }
    (filled != *secret).then_some(filled)
}

/// Answers a `TokenReview` (201).
pub fn review_token(authenticator: &Authenticator, mut review: Value) -> Result<Value> {
    let token = text(&review["spec"], "token").to_owned();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted = match items(&review["spec"], "audiences") {
        [] => vec![ISSUER.to_owned()],
        _ => texts(&review["spec"], "audiences"),
    };
    review["status"] = match authenticator.authenticate_token(&token, &wanted) {
        Ok(accepted) => json!({
            "authenticated": true, "user": accepted.user.user_info(), "audiences": accepted.audiences,
        }),
        Err(error) => json!({ "user": {}, "error": error }),
    };
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    Ok(review)
}

/// Returns `/.well-known/openid-configuration` for a server at `url`.
pub fn discovery(url: &str) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("{}/openid/v1/jwks", url.trim_end_matches('/')),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

#[cfg(test)]
mod tests;
