//! Runs the tests of a release.

use helm_engine::{HookEvent, names};

use super::operation::Operation;
use super::options::Test;
use crate::error::Error;
use crate::helm::Helm;
use crate::hooks::HookRunner;
use crate::record::Record;
use kube_apply::Mask;

impl Helm {
    /// Runs the tests of the newest revision and stores their results in its record.
    pub async fn test(&self, ask: &Test<'_>) -> Result<Record, Error> {
        names::check(&ask.name)
            .map_err(|_| Error::InvalidName(format!("releaseTest: Release name is invalid: {}", ask.name)))?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.options);
        self.with_lock(&ask.namespace, &ask.name, Box::pin(operation.test(ask))).await
    }
}

impl Operation<'_> {
    async fn test(&self, ask: &Test<'_>) -> Result<Record, Error> {
        let mut stored = self.storage.newest(self.name).await?.ok_or(Error::NotFound)?;
        if stored.record.info.status.is_pending() {
            return Err(Error::Pending);
        }
        let mask = Mask::new([], &self.options.sensitive);
        let hooks = HookRunner {
            storage: &self.storage,
            share: &self.share(),
            target: self.target_for_record(&stored.record),
            clock: &*self.helm.clock,
            strategy: self.apply_strategy(Some(&stored.record)).0,
            timeout: self.options.timeout,
            progress: self.options.progress,
        };
        let wanted =
            |name: &String| (ask.only.is_empty() || ask.only.contains(name)) && !ask.except.contains(name);
        let went = hooks.run(&mut stored, HookEvent::Test, |hook| wanted(&hook.name)).await;
        let record = self.storage.update(&stored).await?.record;
        match went {
            Ok(_) => Ok(record),
            Err(error) => Err(Error::Failed {
                said: mask.mask_text(&error.to_string()),
                kind: error.kind(),
                record: Box::new(record),
            }),
        }
    }
}
