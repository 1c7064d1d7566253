//! Captures log output in tests, at all levels.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The log output of this thread since [`capture`].
#[derive(Clone, Default)]
pub(crate) struct LogCapture(Arc<Mutex<String>>);

/// Captures until the guard is dropped. The runtime of a test runs on this thread.
pub(crate) fn capture() -> (LogCapture, tracing::subscriber::DefaultGuard) {
    let heard = LogCapture::default();
    let guard = tracing::subscriber::set_default(heard.clone());
    (heard, guard)
}

impl LogCapture {
    pub fn text(&self) -> String {
        self.0.lock().clone()
    }
}

struct LineVisitor<'a>(&'a mut String);

impl Visit for LineVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("writing to a String cannot fail");
    }
}

impl Subscriber for LogCapture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenancy") || metadata.target().starts_with("kube_access")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut LineVisitor(&mut self.0.lock()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut LineVisitor(&mut self.0.lock()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock();
        event.record(&mut LineVisitor(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
