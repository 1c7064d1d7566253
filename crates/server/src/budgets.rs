//! Memory budgets of the process: what tenants can make it hold stays below 1 GiB in all.
//!
//! Each budget is enforced where the memory is held; they are decided together here. `docs/limits.md` lists them.

use chart_store::work::pool_limits;
use governor::LevelLimits;
use governor::work::WorkLimits;

const MIB: u64 = 1 << 20;

/// Requests to the embedded Kubernetes API: bodies, answers until they are sent, pages of watches.
pub fn kubernetes() -> LevelLimits {
    let LevelLimits([mut platform, mut authenticated, anonymous]) = LevelLimits::default();
    (platform.bytes, platform.bytes_per_flow) = (96 * MIB, 96 * MIB);
    authenticated.bytes = 128 * MIB;
    LevelLimits([platform, authenticated, anonymous])
}

/// Decoded objects of requests to the embedded Kubernetes API.
pub fn kubernetes_work() -> WorkLimits {
    WorkLimits {
        bytes: 192 * MIB,
        bytes_per_flow: 128 * MIB,
        ..kube_embedded::cluster::Config::default().work
    }
}

/// Fetching, unpacking, indexing and rendering. One workspace has room for the costliest chart.
pub fn charts() -> WorkLimits {
    WorkLimits { bytes: 288 * MIB, bytes_per_flow: 192 * MIB, ..pool_limits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Budgets that are constants of their crates: history for watches, remembered decisions of RBAC, indexes, charts,
    /// parsed charts.
    const FIXED: u64 = (64 + 16 + 64 + 32 + 64) * MIB;

    #[test]
    fn budgets_stay_below_a_gibibyte_together() {
        let of_levels =
            |LevelLimits(levels): LevelLimits| levels.map(|level| level.bytes).iter().sum::<u64>();
        let levels = of_levels(kubernetes()) + of_levels(api::budget::limits());
        let pools = [kubernetes_work(), charts()];
        let sum = FIXED + levels + pools.iter().map(|pool| pool.bytes).sum::<u64>();
        assert!(sum < 1024 * MIB, "{} MiB", sum / MIB);
        for pool in pools {
            assert!(pool.bytes_per_flow < pool.bytes, "one flow does not take all");
        }
    }
}
