//! Memory budgets of the process: requests and work of tenants hold less than 1 GiB in total. Objects stored on the
//! embedded cluster add up to [`DEFAULT_STORAGE_CAPACITY`].
//!
//! Each budget is enforced where the memory is held; all are set here. `docs/limits.md` lists them.

use chart_store::work::pool_limits;
use governor::LevelLimits;
use governor::work::WorkLimits;
use kube_types::well_known::{ACCOUNT, WORKSPACE};

const MIB: u64 = 1 << 20;

/// Default limit for the bytes of all objects of one account on the embedded cluster.
pub const DEFAULT_STORAGE_BUDGET: u64 = 128 * MIB;
/// Default limit for the bytes of all objects of all tenants on the embedded cluster.
pub const DEFAULT_STORAGE_CAPACITY: u64 = 512 * MIB;

/// Labels that name the owner whose budgets an object uses: the account, or the workspace if no account exists or was
/// recorded.
pub fn owner_labels() -> Vec<String> {
    [ACCOUNT, WORKSPACE].map(str::to_owned).to_vec()
}

/// Requests to the embedded Kubernetes API: bodies, responses until they are sent, watch pages.
pub fn kubernetes_limits() -> LevelLimits {
    let LevelLimits([mut platform, mut authenticated, anonymous]) = LevelLimits::default();
    (platform.bytes, platform.bytes_per_flow) = (96 * MIB, 96 * MIB);
    authenticated.bytes = 128 * MIB;
    LevelLimits([platform, authenticated, anonymous])
}

/// Decoded objects of requests to the embedded Kubernetes API.
pub fn kubernetes_work_limits() -> WorkLimits {
    WorkLimits {
        bytes: 160 * MIB,
        bytes_per_flow: 128 * MIB,
        ..kube_embedded::cluster::Config::default().work_limits
    }
}

/// Fetching, unpacking, indexing and rendering. The share of one workspace fits the costliest chart.
pub fn chart_work_limits() -> WorkLimits {
    WorkLimits { bytes: 248 * MIB, bytes_per_flow: 192 * MIB, ..pool_limits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Budgets that are constants of their crates: watch history, cached RBAC decisions, indexes, charts, parsed
    /// charts.
    const FIXED_BYTES: u64 = (64 + 16 + 64 + 32 + 64) * MIB;

    #[test]
    fn budgets_sum_to_less_than_one_gibibyte() {
        let of_levels =
            |LevelLimits(levels): LevelLimits| levels.map(|level| level.bytes).iter().sum::<u64>();
        let levels = of_levels(kubernetes_limits()) + of_levels(api::budget::limits());
        let pools = [kubernetes_work_limits(), chart_work_limits()];
        let sum = FIXED_BYTES
            + levels
            + releases::max_operation_bytes()
            + pools.iter().map(|pool| pool.bytes).sum::<u64>();
        assert!(sum < 1024 * MIB, "{} MiB", sum / MIB);
        for pool in pools {
            assert!(pool.bytes_per_flow < pool.bytes, "one flow does not take all");
        }
    }
}
