//! Runs the tests of a release.

use helm_engine::{Event, names};

use super::ask::Test;
use super::operation::Operation;
use crate::error::Error;
use crate::helm::Helm;
use crate::hooks::Hooks;
use crate::record::Record;
use kube_apply::Mask;

impl Helm {
    /// Runs the tests of the newest revision and stores their results in its record.
    pub async fn test(&self, ask: &Test<'_>) -> Result<Record, Error> {
        names::check(&ask.name)
            .map_err(|_| Error::Name(format!("releaseTest: Release name is invalid: {}", ask.name)))?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.run);
        self.held(&ask.namespace, &ask.name, Box::pin(operation.test(ask))).await
    }
}

impl Operation<'_> {
    async fn test(&self, ask: &Test<'_>) -> Result<Record, Error> {
        let mut stored = self.storage.last(self.name).await?.ok_or(Error::NotFound)?;
        if stored.record.info.status.is_pending() {
            return Err(Error::Pending);
        }
        let mask = Mask::new([], &self.run.sensitive);
        let hooks = Hooks {
            storage: &self.storage,
            share: &self.share(),
            target: self.target_of(&stored.record),
            clock: &*self.helm.clock,
            way: self.way(Some(&stored.record)).0,
            timeout: self.run.timeout,
            tell: self.run.tell,
        };
        let wanted =
            |name: &String| (ask.only.is_empty() || ask.only.contains(name)) && !ask.except.contains(name);
        let went = hooks.run(&mut stored, Event::Test, |hook| wanted(&hook.name)).await;
        let record = self.storage.update(&stored).await?.record;
        match went {
            Ok(_) => Ok(record),
            Err(error) => Err(Error::Failed {
                said: mask.over(&error.to_string()),
                kind: error.kind(),
                record: Box::new(record),
            }),
        }
    }
}
