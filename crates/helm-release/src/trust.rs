//! Which identity executes the content of a Helm record.
//!
//! A record is a Secret in the release's namespace, which tenants can edit. Hooks, manifests and removals that come from a
//! stored record are therefore executed as the identity of the release only if the [`Ledger`] has the digest of exactly that
//! content; content of any other record is executed by [`Trust::untrusted_client`].
//!
//! Invariant: the decision is made on the bytes that are executed. A record is decoded once, then checked and executed from
//! memory.

use std::sync::Arc;

use futures::future::BoxFuture;
use helm_template::data::Data;
use helm_template::json::{self, JsonStyle};
use kube::Client;

use crate::hooks::BEFORE_HOOK_CREATION;
use crate::record::{HookRecord, Record};

/// Origin of the content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Rendered by the platform, as the identity of this operation.
    Own,
    /// Rendered by the platform, as another identity. Its objects are removed as the identity of this operation; nothing of
    /// it is executed.
    Other,
    /// Written or changed by another client.
    Foreign,
}

/// Digests of the content that the platform rendered, stored where tenants cannot write.
pub trait Ledger: Send + Sync {
    fn origin(&self, record: &Record) -> Origin;

    /// Enters the content of a new revision before its record is written. `kept` are the revisions that stay in the history;
    /// `restored` is the revision that a rollback restores.
    fn insert<'a>(
        &'a self,
        record: &'a Record,
        restored: Option<i64>,
        kept: &'a [i64],
    ) -> BoxFuture<'a, Result<(), LedgerError>>;
}

/// Error of writing the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("another operation has taken over")]
    Superseded,
    #[error("{0}")]
    Unavailable(String),
}

/// Ledger of trusted content, and the client that executes the content of other records.
#[derive(Clone)]
pub struct Trust {
    pub ledger: Arc<dyn Ledger>,
    pub untrusted_client: Client,
}

impl Record {
    /// SHA-256 over the executable content: chart, values, manifest and hooks. Status, times, notes and labels are not included,
    /// nor are the chart's templates and files, which are left out of large records and never executed from a record.
    pub fn digest(&self) -> String {
        let mut text = DigestEncoding::default();
        text.add(&self.name);
        text.add(&self.namespace);
        text.add(&self.version.to_string());
        text.add(self.chart.without_files().text().unwrap_or_default());
        // Values that cannot be written as JSON cannot be stored either.
        text.add(&json::write(&Data::Map(self.config.clone()), JsonStyle::Plain).unwrap_or_default());
        text.add(&self.manifest);
        text.add(self.apply_method.map_or("", super::record::ApplyMethod::as_str));
        text.add(&self.hooks.len().to_string());
        for hook in &self.hooks {
            text.hook(hook);
        }
        helm_host::sha256(&text.0)
    }
}

/// Length-prefixed encoding of fields, so that different sequences of fields have different bytes.
#[derive(Default)]
struct DigestEncoding(Vec<u8>);

impl DigestEncoding {
    fn add(&mut self, field: &str) {
        self.0.extend_from_slice(field.len().to_string().as_bytes());
        self.0.push(b':');
        self.0.extend_from_slice(field.as_bytes());
    }

    fn list(&mut self, fields: &[String]) {
        self.add(&fields.len().to_string());
        for field in fields {
            self.add(field);
        }
    }

    /// Adds all fields of a hook except its last run.
    fn hook(&mut self, hook: &HookRecord) {
        let HookRecord {
            name,
            kind,
            path,
            manifest,
            events,
            last_run: _,
            weight,
            delete_policies,
            output_log_policies,
        } = hook;
        for field in [name, kind, path, manifest, &weight.to_string()] {
            self.add(field);
        }
        self.list(events);
        // The default policy, which a hook without one gets when it runs.
        let usual = [BEFORE_HOOK_CREATION.to_owned()];
        self.list(if delete_policies.is_empty() { &usual } else { delete_policies });
        self.list(output_log_policies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HookPhase, LastRun, Status};

    fn record() -> Record {
        let hook = HookRecord {
            name: "h".into(),
            kind: "Job".into(),
            manifest: "kind: Job\n".into(),
            events: vec!["pre-delete".into()],
            ..HookRecord::default()
        };
        let config = json::parse(r#"{"a": 1.0, "b": {"c": null, "d": "<&>"}, "e": 1e30}"#).unwrap();
        Record {
            name: "web".into(),
            namespace: "shop".into(),
            version: 3,
            manifest: "kind: ConfigMap\n".into(),
            hooks: vec![hook],
            config: config.as_map().unwrap().clone(),
            ..Record::default()
        }
    }

    #[test]
    fn digest_survives_storage_and_running() {
        let digest = record().digest();
        let stored = Record::decode(record().encode().unwrap().as_bytes()).unwrap();
        assert_eq!(stored.digest(), digest);
        let mut ran = stored;
        ran.set_status(Status::Superseded, "Upgrade complete");
        ran.labels.insert("longshore.dev/version".into(), "7".into());
        ran.info.notes = "notes".into();
        ran.hooks[0].last_run = LastRun { phase: HookPhase::Succeeded, ..LastRun::default() };
        ran.hooks[0].delete_policies = vec![BEFORE_HOOK_CREATION.into()];
        assert_eq!(ran.digest(), digest);
    }

    #[test]
    fn digest_differs_for_everything_that_is_executed() {
        let digest = record().digest();
        let changes: &[fn(&mut Record)] = &[
            |record| record.name.push('x'),
            |record| record.version += 1,
            |record| record.manifest.push_str("# x\n"),
            |record| record.hooks[0].manifest.push_str("# x\n"),
            |record| record.hooks[0].events = vec!["test".into()],
            |record| record.hooks[0].weight = 1,
            |record| record.hooks[0].delete_policies = vec!["hook-succeeded".into()],
            |record| record.hooks.clear(),
            |record| record.config.clear(),
            |record| {
                let hook = record.hooks[0].clone();
                record.hooks.push(hook);
            },
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut edited = record();
            change(&mut edited);
            assert_ne!(edited.digest(), digest, "change {at}");
        }
    }
}
