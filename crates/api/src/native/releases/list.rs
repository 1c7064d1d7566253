//! Release lists.

use std::collections::BTreeMap;

use releases::index::query::{self, PageStart};
use releases::index::{Cursor, Facet, Page, Query, ReleaseRow};
use releases::service::HOST_CLUSTER;
use releases::service::view::{ChartView, ManagedBy};
use schemars::JsonSchema;
use serde::Serialize;

use super::response::{ReleaseActionState, allowed_actions};
use crate::allowed_actions::ActionView;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

/// Query parameters of a release list.
pub const QUERY: &[&str] =
    &["ws", "c", "ns", "q", "status", "label", "field", "sort", "at", "limit", "cursor", "facets"];

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ReleaseList")]
pub struct ReleaseList {
    items: Vec<ReleaseItem>,
    /// Number of matching releases on all pages.
    total: usize,
    /// Offset of the first item.
    at: usize,
    /// Number of matching releases by field and value, for the requested facets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    facets: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Age of the data in seconds while the cluster cannot be reached; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<u64>,
    /// Sequence number of the last change of any release; restarts with the server.
    seq: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReleaseItem")]
pub struct ReleaseItem {
    /// Key: cluster, namespace and name.
    key: String,
    /// Version, for `If-Match`.
    v: String,
    status: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    chart: ChartView,
    /// Version of the last request.
    version: i64,
    /// Helm revision.
    revision: i64,
    objects: i64,
    ready: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    by: String,
    made_by: ManagedBy,
    /// Facts in addition to the state: `drift`, `changed-outside`, `stalled`, `helm`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    facts: Vec<&'static str>,
    /// Actions that the caller's roles allow.
    actions: Vec<ActionView>,
}

/// `GET releases`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ReleaseList>, Problem> {
    let query = parse_query(&call)?;
    let Page { rows, total, offset: at, next, facets, seq } =
        call.api.releases.list(call.actor()?, &query)?;
    let items = rows.iter().map(|row| release_item(&call, row)).collect::<Result<_, _>>()?;
    let stale = call.api.releases.stale_for().map(|stale| stale.as_secs());
    let next = next.map(|cursor| cursor.encode());
    Ok(JsonResponse::new(ReleaseList { items, total, at, facets, next, stale, seq }))
}

fn parse_query(call: &ApiRequest) -> Result<Query, Problem> {
    if let Some(cluster) = call.query_param("c").filter(|cluster| *cluster != HOST_CLUSTER) {
        return Err(Problem::not_found("cluster", cluster));
    }
    let (sort, descending) = call.query_param("sort").map(query::parse_sort).transpose()?.unwrap_or_default();
    let from = match (call.query_param("cursor"), call.number_param("at")?) {
        (Some(_), Some(_)) => return Err(Problem::invalid("`at` and `cursor` are mutually exclusive")),
        (Some(text), None) => {
            let cursor = Cursor::decode(text).filter(|cursor| cursor.matches_order(sort, descending));
            PageStart::Cursor(
                cursor.ok_or_else(|| Problem::invalid("`cursor` does not belong to this list and order"))?,
            )
        }
        (None, at) => PageStart::Offset(at.unwrap_or(0)),
    };
    let owned = |name: &str| call.query_param(name).map(str::to_owned);
    Ok(Query {
        workspace: owned("ws"),
        namespace: owned("ns"),
        text: owned("q"),
        statuses: call.query_param("status").map(query::parse_statuses).transpose()?.unwrap_or_default(),
        labels: call.query_param("label").map(query::parse_labels).transpose()?.unwrap_or_default(),
        fields: call.query_param("field").map(query::parse_fields).transpose()?.unwrap_or_default(),
        sort,
        descending,
        start: from,
        limit: page_limit(call)?,
        facets: call.query_param("facets").map(Facet::parse_list).transpose()?.unwrap_or_default(),
    })
}

fn page_limit(call: &ApiRequest) -> Result<usize, Problem> {
    match call.number_param("limit")? {
        Some(limit) if limit == 0 || limit > query::MAX_PAGE_SIZE => {
            Err(Problem::invalid(format!("`limit` must be 1 to {}", query::MAX_PAGE_SIZE)))
        }
        limit => Ok(limit.unwrap_or(query::DEFAULT_PAGE_SIZE)),
    }
}

fn release_item(call: &ApiRequest, row: &ReleaseRow) -> Result<ReleaseItem, Problem> {
    let standing = ReleaseActionState {
        namespace: &row.key.namespace,
        name: &row.key.name,
        state: row.state,
        paused: row.paused,
        made_by: row.managed_by,
    };
    let owner = call.api.tenancy.directory().workspace_of(&row.key.namespace);
    let mut actions = allowed_actions(call.actor()?, owner, standing);
    actions.retain(|action| !action.requires_other_role() && !standing.is_no_op(action.id()));
    Ok(ReleaseItem {
        key: format!("{HOST_CLUSTER}/{}", row.key),
        v: row.etag.clone(),
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
        made_by: row.managed_by,
        facts: row.flags.clone(),
        actions,
    })
}
