//! Faulty watches: events that are duplicated, late, out of order or missing, and watches that break off. Whatever was done on their
//! basis, in the end the desired state is reached, and nothing else exists.
//!
//! Each round installs, changes twice and deletes, and some install again under the same name. `LONGSHORE_SEEDS` sets the number of
//! rounds, as in [`super::interleavings`].

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_embedded::sim::Simulation;
use kube_types::HelmRelease;
use serde_json::json;
use testkit::{FaultyWatch, wait_for};

use super::interleavings::{MAPS_TEMPLATE, RELEASE_NAME, TestRound};
use crate::testing::provisioned_cluster_with;

const DEFAULT_ROUNDS: u64 = 6;
/// Rounds in parallel: each mostly waits.
const MAX_CONCURRENT_ROUNDS: usize = 6;

/// A Deployment, which must be ready before the release is active.
const WEB_TEMPLATE: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
                   template: {metadata: {labels: {app: web, maps: {{ .Values.maps | quote }}}}, spec: {containers: [{name: c, image: i}]}}\n";

async fn write_spec(play: &TestRound, letters: Option<&str>) {
    let releases = play.releases();
    let Some(letters) = letters else {
        releases.delete(RELEASE_NAME, &DeleteParams::default()).await.unwrap();
        return;
    };
    if releases.get_opt(RELEASE_NAME).await.unwrap().is_some() {
        let patch = Patch::Merge(json!({"spec": {"valuesObject": {"maps": letters}}}));
        releases.patch(RELEASE_NAME, &PatchParams::default(), &patch).await.unwrap();
        return;
    }
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": RELEASE_NAME},
        "spec": {"name": RELEASE_NAME, "source": {"package": play.package}, "valuesObject": {"maps": letters}},
    });
    let release: HelmRelease = serde_json::from_value(release).unwrap();
    releases.create(&PostParams::default(), &release).await.unwrap();
}

/// One round. With `forgetful` events are also dropped silently, until the watches are expired with [`FaultyWatch::stop`]. Returns the
/// number of injected faults.
async fn run_round(seed: u64, forgetful: bool) -> usize {
    let simulation = Some(Simulation { nodes: 1, ..Simulation::default() });
    let templates = [("templates/maps.yaml", MAPS_TEMPLATE), ("templates/web.yaml", WEB_TEMPLATE)];
    let play = TestRound::with_templates(provisioned_cluster_with(simulation).await, &templates).await;
    let gossip = if forgetful { FaultyWatch::with_silent_drops(seed) } else { FaultyWatch::new(seed) };
    let server = play.server(gossip.wrap(play.world.platform_client()), "server").await;
    let playing = async {
        for (step, letters) in ["a", "ab", "bc"].into_iter().enumerate() {
            write_spec(&play, Some(letters)).await;
            if !forgetful && (seed >> step) & 1 == 0 {
                play.wait_for_convergence(seed, Some(letters)).await;
            } else {
                tokio::time::sleep(Duration::from_millis(50 + seed * 37 % 200)).await;
            }
        }
        let mut last = Some("bc");
        if !seed.is_multiple_of(3) {
            write_spec(&play, None).await;
            last = None;
            if forgetful {
                gossip.stop();
            }
            wait_for("it is gone", async || {
                play.releases().get_opt(RELEASE_NAME).await.unwrap().is_none().then_some(())
            })
            .await;
        }
        if seed % 3 == 2 {
            write_spec(&play, Some("c")).await;
            last = Some("c");
        }
        if forgetful {
            gossip.stop();
        }
        play.wait_for_convergence(seed, last).await;
    };
    tokio::select! {
        () = playing => gossip.fault_count(),
        _ = server.run_as_leader() => unreachable!("it leads for ever"),
    }
}

async fn run_rounds(forgetful: bool) {
    let seeds =
        std::env::var("LONGSHORE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(DEFAULT_ROUNDS);
    let rounds =
        stream::iter(0..seeds).map(|seed| run_round(seed, forgetful)).buffer_unordered(MAX_CONCURRENT_ROUNDS);
    let tales: Vec<usize> = rounds.collect().await;
    assert!(tales.iter().sum::<usize>() > 0, "nobody told any tales");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_converge_under_faulty_watches() {
    run_rounds(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_converge_after_dropped_events_and_relist() {
    run_rounds(true).await;
}
