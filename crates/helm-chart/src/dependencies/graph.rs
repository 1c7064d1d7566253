//! Charts as a graph with sharing, as Helm's pointers form it.

use std::rc::Rc;

use helm_template::budget::{Budget, count_members};
use helm_template::data::Members;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::{MAX_CHARTS, MAX_DEPTH, MAX_NAMED, PrepareError};
use crate::chart::{Chart, File};
use crate::metadata::Dependency;
use crate::values::Tree;

pub type ChartId = usize;
pub type MetaId = usize;
pub type NeedId = usize;

/// Memory of a chart or dependency besides its values.
const CHART_BYTES: usize = 1 << 10;

/// The root chart.
pub const ROOT: ChartId = 0;

/// A chart node; several parents may refer to it.
#[derive(Clone)]
pub struct Node {
    /// Index of the part shared by all copies.
    body: usize,
    pub meta: MetaId,
    pub values: Rc<Members>,
    pub children: Vec<ChartId>,
    pub parent: Option<ChartId>,
}

/// The mutable part of `Chart.yaml`. Copies of a chart may share it.
#[derive(Clone)]
pub struct Meta {
    pub name: Str,
    pub needs: Vec<NeedId>,
}

/// A declared dependency. Copies of a chart may share it.
#[derive(Clone)]
pub struct Need {
    pub dependency: Dependency,
    /// Its imports were already processed.
    pub imported: bool,
}

pub struct Graph<'b> {
    pub profile: Profile,
    pub budget: &'b Budget<'b>,
    pub charts: Vec<Node>,
    pub metas: Vec<Meta>,
    pub needs: Vec<Need>,
    /// Charts without subcharts and dependencies, and whether they were moved out.
    bodies: Vec<Chart>,
}

impl<'b> Graph<'b> {
    pub fn of(chart: &Chart, profile: Profile, budget: &'b Budget<'b>) -> Result<Self, PrepareError> {
        let exceeded = |why| PrepareError::Budget { chart: chart.metadata.name.clone(), why };
        count(chart, budget, MAX_DEPTH).map_err(exceeded)?;
        let chart = chart.clone();
        let mut graph =
            Self { profile, budget, charts: vec![], metas: vec![], needs: vec![], bodies: vec![] };
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
        let first = self.needs.len();
        self.needs.extend(named.into_iter().map(|dependency| Need { dependency, imported: false }));
        let meta = Meta { name: chart.metadata.name.clone(), needs: (first..self.needs.len()).collect() };
        self.metas.push(meta);
        let values = Rc::new(std::mem::take(&mut chart.values));
        self.bodies.push(chart);
        let id = self.charts.len();
        self.charts.push(Node {
            body: self.bodies.len() - 1,
            meta: self.metas.len() - 1,
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
        &self.metas[self.charts[chart].meta].name
    }

    pub fn version(&self, chart: ChartId) -> &str {
        &self.bodies[self.charts[chart].body].metadata.version
    }

    pub fn needs(&self, chart: ChartId) -> Vec<NeedId> {
        self.metas[self.charts[chart].meta].needs.clone()
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
        let parts = 1 + node.children.len() + self.metas[node.meta].needs.len();
        self.budget.take(parts * CHART_BYTES).map_err(|why| self.exceeded(why))?;
        if self.needs.len() > MAX_NAMED {
            return Err(PrepareError::TooManyNamed { chart: self.name(ROOT).clone() });
        }
        let mut node = self.charts[chart].clone();
        let mut meta = self.metas[node.meta].clone();
        if self.profile == Profile::Helm4 {
            for need in &mut meta.needs {
                self.needs.push(self.needs[*need].clone());
                *need = self.needs.len() - 1;
            }
        }
        self.metas.push(meta);
        node.meta = self.metas.len() - 1;
        let children = node.children.clone();
        let copy = self.push(node);
        if self.profile == Profile::Helm4 {
            let children = children.into_iter().map(|child| self.push(self.charts[child].clone())).collect();
            self.set_children(copy, children);
        }
        Ok(copy)
    }

    /// Error of an exceeded budget.
    pub fn exceeded(&self, why: Str) -> PrepareError {
        PrepareError::Budget { chart: self.name(ROOT).clone(), why }
    }

    fn push(&mut self, node: Node) -> ChartId {
        self.charts.push(node);
        self.charts.len() - 1
    }

    pub fn tree(&self, chart: ChartId) -> Branch<'_> {
        Branch { graph: self, chart }
    }

    pub fn into_tree(mut self) -> Result<Chart, Str> {
        let mut uses = vec![0_usize; self.bodies.len()];
        self.count(ROOT, &mut uses);
        let name = self.name(ROOT).clone();
        self.grow(ROOT, &name, &mut uses)
    }

    /// Charts can share subcharts, so a small graph can expand into a large tree.
    pub fn check_size(&self) -> Result<(), PrepareError> {
        self.budget.charge(self.charts.len() as u64).map_err(|why| self.exceeded(why))?;
        let mut left = MAX_CHARTS;
        if self.charts.len() > MAX_CHARTS || !self.fits(ROOT, &mut left) {
            return Err(PrepareError::TooMany { chart: self.name(ROOT).clone() });
        }
        Ok(())
    }

    fn fits(&self, chart: ChartId, left: &mut usize) -> bool {
        let Some(fewer) = left.checked_sub(1) else { return false };
        *left = fewer;
        self.charts[chart].children.iter().all(|child| self.fits(*child, left))
    }

    fn count(&self, chart: ChartId, uses: &mut [usize]) {
        let node = &self.charts[chart];
        uses[node.body] += 1;
        for child in &node.children {
            self.count(*child, uses);
        }
    }

    fn grow(&mut self, chart: ChartId, place: &str, uses: &mut [usize]) -> Result<Chart, Str> {
        let Node { body, meta, values, children, .. } = self.charts[chart].clone();
        uses[body] -= 1;
        let parts = 1 + self.metas[meta].needs.len();
        self.budget.take(parts.saturating_mul(CHART_BYTES).saturating_add(place.len()))?;
        self.budget.take_values(count_members(&values))?;
        if uses[body] > 0 {
            self.budget.take(files_bytes(&self.bodies[body]))?;
        }
        let mut grown =
            if uses[body] == 0 { std::mem::take(&mut self.bodies[body]) } else { self.bodies[body].clone() };
        let path = self.path(chart);
        grown.path = (path != place).then(|| path.into());
        let meta = self.metas[meta].clone();
        grown.metadata.name = meta.name;
        grown.metadata.dependencies =
            meta.needs.iter().map(|need| self.needs[*need].dependency.clone()).collect();
        grown.values = Rc::unwrap_or_clone(values);
        for child in children {
            let place = format!("{place}/charts/{}", self.name(child));
            let child = self.grow(child, &place, uses)?;
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
fn files_bytes(chart: &Chart) -> usize {
    let files = chart.templates.len() + chart.files.len() + chart.raw.len();
    files.saturating_mul(size_of::<File>())
}

/// Counts the memory of copying a chart. Excessive depth is rejected elsewhere.
fn count(chart: &Chart, budget: &Budget<'_>, deeper: usize) -> Result<(), Str> {
    budget.take(CHART_BYTES.saturating_mul(1 + chart.metadata.dependencies.len()))?;
    budget.take(files_bytes(chart))?;
    budget.take_values(count_members(&chart.values))?;
    let Some(deeper) = deeper.checked_sub(1) else { return Ok(()) };
    chart.dependencies.iter().try_for_each(|child| count(child, budget, deeper))
}

/// A chart of the graph with its subcharts.
#[derive(Clone, Copy)]
pub struct Branch<'g> {
    graph: &'g Graph<'g>,
    chart: ChartId,
}

impl Tree for Branch<'_> {
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
