//! The token controller: fills Secrets of type `kubernetes.io/service-account-token`.
//!
//! The API stores such a Secret without a token. This controller adds the token, and deletes the Secret with its ServiceAccount.

use std::sync::Arc;

use serde_json::Value;

use super::queue::{Action, Controller};
use super::{Context, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict, replace};
use crate::access::tokens::fill_token_secret;
use crate::store::{Event, EventKind, Key};

const SECRETS: &str = "secrets";
const SERVICE_ACCOUNTS: &str = "serviceaccounts";

fn requests_token(secret: &Value) -> bool {
    secret["type"] == "kubernetes.io/service-account-token"
}

fn service_account_name(secret: &Value) -> &str {
    secret["metadata"]["annotations"]["kubernetes.io/service-account.name"].as_str().unwrap_or_default()
}

/// Returns the token Secrets in `namespace`, or in all, for `account`, or for any.
fn token_secret_keys(context: &Context, namespace: Option<&str>, account: Option<&str>) -> Vec<Key> {
    let storage: Arc<str> = SECRETS.into();
    let secrets = context.store.list(SECRETS, namespace).objects;
    let asking = secrets.iter().filter(|secret| {
        let value = secret.value();
        requests_token(&value) && account.is_none_or(|account| account == service_account_name(&value))
    });
    asking.map(|secret| Key::new(&storage, &secret.namespace, &secret.name)).collect()
}

pub(super) struct Tokens;

impl Controller for Tokens {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        token_secret_keys(context, None, None)
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            SECRETS if event.kind != EventKind::Deleted && requests_token(&object.value()) => {
                keys.push(Key::new(storage, &object.namespace, &object.name));
            }
            SERVICE_ACCOUNTS if event.kind != EventKind::Modified => {
                keys.extend(token_secret_keys(context, Some(&object.namespace), Some(&object.name)));
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(secret) = context.store.get(SECRETS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let value = secret.value();
        let account = context
            .store
            .get(SERVICE_ACCOUNTS, &key.namespace, service_account_name(&value))
            .map(|found| found.value());
        let wanted = value["metadata"]["annotations"]["kubernetes.io/service-account.uid"].as_str();
        let fits =
            |account: &&Value| wanted.is_none_or(|uid| uid.is_empty() || account["metadata"]["uid"] == uid);
        match account.as_ref().filter(fits) {
            Some(account) => {
                let pki = &context.pki;
                if let Some(filled) = fill_token_secret(&pki.signing_key(), account, &value, pki.ca_pem()) {
                    replace(context, key, &secret, filled).await?;
                }
            }
            None if secret.is_deleting => {}
            None => {
                let preconditions = Preconditions { uid: &secret.uid, version: Some(secret.version) };
                ignore_not_found_or_conflict(
                    context.client.delete(key, preconditions, Propagation::Background).await,
                )?;
            }
        }
        Ok(Action::AwaitChange)
    }
}
