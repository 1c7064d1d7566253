//! Query parameters. A parameter has the same meaning on every route.

use serde_json::{Value, json};

/// A row: name, type of the value, and description.
type ParamRow = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
pub const QUERY_PARAMS: &[ParamRow] = &[
    ("now",      "boolean", "At once, and not after a while"),
    ("ws",       "string",  "In this workspace"),
    ("c",        "string",  "On this cluster"),
    ("ns",       "string",  "In this namespace"),
    ("q",        "string",  "What names and charts contain"),
    ("status",   "string",  "How it does: good, moving, attention, bad, resting, unknown, none; several with commas"),
    ("label",    "string",  "A selector of labels, as kubectl takes it"),
    ("field",    "string",  "Terms such as `chart=web,state!=active`"),
    ("sort",     "string",  "By what it is sorted; with a minus the last comes first"),
    ("at",       "integer", "The rank of the first"),
    ("limit",    "integer", "How many"),
    ("cursor",   "string",  "Where the page before ended, as it said in `next`"),
    ("facets",   "string",  "What is counted over all that fit; several with commas"),
    ("revision", "integer", "Helm's revision; without it the newest"),
    ("all",      "boolean", "With what the chart says by itself"),
    ("from",     "integer", "The revision before; without it the one before `to`"),
    ("to",       "integer", "The revision after; without it the newest"),
    ("of",       "string",  "What is compared: manifest or values"),
    ("claims",   "boolean", "With the claims that its StatefulSets made, and so with their data"),
    ("asAdministrator", "boolean", "For administrators of the platform, with a credential that is not scoped: what the release itself may not write or remove is written or removed with their rights, in this version only"),
    ("force",    "boolean", "Whatever is in the way: no hooks are run, and what cannot be removed stays behind, as the answer says; for those who may remove the namespace"),
    ("only",     "string",  "The tests of these names; several with commas"),
    ("except",   "string",  "Not the tests of these names; several with commas"),
    ("logs",     "boolean", "With what the pods of the tests printed"),
    ("timeout",  "string",  "How long any one test may take, such as `10m`; five minutes if nothing is said, an hour at most"),
    ("check",    "boolean", "Whether it must answer with an index before it is kept; it must where nothing is said"),
    ("rolling",  "boolean", "One after the other"),
    ("pod",      "string",  "Of this pod"),
    ("container", "string", "Of the container of this name"),
    ("tail",     "integer", "So many lines from the end of each"),
    ("previous", "boolean", "Of the container that ran before"),
    ("timestamps", "boolean", "With the time of each line"),
    ("selector", "string",  "Of pods with these labels, as kubectl selects"),
    ("follow",   "boolean", "Also what comes, as it comes, of pods that come later, too: as events"),
    ("max",      "integer", "So many containers are followed at the same time, 20 where nothing is said, 50 at most; others wait until one of them ends"),
    ("keepBindings", "boolean", "Keep RoleBindings for ServiceAccounts that the member may have created; without it they are deleted"),
    // The OpenYurt console.
    ("namespace",   "string", "In this namespace; without it one's own, and for administrators every one"),
    ("continue",    "string", "Where the page before ended, as it said in `continue`"),
    ("type",        "string", "Normal or Warning"),
    ("kind",        "string", "About objects of this kind"),
    ("name",        "string", "Of this name"),
    ("since",       "string", "Not older than this: a time as RFC 3339 writes it; of logs, a number of seconds"),
    ("email",       "string", "The e-mail address of the account"),
    ("phone",       "string", "The phone number of the account"),
    ("mobilephone", "string", "As `phone`"),
    ("mobilePhone", "string", "As `phone`"),
    ("token",       "string", "The login token. Better sent in a header, where nobody on the way keeps it"),
    ("pool",        "string", "The pool that machines are to join"),
    ("kubeConfig",  "string", "Not looked at"),
    ("kubeconfig",  "string", "Not looked at"),
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
