//! Merges the values of a chart, its subcharts and the user into one tree.
//!
//! The higher level wins: user values over the chart's, the chart's over its subcharts'. Tables are merged key by
//! key, other values are replaced. A null deletes the value below it; Helm 3 and Helm 4 differ in how long the null
//! itself is kept.

use std::collections::BTreeSet;

use helm_template::budget::{Budget, count_member_values};
use helm_template::data::{Data, Members};
use helm_template::go::{print, printf, quote};
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

use super::GLOBAL;
use super::warning::ValuesWarning;
use crate::chart::Chart;

/// The parts of a chart that merging needs.
pub trait ChartTree: Copy {
    fn name(&self) -> &str;
    fn values(&self) -> &Members;
    fn dependencies(&self) -> impl Iterator<Item = Self>;
}

impl ChartTree for &Chart {
    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn values(&self) -> &Members {
        &self.values
    }

    fn dependencies(&self) -> impl Iterator<Item = Self> {
        self.dependencies.iter()
    }
}

/// The value for a subchart is not a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type mismatch on {chart}: {value}")]
pub struct TypeMismatch {
    pub chart: Str,
    /// The value as Go prints it.
    pub value: String,
}

/// Error of merging values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoalesceError {
    #[error(transparent)]
    Mismatch(#[from] TypeMismatch),
    /// A rendering limit is exceeded.
    #[error("chart {chart}: merging values: {why}")]
    Budget { chart: Str, why: Str },
}

/// Merges `user` over the values of the chart and its subcharts. Nulls delete values and are then removed. The result
/// shares nothing with its inputs.
pub fn coalesce<T: ChartTree>(
    chart: T,
    user: &Members,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Map, CoalesceError> {
    let exceeded = |why| CoalesceError::Budget { chart: chart.name().into(), why };
    let values = to_map(user, budget).map_err(exceeded)?;
    Merger { profile, keep_nulls: false, budget, warnings }.root(chart, &values)?;
    Ok(values)
}

/// Like [`coalesce`], without changing `values`: parts that `chart` cannot reach are shared, the rest is copied.
pub(crate) fn coalesce_over<T: ChartTree>(
    chart: T,
    values: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Map, CoalesceError> {
    let exceeded = |why| CoalesceError::Budget { chart: chart.name().into(), why };
    let values = copy_for(chart, values, budget).map_err(exceeded)?;
    Merger { profile, keep_nulls: false, budget, warnings }.root(chart, &values)?;
    Ok(values)
}

/// Merges the values of the chart and its subcharts, keeping nulls for a later [`coalesce`].
pub(crate) fn merge<T: ChartTree>(
    chart: T,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Map, CoalesceError> {
    let values = Map::new();
    Merger { profile, keep_nulls: true, budget, warnings }.root(chart, &values)?;
    Ok(values)
}

/// Adds the entries of `from` that `onto` does not have. Keeps nulls.
pub(crate) fn merge_tables(
    onto: &Map,
    from: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), Str> {
    Merger { profile, keep_nulls: true, budget, warnings }.tables(onto, from, None, true)
}

/// Adds the entries of `from` that `onto` does not have. Nulls delete.
pub(crate) fn coalesce_tables(
    onto: &Map,
    from: &Map,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(), Str> {
    Merger { profile, keep_nulls: false, budget, warnings }.tables(onto, from, None, false)
}

/// Merges `onto` over `from`. Nulls delete.
pub fn merge_over(onto: &Members, from: &Members, profile: Profile) -> Result<Members, Str> {
    let budget = Budget::default();
    let merged = to_map(onto, &budget)?;
    coalesce_tables(&merged, &to_map(from, &budget)?, profile, &budget, &mut Vec::new())?;
    to_members(&merged, &budget)
}

/// Converts values to data. Shared tables are copied for each use.
pub(crate) fn to_members(values: &Map, budget: &Budget<'_>) -> Result<Members, Str> {
    let values = Value::from(values.clone());
    budget.allocate_values(values.count())?;
    match Data::try_from(&values)? {
        Data::Map(members) => Ok(members),
        // A map without entries may be nil.
        _ => Ok(Members::new()),
    }
}

/// Budget steps to visit a table entry and to copy it for the merge.
const STEPS_PER_ENTRY: u64 = 4;

struct Merger<'w> {
    profile: Profile,
    keep_nulls: bool,
    budget: &'w Budget<'w>,
    warnings: &'w mut Vec<ValuesWarning>,
}

/// Path of the current value, formatted only for warnings.
#[derive(Clone, Copy)]
struct ValuesPath<'p> {
    parent: Option<&'p ValuesPath<'p>>,
    key: &'p str,
}

impl ValuesPath<'_> {
    fn dotted(&self) -> String {
        let above = self.parent.map(ValuesPath::dotted).unwrap_or_default();
        if above.is_empty() { self.key.to_owned() } else { format!("{above}.{}", self.key) }
    }
}

/// Reason why a merge stops: a subchart's values are not a table, or the budget is exceeded.
enum MergeStop {
    Mismatch(TypeMismatch),
    Budget(Str),
}

impl From<Str> for MergeStop {
    fn from(why: Str) -> Self {
        Self::Budget(why)
    }
}

impl Merger<'_> {
    fn root<T: ChartTree>(&mut self, chart: T, onto: &Map) -> Result<(), CoalesceError> {
        self.chart(chart, onto, None).map_err(|stop| match stop {
            MergeStop::Mismatch(mismatch) => mismatch.into(),
            MergeStop::Budget(why) => CoalesceError::Budget { chart: chart.name().into(), why },
        })
    }

    fn chart<T: ChartTree>(
        &mut self,
        chart: T,
        onto: &Map,
        above: Option<&ValuesPath>,
    ) -> Result<(), MergeStop> {
        self.defaults(chart, onto, above)?;
        let here = ValuesPath { parent: above, key: chart.name() };
        for subchart in chart.dependencies() {
            let name = subchart.name();
            let inner = match onto.get(name) {
                Some(Value::Map(table)) => table,
                Some(other) => {
                    let value = printf("%t", &[other.unboxed()]);
                    return Err(MergeStop::Mismatch(TypeMismatch { chart: name.into(), value }));
                }
                None => {
                    self.budget.allocate_values(1)?;
                    self.charge_move(onto)?;
                    let table = Map::new();
                    onto.insert(name, table.clone().into());
                    table
                }
            };
            self.globals(&inner, onto, &here)?;
            self.chart(subchart, &inner, Some(&here))?;
        }
        Ok(())
    }

    /// Adds a chart's default values below the existing ones.
    fn defaults<T: ChartTree>(
        &mut self,
        chart: T,
        onto: &Map,
        above: Option<&ValuesPath>,
    ) -> Result<(), Str> {
        self.budget.allocate_values(count_member_values(chart.values()))?;
        self.charge_entries(chart.values().len())?;
        let here = ValuesPath { parent: above, key: chart.name() };
        let drops_nulls = self.profile == Profile::Helm4;
        for (key, default) in chart.values() {
            let default = Value::from(default);
            match (onto.get(key), default) {
                (None, Value::Null) if drops_nulls && !self.keep_nulls => {}
                (None, default) => {
                    if let Value::Map(table) = &default
                        && drops_nulls
                        && !self.keep_nulls
                    {
                        drop_nulls(table);
                    }
                    self.charge_move(onto)?;
                    onto.insert(key.clone(), default);
                }
                (Some(Value::Null | Value::Nil), _) if !self.keep_nulls => onto.remove(key),
                (Some(Value::Map(table)), Value::Map(default)) => {
                    // Values for a subchart are merged again with that chart's own defaults, which nulls have yet to
                    // delete.
                    let keep = self.keep_nulls || {
                        self.charge_entries(chart.dependencies().count())?;
                        chart.dependencies().any(|subchart| subchart.name() == &**key)
                    };
                    if drops_nulls && !keep {
                        drop_nulls(&default);
                    }
                    self.tables(&table, &default, Some(&ValuesPath { parent: Some(&here), key }), keep)?;
                }
                (Some(Value::Map(_)), default) if default.is_some() => {
                    let text = format!("warning: skipped value for {}.{key}: Not a table.", here.dotted());
                    self.warn("coalesce.go:237", &text)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes the globals of `from` down to `onto`. Tables inside them are shared, not copied.
    fn globals(&mut self, onto: &Map, from: &Map, here: &ValuesPath) -> Result<(), Str> {
        let inner = match onto.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Map(table)) => table,
            Some(_) => {
                let text = format!("warning: skipping globals because destination {GLOBAL} is not a table.");
                return self.warn("coalesce.go:138", &text);
            }
        };
        let outer = match from.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Map(table)) => table,
            Some(_) => {
                let text = format!("warning: skipping globals because source {GLOBAL} is not a table.");
                return self.warn("coalesce.go:145", &text);
            }
        };
        self.charge_entries(outer.len())?;
        for (key, value) in outer.snapshot() {
            self.budget.allocate_values(1)?;
            match (value, inner.get(&key)) {
                (Value::Map(table), None) => {
                    self.budget.allocate_values(table.len())?;
                    inner.insert(key, shallow_copy(&table).into());
                }
                (Value::Map(table), Some(Value::Map(own))) => {
                    self.budget.allocate_values(table.len())?;
                    let table = shallow_copy(&table);
                    // Nulls are kept here; the merge of the subchart handles them.
                    self.tables(&table, &own, Some(&ValuesPath { parent: Some(here), key: &key }), true)?;
                    inner.insert(key, table.into());
                }
                (Value::Map(_), Some(_)) => {
                    let text =
                        format!("Conflict: cannot merge map onto non-map for {}. Skipping.", quote(&key));
                    self.warn("coalesce.go:161", &text)?;
                }
                (_, Some(Value::Map(_))) => {
                    self.warn("coalesce.go:175", &format!("key {key} is table. Skipping"))?;
                }
                (value, _) => inner.insert(key, value),
            }
        }
        onto.insert(GLOBAL, inner.into());
        Ok(())
    }

    /// Adds the entries of `from` that `onto` does not have.
    fn tables(
        &mut self,
        onto: &Map,
        from: &Map,
        above: Option<&ValuesPath>,
        keep_nulls: bool,
    ) -> Result<(), Str> {
        self.charge_entries(from.len())?;
        let entries = from.snapshot();
        if self.profile == Profile::Helm4 {
            // Helm 4 writes the nulls of one table into the other, where all users of that shared table see them.
            self.charge_entries(onto.len())?;
            for (key, value) in onto.snapshot() {
                if value.is_nil() {
                    self.budget.allocate_values(1)?;
                    self.charge_move(from)?;
                    from.insert(key, Value::Null);
                }
            }
        }
        for (key, value) in entries {
            let deletes = match self.profile {
                Profile::Helm3 => true,
                Profile::Helm4 => value.is_some(),
            };
            match onto.get(&key) {
                None => {
                    self.budget.allocate_values(1)?;
                    self.charge_move(onto)?;
                    onto.insert(key, value);
                }
                Some(Value::Null | Value::Nil) => {
                    if !keep_nulls && deletes {
                        onto.remove(&key);
                    } else if let (Profile::Helm3, Value::Map(_)) = (self.profile, &value) {
                        self.warn_lost_table(&value, above, &key)?;
                    }
                }
                Some(Value::Map(table)) => {
                    if let Value::Map(inner) = &value {
                        self.tables(
                            &table,
                            inner,
                            Some(&ValuesPath { parent: above, key: &key }),
                            keep_nulls,
                        )?;
                    } else if value.is_some() {
                        let path = ValuesPath { parent: above, key: &key }.dotted();
                        self.check_text_memory(&value)?;
                        let text = format!(
                            "warning: destination for {path} is a table. Ignoring non-table value ({})",
                            print(&value)
                        );
                        self.warn("coalesce.go:301", &text)?;
                    }
                }
                Some(_) if matches!(value, Value::Map(_)) => self.warn_lost_table(&value, above, &key)?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn warn_lost_table(&mut self, table: &Value, above: Option<&ValuesPath>, key: &str) -> Result<(), Str> {
        self.check_text_memory(table)?;
        let path = ValuesPath { parent: above, key }.dotted();
        let text = format!("warning: cannot overwrite table with non table for {path} ({})", print(table));
        self.warn("coalesce.go:298", &text)
    }

    fn warn(&mut self, place: &str, text: &str) -> Result<(), Str> {
        self.budget.allocate(text.len())?;
        self.warnings.push(ValuesWarning::from_text(self.profile, place, text));
        Ok(())
    }

    /// Counts visited table entries.
    fn charge_entries(&self, count: usize) -> Result<(), Str> {
        self.budget.charge(count as u64 * STEPS_PER_ENTRY)
    }

    /// Counts the entries moved by an insertion into or removal from a table.
    fn charge_move(&self, table: &Map) -> Result<(), Str> {
        self.budget.charge(table.len() as u64 / 16)
    }

    /// Checks that the budget has memory for the text of a value.
    fn check_text_memory(&self, value: &Value) -> Result<(), Str> {
        let extent = value.extent();
        self.budget.charge(extent as u64)?;
        self.budget.fits(extent)
    }
}

pub(crate) fn to_map(members: &Members, budget: &Budget<'_>) -> Result<Map, Str> {
    budget.allocate_values(count_member_values(members))?;
    Ok(Map::from_entries(members.iter().map(|(key, value)| (key.clone(), value.into()))))
}

/// Copies the part of `values` that merging `chart` may change; the rest is shared.
fn copy_for<T: ChartTree>(chart: T, values: &Map, budget: &Budget<'_>) -> Result<Map, Str> {
    let subcharts: BTreeSet<Str> = chart.dependencies().map(|subchart| subchart.name().into()).collect();
    budget.allocate_values(values.len().saturating_add(subcharts.len()))?;
    let reached = |key: &str| key == GLOBAL || chart.values().contains_key(key) || subcharts.contains(key);
    let copy = |(key, value): (Str, Value)| {
        let value = if reached(&key) { deep_copy(&value, budget)? } else { value };
        Ok((key, value))
    };
    let entries: Result<Vec<_>, Str> = values.snapshot().into_iter().map(copy).collect();
    Ok(Map::from_entries(entries?))
}

fn deep_copy(value: &Value, budget: &Budget<'_>) -> Result<Value, Str> {
    Ok(match value {
        Value::Map(map) => deep_copy_map(map, budget)?.into(),
        other => other.clone(),
    })
}

/// Copies a map and its tables. Lists are shared: they are never changed in place.
pub(crate) fn deep_copy_map(map: &Map, budget: &Budget<'_>) -> Result<Map, Str> {
    budget.allocate_values(map.len())?;
    let entries = map.entries();
    let entries = entries.iter().map(|(key, value)| Ok((key.clone(), deep_copy(value, budget)?)));
    Ok(Map::from_entries(entries.collect::<Result<Vec<_>, Str>>()?))
}

fn shallow_copy(map: &Map) -> Map {
    Map::from_entries(map.snapshot())
}

fn drop_nulls(table: &Map) {
    for (key, value) in table.snapshot() {
        match value {
            Value::Null | Value::Nil => table.remove(&key),
            Value::Map(inner) => drop_nulls(&inner),
            _ => {}
        }
    }
}
