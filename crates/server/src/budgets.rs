//! Memory budgets of the process: requests and work of tenants hold less than 1 GiB in total. Objects stored on the
//! embedded cluster add up to [`STORAGE_CAPACITY`].
//!
//! Each budget is enforced where the memory is held; all are set here. `docs/limits.md` lists them.

use chart_store::work::pool_limits;
use governor::LevelLimits;
use governor::work::WorkLimits;
use kube_types::marks::{ACCOUNT, WORKSPACE};

const MIB: u64 = 1 << 20;

/// Default limit for the bytes of all objects of one account on the embedded cluster.
pub const STORAGE_BUDGET: u64 = 128 * MIB;
/// Default limit for the bytes of all objects of all tenants on the embedded cluster.
pub const STORAGE_CAPACITY: u64 = 512 * MIB;

/// Labels that name the owner whose budgets an object uses: the account, or the workspace where there is no account
/// or none was recorded.
pub fn owner_labels() -> Vec<String> {
    [ACCOUNT, WORKSPACE].map(str::to_owned).to_vec()
}

/// Requests to the embedded Kubernetes API: bodies, responses until they are sent, watch pages.
pub fn kubernetes() -> LevelLimits {
    let LevelLimits([mut platform, mut authenticated, anonymous]) = LevelLimits::default();
    (platform.bytes, platform.bytes_per_flow) = (96 * MIB, 96 * MIB);
    authenticated.bytes = 128 * MIB;
    LevelLimits([platform, authenticated, anonymous])
}

/// Decoded objects of requests to the embedded Kubernetes API.
pub fn kubernetes_work() -> WorkLimits {
    WorkLimits {
        bytes: 160 * MIB,
        bytes_per_flow: 128 * MIB,
        ..kube_embedded::cluster::Config::default().work
    }
}

/// Fetching, unpacking, indexing and rendering. The share of one workspace fits the costliest chart.
pub fn charts() -> WorkLimits {
    WorkLimits { bytes: 248 * MIB, bytes_per_flow: 192 * MIB, ..pool_limits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Budgets that are constants of their crates: watch history, cached RBAC decisions, indexes, charts, parsed
    /// charts.
    const FIXED: u64 = (64 + 16 + 64 + 32 + 64) * MIB;

    #[test]
    fn budgets_stay_below_a_gibibyte_together() {
        let of_levels =
            |LevelLimits(levels): LevelLimits| levels.map(|level| level.bytes).iter().sum::<u64>();
        let levels = of_levels(kubernetes()) + of_levels(api::budget::limits());
        let pools = [kubernetes_work(), charts()];
        let sum =
            FIXED + levels + releases::operation_bytes() + pools.iter().map(|pool| pool.bytes).sum::<u64>();
        assert!(sum < 1024 * MIB, "{} MiB", sum / MIB);
        for pool in pools {
            assert!(pool.bytes_per_flow < pool.bytes, "one flow does not take all");
        }
    }
}
