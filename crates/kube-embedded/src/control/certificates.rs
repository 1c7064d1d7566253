//! The `CertificateSigningRequest` controllers: approve requests of nodes for their own certificates, and sign approved ones.

use std::sync::Arc;

use serde_json::json;

use super::queue::{Action, Controller};
use super::{Context, ReconcileError, replace};
use crate::access::csr::{self, STORAGE};
use crate::access::rbac::Authorizer;
use crate::store::{Event, EventKind, Key};

pub(super) struct Certificates {
    authorizer: Authorizer,
}

impl Certificates {
    pub(super) fn new(context: &Context) -> Self {
        Self { authorizer: Authorizer::new(context.store.clone()) }
    }
}

impl Controller for Certificates {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = STORAGE.into();
        let requests = context.store.list(STORAGE, None).objects;
        requests.iter().map(|request| Key::new(&storage, "", &request.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == STORAGE && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, "", &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(request) = context.store.get(STORAGE, "", &key.name) else { return Ok(Action::AwaitChange) };
        let (mut value, now) = (request.value(), context.clock.now());
        // The platform decides on requests of tenants' nodes, whatever cluster roles nodes have.
        if !csr::is_requested_by_tenant(&context.store, &value)
            && let Some(approved) = csr::auto_approval(&self.authorizer, &value, now)
        {
            let conditions = &mut value["status"]["conditions"];
            match conditions.as_array_mut() {
                Some(conditions) => conditions.push(approved),
                None => *conditions = json!([approved]),
            }
        }
        if let Some(status) = csr::sign(&context.pki, &context.store, &value, now) {
            value["status"] = status;
            replace(context, key, &request, value).await?;
        }
        Ok(Action::AwaitChange)
    }
}
