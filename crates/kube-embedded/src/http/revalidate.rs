//! Re-authenticates and re-authorizes open streams when credentials or roles change.

use http::request::Parts;

use crate::access::{Attributes, User};
use crate::cluster::Cluster;

/// The request of an open stream.
pub(super) struct Revalidation {
    pub cluster: Cluster,
    /// Head of the request: credentials and impersonation.
    pub parts: Parts,
    pub user: User,
    pub attributes: Attributes,
}

impl Revalidation {
    /// Resolves when the stream would no longer be admitted, or its credentials authenticate a different user.
    pub async fn wait_until_revoked(self) {
        let mut changes = self.cluster.access_changes();
        while self.is_admitted() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_admitted(&self) -> bool {
        let Self { cluster, parts, user, attributes: asked } = self;
        let resolved = cluster.authenticator().authenticate(parts).and_then(|caller| {
            cluster.impersonation().resolve(cluster.authorizer(), caller, &parts.headers, asked)
        });
        resolved.is_ok_and(|now| now == *user && cluster.authorizer().decide(user, asked).allowed)
    }
}
