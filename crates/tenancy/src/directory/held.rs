//! The cached part of a user's Secret: its parsed content.

use std::sync::Arc;

use domain::ids::{TokenId, UserId};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube_types::marks;

use crate::secrets::Credentials;
use crate::tokens::TokenRecord;

/// The cached part of a Secret that belongs to a user.
pub(crate) struct Held {
    /// The owner that its label names.
    pub owner: Option<UserId>,
    pub what: What,
}

/// The kind by name, and the content if the type is right and it can be parsed: a broken Secret authenticates nothing.
pub(crate) enum What {
    Credentials(UserId, Option<Arc<Credentials>>),
    Token(TokenId, Option<Arc<TokenRecord>>),
    Other,
}

impl Held {
    pub fn of(secret: &Secret) -> Self {
        let is = |kind: &str| secret.type_.as_deref() == Some(kind);
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let credentials_of = name.strip_prefix("credentials-").and_then(|id| id.parse().ok());
        let token = name.strip_prefix("token-").and_then(|id| id.parse().ok());
        let what = match (credentials_of, token) {
            (Some(user), _) => {
                let read = || Credentials::of(secret).map(Arc::new);
                What::Credentials(user, is(marks::CREDENTIALS_TYPE).then(read).flatten())
            }
            (None, Some(id)) => {
                let read = || TokenRecord::of(secret).map(Arc::new);
                What::Token(id, is(marks::TOKEN_TYPE).then(read).flatten())
            }
            (None, None) => What::Other,
        };
        let owner = secret.labels().get(marks::USER).and_then(|id| id.parse().ok());
        Self { owner, what }
    }
}
