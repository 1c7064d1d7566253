//! The cached part of a user's Secret: its parsed content.

use std::sync::Arc;

use domain::ids::{TokenId, UserId};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube_types::well_known;

use crate::credential_store::Credentials;
use crate::tokens::TokenRecord;

/// The cached part of a Secret that belongs to a user.
pub(crate) struct UserSecret {
    /// The owner that its label names.
    pub owner: Option<UserId>,
    pub kind: UserSecretKind,
}

/// The kind by name, and the content if the type is right and it can be parsed: a broken Secret authenticates nothing.
pub(crate) enum UserSecretKind {
    Credentials(UserId, Option<Arc<Credentials>>),
    Token(TokenId, Option<Arc<TokenRecord>>),
    Other,
}

impl UserSecret {
    pub fn from_secret(secret: &Secret) -> Self {
        let is = |kind: &str| secret.type_.as_deref() == Some(kind);
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let credentials_of = name.strip_prefix("credentials-").and_then(|id| id.parse().ok());
        let token = name.strip_prefix("token-").and_then(|id| id.parse().ok());
        let what = match (credentials_of, token) {
            (Some(user), _) => {
                let read = || Credentials::from_secret(secret).map(Arc::new);
                UserSecretKind::Credentials(user, is(well_known::CREDENTIALS_TYPE).then(read).flatten())
            }
            (None, Some(id)) => {
                let read = || TokenRecord::from_secret(secret).map(Arc::new);
                UserSecretKind::Token(id, is(well_known::TOKEN_TYPE).then(read).flatten())
            }
            (None, None) => UserSecretKind::Other,
        };
        let owner = secret.labels().get(well_known::USER).and_then(|id| id.parse().ok());
        Self { owner, kind: what }
    }
}
