//! Audit record of one request: created when the request arrives, written before the response is sent.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Response};
use domain::actor::{Actor, AuthMethod};
use events::audit::{AuditOutcome, AuditRecord, AuditRecordSink};

use crate::response::AuditObject;

/// A pending audit record. If a mutating request is dropped because the client disconnected or the handler panicked, the record is
/// written with the outcome `Abandoned`: the request may have taken effect.
pub struct AuditGuard {
    sink: Arc<dyn AuditRecordSink>,
    /// `None` once it is written or discarded.
    record: Option<AuditRecord>,
    is_mutation: bool,
}

impl AuditGuard {
    pub fn start(sink: Arc<dyn AuditRecordSink>, method: &Method, record: AuditRecord) -> Self {
        Self { sink, record: Some(record), is_mutation: !method.is_safe() }
    }

    pub fn set_actor(&mut self, actor: &Actor) {
        if let Some(record) = &mut self.record {
            record.who = Some(actor.audit_name());
            record.via = Some(match &actor.auth_method {
                AuthMethod::Session { .. } => "session".to_owned(),
                AuthMethod::Token { id, .. } => format!("token {id}"),
                AuthMethod::Kubernetes => "kubernetes".to_owned(),
            });
        }
    }

    /// Completes the record before the response is sent. Mutating and refused requests are written; others are discarded.
    pub fn finish(mut self, response: &Response<Body>) {
        let Some(mut record) = self.record.take() else { return };
        let status = response.status().as_u16();
        let refused = matches!(status, 400..=404 | 429);
        let object = response.extensions().get::<AuditObject>();
        // A sign-in by plain GET names its account as the object, and is written too.
        if !self.is_mutation && !refused && object.is_none() {
            return;
        }
        record.status = Some(status);
        record.result = AuditOutcome::from_status(status);
        if let Some(AuditObject(object)) = object {
            record.object = Some(object.clone());
        }
        self.write(&record);
    }

    fn write(&self, record: &AuditRecord) {
        if let Err(error) = self.sink.write(record) {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot write the audit log");
        }
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take().filter(|_| self.is_mutation) {
            record.result = AuditOutcome::Abandoned;
            self.write(&record);
        }
    }
}
