//! Hooks: run one after the other at the events of a release, each to completion.
//!
//! Order is Helm's: by weight, then by name, then by Helm's install order of kinds. The previous object of a hook is
//! deleted before the hook is created, unless its delete policies say otherwise. A hook is recorded as running before
//! it starts. Not implemented: copying the output of hooks (`helm.sh/hook-output-log-policy`).

use std::time::Duration;

use domain::clock::Clock;
use helm_engine::Event;
use kube_apply::ready::{self, Strategy};
use kube_apply::{Object, Options, Removal, Target, Tell, Way, apply, remove};
use tokio::time::Instant;

use crate::error::HookError;
use crate::record::{HookRecord, LastRun, Phase};
use crate::render::share::Share;
use crate::storage::{Storage, Stored};

pub(crate) const BEFORE: &str = "before-hook-creation";
const SUCCEEDED: &str = "hook-succeeded";
const FAILED: &str = "hook-failed";

/// Dependencies of running hooks.
pub(crate) struct Hooks<'h> {
    pub storage: &'h Storage,
    /// Share of the worker pool for parsing hooks.
    pub share: &'h Share,
    pub target: &'h Target,
    pub clock: &'h dyn Clock,
    pub way: Way,
    /// Timeout of each hook.
    pub timeout: Duration,
    pub tell: &'h dyn Tell,
}

impl Hooks<'_> {
    /// Runs the hooks of an event that `wanted` selects and returns their number. Results are set in `stored`; the
    /// caller writes the last of them.
    pub async fn run(
        &self,
        stored: &mut Stored,
        event: Event,
        wanted: impl Fn(&HookRecord) -> bool,
    ) -> Result<usize, HookError> {
        let turns = order(&stored.record.hooks, event, wanted);
        for (done, &at) in turns.iter().enumerate() {
            if let Err(error) = self.one(stored, at, event).await {
                self.after_failure(stored, &turns[..done], at).await;
                return Err(error);
            }
        }
        for &at in turns.iter().rev() {
            self.remove_by(&stored.record.hooks[at], SUCCEEDED).await?;
        }
        Ok(turns.len())
    }

    async fn one(&self, stored: &mut Stored, at: usize, event: Event) -> Result<(), HookError> {
        let hook = &mut stored.record.hooks[at];
        if hook.delete_policies.is_empty() {
            hook.delete_policies.push(BEFORE.to_owned());
        }
        let hook = stored.record.hooks[at].clone();
        self.remove_by(&hook, BEFORE).await?;
        let objects = self.parse(&hook, event.name()).await?;

        let begun =
            LastRun { started_at: self.clock.now().into(), phase: Phase::Running, ..LastRun::default() };
        stored.record.hooks[at].last_run = begun;
        *stored = self.storage.update(stored).await.map_err(HookError::Storage)?;

        let went = self.watch(&hook, &objects, event).await;
        let last_run = &mut stored.record.hooks[at].last_run;
        last_run.completed_at = self.clock.now().into();
        last_run.phase = if went.is_ok() { Phase::Succeeded } else { Phase::Failed };
        went
    }

    /// Creates the objects of a hook and waits until they complete.
    async fn watch(&self, hook: &HookRecord, objects: &[Object], event: Event) -> Result<(), HookError> {
        let applied = apply(self.target, &[], objects, &Options::new(self.way), self.tell).await;
        applied.map_err(|source| HookError::Apply {
            event: event.name(),
            path: hook.path.clone(),
            source: Box::new(source),
        })?;
        let deadline = Instant::now() + self.timeout;
        let waited = ready::wait(self.target, objects, Strategy::HookOnly, deadline, self.tell).await;
        waited.map_err(HookError::NotDone)
    }

    /// Applies delete policies after a failure. The hook's failure is the reported error, so failed deletions are
    /// only logged.
    async fn after_failure(&self, stored: &Stored, done: &[usize], failed: usize) {
        let hooks = &stored.record.hooks;
        let leavings = done.iter().map(|&at| (at, SUCCEEDED));
        for (at, policy) in [(failed, FAILED)].into_iter().chain(leavings) {
            if let Err(error) = self.remove_by(&hooks[at], policy).await {
                tracing::warn!(hook = hooks[at].path, kind = ?error.kind(), "cannot delete a hook after a failure");
            }
        }
    }

    /// Deletes the objects of a hook if it has this delete policy.
    async fn remove_by(&self, hook: &HookRecord, policy: &str) -> Result<(), HookError> {
        // Deleting a CRD would delete all objects of its kind.
        if hook.kind == "CustomResourceDefinition" || !hook.delete_policies.iter().any(|own| own == policy) {
            return Ok(());
        }
        let objects = self.parse(hook, "deleted").await?;
        let removal = Removal { wait_until: Some(Instant::now() + self.timeout), ..Removal::default() };
        let removed = remove(self.target, &objects, &removal, self.tell).await;
        removed.map_err(|error| HookError::Remove { path: hook.path.clone(), failures: error.failures })?;
        Ok(())
    }

    /// Parses the objects of a hook. A busy pool does not reject it, because the operation is under way.
    async fn parse(&self, hook: &HookRecord, event: &'static str) -> Result<Vec<Object>, HookError> {
        let manifest = hook.manifest.clone();
        let parsed = self.share.finish(manifest.len(), move || Object::parse_all(&manifest)).await?;
        parsed.map_err(|source| HookError::Manifest { event, path: hook.path.clone(), source })
    }
}

/// Indices of the hooks that run at an event, in execution order.
fn order(hooks: &[HookRecord], event: Event, wanted: impl Fn(&HookRecord) -> bool) -> Vec<usize> {
    let mut turns: Vec<usize> =
        (0..hooks.len()).filter(|&at| hooks[at].runs_at(event) && wanted(&hooks[at])).collect();
    // The sort is stable: hooks with equal keys stay in the order of their kinds.
    turns.sort_by(|&a, &b| (hooks[a].weight, &hooks[a].name).cmp(&(hooks[b].weight, &hooks[b].name)));
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_run_by_weight_then_by_name() {
        let hook = |name: &str, weight, event: Event| HookRecord {
            name: name.to_owned(),
            weight,
            events: vec![event.name().to_owned()],
            ..HookRecord::default()
        };
        let (before, after) = (Event::PreInstall, Event::PostInstall);
        let hooks = [
            hook("b", 0, before),
            hook("a", 5, before),
            hook("x", 0, after),
            hook("a", 0, before),
            hook("c", -1, before),
            hook("a", 0, before),
        ];
        assert_eq!(order(&hooks, before, |_| true), [4, 3, 5, 0, 1]);
        assert_eq!(order(&hooks, before, |hook| hook.name != "a"), [4, 0]);
        assert_eq!(order(&hooks, Event::Test, |_| true), [0; 0]);
    }
}
