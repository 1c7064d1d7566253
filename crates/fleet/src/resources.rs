//! Resource requests, limits and usage of nodes, and their text form.

use domain::quantity::Quantity;
use serde_json::Value;

const KI: i64 = 1024;
const MI: i64 = KI * 1024;
const GI: i64 = MI * 1024;

/// Milli-units of an entry of a resource list, for CPU.
pub(crate) fn milli_value(list: &Value, name: &str) -> Option<i64> {
    Quantity::from_value(&list[name]).map(|amount| amount.milli_value())
}

/// Whole units of an entry of a resource list: bytes or counts.
pub(crate) fn integer_value(list: &Value, name: &str) -> Option<i64> {
    Quantity::from_value(&list[name]).map(|amount| amount.value())
}

/// Resources of a pod: CPU in milli-units, memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodResources {
    pub cpu: RequestAndLimit,
    pub memory: RequestAndLimit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestAndLimit {
    pub request: i64,
    pub limit: i64,
    /// Whether a container has no limit.
    pub unlimited: bool,
}

/// Sum over the pods of a node. Its integers cannot overflow, so that every addition can be subtracted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeAllocation {
    pub cpu: ResourceSum,
    pub memory: ResourceSum,
    /// Number of pods that are neither succeeded nor failed.
    pub pods: u32,
    pub running: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceSum {
    request: i128,
    limit: i128,
    unlimited: u32,
}

impl ResourceSum {
    fn add(&mut self, share: RequestAndLimit) {
        self.request += i128::from(share.request);
        self.limit += i128::from(share.limit);
        self.unlimited += u32::from(share.unlimited);
    }

    fn subtract(&mut self, share: RequestAndLimit) {
        self.request -= i128::from(share.request);
        self.limit -= i128::from(share.limit);
        self.unlimited -= u32::from(share.unlimited);
    }

    pub fn request(&self) -> i64 {
        saturate(self.request)
    }

    pub fn limit(&self) -> i64 {
        saturate(self.limit)
    }

    pub fn unlimited(&self) -> bool {
        self.unlimited > 0
    }
}

fn saturate(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

impl NodeAllocation {
    pub fn add(&mut self, takes: &PodResources, running: bool) {
        self.cpu.add(takes.cpu);
        self.memory.add(takes.memory);
        self.pods += 1;
        self.running += u32::from(running);
    }

    pub fn subtract(&mut self, takes: &PodResources, running: bool) {
        self.cpu.subtract(takes.cpu);
        self.memory.subtract(takes.memory);
        self.pods -= 1;
        self.running -= u32::from(running);
    }
}

/// Measured usage of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeasuredUsage {
    pub cpu: Option<i64>,
    pub memory: Option<i64>,
}

/// `850m`
pub(crate) fn format_cpu(milli: Option<i64>) -> String {
    milli.map_or_else(format_unknown, |milli| format!("{milli}m"))
}

/// `512.0Mi`, or `1.2Gi` from one Gi up.
pub(crate) fn format_memory(bytes: Option<i64>) -> String {
    bytes.map_or_else(format_unknown, |bytes| {
        let (unit, name) = if bytes >= GI { (GI, "Gi") } else { (MI, "Mi") };
        let tenths = (i128::from(bytes) * 10 + i128::from(unit) / 2) / i128::from(unit);
        format!("{}.{}{name}", tenths / 10, tenths % 10)
    })
}

/// `4 CPU`, `3.92 CPU`
pub(crate) fn format_cpus(milli: Option<i64>) -> String {
    milli.map_or_else(format_unknown, |milli| {
        let text = format!("{}.{:03}", milli / 1000, (milli % 1000).abs());
        format!("{} CPU", text.trim_end_matches('0').trim_end_matches('.'))
    })
}

fn format_unknown() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_parsed_with_every_suffix() {
        #[rustfmt::skip]
        let table = [
            ("2", 2000, 2), ("500m", 500, 1), ("1", 1000, 1), ("0", 0, 0), ("100u", 1, 1), ("1n", 1, 1),
            ("1k", 1_000_000, 1000), ("2M", 2_000_000_000, 2_000_000), ("1G", 1_000_000_000_000, 1_000_000_000),
            ("1Ki", 1_024_000, 1024), ("1Mi", 1_048_576_000, MI), ("1.5Gi", 1_610_612_736_000, GI * 3 / 2),
            ("1Ti", 1_099_511_627_776_000, GI * KI), ("1e3", 1_000_000, 1000), ("1E3", 1_000_000, 1000),
            ("12e-1", 1200, 2), ("0.1", 100, 1),
        ];
        for (text, in_milli, in_whole) in table {
            let list = json!({"x": text});
            assert_eq!(
                (milli_value(&list, "x"), integer_value(&list, "x")),
                (Some(in_milli), Some(in_whole)),
                "{text}"
            );
        }
        assert_eq!(milli_value(&json!({"x": "nonsense"}), "x"), None);
        assert_eq!(integer_value(&json!({}), "x"), None);
        assert_eq!(integer_value(&json!({"x": 110}), "x"), Some(110));
    }

    #[test]
    fn amounts_are_formatted() {
        assert_eq!(format_cpu(Some(850)), "850m");
        assert_eq!(format_cpu(Some(0)), "0m");
        assert_eq!(format_cpu(None), "-");
        for (bytes, expected) in [
            (0, "0.0Mi"),
            (MI / 2, "0.5Mi"),
            (512 * MI, "512.0Mi"),
            (GI - 1, "1024.0Mi"),
            (GI, "1.0Gi"),
            (8_160_437_862, "7.6Gi"),
            (40 * GI, "40.0Gi"),
            (i64::MAX, "8589934592.0Gi"),
        ] {
            assert_eq!(format_memory(Some(bytes)), expected, "{bytes}");
        }
        for (milli, expected) in [(4000, "4 CPU"), (3920, "3.92 CPU"), (500, "0.5 CPU"), (0, "0 CPU")] {
            assert_eq!(format_cpus(Some(milli)), expected);
        }
        assert_eq!(format_cpus(None), "-");
    }

    #[test]
    fn additions_can_be_subtracted_without_overflow() {
        let share = RequestAndLimit { request: i64::MAX, limit: i64::MAX, unlimited: true };
        let takes = PodResources { cpu: share, memory: share };
        let mut load = NodeAllocation::default();
        load.add(&takes, true);
        load.add(&takes, false);
        assert_eq!((load.cpu.request(), load.cpu.unlimited(), load.running), (i64::MAX, true, 1));
        load.subtract(&takes, true);
        load.subtract(&takes, false);
        assert_eq!(load, NodeAllocation::default());
    }
}
