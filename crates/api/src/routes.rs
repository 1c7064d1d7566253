//! Table of all routes with their requirements. The router, the OpenAPI document, the audit log, the allowed actions
//! of objects and the role matrix all read it.

use domain::roles::Capability::{
    ChangeReleases, DeleteWorkspace, ManageMembers, ManageNamespaces, ManageUsers, ReadAudit, ReadReleases,
    ReadStore, ReadUsers, ReadWorkspace, WriteRepositories,
};

use crate::native::{
    invitations, kubeconfig, members, nodes, operations, packages, progress, quota, releases, repos, roles,
    session, tokens, users, workspaces,
};
use crate::openyurt::{events, login, overview, paging, pools, register};
use crate::requirement::Requirement::{
    Authenticated, LocalOr, OptionalUser, Platform, Public, Release, Repo, SelfOr, UnrestrictedUser,
    Workspace,
};
use crate::route::{Route, act, create, delete, get, order, patch, put, raw_route, retire};
use crate::{health, metrics, openapi, pages};

macro_rules! path {
    ($path:literal) => {
        concat!("/api/longshore/v1/", $path)
    };
}

/// Path prefix of the native API.
pub const ROOT: &str = "/api/longshore/v1";
/// Paths of single objects.
pub const USER: &str = path!("users/{user}");
pub const WORKSPACE: &str = path!("workspaces/{workspace}");
pub const RELEASE: &str = path!("releases/{cluster}/{namespace}/{release}");
pub const REPO: &str = path!("repos/{repo}");
pub const MEMBER: &str = path!("workspaces/{workspace}/members/{user}");

/// The route table. `/metrics` is public on this machine; other clients need the capability `ReadAudit`.
#[rustfmt::skip]
pub fn table() -> Vec<Route> {
    vec![
        raw_route("/healthz",      "health.alive",     Public,             "Liveness: the process responds", "text/plain", health::healthz),
        raw_route("/readyz",       "health.ready",     Public,             "Readiness: 200 if all components are ready; 503 lists those that are not", "text/plain", health::readyz),
        raw_route("/metrics",      "metrics.read",     LocalOr(ReadAudit),   "Metrics for Prometheus", "application/openmetrics-text", metrics::scrape),
        raw_route("/openapi.json", "openapi.read",     Public,             "This document", "application/json", openapi::document),
        raw_route("/docs",         "docs.read",        Public,             "This document as a page for browsers", "text/html", pages::docs::get),
        raw_route("/",             "root.read",        Public,             "A page with the version of the server and links, for browsers", "text/html", pages::root::get),

        get   (path!("auth/methods"), "session.methods",   Public,    "List the sign-in methods", session::list_methods),
        get   (path!("session"),      "session.read",      Authenticated,    "Get the current session: identity, memberships and capabilities", session::get),
        act   (path!("session"),      "session.create",    Public,    "Sign in", session::sign_in),
        delete(path!("session"),      "session.delete",    Authenticated,    "Sign out", session::sign_out),

        get   (path!("users"),                     "users.list",       Platform(ReadUsers),   "List accounts", users::list),
        create(path!("users"),                     "users.create",     OptionalUser,                 "Register an account, or create one as an administrator", users::create),
        get   (USER,                               "users.read",       SelfOr(ReadUsers),        "Get an account", users::get),
        patch (USER,                               "users.update",     SelfOr(ManageUsers),      "Update an account; absent fields are unchanged", users::update).versioned(),
        delete(USER,                               "users.delete",     SelfOr(ManageUsers),      "Delete an account and its personal workspace", users::delete).versioned(),
        order (path!("users/{user}/password"),     "users.password",   SelfOr(ManageUsers),      "Set the password of an account", users::change_password),
        act   (path!("users/{user}/revoke"),       "users.revoke",     SelfOr(ManageUsers),      "Revoke all credentials of an account: sessions, tokens and kubeconfigs", users::revoke_credentials),
        get   (path!("accounts/{user}/progress"),  "users.progress",   SelfOr(ReadUsers),        "Stream the progress of an account's preparation", progress::watch),

        get   (path!("tokens"),          "tokens.list",    UnrestrictedUser, "List the caller's API tokens", tokens::list),
        create(path!("tokens"),          "tokens.create",  UnrestrictedUser, "Create an API token", tokens::create),
        delete(path!("tokens/{token}"),  "tokens.delete",  Authenticated,    "Revoke an API token", tokens::revoke),
        act   (path!("kubeconfig"),      "kubeconfig.create", UnrestrictedUser, "Create a kubeconfig for the caller, valid for a day", kubeconfig::create),
        delete(path!("nodes/{node}"),    "nodes.delete",   Authenticated,    "Remove a node that joined: its machine loses access", nodes::remove),
        get   (path!("roles"),           "roles.list",     Authenticated,    "List roles and their capabilities", roles::list),

        get   (path!("workspaces"),      "workspaces.list",    Authenticated,                     "List the workspaces visible to the caller", workspaces::list),
        create(path!("workspaces"),      "workspaces.create",  UnrestrictedUser,                  "Create a workspace", workspaces::create),
        get   (WORKSPACE,                "workspaces.read",    Workspace(ReadWorkspace),    "Get a workspace", workspaces::get),
        patch (WORKSPACE,                "workspaces.update",  Workspace(ManageNamespaces), "Change the display name of a workspace", workspaces::update).versioned(),
        retire(WORKSPACE,                "workspaces.delete",  Workspace(DeleteWorkspace),  "Delete a workspace after a retention period, or immediately", workspaces::delete).with_query(&["now"]).versioned(),
        act   (path!("workspaces/{workspace}/restore"),                  "workspaces.restore",   Workspace(DeleteWorkspace),  "Cancel the deletion of a workspace", workspaces::restore).versioned(),
        create(path!("workspaces/{workspace}/namespaces"),               "namespaces.create",    Workspace(ManageNamespaces), "Add a namespace to a workspace", workspaces::add_namespace).versioned(),
        retire(path!("workspaces/{workspace}/namespaces/{namespace}"),   "namespaces.delete",    Workspace(ManageNamespaces), "Delete a namespace and everything in it", workspaces::remove_namespace).versioned(),
        get   (path!("workspaces/{workspace}/quota"),                    "quota.read",           Workspace(ReadWorkspace),    "Get the quota and usage of a workspace", quota::get),
        put   (path!("workspaces/{workspace}/quota"),                    "quota.update",         Workspace(ManageNamespaces), "Set the quota of a workspace and its namespaces' shares", quota::update).versioned(),
        get   (path!("workspaces/{workspace}/members"),                  "members.list",         Workspace(ReadWorkspace),    "List the members of a workspace", members::list),
        put   (MEMBER,                                                   "members.update",       Workspace(ManageMembers),    "Change the role of a member", members::set_role),
        retire(MEMBER,                                                   "members.delete",       SelfOr(ManageMembers),          "Remove a member from a workspace, or leave it", members::remove).with_query(&[members::KEEP_BINDINGS_PARAM]),
        get   (path!("workspaces/{workspace}/invitations"),              "invitations.list",     Workspace(ManageMembers),    "List the pending invitations of a workspace", invitations::list),
        create(path!("workspaces/{workspace}/invitations"),              "invitations.create",   Workspace(ManageMembers),    "Invite a user to a workspace", invitations::create),
        delete(path!("workspaces/{workspace}/invitations/{invitation}"), "invitations.delete",   Workspace(ManageMembers),    "Revoke an invitation", invitations::withdraw),

        get   (path!("invitations"),              "invitations.own",      UnrestrictedUser, "List the caller's invitations", invitations::list_received),
        act   (path!("invitations/{workspace}"),  "invitations.accept",   UnrestrictedUser, "Accept an invitation", invitations::accept),
        delete(path!("invitations/{workspace}"),  "invitations.decline",  UnrestrictedUser, "Decline an invitation", invitations::decline),

        get   (path!("releases"),        "releases.list",      Authenticated,                 "List the releases visible to the caller", releases::list::list).with_query(releases::list::QUERY),
        create(path!("releases"),        "releases.create",    Authenticated,                 "Create a release", releases::create).with_query(&[releases::AS_ADMINISTRATOR_PARAM]).idempotent(),
        get   (RELEASE,                  "releases.read",      Release(ReadReleases),   "Get a release", releases::get_release),
        patch (RELEASE,                  "releases.update",    Release(ChangeReleases), "Update a release; absent fields are unchanged", releases::update).with_query(&[releases::AS_ADMINISTRATOR_PARAM]).versioned().idempotent(),
        retire(RELEASE,                  "releases.delete",    Release(ChangeReleases), "Uninstall a release", releases::delete).with_query(&["claims", releases::FORCE_PARAM, releases::AS_ADMINISTRATOR_PARAM]).versioned().action_when(releases::FORCE_PARAM, "releases.force-delete"),
        get   (path!("releases/{cluster}/{namespace}/{release}/history"),   "releases.history",   Release(ReadReleases),   "List the revisions of a release, newest first", releases::get::history).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/values"),    "releases.values",    Release(ReadReleases),   "Get the values of a revision", releases::get::values).with_query(&["revision", "all"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/manifest"),  "releases.manifest",  Release(ReadReleases),   "Get the manifest of a revision", releases::get::manifest).with_query(&["revision"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/notes"),     "releases.notes",     Release(ReadReleases),   "Get the notes of a revision", releases::get::notes).with_query(&["revision"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/diff"),      "releases.diff",      Release(ReadReleases),   "Compare two revisions", releases::get::diff).with_query(&["from", "to", "of"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/resources"), "releases.resources", Release(ReadReleases),   "List the objects of a release with their state", releases::get::resources).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/drift"),     "releases.drift",     Release(ReadReleases),   "Compare live objects with the deployed revision", releases::get::drift).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/logs"),      "releases.logs",      Release(ReadReleases),   "Get or stream the logs of a release's containers", releases::get::logs).with_query(releases::get::LOG_QUERY).large(),
        act   (path!("releases/{cluster}/{namespace}/{release}/plan"),      "releases.plan",      Release(ChangeReleases), "Preview a change of a release without writing anything", releases::actions::plan).with_query(&[releases::AS_ADMINISTRATOR_PARAM]),
        act   (path!("releases/{cluster}/{namespace}/{release}/rollback"),  "releases.rollback",  Release(ChangeReleases), "Roll back to an earlier revision", releases::actions::rollback).with_query(&[releases::AS_ADMINISTRATOR_PARAM]).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/pause"),     "releases.pause",     Release(ChangeReleases), "Scale all workloads to zero; volumes and Services are kept", releases::actions::pause).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/recover"),   "releases.recover",   Release(ChangeReleases), "Scale the workloads of a paused release back up", releases::actions::recover).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/suspend"),   "releases.suspend",   Release(ChangeReleases), "Suspend reconciliation of a release", releases::actions::suspend).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/resume"),    "releases.resume",    Release(ChangeReleases), "Resume reconciliation of a suspended release", releases::actions::resume).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/retry"),     "releases.retry",     Release(ChangeReleases), "Retry the failed operation of a release", releases::actions::retry).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/restart"),   "releases.restart",   Release(ChangeReleases), "Restart all workloads of a release", releases::actions::restart).with_query(&["rolling"]).large(),
        act   (path!("releases/{cluster}/{namespace}/{release}/test"),      "releases.test",      Release(ChangeReleases), "Run the test hooks of a release", releases::actions::test).with_query(&["only", "except", "logs", "timeout"]).with_timeout(releases::actions::TEST_TIMEOUT),
        act   (path!("releases/{cluster}/{namespace}/{release}/adopt"),     "releases.adopt",     Release(ChangeReleases), "Manage an existing Helm release", releases::actions::adopt),

        get   (path!("operations/{operation}"),           "operations.read",   Authenticated,  "Get the state of an operation", operations::get),
        get   (path!("operations/{operation}/progress"),  "operations.follow", Authenticated,  "Stream the state of an operation until it ends", operations::watch),

        get   (path!("repos"),                        "repos.list",    Authenticated,                  "List the chart repositories visible to the caller", repos::list).with_query(&["ws"]),
        create(path!("repos"),                        "repos.create",  Authenticated,                  "Add a chart repository", repos::create).with_query(&[repos::CHECK_PARAM]),
        get   (REPO,                                  "repos.read",    Repo(ReadStore),          "Get a chart repository", repos::get),
        patch (REPO,                                  "repos.update",  Repo(WriteRepositories),  "Update a chart repository; absent fields are unchanged", repos::update).with_query(&[repos::CHECK_PARAM]).versioned(),
        delete(REPO,                                  "repos.delete",  Repo(WriteRepositories),  "Delete a chart repository; releases of its charts are kept", repos::delete).versioned(),
        get   (path!("repos/{repo}/charts"),          "repos.charts",  Repo(ReadStore),          "List the charts of a repository", repos::list_charts),
        get   (path!("repos/{repo}/charts/{chart}"),  "repos.chart",   Repo(ReadStore),          "List the versions of a chart, newest first", repos::list_versions),
        act   (path!("packages"),        "packages.keep",      Authenticated,                 "Upload a chart archive, from which releases can be created", packages::upload).with_query(&["ws"]),

        get   ("/clusterOverview", "console.overview",   Authenticated, "Count pods, nodes and workloads, total and healthy", overview::overview).openyurt(overview::OVERVIEW_QUERY),
        get   ("/clusterEvents",   "console.events",     Authenticated, "List events, newest first", events::list).openyurt(events::QUERY),
        get   ("/nodes",           "console.nodes",      Authenticated, "List the nodes visible to the caller", overview::nodes).openyurt(paging::CLUSTER_SCOPED_QUERY),
        get   ("/nodepools",       "console.pools",      Authenticated, "List the node pools visible to the caller", overview::pools).openyurt(overview::POOLS_QUERY),
        create("/nodepools",        "console.pools.create", Authenticated, "Create a node pool", pools::create).openyurt(pools::QUERY),
        put   ("/nodepools/{pool}", "console.pools.update", Authenticated, "Update a node pool; absent fields are unchanged", pools::update).openyurt(pools::QUERY),
        retire("/nodepools/{pool}", "console.pools.delete", Authenticated, "Delete a node pool without nodes", pools::delete).openyurt(pools::QUERY),
        put   ("/nodes/{node}/autonomy", "console.autonomy", Authenticated, "Set whether a node keeps its pods while it is disconnected", pools::set_autonomy).openyurt(pools::QUERY),
        get   ("/deployments",     "console.deployments",  Authenticated, "List Deployments", overview::deployments).openyurt(paging::NAMESPACED_QUERY),
        get   ("/statefulsets",    "console.statefulsets", Authenticated, "List StatefulSets", overview::statefulsets).openyurt(paging::NAMESPACED_QUERY),
        get   ("/daemonsets",      "console.daemonsets",   Authenticated, "List DaemonSets", overview::daemonsets).openyurt(paging::NAMESPACED_QUERY),
        get   ("/jobs",            "console.jobs",         Authenticated, "List Jobs", overview::jobs).openyurt(paging::NAMESPACED_QUERY),
        get   ("/cronjobs",        "console.cronjobs",     Authenticated, "List CronJobs", overview::cronjobs).openyurt(paging::NAMESPACED_QUERY),
        get   ("/pods",            "console.pods",         Authenticated, "List Pods", overview::pods).openyurt(paging::NAMESPACED_QUERY),
        get   ("/login",         "console.login",     Public, "Log in with query parameters, for old clients", login::by_query).openyurt(login::QUERY),
        act   ("/login",         "console.login.post", Public, "Log in: returns the account, its kubeconfig and join script, and opens a session", login::by_form).openyurt(&[]),
        act   ("/register",      "console.register",  OptionalUser,  "Register an account and get its login token", register::register).openyurt(&[]),
    ]
}
