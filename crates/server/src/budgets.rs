//! Memory budgets of the process: requests, work and caches hold less than 1 GiB in total. Objects stored on the embedded cluster come
//! on top, up to [`DEFAULT_STORAGE_CAPACITY`] and the capacity of chart packages.
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
    WorkLimits { bytes: 238 * MIB, bytes_per_flow: 192 * MIB, ..pool_limits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Caches of the embedded cluster in MiB, which are constants of their crate: watch history, RBAC decisions.
    const CLUSTER_CACHES: [u64; 2] = [64, 16];
    /// Other caches: indexes, charts, parsed charts, credentials of repositories, tags.
    const CACHES: [u64; 5] = [64, 32, 64, 8, 1];

    /// The budgets of the embedded Kubernetes API, and all others.
    fn sums() -> (u64, u64) {
        let of_levels =
            |LevelLimits(levels): LevelLimits| levels.map(|level| level.bytes).iter().sum::<u64>();
        let cluster = CLUSTER_CACHES.iter().sum::<u64>() * MIB
            + of_levels(kubernetes_limits())
            + kubernetes_work_limits().bytes;
        let others = CACHES.iter().sum::<u64>() * MIB
            + of_levels(api::budget::limits())
            + releases::max_operation_bytes()
            + chart_work_limits().bytes;
        (cluster, others)
    }

    #[test]
    fn budgets_sum_to_less_than_one_gibibyte() {
        let (cluster, others) = sums();
        assert!(cluster + others < 1024 * MIB, "{} MiB", (cluster + others) / MIB);
        for pool in [kubernetes_work_limits(), chart_work_limits()] {
            assert!(pool.bytes_per_flow < pool.bytes, "one flow does not take all");
        }
    }

    /// A number with commas between thousands.
    fn grouped(number: u64) -> String {
        if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
    }

    #[test]
    fn documented_defaults_are_those_of_the_code() {
        let page = include_str!("../../../docs/limits.md");
        let mib = |bytes: u64| format!("{} MiB", grouped(bytes / MIB));
        let (cluster, others) = sums();
        let LevelLimits([platform, user, anonymous]) = kubernetes_limits();
        let LevelLimits([_, http_user, http_anonymous]) = api::budget::limits();
        let (objects, charts) = (kubernetes_work_limits(), chart_work_limits());
        let packages = chart_store::packages::PackageLimits::default();
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let slots = |pool: &WorkLimits, whose: &str| {
            let of_core = (pool.slots / cores, pool.slots_per_flow / cores);
            format!("{} for each core; {} for each core of a {whose}", of_core.0, of_core.1)
        };
        let caches = [&CLUSTER_CACHES[..], &CACHES[..]].concat();
        let caches: Vec<String> = caches.iter().map(u64::to_string).collect();
        #[rustfmt::skip]
        let rows = [
            ("memory: requests and responses of the Kubernetes API", format!("{}; {} of a user", mib(user.bytes), mib(user.bytes_per_flow))),
            ("memory: the platform's own requests to it", mib(platform.bytes)),
            ("memory: decoded objects of large requests to it", format!("{}; {} of a user", mib(objects.bytes), mib(objects.bytes_per_flow))),
            ("memory: requests and responses of the platform's port", format!("{}; {} of a user", mib(http_user.bytes), mib(http_user.bytes_per_flow))),
            ("memory: callers without credentials", format!("{} and {} on the two ports; {} and {} of an address",
                mib(anonymous.bytes), mib(http_anonymous.bytes), mib(anonymous.bytes_per_flow), mib(http_anonymous.bytes_per_flow))),
            ("memory: fetching, unpacking, indexing, rendering, manifests that are parsed", format!("{}; {} of a tenant", mib(charts.bytes), mib(charts.bytes_per_flow))),
            ("memory: caches of history, RBAC decisions, indexes, charts, parsed charts, credentials of repositories, tags", format!("{} MiB", caches.join(", "))),
            ("concurrent work on charts", slots(&charts, "tenant")),
            ("concurrent large requests to the Kubernetes API", slots(&objects, "user")),
            ("concurrent large responses of the platform's port", format!("{}; {} of a user", http_user.seats, http_user.seats_per_flow)),
            ("concurrent requests to the Kubernetes API", format!("{}; {} of a user", user.seats, user.seats_per_flow)),
            ("open watches and followed logs", format!("{}; {} of a user", grouped(user.streams as u64), user.streams_per_flow)),
            ("streams of the platform's port", format!("{}; {} of a user", grouped(http_user.streams as u64), http_user.streams_per_flow)),
            ("memory: objects on the embedded cluster", format!("{}; {} of a tenant", mib(DEFAULT_STORAGE_CAPACITY), mib(DEFAULT_STORAGE_BUDGET))),
            ("packages of charts", format!("{}; {} of a tenant", mib(packages.capacity), mib(packages.quota))),
            ("memory reserved", format!("{} | {}", mib(charts.bytes), mib(charts.bytes_per_flow))),
            ("budgets of requests, work and caches", mib(cluster + others)),
            ("of these on a real cluster, where the budgets of the embedded Kubernetes API do not apply", mib(others)),
            ("objects of tenants on the embedded cluster", format!("{}, and {} for the platform's small objects in their workspaces",
                mib(DEFAULT_STORAGE_CAPACITY), mib(DEFAULT_STORAGE_CAPACITY / 8))),
            ("packages of charts on the embedded cluster", mib(packages.capacity)),
        ];
        for (what, limit) in rows {
            let row = format!("| {what} | {limit} |");
            assert!(page.lines().any(|line| line.starts_with(&row)), "docs/limits.md lacks: {row}");
        }
    }
}
