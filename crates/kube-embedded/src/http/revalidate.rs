//! Open streams are re-authenticated and re-authorised when credentials or roles change.

use http::request::Parts;

use crate::access::{Attributes, User};
use crate::cluster::Cluster;

/// What a stream was admitted with.
pub(super) struct Revalidation {
    pub cluster: Cluster,
    /// The head of its request: credentials and impersonation.
    pub parts: Parts,
    pub user: User,
    pub asked: Attributes,
}

impl Revalidation {
    /// Resolves when the stream would not be admitted any more, or its credentials are somebody else's.
    pub async fn revoked(self) {
        let mut changes = self.cluster.access_changes();
        while self.is_admitted() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn is_admitted(&self) -> bool {
        let Self { cluster, parts, user, asked } = self;
        let resolved = cluster.authenticator().authenticate(parts).and_then(|caller| {
            cluster.impersonation().resolve(cluster.authorizer(), caller, &parts.headers, asked)
        });
        resolved.is_ok_and(|now| now == *user && cluster.authorizer().decide(user, asked).allowed)
    }
}
