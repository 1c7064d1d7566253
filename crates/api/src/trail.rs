//! Audit record of one request: created when the request arrives, written before the response is sent.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Response};
use domain::actor::{Actor, Via};
use events::audit::{Outcome, Record, Sink};

use crate::answer::AuditObject;

/// A pending audit record. If a mutating request is dropped because the client disconnected or the handler panicked, the record is
/// written with the outcome `Abandoned`: the request may have taken effect.
pub struct Trail {
    sink: Arc<dyn Sink>,
    /// `None` once it is written or discarded.
    record: Option<Record>,
    changes: bool,
}

impl Trail {
    pub fn begin(sink: Arc<dyn Sink>, method: &Method, record: Record) -> Self {
        Self { sink, record: Some(record), changes: !method.is_safe() }
    }

    pub fn recognised(&mut self, actor: &Actor) {
        if let Some(record) = &mut self.record {
            record.who = Some(actor.label());
            record.via = Some(match &actor.via {
                Via::Session { .. } => "session".to_owned(),
                Via::Token { id, .. } => format!("token {id}"),
                Via::Kubernetes => "kubernetes".to_owned(),
            });
        }
    }

    /// Completes the record before the response is sent. Mutating and refused requests are written; others are discarded.
    pub fn end(mut self, response: &Response<Body>) {
        let Some(mut record) = self.record.take() else { return };
        let status = response.status().as_u16();
        let refused = matches!(status, 400..=404 | 429);
        let object = response.extensions().get::<AuditObject>();
        // A sign-in by plain GET names its account as the object, and is written too.
        if !self.changes && !refused && object.is_none() {
            return;
        }
        record.status = Some(status);
        record.result = Outcome::of_status(status);
        if let Some(AuditObject(object)) = object {
            record.object = Some(object.clone());
        }
        self.write(&record);
    }

    fn write(&self, record: &Record) {
        if let Err(error) = self.sink.write(record) {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit trail cannot be written");
        }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take().filter(|_| self.changes) {
            record.result = Outcome::Abandoned;
            self.write(&record);
        }
    }
}
