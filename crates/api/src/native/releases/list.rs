//! Release lists.

use std::collections::BTreeMap;

use releases::acts::HOST;
use releases::acts::view::{ChartView, MadeBy};
use releases::list::query::{self, From};
use releases::list::{Cursor, Facet, Page, Query, Row};
use schemars::JsonSchema;
use serde::Serialize;

use super::view::{Standing, can_be_done};
use crate::actions::Action;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// Query parameters of a release list.
pub const QUERY: &[&str] =
    &["ws", "c", "ns", "q", "status", "label", "field", "sort", "at", "limit", "cursor", "facets"];

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ReleaseList")]
pub struct ReleaseList {
    items: Vec<ReleaseItem>,
    /// All that fit, on this page or not.
    total: usize,
    /// The rank of the first.
    at: usize,
    /// How many there are of each, by what was asked to be counted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    facets: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// Where the next page begins; absent: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// For how many seconds the cluster has not been heard of; absent while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<u64>,
    /// Grows with each change of any release, for as long as the server runs.
    seq: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReleaseItem")]
pub struct ReleaseItem {
    /// Cluster, namespace and name.
    key: String,
    /// The version, for `If-Match`.
    v: String,
    status: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    chart: ChartView,
    /// What was asked for last.
    version: i64,
    /// Helm's.
    revision: i64,
    objects: i64,
    ready: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    made_by: MadeBy,
    /// What stands beside the state: `drift`, `changed-outside`, `stalled`, `helm`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    facts: Vec<&'static str>,
    /// Those that this caller's roles include.
    actions: Vec<Action>,
}

/// `GET releases`
pub async fn list(call: Call) -> Result<Answer<ReleaseList>, Problem> {
    let query = read(&call)?;
    let Page { rows, total, at, next, facets, seq } = call.api.releases.list(call.actor()?, &query)?;
    let items = rows.iter().map(|row| item(&call, row)).collect::<Result<_, _>>()?;
    let stale = call.api.releases.stale_for().map(|stale| stale.as_secs());
    let next = next.map(|cursor| cursor.text());
    Ok(Answer::new(ReleaseList { items, total, at, facets, next, stale, seq }))
}

fn read(call: &Call) -> Result<Query, Problem> {
    if let Some(cluster) = call.said("c").filter(|cluster| *cluster != HOST) {
        return Err(Problem::not_found("cluster", cluster));
    }
    let (sort, descending) = call.said("sort").map(query::sort).transpose()?.unwrap_or_default();
    let from = match (call.said("cursor"), call.number("at")?) {
        (Some(_), Some(_)) => return Err(Problem::invalid("the query has either `at` or `cursor`")),
        (Some(text), None) => {
            let cursor = Cursor::read(text).filter(|cursor| cursor.is_for(sort, descending));
            From::Cursor(
                cursor.ok_or_else(|| Problem::invalid("`cursor` is none of this list in this order"))?,
            )
        }
        (None, at) => From::Rank(at.unwrap_or(0)),
    };
    let owned = |name: &str| call.said(name).map(str::to_owned);
    Ok(Query {
        workspace: owned("ws"),
        namespace: owned("ns"),
        text: owned("q"),
        statuses: call.said("status").map(query::statuses).transpose()?.unwrap_or_default(),
        labels: call.said("label").map(query::labels).transpose()?.unwrap_or_default(),
        fields: call.said("field").map(query::fields).transpose()?.unwrap_or_default(),
        sort,
        descending,
        from,
        limit: limit(call)?,
        facets: call.said("facets").map(Facet::read_all).transpose()?.unwrap_or_default(),
    })
}

fn limit(call: &Call) -> Result<usize, Problem> {
    match call.number("limit")? {
        Some(limit) if limit == 0 || limit > query::MOST => {
            Err(Problem::invalid(format!("`limit` is from 1 to {}", query::MOST)))
        }
        limit => Ok(limit.unwrap_or(query::USUAL)),
    }
}

fn item(call: &Call, row: &Row) -> Result<ReleaseItem, Problem> {
    let standing = Standing {
        namespace: &row.key.namespace,
        name: &row.key.name,
        state: row.state,
        paused: row.paused,
        made_by: row.made_by,
    };
    let owner = call.api.tenancy.directory().workspace_of(&row.key.namespace);
    let mut actions = can_be_done(call.actor()?, owner, standing);
    actions.retain(|action| !action.is_for_others() && !standing.is_past(action.id()));
    Ok(ReleaseItem {
        key: format!("{HOST}/{}", row.key),
        v: row.v.clone(),
        status: row.status.as_str(),
        state: row.state,
        message: row.message.clone(),
        chart: ChartView { digest: String::new(), ..row.chart.clone() },
        version: row.version,
        revision: row.revision,
        objects: row.objects,
        ready: row.ready,
        updated: row.updated.map(|time| time.to_string()),
        by: row.by.clone(),
        made_by: row.made_by,
        facts: row.facts.clone(),
        actions,
    })
}
