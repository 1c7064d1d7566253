//! `CertificateSigningRequests`: requester, approval and signing.
//!
//! A create records the requester on the object ([`set_requester`]). Updates of `/approval` change conditions only ([`prepare_approval`])
//! and require the verb `approve` on the signer; updates of `/status` change the other fields and require the verb `sign`. The controller
//! calls [`auto_approval`] and then [`sign`]; neither writes to the store.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::certificate::{CertificateRequest, expires_at, issue};
use super::node::{JOINERS, PREFIX, tenant_of};
use super::pki::Pki;
use super::rbac::Authorizer;
use super::{Attributes, MASTERS, User, items, text, texts};
use crate::clock::rfc3339;
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go::quote;
use crate::store::Store;

const GROUP: &str = "certificates.k8s.io";
const RESOURCE: &str = "certificatesigningrequests";
pub const STORAGE: &str = "certificatesigningrequests.certificates.k8s.io";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const YEAR_SECONDS: u64 = 365 * 24 * 60 * 60;
/// Maximum validity of certificates of tenants' nodes: they lapse with the account that renews them.
const DAY_SECONDS: u64 = 24 * 60 * 60;
const MIN_VALIDITY_SECONDS: u64 = 600;

/// Overwrites the requester's fields of a new request with the authenticated user.
pub fn set_requester(user: &User, csr: &mut Value) {
    let Some(spec) = csr["spec"].as_object_mut() else { return };
    for key in ["username", "uid", "groups", "extra"] {
        spec.remove(key);
    }
    let info = user.user_info();
    let info = info.as_object().cloned().unwrap_or_else(Map::new);
    spec.extend(info);
}

/// Refuses a new request for a client certificate with the group `system:masters`.
pub fn check_create(csr: &Value) -> Result<()> {
    if text(&csr["spec"], "signerName") != CLIENT {
        return Ok(());
    }
    let refused = |why: String| ApiError::forbidden(GROUP, RESOURCE, text(&csr["metadata"], "name"), why);
    let request = parse_request(csr).map_err(|error| refused(format!("failed to parse CSR: {error}")))?;
    if request.organizations.iter().any(|group| group == MASTERS) {
        let why = format!("use of {CLIENT} signer with {MASTERS} group is not allowed");
        return Err(refused(why));
    }
    Ok(())
}

/// Refuses users without permission for `verb` (`approve` or `sign`) on the request's signer. `csr` is the stored object.
pub fn check_signer(authorizer: &Authorizer, user: &User, verb: &str, csr: &Value) -> Result<()> {
    let signer = text(&csr["spec"], "signerName");
    let domain = signer.split('/').next().unwrap_or_default();
    let may = [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let asked = Attributes {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..Attributes::default()
        };
        authorizer.decide(user, &asked).allowed
    });
    if may {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {}", quote(signer));
    Err(ApiError::forbidden(GROUP, RESOURCE, text(&csr["metadata"], "name"), why))
}

/// Reduces an update of `/approval` to the conditions, and sets their missing times.
pub fn prepare_approval(new: &mut Value, old: &Value, now: Timestamp) {
    let conditions = with_condition_times(new, old, now);
    for key in ["spec", "status"] {
        new[key] = old[key].clone();
    }
    set_conditions(new, conditions);
}

/// Reverts changes of existing approvals and denials in an update of `/status`, and sets the missing times of conditions.
pub fn prepare_status(new: &mut Value, old: &Value, now: Timestamp) {
    let mut conditions = items(&new["status"], "conditions").to_vec();
    for kind in ["Approved", "Denied"] {
        let before = items(&old["status"], "conditions").iter().filter(|c| c["type"] == kind);
        let after = || conditions.iter().filter(|c| c["type"] == kind);
        if after().count() == before.clone().count() {
            let after = conditions.iter_mut().filter(|c| c["type"] == kind);
            after.zip(before).for_each(|(after, before)| *after = before.clone());
        }
    }
    set_conditions(new, conditions);
    let conditions = with_condition_times(new, old, now);
    set_conditions(new, conditions);
}

/// Returns the new conditions with missing times set.
fn with_condition_times(new: &Value, old: &Value, now: Timestamp) -> Vec<Value> {
    let mut conditions = items(&new["status"], "conditions").to_vec();
    let now = rfc3339(now);
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        let unset = |condition: &Map<String, Value>, key: &str| condition.get(key).is_none_or(Value::is_null);
        if unset(condition, "lastUpdateTime") {
            condition.insert("lastUpdateTime".to_owned(), now.as_str().into());
        }
        if unset(condition, "lastTransitionTime") {
            let same = |before: &&Value| {
                ["type", "status"].iter().all(|key| condition.get(*key) == before.get(*key))
            };
            let before = items(&old["status"], "conditions").iter().find(same);
            let since = before.map(|before| before["lastTransitionTime"].clone()).filter(|at| !at.is_null());
            let since = since.unwrap_or_else(|| now.as_str().into());
            condition.insert("lastTransitionTime".to_owned(), since);
        }
    }
    conditions
}

fn set_conditions(csr: &mut Value, conditions: Vec<Value>) {
    if !csr["status"].is_object() {
        csr["status"] = json!({});
    }
    if !conditions.is_empty() {
        csr["status"]["conditions"] = conditions.into();
    } else if let Some(status) = csr["status"].as_object_mut() {
        status.remove("conditions");
    }
}

/// Authorizes and prepares an update of `/approval` or `/status` (`target_subresource`). `new` is the object as the client sent it.
/// For `/status`, conditions are checked by the validation of the kind.
pub fn prepare_update(
    cluster: &Cluster,
    user: &User,
    target_subresource: &str,
    new: &mut Value,
) -> Result<()> {
    let name = text(&new["metadata"], "name").to_owned();
    let stored = cluster.store().get(STORAGE, "", &name);
    let old = stored.ok_or_else(|| ApiError::not_found(GROUP, RESOURCE, &name))?.value();
    let now = cluster.clock().now();
    if target_subresource == "approval" {
        prepare_approval(new, &old, now);
        let errors = validate_conditions(new, &old, true);
        if !errors.is_empty() {
            return Err(ApiError::invalid(GROUP, "CertificateSigningRequest", &name, &errors));
        }
        return check_signer(cluster.authorizer(), user, "approve", &old);
    }
    prepare_status(new, &old, now);
    check_signer(cluster.authorizer(), user, "sign", &old)
}

/// Validates the conditions of an update of `/approval` (`is_approval`) or `/status`.
pub fn validate_conditions(new: &Value, old: &Value, is_approval: bool) -> FieldErrors {
    let at = Path::new("status.conditions");
    let mut errors = FieldErrors::new();
    let conditions = items(&new["status"], "conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (n, condition) in conditions.iter().enumerate() {
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        let here = at.index(n);
        if kind.is_empty() {
            errors.push(FieldError::required(&here.field("type"), ""));
        }
        let only_true = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if only_true { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            errors.push(FieldError::required(&here.field("status"), ""));
        } else if !allowed.contains(&status) {
            errors.push(FieldError::unsupported(&here.field("status"), status, allowed));
        }
        let opposite = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && seen.contains(&opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(&at, kind, detail));
        }
        if seen.contains(&kind) {
            errors.push(FieldError::duplicate(&here.field("type"), kind));
        }
        seen.push(kind);
    }
    let of = |csr: &Value, kind: &str| -> Vec<Value> {
        items(&csr["status"], "conditions").iter().filter(|c| c["type"] == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        let (before, after) = (of(old, kind), of(new, kind));
        let mut forbid = |what: &str| {
            errors.push(FieldError::forbidden(
                &at,
                format!("updates may not {what} a condition of type \"{kind}\""),
            ));
        };
        if after.len() < before.len() {
            forbid("remove");
        } else if !is_approval && kind != "Failed" && after.len() > before.len() {
            forbid("add");
        } else if !is_approval && kind != "Failed" && after != before {
            forbid("modify");
        }
    }
    errors
}

/// Returns the common name in a request for one of the two kubelet certificates; `None` for other signers.
pub fn requested_node(csr: &Value) -> Option<std::result::Result<String, String>> {
    let is_nodes = matches!(text(&csr["spec"], "signerName"), KUBELET_CLIENT | KUBELET_SERVING);
    is_nodes.then(|| parse_request(csr).map(|request| request.common_name))
}

/// Whether a join token of the platform or a tenant's node sent this request.
pub fn is_requested_by_tenant(store: &Store, csr: &Value) -> bool {
    let spec = &csr["spec"];
    let node = text(spec, "username").strip_prefix(PREFIX);
    node.and_then(|node| tenant_of(store, node)).is_some()
        || items(spec, "groups").iter().any(|group| group == JOINERS)
}

/// Whether the request is for a client certificate of a node.
pub fn is_for_node_client(csr: &Value) -> bool {
    matches!(text(&csr["spec"], "signerName"), KUBELET_CLIENT | CLIENT)
}

/// Returns the end of validity of the issued certificate; `None` if there is none or it cannot be parsed.
pub fn certificate_expires_at(csr: &Value) -> Option<Timestamp> {
    expires_at(&STANDARD.decode(text(&csr["status"], "certificate")).ok()?)
}

fn parse_request(csr: &Value) -> std::result::Result<CertificateRequest, String> {
    let pem = STANDARD.decode(text(&csr["spec"], "request")).map_err(|error| error.to_string())?;
    CertificateRequest::parse(&pem)
}

fn has_condition(csr: &Value, kind: &str) -> bool {
    items(&csr["status"], "conditions").iter().any(|c| c["type"] == kind && c["status"] == "True")
}

/// Returns the `Approved` condition for a node's client certificate if the requester is allowed `nodeclient`, or `selfnodeclient` for its
/// own name. All other requests wait for manual approval.
pub fn auto_approval(authorizer: &Authorizer, csr: &Value, now: Timestamp) -> Option<Value> {
    let decided = !text(&csr["status"], "certificate").is_empty()
        || has_condition(csr, "Approved")
        || has_condition(csr, "Denied");
    let spec = &csr["spec"];
    if decided || text(spec, "signerName") != KUBELET_CLIENT {
        return None;
    }
    let request = parse_request(csr).ok()?;
    check_kubelet_client(&request, &texts(spec, "usages")).ok()?;
    let owner = User {
        name: text(spec, "username").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups"),
        ..User::default()
    };
    let ways = [
        (owner.name == request.common_name, "selfnodeclient", "self kubelet"),
        (true, "nodeclient", "kubelet"),
    ];
    let (_, _, what) = ways.into_iter().find(|(applies, subresource, _)| {
        let asked = Attributes {
            verb: "create".to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: RESOURCE.to_owned(),
            subresource: (*subresource).to_owned(),
            ..Attributes::default()
        };
        *applies && authorizer.decide(&owner, &asked).allowed
    })?;
    let now = rfc3339(now);
    Some(json!({
        "type": "Approved", "status": "True", "reason": "AutoApproved",
        "message": format!("Auto approving {what} client certificate after SubjectAccessReview."),
        "lastUpdateTime": now, "lastTransitionTime": now,
    }))
}

/// Returns the new status of an approved request for a built-in signer: with a certificate, or with the reason for the failure. `None` if
/// there is nothing to do.
pub fn sign(pki: &Pki, store: &Store, csr: &Value, now: Timestamp) -> Option<Value> {
    let (spec, status) = (&csr["spec"], &csr["status"]);
    let waiting = has_condition(csr, "Approved")
        && !has_condition(csr, "Denied")
        && !has_condition(csr, "Failed")
        && text(status, "certificate").is_empty();
    let usages = texts(spec, "usages");
    let check: fn(&CertificateRequest, &[String]) -> std::result::Result<(), String> =
        match text(spec, "signerName") {
            CLIENT => check_client,
            KUBELET_CLIENT => check_kubelet_client,
            KUBELET_SERVING => check_kubelet_serving,
            _ => return None,
        };
    if !waiting {
        return None;
    }
    let signed = parse_request(csr).and_then(|request| {
        check(&request, &usages)?;
        let node = request.common_name.strip_prefix(PREFIX);
        let is_tenants = node.is_some_and(|node| tenant_of(store, node).is_some());
        let longest = if is_tenants { DAY_SECONDS } else { YEAR_SECONDS };
        let seconds =
            spec["expirationSeconds"].as_u64().unwrap_or(longest).clamp(MIN_VALIDITY_SECONDS, longest);
        issue(&request, &usages, pki.ca_pem(), pki.issuer(), now, Duration::from_secs(seconds))
    });
    let mut status = status.clone();
    match signed {
        Ok(pem) => status["certificate"] = STANDARD.encode(pem).into(),
        Err(why) => {
            let now = rfc3339(now);
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
                "lastUpdateTime": now, "lastTransitionTime": now,
            });
            let mut conditions = items(&status, "conditions").to_vec();
            conditions.push(failed);
            status["conditions"] = conditions.into();
        }
    }
    Some(status)
}

fn check_client(_: &CertificateRequest, usages: &[String]) -> std::result::Result<(), String> {
    let known = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !known.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if usages.iter().any(|usage| usage == "client auth") {
        return Ok(());
    }
    Err("missing required usage for client certificate: client auth".to_owned())
}

fn check_kubelet_client(request: &CertificateRequest, usages: &[String]) -> std::result::Result<(), String> {
    let named = [
        (request.dns_names, "DNS subjectAltNames are not allowed"),
        (request.emails, "Email subjectAltNames are not allowed"),
        (request.addresses, "IP subjectAltNames are not allowed"),
        (request.uris, "URI subjectAltNames are not allowed"),
    ];
    check_node_subject(request)?;
    if let Some((_, why)) = named.iter().find(|(count, _)| *count > 0) {
        return Err((*why).to_owned());
    }
    check_usages(usages, "client auth")
}

fn check_kubelet_serving(request: &CertificateRequest, usages: &[String]) -> std::result::Result<(), String> {
    check_node_subject(request)?;
    if request.dns_names == 0 && request.addresses == 0 {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (count, why) in [
        (request.emails, "Email subjectAltNames are not allowed"),
        (request.uris, "URI subjectAltNames are not allowed"),
    ] {
        if count > 0 {
            return Err(why.to_owned());
        }
    }
    check_usages(usages, "server auth")
}

fn check_node_subject(request: &CertificateRequest) -> std::result::Result<(), String> {
    if request.organizations != ["system:nodes"] {
        return Err("subject organization is not system:nodes".to_owned());
    }
    if !request.common_name.starts_with("system:node:") {
        return Err("subject common name does not begin with system:node:".to_owned());
    }
    Ok(())
}

/// Checks that the usages are exactly those for `purpose`. `key encipherment` is optional: only RSA keys use it.
fn check_usages(usages: &[String], purpose: &str) -> std::result::Result<(), String> {
    let mut expected = ["digital signature", "key encipherment", purpose];
    expected.sort_unstable();
    let fits =
        expected.iter().all(|word| *word == "key encipherment" || usages.iter().any(|usage| usage == word))
            && usages.iter().all(|usage| expected.contains(&usage.as_str()));
    if fits { Ok(()) } else { Err(format!("usages did not match [{}]", expected.join(" "))) }
}

#[cfg(test)]
mod tests;
