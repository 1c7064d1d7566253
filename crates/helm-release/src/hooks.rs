//! Hooks: run one after the other at the events of a release, each to completion.
//!
//! Order is Helm's: by weight, then by name, then by Helm's install order of kinds. The previous object of a hook is
//! deleted before the hook is created, unless its delete policies say otherwise. A hook is recorded as running before
//! it starts. Not implemented: copying the output of hooks (`helm.sh/hook-output-log-policy`).

use std::time::Duration;

use domain::clock::Clock;
use helm_engine::HookEvent;
use kube_apply::readiness::{self, WaitStrategy};
use kube_apply::{ApplyOptions, ApplyStrategy, Object, ProgressSink, RemoveOptions, Target, apply, remove};
use tokio::time::Instant;

use crate::error::HookError;
use crate::record::{HookPhase, HookRecord, LastRun};
use crate::render::share::PoolShare;
use crate::storage::{Storage, StoredRecord};

pub(crate) const BEFORE_HOOK_CREATION: &str = "before-hook-creation";
const HOOK_SUCCEEDED: &str = "hook-succeeded";
const HOOK_FAILED: &str = "hook-failed";

/// Runs hooks; holds the clients and options that they need.
pub(crate) struct HookRunner<'h> {
    pub storage: &'h Storage,
    /// Share of the worker pool for parsing hooks.
    pub share: &'h PoolShare,
    pub target: &'h Target,
    pub clock: &'h dyn Clock,
    pub strategy: ApplyStrategy,
    /// Timeout of each hook.
    pub timeout: Duration,
    pub progress: &'h dyn ProgressSink,
}

impl HookRunner<'_> {
    /// Runs the hooks of an event for which `selects` is true and returns their number. Results are set in `stored`; the
    /// caller writes the last of them.
    pub async fn run(
        &self,
        stored: &mut StoredRecord,
        event: HookEvent,
        selects: impl Fn(&HookRecord) -> bool,
    ) -> Result<usize, HookError> {
        let turns = execution_order(&stored.record.hooks, event, selects);
        for (done, &at) in turns.iter().enumerate() {
            if let Err(error) = self.run_one(stored, at, event).await {
                self.clean_up_after_failure(stored, &turns[..done], at).await;
                return Err(error);
            }
        }
        for &at in turns.iter().rev() {
            self.remove_by_policy(&stored.record.hooks[at], HOOK_SUCCEEDED).await?;
        }
        Ok(turns.len())
    }

    async fn run_one(&self, stored: &mut StoredRecord, at: usize, event: HookEvent) -> Result<(), HookError> {
        let hook = &mut stored.record.hooks[at];
        if hook.delete_policies.is_empty() {
            hook.delete_policies.push(BEFORE_HOOK_CREATION.to_owned());
        }
        let hook = stored.record.hooks[at].clone();
        self.remove_by_policy(&hook, BEFORE_HOOK_CREATION).await?;
        let objects = self.parse(&hook, event.name()).await?;

        let begun =
            LastRun { started_at: self.clock.now().into(), phase: HookPhase::Running, ..LastRun::default() };
        stored.record.hooks[at].last_run = begun;
        *stored = self.storage.update(stored).await.map_err(HookError::Storage)?;

        let went = self.apply_and_wait(&hook, &objects, event).await;
        let last_run = &mut stored.record.hooks[at].last_run;
        last_run.completed_at = self.clock.now().into();
        last_run.phase = if went.is_ok() { HookPhase::Succeeded } else { HookPhase::Failed };
        went
    }

    /// Creates the objects of a hook and waits until they complete.
    async fn apply_and_wait(
        &self,
        hook: &HookRecord,
        objects: &[Object],
        event: HookEvent,
    ) -> Result<(), HookError> {
        let applied =
            apply(self.target, &[], objects, &ApplyOptions::new(self.strategy), self.progress).await;
        applied.map_err(|source| HookError::Apply {
            event: event.name(),
            path: hook.path.clone(),
            source: Box::new(source),
        })?;
        let deadline = Instant::now() + self.timeout;
        let waited = readiness::wait_until_ready(
            self.target,
            objects,
            WaitStrategy::HookOnly,
            deadline,
            self.progress,
        )
        .await;
        waited.map_err(HookError::NotReady)
    }

    /// Applies delete policies after a failure. The hook's failure is the reported error, so failed deletions are
    /// only logged.
    async fn clean_up_after_failure(&self, stored: &StoredRecord, done: &[usize], failed: usize) {
        let hooks = &stored.record.hooks;
        let leavings = done.iter().map(|&at| (at, HOOK_SUCCEEDED));
        for (at, policy) in [(failed, HOOK_FAILED)].into_iter().chain(leavings) {
            if let Err(error) = self.remove_by_policy(&hooks[at], policy).await {
                tracing::warn!(hook = hooks[at].path, kind = ?error.kind(), "cannot delete a hook after a failure");
            }
        }
    }

    /// Deletes the objects of a hook if it has this delete policy.
    async fn remove_by_policy(&self, hook: &HookRecord, policy: &str) -> Result<(), HookError> {
        // Deleting a CRD would delete all objects of its kind.
        if hook.kind == "CustomResourceDefinition" || !hook.delete_policies.iter().any(|own| own == policy) {
            return Ok(());
        }
        let objects = self.parse(hook, "deleted").await?;
        let removal =
            RemoveOptions { wait_until: Some(Instant::now() + self.timeout), ..RemoveOptions::default() };
        let removed = remove(self.target, &objects, &removal, self.progress).await;
        removed.map_err(|error| HookError::Remove { path: hook.path.clone(), failures: error.failures })?;
        Ok(())
    }

    /// Parses the objects of a hook. A busy pool does not reject it, because the operation is under way.
    async fn parse(&self, hook: &HookRecord, event: &'static str) -> Result<Vec<Object>, HookError> {
        let manifest = hook.manifest.clone();
        let parsed = self.share.run_guaranteed(manifest.len(), move || Object::parse_all(&manifest)).await?;
        parsed.map_err(|source| HookError::Manifest { event, path: hook.path.clone(), source })
    }
}

/// Indices of the hooks that run at an event, in execution order.
fn execution_order(
    hooks: &[HookRecord],
    event: HookEvent,
    selects: impl Fn(&HookRecord) -> bool,
) -> Vec<usize> {
    let mut turns: Vec<usize> =
        (0..hooks.len()).filter(|&at| hooks[at].runs_at(event) && selects(&hooks[at])).collect();
    // The sort is stable: hooks with equal keys stay in the order of their kinds.
    turns.sort_by(|&a, &b| (hooks[a].weight, &hooks[a].name).cmp(&(hooks[b].weight, &hooks[b].name)));
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_run_by_weight_then_by_name() {
        let hook = |name: &str, weight, event: HookEvent| HookRecord {
            name: name.to_owned(),
            weight,
            events: vec![event.name().to_owned()],
            ..HookRecord::default()
        };
        let (before, after) = (HookEvent::PreInstall, HookEvent::PostInstall);
        let hooks = [
            hook("b", 0, before),
            hook("a", 5, before),
            hook("x", 0, after),
            hook("a", 0, before),
            hook("c", -1, before),
            hook("a", 0, before),
        ];
        assert_eq!(execution_order(&hooks, before, |_| true), [4, 3, 5, 0, 1]);
        assert_eq!(execution_order(&hooks, before, |hook| hook.name != "a"), [4, 0]);
        assert_eq!(execution_order(&hooks, HookEvent::Test, |_| true), [0; 0]);
    }
}
