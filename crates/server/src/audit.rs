//! Adapter from audit events of the embedded Kubernetes API to the platform's audit trail.

use events::audit::{AuditOutcome, AuditRecord, AuditRecordSink};
use jiff::Timestamp;
use kube_embedded::http::audit::{AuditEvent, AuditSink};

/// Writes to the sink that the platform's HTTP API uses.
pub struct KubernetesAuditSink<S> {
    sink: S,
}

impl<S> KubernetesAuditSink<S> {
    pub fn new(sink: S) -> Self {
        Self { sink }
    }
}

impl<S: AuditRecordSink> AuditSink for KubernetesAuditSink<S> {
    fn write(&self, event: &AuditEvent) {
        let record = to_audit_record(event, Timestamp::now());
        if let Err(error) = self.sink.write(&record) {
            tracing::error!(error = &error as &dyn std::error::Error, "the audit trail cannot be written");
        }
    }
}

fn to_audit_record(event: &AuditEvent, time: Timestamp) -> AuditRecord {
    let via = match &event.impersonator {
        Some(impersonator) => format!("kubernetes, impersonated by {impersonator}"),
        None => "kubernetes".to_owned(),
    };
    AuditRecord {
        time,
        who: event.user.clone(),
        via: event.user.is_some().then_some(via),
        act: audit_action(event.verb),
        option: None,
        object: event.object.clone(),
        from: event.source,
        result: event.status.map_or(AuditOutcome::Abandoned, AuditOutcome::from_status),
        status: event.status,
        request_id: event.id.clone(),
    }
}

fn audit_action(verb: &str) -> &'static str {
    match verb {
        "get" => "kubernetes.get",
        "list" => "kubernetes.list",
        "watch" => "kubernetes.watch",
        "create" => "kubernetes.create",
        "update" => "kubernetes.update",
        "patch" => "kubernetes.patch",
        "delete" => "kubernetes.delete",
        "deletecollection" => "kubernetes.deletecollection",
        _ => "kubernetes.other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_event_is_written_as_an_audit_record() {
        let mut event = AuditEvent {
            id: "id-1".to_owned(),
            user: Some("longshore:user:uabc".to_owned()),
            impersonator: Some("system:serviceaccount:longshore-system:longshore".to_owned()),
            verb: "delete",
            object: Some("pods/acme/web".to_owned()),
            source: None,
            status: Some(403),
        };
        let line = |event: &AuditEvent| {
            events::audit::to_json_line(&to_audit_record(event, Timestamp::UNIX_EPOCH)).unwrap()
        };
        assert_eq!(
            line(&event),
            "{\"log\":\"audit\",\"time\":\"1970-01-01T00:00:00Z\",\"who\":\"longshore:user:uabc\",\
             \"via\":\"kubernetes, impersonated by system:serviceaccount:longshore-system:longshore\",\
             \"act\":\"kubernetes.delete\",\"object\":\"pods/acme/web\",\"result\":\"refused\",\
             \"status\":403,\"requestID\":\"id-1\"}\n"
        );
        event = AuditEvent { user: None, impersonator: None, status: None, ..event };
        assert!(line(&event).contains("\"result\":\"abandoned\""), "{}", line(&event));
    }
}
