//! Re-authenticates and re-authorizes open streams when their access may have been revoked.

use http::request::Parts;

use crate::access::{Attributes, User, node};
use crate::cluster::{AccessVersion, Cluster};

/// Prefix of the extra fields of users whose token is bound to a pod or a node.
const BOUND_TOKEN: [&str; 2] =
    ["authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/node-name"];

/// The request of an open stream.
pub(super) struct Revalidation {
    pub cluster: Cluster,
    /// Head of the request: credentials and impersonation.
    pub parts: Parts,
    pub user: User,
    pub attributes: Attributes,
}

/// The result of a successful revalidation.
struct Admission {
    /// Whether it depends on objects of nodes (`AccessVersion::nodes`).
    depends_on_nodes: bool,
}

impl Revalidation {
    /// Resolves when the stream would no longer be admitted, or its credentials authenticate a different user.
    pub async fn wait_until_revoked(self) {
        let mut versions = self.cluster.access_version();
        loop {
            let checked = *versions.borrow_and_update();
            let Some(Admission { depends_on_nodes }) = self.admit() else { return };
            let is_affected = |now: &AccessVersion| {
                now.users != checked.users || (depends_on_nodes && now.nodes != checked.nodes)
            };
            if versions.wait_for(is_affected).await.is_err() {
                return;
            }
        }
    }

    fn admit(&self) -> Option<Admission> {
        let Self { cluster, parts, user, attributes: asked } = self;
        let caller = cluster.authenticator().authenticate(parts).ok()?;
        let is_bound = |user: &User| {
            node::node_of(user).is_some() || BOUND_TOKEN.iter().any(|key| user.extra.contains_key(*key))
        };
        let depends_on_nodes = is_bound(&caller) || is_bound(user);
        let resolved = cluster.impersonation().resolve(cluster.authorizer(), caller, &parts.headers, asked);
        let is_admitted =
            resolved.is_ok_and(|now| now == *user && cluster.authorizer().decide(user, asked).allowed);
        is_admitted.then_some(Admission { depends_on_nodes })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use futures::future::join_all;
    use http::Request;
    use http_body_util::{BodyExt, Full};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    async fn send(cluster: &Cluster, method: &str, path: &str, body: Value) -> u16 {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        cluster.service_as(User::admin()).oneshot(request).await.unwrap().status().as_u16()
    }

    /// Opens a watch of the node's own Node.
    async fn open_watch(cluster: &Cluster, node: &str) -> http::Response<super::super::respond::Body> {
        let request = Request::get(format!("/api/v1/nodes?watch=1&fieldSelector=metadata.name={node}"))
            .header("impersonate-user", format!("system:node:{node}"))
            .header("impersonate-group", "system:nodes")
            .body(Full::new(Bytes::new()))
            .unwrap();
        cluster.service_as(User::admin()).oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn open_watch_of_a_tenants_node_ends_when_the_account_is_closed_or_gone_or_the_node_is_deleted() {
        let cluster = Cluster::in_memory().await;
        let tenants = ["uaaaaaaaaaa", "ubbbbbbbbbb", "ucccccccccc", "udddddddddd"];
        let mut watches = Vec::new();
        for tenant in tenants {
            let (namespace, node) = (json!({"metadata": {"name": tenant}}), format!("{tenant}-edge"));
            assert_eq!(send(&cluster, "POST", "/api/v1/namespaces", namespace).await, 201);
            let object = json!({"metadata": {"name": node}});
            assert_eq!(send(&cluster, "POST", "/api/v1/nodes", object).await, 201);
            let response = open_watch(&cluster, &node).await;
            assert_eq!(response.status(), 200);
            watches.push(response.into_body());
        }
        cluster.wait_until_idle().await;
        let closed = json!({"metadata": {"labels": {"longshore.dev/account-closed": "true"}}});
        assert_eq!(send(&cluster, "PATCH", "/api/v1/namespaces/uaaaaaaaaaa", closed).await, 200);
        assert_eq!(send(&cluster, "DELETE", "/api/v1/namespaces/ubbbbbbbbbb", Value::Null).await, 200);
        assert_eq!(send(&cluster, "DELETE", "/api/v1/nodes/ucccccccccc-edge", Value::Null).await, 200);
        let remaining = watches.pop().unwrap();
        // Far less than the interval of the checks for expired credentials.
        let ends =
            watches.into_iter().map(|watch| tokio::time::timeout(Duration::from_secs(10), watch.collect()));
        for (tenant, end) in tenants.iter().zip(join_all(ends).await) {
            assert!(end.is_ok(), "the watch of the node of {tenant} is still open");
        }
        // The stream of the fourth tenant was checked as well.
        let collected = tokio::time::timeout(Duration::from_millis(100), remaining.collect()).await;
        assert!(collected.is_err(), "the watch of another tenant's node ended");
        cluster.stop();
    }
}
