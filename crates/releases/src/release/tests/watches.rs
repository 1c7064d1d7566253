//! Faulty watches: events that are duplicated, late, out of order or missing, and watches that break off. Whatever was done on their
//! basis, in the end the desired state is reached, and nothing else exists.
//!
//! Each round installs, changes twice and deletes, and some install again under the same name. `LONGSHORE_SEEDS` sets the number of
//! rounds, as in [`super::chance`].

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_embedded::sim::Simulation;
use kube_types::HelmRelease;
use serde_json::json;
use testkit::{Gossip, until};

use super::chance::{MAPS, NAME, Play};
use crate::stage::world_with;

const ROUNDS: u64 = 6;
/// Rounds in parallel: each mostly waits.
const AT_ONCE: usize = 6;

/// A Deployment, which must be ready before the release is active.
const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
                   template: {metadata: {labels: {app: web, maps: {{ .Values.maps | quote }}}}, spec: {containers: [{name: c, image: i}]}}\n";

async fn wish(play: &Play, letters: Option<&str>) {
    let releases = play.releases();
    let Some(letters) = letters else {
        releases.delete(NAME, &DeleteParams::default()).await.unwrap();
        return;
    };
    if releases.get_opt(NAME).await.unwrap().is_some() {
        let patch = Patch::Merge(json!({"spec": {"valuesObject": {"maps": letters}}}));
        releases.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
        return;
    }
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": NAME},
        "spec": {"name": NAME, "source": {"package": play.package}, "valuesObject": {"maps": letters}},
    });
    let release: HelmRelease = serde_json::from_value(release).unwrap();
    releases.create(&PostParams::default(), &release).await.unwrap();
}

/// One round. With `forgetful` events are also dropped silently, until the watches are expired with [`Gossip::end`]. Returns the number
/// of injected faults.
async fn round(seed: u64, forgetful: bool) -> usize {
    let simulation = Some(Simulation { nodes: 1, ..Simulation::default() });
    let templates = [("templates/maps.yaml", MAPS), ("templates/web.yaml", WEB)];
    let play = Play::of(world_with(simulation).await, &templates).await;
    let gossip = if forgetful { Gossip::forgetful(seed) } else { Gossip::new(seed) };
    let server = play.server(gossip.over(play.world.platform()), "server").await;
    let playing = async {
        for (step, letters) in ["a", "ab", "bc"].into_iter().enumerate() {
            wish(&play, Some(letters)).await;
            if !forgetful && (seed >> step) & 1 == 0 {
                play.reach(seed, Some(letters)).await;
            } else {
                tokio::time::sleep(Duration::from_millis(50 + seed * 37 % 200)).await;
            }
        }
        let mut last = Some("bc");
        if !seed.is_multiple_of(3) {
            wish(&play, None).await;
            last = None;
            if forgetful {
                gossip.end();
            }
            until("it is gone", async || {
                play.releases().get_opt(NAME).await.unwrap().is_none().then_some(())
            })
            .await;
        }
        if seed % 3 == 2 {
            wish(&play, Some("c")).await;
            last = Some("c");
        }
        if forgetful {
            gossip.end();
        }
        play.reach(seed, last).await;
    };
    tokio::select! {
        () = playing => gossip.tales(),
        _ = server.lead() => unreachable!("it leads for ever"),
    }
}

async fn rounds(forgetful: bool) {
    let seeds = std::env::var("LONGSHORE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(ROUNDS);
    let rounds = stream::iter(0..seeds).map(|seed| round(seed, forgetful)).buffer_unordered(AT_ONCE);
    let tales: Vec<usize> = rounds.collect().await;
    assert!(tales.iter().sum::<usize>() > 0, "nobody told any tales");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_disorder_watches_tell_there_is_one_truth() {
    rounds(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_watches_leave_out_is_made_up_for_when_everything_is_looked_at_anew() {
    rounds(true).await;
}
