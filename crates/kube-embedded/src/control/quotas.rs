//! The resource quota controller: recalculates the status of `ResourceQuotas`.
//!
//! Every write updates the usage in its own transaction (`crate::admission::quota`). This controller recalculates
//! new quotas and quotas with changed limits.

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use super::queue::{Action, Controller};
use super::{Context, ReconcileError, replace};
use crate::admission::quota;
use crate::store::{Event, EventKind, Key};

const QUOTAS: &str = "resourcequotas";

pub(super) struct Quotas;

impl Controller for Quotas {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = QUOTAS.into();
        let quotas = context.store.list(QUOTAS, None).objects;
        quotas.iter().map(|quota| Key::new(&storage, &quota.namespace, &quota.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == QUOTAS && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(QUOTAS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let mut value = object.value();
        // Writes maintain `used` as long as the limits are unchanged.
        if value["status"]["hard"] != value["spec"]["hard"] || value["status"]["used"].is_null() {
            value["status"] = quota::status(&context.store, &value, context.clock.now());
            replace(context, key, &object, value).await?;
        }
        Ok(Action::AwaitChange)
    }
}
