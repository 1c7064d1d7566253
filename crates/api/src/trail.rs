//! The audit trail of one request: begun when it comes in, written before its answer goes out.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Response};
use domain::actor::{Actor, Via};
use events::audit::{Outcome, Record, Sink};

use crate::answer::AuditObject;

/// A record that is not written yet. One that is dropped because nobody waits for the answer any more, or because the
/// handler broke, is written as abandoned: what was begun may have been done.
pub struct Trail {
    sink: Arc<dyn Sink>,
    /// `None` once it is settled.
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

    /// Settles it, before the answer is sent: what was meant to change something is written, and what was refused.
    pub fn end(mut self, response: &Response<Body>) {
        let Some(mut record) = self.record.take() else { return };
        let status = response.status().as_u16();
        let refused = matches!(status, 400..=404 | 429);
        let object = response.extensions().get::<AuditObject>();
        // Who signs in with a plain GET names the account.
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
