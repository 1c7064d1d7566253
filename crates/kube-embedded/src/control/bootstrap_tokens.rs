//! `kube-public/cluster-info`, signed with every bootstrap token that may sign.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::queue::{Controller, Next};
use super::{Context, Failure, replace};
use crate::access::cluster_info::{self, NAME, NAMESPACE};
use crate::store::{Event, Key};

const SYSTEM: &str = "kube-system";

pub(super) struct BootstrapTokens;

fn info() -> Key {
    Key::new(&"configmaps".into(), NAMESPACE, NAME)
}

impl Controller for BootstrapTokens {
    fn everything(&self, _: &Context) -> Vec<Key> {
        vec![info()]
    }

    fn touched(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let (namespace, name) = (event.object.namespace.as_ref(), event.object.name.as_ref());
        let is_token =
            storage.as_ref() == "secrets" && namespace == SYSTEM && name.starts_with("bootstrap-token-");
        let is_info = storage.as_ref() == "configmaps" && namespace == NAMESPACE && name == NAME;
        if is_token || is_info {
            keys.push(info());
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(&key.storage, NAMESPACE, NAME) else { return Ok(Next::Rest) };
        let secrets = context.store.list("secrets", Some(SYSTEM)).objects;
        let secrets: Vec<Value> = secrets.iter().map(|secret| secret.value()).collect();
        let (old, now) = (object.value(), context.clock.now());
        let mut signed = old.clone();
        cluster_info::sign(&mut signed, &secrets, now);
        if signed != old {
            replace(context, key, &object, signed).await?;
        }
        let next = cluster_info::first_expiration(&secrets, now);
        let pause = next.map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
        Ok(pause.map_or(Next::Rest, Next::After))
    }
}
