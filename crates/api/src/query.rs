//! Query parameters. A parameter has the same meaning on every route.

use serde_json::{Value, json};

/// A row: name, type of the value, and description.
type ParamRow = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
pub const QUERY_PARAMS: &[ParamRow] = &[
    ("now",      "boolean", "Delete immediately instead of after the retention period"),
    ("ws",       "string",  "Workspace"),
    ("c",        "string",  "Cluster"),
    ("ns",       "string",  "Namespace"),
    ("q",        "string",  "Text that the name or the chart contains"),
    ("status",   "string",  "Status: good, moving, attention, bad, resting, unknown or none; comma-separated"),
    ("label",    "string",  "Label selector, as in kubectl"),
    ("field",    "string",  "Field selector, such as `chart=web,state!=active`"),
    ("sort",     "string",  "Field to sort by; a leading `-` reverses the order"),
    ("at",       "integer", "Offset of the first item"),
    ("limit",    "integer", "Maximum number of items"),
    ("cursor",   "string",  "Cursor from `next` of the previous page"),
    ("facets",   "string",  "Fields whose values are counted over all matching items; comma-separated"),
    ("revision", "integer", "Helm revision [default: the newest]"),
    ("all",      "boolean", "Include the chart's default values"),
    ("from",     "integer", "Revision to compare from [default: the one before `to`]"),
    ("to",       "integer", "Revision to compare to [default: the newest]"),
    ("of",       "string",  "Subject of the comparison: manifest or values"),
    ("claims",   "boolean", "Also delete the PersistentVolumeClaims of its StatefulSets, with all data"),
    ("asAdministrator", "boolean", "Use the caller's platform administrator permissions, in this version only, for objects that the release may not write or delete; requires an unscoped credential"),
    ("force",    "boolean", "Skip hooks and leave objects that cannot be deleted, which the response lists; requires permission to delete the namespace"),
    ("only",     "string",  "Names of the tests to run; comma-separated"),
    ("except",   "string",  "Names of tests to skip; comma-separated"),
    ("logs",     "boolean", "Include the logs of the test pods"),
    ("timeout",  "string",  "Timeout of each test, such as `10m`; at most 1h [default: 5m]"),
    ("check",    "boolean", "Require that the repository serves an index before it is saved [default: true]"),
    ("rolling",  "boolean", "Restart pods one after another, by the workloads' update strategy"),
    ("pod",      "string",  "Only this pod"),
    ("container", "string", "Only containers of this name"),
    ("tail",     "integer", "Number of recent lines per container"),
    ("previous", "boolean", "Logs of the containers' previous instances"),
    ("timestamps", "boolean", "Include the time of each line"),
    ("selector", "string",  "Label selector of pods, as in kubectl"),
    ("follow",   "boolean", "Stream new lines, including those of new pods, as server-sent events"),
    ("max",      "integer", "Maximum number of containers to follow concurrently, at most 50; others wait until one ends [default: 20]"),
    ("keepBindings", "boolean", "Keep RoleBindings for ServiceAccounts that the member may have created [default: delete them]"),
    // The OpenYurt console.
    ("namespace",   "string", "Namespace [default: the caller's namespaces; for administrators all]"),
    ("continue",    "string", "Continue token of the previous page"),
    ("type",        "string", "Event type: Normal or Warning"),
    ("kind",        "string", "Kind of the involved object"),
    ("name",        "string", "Name of the object"),
    ("since",       "string", "Maximum age: an RFC 3339 time; for logs, a number of seconds"),
    ("email",       "string", "E-mail address of the account"),
    ("phone",       "string", "Phone number of the account"),
    ("mobilephone", "string", "Alias of `phone`"),
    ("mobilePhone", "string", "Alias of `phone`"),
    ("token",       "string", "Login token; prefer a header, because proxies log query parameters"),
    ("pool",        "string", "Node pool that machines join"),
    ("kubeConfig",  "string", "Ignored"),
    ("kubeconfig",  "string", "Ignored"),
];

/// Describes a parameter for the OpenAPI document.
pub fn describe_param(word: &str) -> Value {
    let (_, kind, meaning) =
        QUERY_PARAMS.iter().find(|row| row.0 == word).expect("every word of a query has a row");
    json!({"name": word, "in": "query", "schema": {"type": kind}, "description": meaning})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_param_is_described_once() {
        for word in crate::routes::table().iter().filter_map(|row| row.query).flatten() {
            assert_eq!(QUERY_PARAMS.iter().filter(|row| row.0 == *word).count(), 1, "{word}");
        }
    }
}
