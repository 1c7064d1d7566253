//! Prometheus metrics per level. Flows are not a label, because callers could multiply the series.

use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::work::WorkPool;
use crate::{Governor, PriorityLevel};

/// Reads the budgets at each scrape.
#[derive(Debug)]
pub struct GovernorCollector {
    governor: Governor,
}

impl GovernorCollector {
    pub fn new(governor: Governor) -> Self {
        Self { governor }
    }
}

impl std::fmt::Debug for Governor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Governor").finish_non_exhaustive()
    }
}

/// Whole seconds; 0 for `None`.
fn seconds(lasting: Option<Duration>) -> u64 {
    lasting.map_or(0, |lasting| lasting.as_secs())
}

type ReadFn = fn(&Governor, PriorityLevel) -> u64;

/// Name, help, whether it is a counter, and the read function.
const GOVERNOR_SERIES: [(&str, &str, bool, ReadFn); 8] = [
    ("governor_seats_used", "Requests being executed", false, |g, l| g.budgets(l).seats.usage().used as u64),
    ("governor_seats_queued", "Requests waiting for a seat", false, |g, l| {
        g.budgets(l).seats.usage().queued as u64
    }),
    ("governor_seats_rejected", "Requests rejected because no seat was free", true, |g, l| {
        g.budgets(l).seats.usage().rejected
    }),
    (
        "governor_seats_starving_seconds",
        "Time during which all seats were taken, requests waited and no seat became free",
        false,
        |g, l| seconds(g.starving_for(l)),
    ),
    ("governor_bytes_held", "Bytes held on behalf of callers", false, |g, l| g.budgets(l).bytes.usage().held),
    ("governor_bytes_rejected", "Requests rejected because the byte budget was exceeded", true, |g, l| {
        g.budgets(l).bytes.usage().rejected
    }),
    ("governor_streams_open", "Open watches and other streams", false, |g, l| {
        g.budgets(l).streams.usage().open as u64
    }),
    ("governor_streams_rejected", "Streams refused", true, |g, l| g.budgets(l).streams.usage().rejected),
];

impl Collector for GovernorCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (name, help, is_counter, read) in GOVERNOR_SERIES {
            let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for level in PriorityLevel::ALL {
                let labels = [("level", level.name())];
                let series = family.encode_family(&labels)?;
                let value = read(&self.governor, level);
                if is_counter {
                    ConstCounter::new(value).encode(series)?;
                } else {
                    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(series)?;
                }
            }
        }
        Ok(())
    }
}

type ReadPoolFn = fn(&WorkPool) -> u64;

/// Reads pools at each scrape; `pool` is the only label. A registry has one collector for all its pools, so that each family is
/// described once.
pub struct WorkCollector {
    pools: Vec<(&'static str, WorkPool)>,
}

impl WorkCollector {
    pub fn new(pools: Vec<(&'static str, WorkPool)>) -> Self {
        Self { pools }
    }
}

impl std::fmt::Debug for WorkCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.pools.iter().map(|(name, _)| *name).collect();
        f.debug_struct("WorkCollector").field("pools", &names).finish_non_exhaustive()
    }
}

/// Name, help, whether it is a counter, and the read function.
const WORK_SERIES: [(&str, &str, bool, ReadPoolFn); 6] = [
    ("governor_work_running", "CPU-heavy jobs running", false, |pool| pool.slots().used as u64),
    ("governor_work_queued", "CPU-heavy work waiting for a slot", false, |pool| pool.slots().queued as u64),
    ("governor_work_rejected", "CPU-heavy work rejected because no slot was free", true, |pool| {
        pool.slots().rejected
    }),
    (
        "governor_work_starving_seconds",
        "Time during which all slots were taken, work waited and no slot became free",
        false,
        |pool| seconds(pool.starving_for()),
    ),
    ("governor_work_bytes_held", "Bytes reserved for CPU-heavy work", false, |pool| pool.bytes().held),
    (
        "governor_work_bytes_rejected",
        "CPU-heavy work rejected because the memory budget was exceeded",
        true,
        |pool| pool.bytes().rejected,
    ),
];

impl Collector for WorkCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (name, help, is_counter, read) in WORK_SERIES {
            let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (name, pool) in &self.pools {
                let labels = [("pool", *name)];
                let series = family.encode_family(&labels)?;
                let value = read(pool);
                if is_counter {
                    ConstCounter::new(value).encode(series)?;
                } else {
                    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(series)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::work::WorkLimits;

    #[tokio::test]
    async fn governor_metrics_have_only_the_level_label() {
        let governor = Governor::default();
        let flow = governor.flow("jane");
        let _seat = governor.acquire_seat(PriorityLevel::Authenticated, flow).await.unwrap();
        let _bytes = governor.reserve(PriorityLevel::Platform, flow, 7).unwrap();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(GovernorCollector::new(governor)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("governor_seats_used{level=\"authenticated\"} 1\n"), "{text}");
        assert!(text.contains("governor_bytes_held{level=\"platform\"} 7\n"), "{text}");
        assert!(text.contains("governor_seats_rejected_total{level=\"anonymous\"} 0\n"), "{text}");
        assert!(!text.contains("jane"));
    }

    #[test]
    fn work_collector_describes_each_family_once() {
        let limits = WorkLimits {
            slots: 1,
            slots_per_flow: 1,
            queue: 1,
            queue_per_flow: 1,
            wait: Duration::from_secs(1),
            bytes: 1,
            bytes_per_flow: 1,
        };
        let pools = ["kubernetes", "charts"].map(|name| (name, WorkPool::new(&limits)));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(WorkCollector::new(pools.into())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let described: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let distinct: HashSet<&str> = described.iter().copied().collect();
        assert_eq!(described.len(), distinct.len(), "{text}");
        for pool in ["kubernetes", "charts"] {
            assert!(text.contains(&format!("governor_work_running{{pool=\"{pool}\"}} 0\n")), "{text}");
        }
    }
}
