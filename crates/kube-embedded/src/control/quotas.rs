//! The status of `ResourceQuotas`.
//!
//! Every write counts itself in its own transaction (`crate::admission::quota`); this controller counts anew what
//! no write can: a quota that is new, or whose limits have changed.

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use super::queue::{Controller, Next};
use super::{Context, Failure, replace};
use crate::admission::quota;
use crate::store::{Event, EventKind, Key};

const QUOTAS: &str = "resourcequotas";

pub(super) struct Quotas;

impl Controller for Quotas {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = QUOTAS.into();
        let quotas = context.store.list(QUOTAS, None).objects;
        quotas.iter().map(|quota| Key::new(&storage, &quota.namespace, &quota.name)).collect()
    }

    fn touched(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == QUOTAS && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(QUOTAS, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        let mut value = object.value();
        // Writes keep `used` right as long as it is about the same limits.
        if value["status"]["hard"] != value["spec"]["hard"] || value["status"]["used"].is_null() {
            value["status"] = quota::status(&context.store, &value, context.clock.now());
            replace(context, key, &object, value).await?;
        }
        Ok(Next::Rest)
    }
}
