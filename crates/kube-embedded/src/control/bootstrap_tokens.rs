//! Bootstrap token controllers: sign `kube-public/cluster-info` with every token whose usage includes signing, and delete expired tokens.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::queue::{Action, Controller};
use super::{Context, Preconditions, Propagation, ReconcileError, replace};
use crate::access::cluster_info::{self, NAME, NAMESPACE};
use crate::error::ApiError;
use crate::store::{Event, Key, Object};

const KUBE_SYSTEM: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";

pub(super) struct BootstrapTokens;

fn cluster_info_key() -> Key {
    Key::new(&"configmaps".into(), NAMESPACE, NAME)
}

impl Controller for BootstrapTokens {
    fn initial_keys(&self, _: &Context) -> Vec<Key> {
        vec![cluster_info_key()]
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let (namespace, name) = (event.object.namespace.as_ref(), event.object.name.as_ref());
        let is_token = storage.as_ref() == "secrets" && namespace == KUBE_SYSTEM && name.starts_with(PREFIX);
        let is_info = storage.as_ref() == "configmaps" && namespace == NAMESPACE && name == NAME;
        if is_token || is_info {
            keys.push(cluster_info_key());
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let now = context.clock.now();
        let mut secrets = context.store.list("secrets", Some(KUBE_SYSTEM)).objects;
        secrets.retain(|secret| secret.name.starts_with(PREFIX));
        let values: Vec<Value> = secrets.iter().map(|secret| secret.value()).collect();
        if let Some(object) = context.store.get(&key.storage, NAMESPACE, NAME) {
            let old = object.value();
            let mut signed = old.clone();
            cluster_info::sign(&mut signed, &values, now);
            if signed != old {
                replace(context, key, &object, signed).await?;
            }
        }
        let mut next = None;
        for (secret, end) in secrets.iter().zip(values.iter().map(cluster_info::expires_at)) {
            match end {
                Some(end) if end <= now => remove(context, secret).await?,
                Some(end) => next = Some(next.map_or(end, |first: Timestamp| first.min(end))),
                None => {}
            }
        }
        Ok(Action::AwaitChange.or_at(next, now))
    }
}

async fn remove(context: &Context, secret: &Object) -> Result<(), ReconcileError> {
    let key = Key::new(&"secrets".into(), KUBE_SYSTEM, &secret.name);
    let as_seen = Preconditions { uid: &secret.uid, version: Some(secret.version) };
    match context.client.delete(&key, as_seen, Propagation::Background).await {
        // Already deleted, or extended: the change triggers another reconcile.
        Err(ApiError { code: 404 | 409, .. }) => Ok(()),
        other => Ok(other?),
    }
}
