//! Policies that bound the lifetime of ServiceAccount tokens in workspaces, so that a removed member does not keep access.
//!
//! `longshore-token-requests`: a `TokenRequest` is valid for at most 24 hours, whichever client sends it. A ServiceAccount of the workspace
//! cannot request tokens, or it would renew its own forever. Tenants get none for `longshore-deployer`. Kubelets request tokens for
//! pods, which expire with the pod. Only kubelets may request exactly 3607 seconds ([`EXTENDED_SECONDS`]).
//!
//! `longshore-token-secrets`: Secrets of type `kubernetes.io/service-account-token` hold tokens that do not expire. Neither users nor
//! ServiceAccounts create them in workspaces, and tenants do not change existing ones; they may delete them. The type of a Secret is
//! immutable in Kubernetes. The platform itself creates one, for yurthub, in personal workspaces (`crate::controller`).

use kube_types::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::PLATFORM_SERVICE_ACCOUNT;
use super::admission_policies::policy;
use crate::controller::DEPLOYER;

const TOKEN_SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const MAX_SECONDS: i64 = 24 * 60 * 60;
/// For exactly this lifetime, bound to a pod, Kubernetes issues a token that is valid for a year
/// (`--service-account-extend-token-expiration`, on by default): kubelets request it for pods with clients that do not reload tokens.
const EXTENDED_SECONDS: i64 = 3607;

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let rules = |resource: &str, operations: &[&str]| {
        json!({
            "resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": operations,
                "resources": [resource],
                "scope": "Namespaced",
            }],
        })
    };
    let requests = policy(
        "longshore-token-requests",
        rules("serviceaccounts/token", &["CREATE"]),
        None,
        &token_requests(),
    );
    let is_token = json!([{
        "name": "is-a-token",
        "expression": format!("has(object.type) && object.type == '{TOKEN_SECRET_TYPE}'"),
    }]);
    let secrets = policy(
        "longshore-token-secrets",
        rules("secrets", &["CREATE", "UPDATE"]),
        Some(is_token),
        &token_secrets(),
    );
    requests.into_iter().chain(secrets).collect()
}

/// CEL: the user name begins with `prefix`, a CEL expression.
fn user_name_has_prefix(prefix: &str) -> String {
    format!("request.userInfo.username.startsWith({prefix})")
}

/// CEL: a user sends the request, through the platform or with a kubeconfig.
fn is_user_request() -> String {
    // Ids begin with `u`; the name of the platform's own ServiceAccount does not.
    let by_kubeconfig = user_name_has_prefix(&format!("'system:serviceaccount:{SYSTEM_NAMESPACE}:u'"));
    format!("{} || {by_kubeconfig}", user_name_has_prefix("'longshore:user:'"))
}

/// CEL: a ServiceAccount of the namespace sends the request. RoleBindings of tenants can name no others.
fn is_own_service_account_request() -> String {
    user_name_has_prefix("'system:serviceaccount:' + namespaceObject.metadata.name + ':'")
}

fn token_requests() -> Value {
    json!([
        {
            "expression": format!("has(object.spec.expirationSeconds) && object.spec.expirationSeconds <= {MAX_SECONDS}"),
            "message": "in a workspace a token is valid for at most 24 hours (expirationSeconds: 86400)",
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "!has(object.spec.expirationSeconds) || object.spec.expirationSeconds != {EXTENDED_SECONDS} || {}",
                user_name_has_prefix("'system:node:'"),
            ),
            "message": format!(
                "in a workspace only kubelets request tokens of {EXTENDED_SECONDS} seconds, which Kubernetes extends to a year: request another expirationSeconds"
            ),
            "reason": "Forbidden",
        },
        {
            "expression": format!("!({})", is_own_service_account_request()),
            "message": "in a workspace only people request tokens: a ServiceAccount cannot renew its own",
            "reason": "Forbidden",
        },
        {
            "expression": format!("object.metadata.name != '{DEPLOYER}' || !({})", is_user_request()),
            "message": format!("tokens of {DEPLOYER} are not issued: create a ServiceAccount of your own"),
            "reason": "Forbidden",
        },
    ])
}

fn token_secrets() -> Value {
    let platform = format!("'system:serviceaccount:{SYSTEM_NAMESPACE}:{PLATFORM_SERVICE_ACCOUNT}'");
    let by_program = format!(
        "({} && request.userInfo.username != {platform})",
        user_name_has_prefix("'system:serviceaccount:'")
    );
    json!([
        {
            "expression": format!("request.operation != 'CREATE' || !({} || {by_program})", is_user_request()),
            "message": format!("in a workspace there are no Secrets of type {TOKEN_SECRET_TYPE}, because they do not expire: request a token of at most 24 hours instead"),
            "reason": "Forbidden",
        },
        {
            "expression": format!("request.operation != 'UPDATE' || !({} || {})", is_user_request(), is_own_service_account_request()),
            "message": format!("a Secret of type {TOKEN_SECRET_TYPE} can be deleted and not changed"),
            "reason": "Forbidden",
        },
    ])
}
