//! Charts as a graph with sharing, as Helm's pointers form it.

use std::rc::Rc;

use helm_template::budget::{Budget, count_member_values};
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::{MAX_CHARTS, MAX_DEPTH, MAX_NAMED, PrepareError};
use crate::chart::{Chart, File};
use crate::metadata::Dependency;
use crate::values::ChartTree;

pub type ChartId = usize;
pub type MetadataId = usize;
pub type DependencyId = usize;

/// Memory of a chart or dependency besides its values.
const CHART_BYTES: usize = 1 << 10;

/// The root chart.
pub const ROOT: ChartId = 0;

/// A chart node; several parents may refer to it.
#[derive(Clone)]
pub struct ChartNode {
    /// Index of the part shared by all copies.
    body: usize,
    pub meta: MetadataId,
    pub values: Rc<Members>,
    pub children: Vec<ChartId>,
    pub parent: Option<ChartId>,
}

/// The mutable part of `Chart.yaml`. Copies of a chart may share it.
#[derive(Clone)]
pub struct MetadataNode {
    pub name: Str,
    pub dependencies: Vec<DependencyId>,
}

/// A declared dependency. Copies of a chart may share it.
#[derive(Clone)]
pub struct DependencyNode {
    pub dependency: Dependency,
    /// Its imports were already processed.
    pub is_imported: bool,
}

pub struct ChartGraph<'b> {
    pub profile: Profile,
    pub budget: &'b Budget<'b>,
    pub charts: Vec<ChartNode>,
    pub metadata: Vec<MetadataNode>,
    pub dependencies: Vec<DependencyNode>,
    /// Charts without subcharts and dependencies, and whether they were moved out.
    bodies: Vec<Chart>,
}

impl<'b> ChartGraph<'b> {
    pub fn from_chart(chart: &Chart, profile: Profile, budget: &'b Budget<'b>) -> Result<Self, PrepareError> {
        let exceeded = |why| PrepareError::Budget { chart: chart.metadata.name.clone(), why };
        count(chart, budget, MAX_DEPTH).map_err(exceeded)?;
        let chart = chart.clone();
        let mut graph =
            Self { profile, budget, charts: vec![], metadata: vec![], dependencies: vec![], bodies: vec![] };
        graph.add(chart, None, 0)?;
        Ok(graph)
    }

    fn add(
        &mut self,
        mut chart: Chart,
        parent: Option<ChartId>,
        depth: usize,
    ) -> Result<ChartId, PrepareError> {
        if depth > MAX_DEPTH {
            return Err(PrepareError::TooDeep { chart: chart.metadata.name });
        }
        let subcharts = std::mem::take(&mut chart.dependencies);
        let named = std::mem::take(&mut chart.metadata.dependencies);
        let first = self.dependencies.len();
        self.dependencies
            .extend(named.into_iter().map(|dependency| DependencyNode { dependency, is_imported: false }));
        let meta = MetadataNode {
            name: chart.metadata.name.clone(),
            dependencies: (first..self.dependencies.len()).collect(),
        };
        self.metadata.push(meta);
        let values = Rc::new(std::mem::take(&mut chart.values));
        self.bodies.push(chart);
        let id = self.charts.len();
        self.charts.push(ChartNode {
            body: self.bodies.len() - 1,
            meta: self.metadata.len() - 1,
            values,
            children: vec![],
            parent,
        });
        for subchart in subcharts {
            let child = self.add(subchart, Some(id), depth + 1)?;
            self.charts[id].children.push(child);
        }
        Ok(id)
    }

    pub fn name(&self, chart: ChartId) -> &Str {
        &self.metadata[self.charts[chart].meta].name
    }

    pub fn version(&self, chart: ChartId) -> &str {
        &self.bodies[self.charts[chart].body].metadata.version
    }

    pub fn dependency_ids(&self, chart: ChartId) -> Vec<DependencyId> {
        self.metadata[self.charts[chart].meta].dependencies.clone()
    }

    pub fn set_children(&mut self, chart: ChartId, children: Vec<ChartId>) {
        for child in &children {
            self.charts[*child].parent = Some(chart);
        }
        self.charts[chart].children = children;
    }

    /// Copies a chart to the depth that Helm copies for a dependency.
    pub fn copy(&mut self, chart: ChartId) -> Result<ChartId, PrepareError> {
        let node = &self.charts[chart];
        let parts = 1 + node.children.len() + self.metadata[node.meta].dependencies.len();
        self.budget.allocate(parts * CHART_BYTES).map_err(|why| self.budget_error(why))?;
        if self.dependencies.len() > MAX_NAMED {
            return Err(PrepareError::TooManyDependencies { chart: self.name(ROOT).clone() });
        }
        let mut node = self.charts[chart].clone();
        let mut meta = self.metadata[node.meta].clone();
        if self.profile == Profile::Helm4 {
            for need in &mut meta.dependencies {
                self.dependencies.push(self.dependencies[*need].clone());
                *need = self.dependencies.len() - 1;
            }
        }
        self.metadata.push(meta);
        node.meta = self.metadata.len() - 1;
        let children = node.children.clone();
        let copy = self.push(node);
        if self.profile == Profile::Helm4 {
            let children = children.into_iter().map(|child| self.push(self.charts[child].clone())).collect();
            self.set_children(copy, children);
        }
        Ok(copy)
    }

    /// Error of an exceeded budget.
    pub fn budget_error(&self, why: Str) -> PrepareError {
        PrepareError::Budget { chart: self.name(ROOT).clone(), why }
    }

    fn push(&mut self, node: ChartNode) -> ChartId {
        self.charts.push(node);
        self.charts.len() - 1
    }

    pub fn tree(&self, chart: ChartId) -> GraphChart<'_> {
        GraphChart { graph: self, chart }
    }

    pub fn into_tree(mut self) -> Result<Chart, Str> {
        let mut uses = vec![0_usize; self.bodies.len()];
        self.count_uses(ROOT, &mut uses);
        let name = self.name(ROOT).clone();
        self.build_chart(ROOT, &name, &mut uses)
    }

    /// Charts can share subcharts, so a small graph can expand into a large tree.
    pub fn check_size(&self) -> Result<(), PrepareError> {
        self.budget.charge(self.charts.len() as u64).map_err(|why| self.budget_error(why))?;
        let mut left = MAX_CHARTS;
        if self.charts.len() > MAX_CHARTS || !self.fits_tree_limit(ROOT, &mut left) {
            return Err(PrepareError::TooManyCharts { chart: self.name(ROOT).clone() });
        }
        Ok(())
    }

    fn fits_tree_limit(&self, chart: ChartId, left: &mut usize) -> bool {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        self.charts[chart].children.iter().all(|child| self.fits_tree_limit(*child, left))
    }

    fn count_uses(&self, chart: ChartId, uses: &mut [usize]) {
        let node = &self.charts[chart];
        uses[node.body] += 1;
        for child in &node.children {
            self.count_uses(*child, uses);
        }
    }

    fn build_chart(&mut self, chart: ChartId, place: &str, uses: &mut [usize]) -> Result<Chart, Str> {
        let ChartNode { body, meta, values, children, .. } = self.charts[chart].clone();
        uses[body] -= 1;
        let parts = 1 + self.metadata[meta].dependencies.len();
        self.budget.allocate(parts.saturating_mul(CHART_BYTES).saturating_add(place.len()))?;
        self.budget.allocate_values(count_member_values(&values))?;
        if uses[body] > 0 {
            self.budget.allocate(file_list_size(&self.bodies[body]))?;
        }
        let mut grown =
            if uses[body] == 0 { std::mem::take(&mut self.bodies[body]) } else { self.bodies[body].clone() };
        let path = self.path(chart);
        grown.path = (path != place).then(|| path.into());
        let meta = self.metadata[meta].clone();
        grown.metadata.name = meta.name;
        grown.metadata.dependencies =
            meta.dependencies.iter().map(|need| self.dependencies[*need].dependency.clone()).collect();
        grown.values = Rc::unwrap_or_clone(values);
        for child in children {
            let place = format!("{place}/charts/{}", self.name(child));
            let child = self.build_chart(child, &place, uses)?;
            grown.dependencies.push(child);
        }
        Ok(grown)
    }

    /// Path prefix of a chart's template names.
    fn path(&self, chart: ChartId) -> String {
        match self.charts[chart].parent {
            None => self.name(chart).to_string(),
            Some(parent) => format!("{}/charts/{}", self.path(parent), self.name(chart)),
        }
    }
}

/// Memory of copying the file lists of a chart; the contents are shared.
fn file_list_size(chart: &Chart) -> usize {
    let files = chart.templates.len() + chart.files.len() + chart.raw.len();
    files.saturating_mul(size_of::<File>())
}

/// Counts the memory of copying a chart. Excessive depth is rejected elsewhere.
fn count(chart: &Chart, budget: &Budget<'_>, deeper: usize) -> Result<(), Str> {
    budget.allocate(CHART_BYTES.saturating_mul(1 + chart.metadata.dependencies.len()))?;
    budget.allocate(file_list_size(chart))?;
    budget.allocate_values(count_member_values(&chart.values))?;
    let Some(deeper) = deeper.checked_sub(1) else { return Ok(()) };
    chart.dependencies.iter().try_for_each(|child| count(child, budget, deeper))
}

/// A chart of the graph with its subcharts.
#[derive(Clone, Copy)]
pub struct GraphChart<'g> {
    graph: &'g ChartGraph<'g>,
    chart: ChartId,
}

impl ChartTree for GraphChart<'_> {
    fn name(&self) -> &str {
        self.graph.name(self.chart)
    }

    fn values(&self) -> &Members {
        &self.graph.charts[self.chart].values
    }

    fn dependencies(&self) -> impl Iterator<Item = Self> {
        self.graph.charts[self.chart].children.iter().map(|chart| Self { graph: self.graph, chart: *chart })
    }
}
