//! Limits on the number and size of objects that tenants' nodes and join tokens create outside the namespaces of their tenant, where
//! neither quotas nor storage budgets count: certificate requests, and Events in `default`.
//!
//! The number is checked before the write and not with it: parallel requests can exceed it by as many as run at once.

use serde::Deserialize;
use serde_json::Value;

use super::{AdmissionRequest, Operation, errors};
use crate::access::csr::STORAGE;
use crate::access::node::{JOINERS, is_tenant_node, node_of};
use crate::access::text;
use crate::error::Result;
use crate::go::quote;
use crate::store::Store;

/// Certificate requests of one requester for one signer that exist at the same time. A kubelet that waits for a decision sends four an
/// hour.
const MAX_PENDING_CSRS: usize = 20;
/// Bytes of such a request.
const MAX_CSR_BYTES: usize = 32 << 10;
/// Events of one node in `default`. Kubelets aggregate Events.
const MAX_EVENTS: usize = 100;

/// The requester and signer of a stored certificate request.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsrSpec {
    username: String,
    signer_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredCsr {
    spec: CsrSpec,
}

/// Refuses a new object above a limit. Other users are not concerned.
pub fn check(store: &Store, request: &AdmissionRequest<'_>, object: &Value) -> Result<()> {
    if request.operation != Operation::Create {
        return Ok(());
    }
    let node = node_of(request.user).filter(|_| is_tenant_node(store, request.user));
    if request.is_builtin_kind("certificates.k8s.io", "CertificateSigningRequest") {
        if node.is_some() || request.user.in_group(JOINERS) {
            return check_certificate_request(store, request, object);
        }
    } else if let Some(node) = node.filter(|_| request.resource.storage.as_ref() == "events") {
        return check_event(store, request, node, object);
    }
    Ok(())
}

fn check_certificate_request(store: &Store, request: &AdmissionRequest<'_>, object: &Value) -> Result<()> {
    if object.to_string().len() > MAX_CSR_BYTES {
        let why = format!("a certificate request of a node has at most {} KiB", MAX_CSR_BYTES >> 10);
        return Err(errors::forbidden(request, object, why));
    }
    let signer = text(&object["spec"], "signerName");
    let all = store.list(STORAGE, None).objects;
    let live = all.iter().filter(|stored| {
        let stored: StoredCsr = serde_json::from_slice(&stored.bytes).unwrap_or_default();
        stored.spec.username == request.user.name && stored.spec.signer_name == signer
    });
    if live.count() >= MAX_PENDING_CSRS {
        let why = format!(
            "{} has too many certificate requests for the signer {} (limit {MAX_PENDING_CSRS}): retry when the cluster has removed some",
            quote(&request.user.name),
            quote(signer),
        );
        return Err(errors::forbidden(request, object, why));
    }
    Ok(())
}

/// Events of a tenant's node are named `<node>.<suffix>` there (policy `longshore-tenant-node-events`).
fn check_event(store: &Store, request: &AdmissionRequest<'_>, node: &str, object: &Value) -> Result<()> {
    if request.namespace != "default" {
        return Ok(());
    }
    let own = |name: &str| name.strip_prefix(node).is_some_and(|rest| rest.starts_with('.'));
    if store.select("events", Some("default"), |stored| own(&stored.name)).len() >= MAX_EVENTS {
        let why =
            format!("node {} has too many events in the namespace default (limit {MAX_EVENTS})", quote(node));
        return Err(errors::forbidden(request, object, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::User;
    use crate::access::testing::{resource, store_object};

    fn csr(name: &str, user: &str, signer: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"username": user, "signerName": signer}})
    }

    fn check_error(
        store: &Store,
        user: &User,
        (group, kind): (&str, &str),
        object: &Value,
    ) -> Option<String> {
        let mut resource = resource(group, kind);
        if kind == "certificatesigningrequests" {
            resource.kind = "CertificateSigningRequest".into();
        }
        let request = AdmissionRequest {
            operation: Operation::Create,
            resource: &resource,
            subresource: "",
            namespace: if kind == "events" { "default" } else { "" },
            name: "",
            user,
            old: None,
            dry_run: false,
        };
        check(store, &request, object).err().map(|error| error.message)
    }

    #[tokio::test]
    async fn csrs_are_limited_per_requester_and_signer() {
        const REQUESTS: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");
        let store = Store::in_memory();
        let token = User::named("system:bootstrap:abcdef", &[JOINERS]);
        let node = User::named("system:node:uaaaaaaaaaa-edge", &["system:nodes"]);
        let operators = User::named("system:node:edge", &["system:nodes"]);
        for user in [&token, &node, &operators] {
            for number in 0..MAX_PENDING_CSRS {
                assert_eq!(check_error(&store, user, REQUESTS, &csr("x", &user.name, "a/b")), None);
                let name = format!("{}-{number}", user.name.replace(':', "-"));
                store_object(&store, STORAGE, csr(&name, &user.name, "a/b")).await;
            }
        }
        let refused = |user: &User, signer: &str| {
            check_error(&store, user, REQUESTS, &csr("x", &user.name, signer)).unwrap_or_default()
        };
        assert!(refused(&token, "a/b").contains("(limit 20)"));
        assert!(refused(&node, "a/b").contains("(limit 20)"));
        assert_eq!((refused(&token, "a/c"), refused(&operators, "a/b")), (String::new(), String::new()));
        let other = User::named("system:bootstrap:ghijkl", &[JOINERS]);
        assert_eq!(refused(&other, "a/b"), "");
        let mut large = csr("x", &other.name, "a/b");
        large["metadata"]["managedFields"] = json!([{"manager": "x".repeat(MAX_CSR_BYTES)}]);
        assert!(check_error(&store, &other, REQUESTS, &large).unwrap().contains("at most 32 KiB"));
    }

    #[tokio::test]
    async fn events_of_tenant_node_in_default_are_limited() {
        let store = Store::in_memory();
        let node = User::named("system:node:uaaaaaaaaaa-edge", &["system:nodes"]);
        let event = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}});
        for number in 0..MAX_EVENTS {
            assert_eq!(check_error(&store, &node, ("", "events"), &event("x")), None);
            store_object(&store, "events", event(&format!("uaaaaaaaaaa-edge.{number}"))).await;
        }
        assert!(check_error(&store, &node, ("", "events"), &event("x")).unwrap().contains("(limit 100)"));
        let neighbour = User::named("system:node:uaaaaaaaaaa-edge2", &["system:nodes"]);
        assert_eq!(check_error(&store, &neighbour, ("", "events"), &event("x")), None);
    }
}
