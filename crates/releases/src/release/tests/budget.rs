//! Releases that wait for memory.

use helm_release::render::{Renderer, ReservedBytes, operations, work_limits};

use super::*;

/// Takes all memory that other flows can have on the renderer's pool.
fn exhaust_pool(renderer: &Renderer) -> Vec<ReservedBytes> {
    let (pool, limits) = (renderer.pool(), work_limits());
    let flows = limits.bytes.div_ceil(limits.bytes_per_flow);
    let mut held = Vec::new();
    for flow in 0..flows {
        let bytes = limits.bytes_per_flow.min(limits.bytes - pool.bytes().held);
        held.push(pool.reserve(pool.flow(flow), bytes).unwrap());
    }
    held
}

/// Takes all memory that other flows can have for running operations.
fn exhaust_operations(renderer: &Renderer) -> Vec<ReservedBytes> {
    let mut held = Vec::new();
    for flow in ["a", "b", "c", "d"] {
        let mut bytes = operations::TOTAL_BYTES;
        while bytes > operations::FREE_BYTES {
            match renderer.operations().reserve(flow, bytes) {
                Ok(reserved) => held.push(reserved),
                Err(_) => bytes /= 2,
            }
        }
    }
    held
}

/// Waits until a release says that it waits for a budget. Returns its status.
async fn wait_until_exhausted(stage: &TestHarness, name: &str) -> kube_types::HelmReleaseStatus {
    wait_for("it waits for the budget", async || {
        let status = stage.namespaced_api::<HelmRelease>().get(name).await.unwrap().status?;
        let ready = find_condition(&status.conditions, READY)?;
        (ready.status == "False" && ready.reason == "Exhausted").then_some(status)
    })
    .await
}

#[tokio::test]
async fn release_over_a_memory_budget_waits_and_names_the_budget_in_its_status() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let renderer = stage.releases.renderer();
    // An operation holds its values, of which the first bytes are free.
    let operations = exhaust_operations(renderer);
    let mut large = release_spec("large", &package);
    large["valuesObject"] = json!({"unused": vec![0; 40_000]});
    stage.create_release("large", large).await.unwrap();
    wait_until_exhausted(&stage, "large").await;
    // No rendering can begin.
    let held = exhaust_pool(renderer);
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    for name in ["web", "large"] {
        let status = wait_until_exhausted(&stage, name).await;
        assert!(status.message.contains("is over its budget (limit "), "{name}: {}", status.message);
        let ready = find_condition(&status.conditions, READY).unwrap();
        assert_eq!(ready.message, status.message, "{name}");
        assert_ne!(status.state, "failed", "{name}: the budget is not its failure");
        assert_eq!((status.attempts, status.interruptions, status.operation), (0, 0, None), "{name}");
        assert!(record_statuses(&stage, name).await.is_empty(), "{name}: nothing was written");
    }
    drop((held, operations));
    for name in ["web", "large"] {
        let status = stage.wait_for_state(name, "active").await.status.unwrap();
        assert_eq!(find_condition(&status.conditions, READY).unwrap().status, "True", "{name}");
    }
}
