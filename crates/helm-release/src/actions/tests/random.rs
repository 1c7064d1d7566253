//! Random concurrent actions: some clients hold the lock, some (like the helm command) do not, some die during an
//! action. In the end the history is consistent and no unrecorded object is left.

use std::cell::Cell;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use testkit::{FailurePoint, FaultInjector, without_annotation};
use tower::service_fn;

use super::fixture::{
    NAME, NAMESPACE, ReleaseHarness, assert_consistent, default_options, maps, maps_values, rollback,
    uninstall, upgrade,
};
use crate::actions::operation::Operation;
use crate::actions::{RecoveryOutcome, Upgrade};
use crate::storage::HELD_BY_ANNOTATION;
use crate::{Error, Helm};

/// Deterministic random numbers from a seed.
struct Rng(Cell<u64>);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    fn below(&self, limit: u64) -> u64 {
        let next =
            self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % limit
    }
}

/// A client whose calls yield at random points.
fn yielding_client(client: Client, seed: u64) -> Client {
    let calls = std::sync::atomic::AtomicU64::new(seed);
    let call = move |request: http::Request<kube::client::Body>| {
        let turns = Rng::new(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).below(12);
        let client = client.clone();
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            client.send(request).await
        }
    };
    Client::new(service_fn(call), NAMESPACE)
}

async fn run_actor(stage: &ReleaseHarness, seed: u64, name: &str, holds: bool) {
    let chance = Rng::new(seed);
    for turn in 0..4 {
        let dies = chance.below(3) == 0;
        let blow =
            if chance.below(2) == 0 { FailurePoint::BeforeHandling } else { FailurePoint::AfterHandling };
        let after = usize::try_from(chance.below(9)).unwrap();
        let fault =
            if dies { FaultInjector::cut_after_writes(after, blow) } else { FaultInjector::healthy() };
        let mut helm = stage.helm_over(&FaultInjector::healthy()).await;
        let client = yielding_client(stage.admin(), seed + turn);
        let client = fault.wrap(if holds {
            client
        } else {
            without_annotation(client, NAMESPACE, HELD_BY_ANNOTATION)
        });
        (helm.records, helm.objects, helm.holder) = (client.clone(), client, name.to_owned());
        tokio::select! {
            biased;
            () = fault.wait_until_disconnected() => expire_lease(stage, name).await,
            _ = run_random_action(&helm, &chance, holds) => {}
        }
    }
}

/// Runs a random action. Conflicts with other clients are accepted.
async fn run_random_action(helm: &Helm, chance: &Rng, holds: bool) -> Result<(), Error> {
    let wanted = ["a", "ab", "bc", "cX"][usize::try_from(chance.below(4)).unwrap()];
    let wanted = Upgrade { install: true, ..upgrade(&maps(), &maps_values(wanted)) };
    let (back, gone, run) = (rollback(0), uninstall(chance.below(2) == 0), default_options());
    let alone = Operation::new(helm, NAMESPACE, NAME, &run);
    match (chance.below(6), holds) {
        (0, true) => helm.rollback(&back).await.map(|_| ()),
        (0, false) => Box::pin(alone.rollback(&back)).await.map(|_| ()),
        (1, true) => helm.uninstall(&gone).await.map(|_| ()),
        (1, false) => Box::pin(alone.uninstall(&gone)).await.map(|_| ()),
        (2, true) => helm.recover(NAMESPACE, NAME, &run).await.map(|_| ()),
        (_, true) => helm.upgrade(&wanted).await.map(|_| ()),
        (_, false) => Box::pin(alone.upgrade(&wanted)).await.map(|_| ()),
    }
}

/// Expires the Lease of a dead holder.
async fn expire_lease(stage: &ReleaseHarness, holder: &str) {
    let leases: Api<Lease> = Api::namespaced(stage.admin(), NAMESPACE);
    let Some(lease) = leases.get_opt(&crate::lock::lease_name(NAME)).await.unwrap() else { return };
    let held = lease.spec.and_then(|spec| spec.holder_identity).is_some_and(|by| by.starts_with(holder));
    if held {
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
        leases.patch(&crate::lock::lease_name(NAME), &PatchParams::default(), &patch).await.unwrap();
    }
}

async fn run_round(seed: u64) {
    let stage = ReleaseHarness::new().await;
    let actors = [("ann", true), ("bob", true), ("cli", false)];
    let acting =
        actors.iter().zip(0..).map(|((name, holds), at)| run_actor(&stage, seed * 16 + at, name, *holds));
    join_all(acting).await;
    // Pending revisions of a client without a Lease are abandoned after the grace period.
    stage.expire_leases().await;
    stage.clock.advance(jiff::SignedDuration::from_mins(5));
    let helm = stage.helm().await;
    helm.recover(NAMESPACE, NAME, &default_options()).await.unwrap();
    assert_consistent(&stage.history().await);
    assert_eq!(helm.recover(NAMESPACE, NAME, &default_options()).await.unwrap(), RecoveryOutcome::Nothing);
    let history = stage.history().await;
    let last = Upgrade { install: true, ..upgrade(&maps(), &maps_values("z")) };
    helm.upgrade(&last).await.unwrap_or_else(|error| panic!("seed {seed}: {error} {history:?}"));
    assert_eq!(stage.config_map_names().await, ["z"], "seed {seed}: {history:#?}");
    assert_consistent(&stage.history().await);
}

#[tokio::test]
async fn history_is_consistent_after_random_concurrent_actions() {
    let seeds = std::env::var("LONGSHORE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    for seed in 0..seeds {
        run_round(seed).await;
    }
}
