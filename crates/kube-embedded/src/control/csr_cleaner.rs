//! The certificate signing request cleaner: every five minutes deletes requests that are no longer useful, by the rules of Kubernetes'
//! cleaner. Requests of join tokens and tenants' nodes are deleted sooner, because tenants can send any number of them.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::queue::{Action, Controller};
use super::{Context, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict};
use crate::access::csr::{STORAGE, certificate_expires_at, is_for_node_client, is_requested_by_tenant};
use crate::store::{Event, Key, Store};

const CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// Age at which approved, denied and failed requests are deleted.
const DECIDED_TTL: SignedDuration = SignedDuration::from_hours(1);
/// Age at which pending requests are deleted: not decided, or not yet signed.
const PENDING_TTL: SignedDuration = SignedDuration::from_hours(24);
/// Age at which denied and failed requests of tenants are deleted. Their clients watch them.
const TENANT_DENIED_TTL: SignedDuration = SignedDuration::from_mins(5);
/// Age at which pending requests of tenants for node client certificates are deleted; the platform denies older ones.
const TENANT_PENDING_TTL: SignedDuration = SignedDuration::from_hours(1);

/// Whether a request is to be deleted.
fn is_expired(store: &Store, request: &Value, now: Timestamp) -> bool {
    let older = |time: &Value, than: SignedDuration| {
        let since = time.as_str().and_then(|time| time.parse::<Timestamp>().ok());
        since.is_some_and(|since| now.duration_since(since) > than)
    };
    let status = &request["status"];
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let by_tenant = is_requested_by_tenant(store, request);
    if conditions.is_empty() {
        let pending = if by_tenant && is_for_node_client(request) { TENANT_PENDING_TTL } else { PENDING_TTL };
        return older(&request["metadata"]["creationTimestamp"], pending);
    }
    let issued = status["certificate"].as_str().is_some_and(|certificate| !certificate.is_empty());
    conditions.iter().any(|condition| {
        let updated = |than| older(&condition["lastUpdateTime"], than);
        match condition["type"].as_str() {
            Some("Approved") if issued => {
                updated(DECIDED_TTL) || certificate_expires_at(request).is_some_and(|end| now > end)
            }
            Some("Approved") => updated(PENDING_TTL),
            Some("Denied" | "Failed") => updated(if by_tenant { TENANT_DENIED_TTL } else { DECIDED_TTL }),
            _ => false,
        }
    })
}

pub(super) struct CsrCleaner;

impl Controller for CsrCleaner {
    /// One key for all requests: they are checked together.
    fn initial_keys(&self, _: &Context) -> Vec<Key> {
        vec![Key::new(&STORAGE.into(), "", "")]
    }

    fn keys_for_event(&self, _: &Context, _: &Arc<str>, _: &Event, _: &mut Vec<Key>) {}

    async fn reconcile(&self, context: &Context, all: &Key) -> Result<Action, ReconcileError> {
        let now = context.clock.now();
        for request in context.store.list(STORAGE, None).objects {
            if is_expired(&context.store, &request.value(), now) {
                let key = Key::new(&all.storage, "", &request.name);
                let as_seen = Preconditions { uid: &request.uid, version: Some(request.version) };
                ignore_not_found_or_conflict(
                    context.client.delete(&key, as_seen, Propagation::Background).await,
                )?;
            }
        }
        Ok(Action::RequeueAfter(CHECK_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::access::node::JOINERS;
    use crate::access::node::tests::record_older_node;
    use crate::control::test_cluster::TestCluster;

    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

    #[tokio::test]
    async fn expiry_depends_on_csr_state() {
        let store = Store::in_memory();
        record_older_node(&store, "older").await;
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let ago = |minutes: i64| (now - SignedDuration::from_mins(minutes)).to_string();
        let request = |made: i64, conditions: &[(&str, i64)], certificate: &str| {
            let conditions: Vec<_> = conditions
                .iter()
                .map(|(kind, minutes)| json!({"type": kind, "lastUpdateTime": ago(*minutes)}))
                .collect();
            let metadata = json!({"creationTimestamp": ago(made)});
            json!({"metadata": metadata, "status": {"conditions": conditions, "certificate": certificate}})
        };
        let day = 24 * 60;
        let table = [
            ("waits", request(day, &[], ""), false),
            ("waited too long", request(day + 1, &[], ""), true),
            ("approved, and made", request(day, &[("Approved", 60)], "x"), false),
            ("approved and made an hour ago", request(61, &[("Approved", 61)], "x"), true),
            ("approved, and not made yet", request(2 * day, &[("Approved", day)], ""), false),
            ("approved a day ago, and never made", request(2 * day, &[("Approved", day + 1)], ""), true),
            ("denied", request(2 * day, &[("Denied", 60)], ""), false),
            ("denied an hour ago", request(61, &[("Denied", 61)], ""), true),
            ("failed", request(2 * day, &[("Approved", 60), ("Failed", 60)], ""), false),
            ("failed an hour ago", request(61, &[("Approved", 61), ("Failed", 61)], ""), true),
            ("something else was said of it", request(2 * day, &[("Other", day)], ""), false),
            ("at no known time", json!({"status": {"conditions": [{"type": "Denied"}]}}), false),
        ];
        for (what, request, expected) in table {
            assert_eq!(is_expired(&store, &request, now), expected, "{what}");
        }
        let client = "kubernetes.io/kube-apiserver-client-kubelet";
        let by_tenant = |mut request: Value, signer: &str, user: &str, group: &str| {
            request["spec"] = json!({"signerName": signer, "username": user, "groups": [group]});
            request
        };
        let token = |request| by_tenant(request, client, "system:bootstrap:abcdef", JOINERS);
        let node = "system:node:uaaaaaaaaaa-edge";
        let table = [
            ("of a token, waits", token(request(60, &[], "")), false),
            ("of a token, waited too long", token(request(61, &[], "")), true),
            ("of a token, denied", token(request(9, &[("Denied", 5)], "")), false),
            ("of a token, denied six minutes ago", token(request(9, &[("Denied", 6)], "")), true),
            ("of a token, approved", token(request(60, &[("Approved", 60)], "x")), false),
            ("of a tenant's node", by_tenant(request(61, &[], ""), client, node, "system:nodes"), true),
            (
                "of a tenant's older node",
                by_tenant(request(61, &[], ""), client, "system:node:older", "system:nodes"),
                true,
            ),
            (
                "of a tenant's node, for servers",
                by_tenant(request(61, &[], ""), "kubernetes.io/kubelet-serving", node, "system:nodes"),
                false,
            ),
            (
                "of another node",
                by_tenant(request(61, &[], ""), client, "system:node:edge", "system:nodes"),
                false,
            ),
        ];
        for (what, request, expected) in table {
            assert_eq!(is_expired(&store, &request, now), expected, "{what}");
        }
    }

    fn request(name: &str, signer: &str) -> Value {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"], "expirationSeconds": 600},
        })
    }

    #[tokio::test]
    async fn expired_csrs_are_deleted() {
        let world = TestCluster::without_nodes().await;
        let (ours, another) = ("kubernetes.io/kube-apiserver-client", "example.com/signer");
        let decided = [
            ("made", ours, Some("Approved")),
            ("denied", ours, Some("Denied")),
            ("never-made", another, Some("Approved")),
            ("waiting", ours, None),
        ];
        world.advance(1800).await;
        for (name, signer, condition) in decided {
            world.create(REQUESTS, request(name, signer)).await;
            if let Some(kind) = condition {
                let said = json!({"type": kind, "status": "True", "reason": "Test", "message": ""});
                let patch = json!({"status": {"conditions": [said]}});
                world.patch(&format!("{REQUESTS}/{name}/approval"), patch).await;
            }
        }
        let left = async || {
            let all = world.list(REQUESTS).await;
            all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        // The certificate was valid for ten minutes.
        world.advance(1800).await;
        assert_eq!(left().await, ["denied", "never-made", "waiting"]);
        world.advance(3600).await;
        assert_eq!(left().await, ["never-made", "waiting"]);
        world.advance(22 * 3600).await;
        assert_eq!(left().await, ["never-made", "waiting"]);
        world.advance(3600).await;
        assert_eq!(left().await, Vec::<String>::new());
    }
}
