//! Table of all routes with their requirements. The router, the OpenAPI document, the audit log, the allowed actions
//! of objects and the role matrix all read it.

use domain::roles::Capability::{
    ChangeReleases, DeleteWorkspace, ManageMembers, ManageNamespaces, ManageUsers, ReadAudit, ReadReleases,
    ReadStore, ReadUsers, ReadWorkspace, WriteRepositories,
};

use crate::native::{
    invitations, kubeconfig, members, operations, packages, progress, quota, releases, repos, roles, session,
    tokens, users, workspaces,
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
        raw_route("/healthz",      "health.alive",     Public,             "The process answers", "text/plain", health::healthz),
        raw_route("/readyz",       "health.ready",     Public,             "Every part is up; 503 names those that are not", "text/plain", health::readyz),
        raw_route("/metrics",      "metrics.read",     LocalOr(ReadAudit),   "What the process counts, for Prometheus", "application/openmetrics-text", metrics::scrape),
        raw_route("/openapi.json", "openapi.read",     Public,             "This document", "application/json", openapi::document),
        raw_route("/docs",         "docs.read",        Public,             "This document as a page for browsers", "text/html", pages::docs::get),
        raw_route("/",             "root.read",        Public,             "A page with the version of the server and links, for browsers", "text/html", pages::root::get),

        get   (path!("auth/methods"), "session.methods",   Public,    "How one can sign in", session::list_methods),
        get   (path!("session"),      "session.read",      Authenticated,    "Who one is, and what one may do", session::get),
        act   (path!("session"),      "session.create",    Public,    "Sign in", session::sign_in),
        delete(path!("session"),      "session.delete",    Authenticated,    "Sign out", session::sign_out),

        get   (path!("users"),                     "users.list",       Platform(ReadUsers),   "Every account", users::list),
        create(path!("users"),                     "users.create",     OptionalUser,                 "Register, or make an account for somebody", users::create),
        get   (USER,                               "users.read",       SelfOr(ReadUsers),        "An account", users::get),
        patch (USER,                               "users.update",     SelfOr(ManageUsers),      "Change an account", users::update).versioned(),
        delete(USER,                               "users.delete",     SelfOr(ManageUsers),      "Remove an account and all that is its own", users::delete).versioned(),
        order (path!("users/{user}/password"),     "users.password",   SelfOr(ManageUsers),      "Give an account a new password", users::change_password),
        act   (path!("users/{user}/revoke"),       "users.revoke",     SelfOr(ManageUsers),      "Revoke all credentials of an account: sessions, tokens and kubeconfigs", users::revoke_credentials),
        get   (path!("accounts/{user}/progress"),  "users.progress",   SelfOr(ReadUsers),        "How far an account is prepared, as it happens", progress::watch),

        get   (path!("tokens"),          "tokens.list",    UnrestrictedUser, "One's tokens", tokens::list),
        create(path!("tokens"),          "tokens.create",  UnrestrictedUser, "Make a token", tokens::create),
        delete(path!("tokens/{token}"),  "tokens.delete",  Authenticated,    "Take a token back", tokens::revoke),
        act   (path!("kubeconfig"),      "kubeconfig.create", UnrestrictedUser, "One's own kubeconfig, good for a day", kubeconfig::create),
        get   (path!("roles"),           "roles.list",     Authenticated,    "Who may do what", roles::list),

        get   (path!("workspaces"),      "workspaces.list",    Authenticated,                     "The workspaces that one may see", workspaces::list),
        create(path!("workspaces"),      "workspaces.create",  UnrestrictedUser,                  "Make a workspace", workspaces::create),
        get   (WORKSPACE,                "workspaces.read",    Workspace(ReadWorkspace),    "A workspace", workspaces::get),
        patch (WORKSPACE,                "workspaces.update",  Workspace(ManageNamespaces), "Call a workspace something else", workspaces::update).versioned(),
        retire(WORKSPACE,                "workspaces.delete",  Workspace(DeleteWorkspace),  "Remove a workspace, after a while or now", workspaces::delete).with_query(&["now"]).versioned(),
        act   (path!("workspaces/{workspace}/restore"),                  "workspaces.restore",   Workspace(DeleteWorkspace),  "Bring back a workspace that is to be removed", workspaces::restore).versioned(),
        create(path!("workspaces/{workspace}/namespaces"),               "namespaces.create",    Workspace(ManageNamespaces), "Add a namespace", workspaces::add_namespace).versioned(),
        retire(path!("workspaces/{workspace}/namespaces/{namespace}"),   "namespaces.delete",    Workspace(ManageNamespaces), "Remove a namespace and everything in it", workspaces::remove_namespace).versioned(),
        get   (path!("workspaces/{workspace}/quota"),                    "quota.read",           Workspace(ReadWorkspace),    "What a workspace may use, and uses", quota::get),
        put   (path!("workspaces/{workspace}/quota"),                    "quota.update",         Workspace(ManageNamespaces), "Set what a workspace may use, and how its namespaces share it", quota::update).versioned(),
        get   (path!("workspaces/{workspace}/members"),                  "members.list",         Workspace(ReadWorkspace),    "Who belongs to a workspace", members::list),
        put   (MEMBER,                                                   "members.update",       Workspace(ManageMembers),    "Give a member a role", members::set_role),
        retire(MEMBER,                                                   "members.delete",       SelfOr(ManageMembers),          "Take somebody out of a workspace, or leave it", members::remove).with_query(&[members::KEEP_BINDINGS_PARAM]),
        get   (path!("workspaces/{workspace}/invitations"),              "invitations.list",     Workspace(ManageMembers),    "Who was asked to join", invitations::list),
        create(path!("workspaces/{workspace}/invitations"),              "invitations.create",   Workspace(ManageMembers),    "Ask somebody to join", invitations::create),
        delete(path!("workspaces/{workspace}/invitations/{invitation}"), "invitations.delete",   Workspace(ManageMembers),    "Take an invitation back", invitations::withdraw),

        get   (path!("invitations"),              "invitations.own",      UnrestrictedUser, "What one was asked to join", invitations::list_received),
        act   (path!("invitations/{workspace}"),  "invitations.accept",   UnrestrictedUser, "Join", invitations::accept),
        delete(path!("invitations/{workspace}"),  "invitations.decline",  UnrestrictedUser, "Do not join", invitations::decline),

        get   (path!("releases"),        "releases.list",      Authenticated,                 "The releases that one may see", releases::list::list).with_query(releases::list::QUERY),
        create(path!("releases"),        "releases.create",    Authenticated,                 "Ask for a release", releases::create).with_query(&[releases::AS_ADMINISTRATOR_PARAM]).idempotent(),
        get   (RELEASE,                  "releases.read",      Release(ReadReleases),   "A release", releases::get_release),
        patch (RELEASE,                  "releases.update",    Release(ChangeReleases), "Change a release; what is not said stays", releases::update).with_query(&[releases::AS_ADMINISTRATOR_PARAM]).versioned().idempotent(),
        retire(RELEASE,                  "releases.delete",    Release(ChangeReleases), "Uninstall a release", releases::delete).with_query(&["claims", releases::FORCE_PARAM, releases::AS_ADMINISTRATOR_PARAM]).versioned().action_when(releases::FORCE_PARAM, "releases.force-delete"),
        get   (path!("releases/{cluster}/{namespace}/{release}/history"),   "releases.history",   Release(ReadReleases),   "The revisions of a release, the newest first", releases::get::history).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/values"),    "releases.values",    Release(ReadReleases),   "The values of a revision", releases::get::values).with_query(&["revision", "all"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/manifest"),  "releases.manifest",  Release(ReadReleases),   "The objects of a revision, as they were written", releases::get::manifest).with_query(&["revision"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/notes"),     "releases.notes",     Release(ReadReleases),   "The notes of a revision", releases::get::notes).with_query(&["revision"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/diff"),      "releases.diff",      Release(ReadReleases),   "What is different between two revisions", releases::get::diff).with_query(&["from", "to", "of"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/resources"), "releases.resources", Release(ReadReleases),   "The objects of a release, and how each does", releases::get::resources).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/drift"),     "releases.drift",     Release(ReadReleases),   "What others made of a release since it was deployed", releases::get::drift).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/logs"),      "releases.logs",      Release(ReadReleases),   "What the containers of a release print; followed, as it comes", releases::get::logs).with_query(releases::get::LOG_QUERY).large(),
        act   (path!("releases/{cluster}/{namespace}/{release}/plan"),      "releases.plan",      Release(ChangeReleases), "What a change would make of a release; nothing is written", releases::actions::plan).with_query(&[releases::AS_ADMINISTRATOR_PARAM]),
        act   (path!("releases/{cluster}/{namespace}/{release}/rollback"),  "releases.rollback",  Release(ChangeReleases), "Go back to what a revision was made of", releases::actions::rollback).with_query(&[releases::AS_ADMINISTRATOR_PARAM]).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/pause"),     "releases.pause",     Release(ChangeReleases), "Take all workloads to zero; data and addresses stay", releases::actions::pause).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/recover"),   "releases.recover",   Release(ChangeReleases), "Bring a paused release back", releases::actions::recover).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/suspend"),   "releases.suspend",   Release(ChangeReleases), "Look after a release no more, until it is resumed", releases::actions::suspend).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/resume"),    "releases.resume",    Release(ChangeReleases), "Look after a suspended release again", releases::actions::resume).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/retry"),     "releases.retry",     Release(ChangeReleases), "Try again what failed, as it was asked for", releases::actions::retry).versioned().idempotent(),
        act   (path!("releases/{cluster}/{namespace}/{release}/restart"),   "releases.restart",   Release(ChangeReleases), "Restart the pods of all workloads", releases::actions::restart).with_query(&["rolling"]).large(),
        act   (path!("releases/{cluster}/{namespace}/{release}/test"),      "releases.test",      Release(ChangeReleases), "Run the tests of a release", releases::actions::test).with_query(&["only", "except", "logs", "timeout"]).with_timeout(releases::actions::TEST_TIMEOUT),
        act   (path!("releases/{cluster}/{namespace}/{release}/adopt"),     "releases.adopt",     Release(ChangeReleases), "Look after a release that the helm command line made", releases::actions::adopt),

        get   (path!("operations/{operation}"),           "operations.read",   Authenticated,  "How far something has come that was asked for", operations::get),
        get   (path!("operations/{operation}/progress"),  "operations.follow", Authenticated,  "The same, as it happens, until it is over", operations::watch),

        get   (path!("repos"),                        "repos.list",    Authenticated,                  "The repositories that one may see", repos::list).with_query(&["ws"]),
        create(path!("repos"),                        "repos.create",  Authenticated,                  "Tell of a repository", repos::create).with_query(&[repos::CHECK_PARAM]),
        get   (REPO,                                  "repos.read",    Repo(ReadStore),          "A repository", repos::get),
        patch (REPO,                                  "repos.update",  Repo(WriteRepositories),  "Change a repository; what is not said stays", repos::update).with_query(&[repos::CHECK_PARAM]).versioned(),
        delete(REPO,                                  "repos.delete",  Repo(WriteRepositories),  "Forget a repository; releases of its charts stay", repos::delete).versioned(),
        get   (path!("repos/{repo}/charts"),          "repos.charts",  Repo(ReadStore),          "The charts of a repository", repos::list_charts),
        get   (path!("repos/{repo}/charts/{chart}"),  "repos.chart",   Repo(ReadStore),          "The versions of a chart, the newest first", repos::list_versions),
        act   (path!("packages"),        "packages.keep",      Authenticated,                 "Keep the archive of a chart, so that a release can be asked for of it", packages::upload).with_query(&["ws"]),

        get   ("/clusterOverview", "console.overview",   Authenticated, "How many there are of what, and how many of them are well", overview::overview).openyurt(overview::OVERVIEW_QUERY),
        get   ("/clusterEvents",   "console.events",     Authenticated, "What happened, the newest first", events::list).openyurt(events::QUERY),
        get   ("/nodes",           "console.nodes",      Authenticated, "The nodes that one may see", overview::nodes).openyurt(paging::CLUSTER_SCOPED_QUERY),
        get   ("/nodepools",       "console.pools",      Authenticated, "The pools that one may see", overview::pools).openyurt(overview::POOLS_QUERY),
        create("/nodepools",        "console.pools.create", Authenticated, "Make a pool", pools::create).openyurt(pools::QUERY),
        put   ("/nodepools/{pool}", "console.pools.update", Authenticated, "Change what the nodes of a pool get; what is not said stays", pools::update).openyurt(pools::QUERY),
        retire("/nodepools/{pool}", "console.pools.delete", Authenticated, "Remove a pool that has no nodes", pools::delete).openyurt(pools::QUERY),
        put   ("/nodes/{node}/autonomy", "console.autonomy", Authenticated, "Whether a node keeps its pods while it is cut off", pools::set_autonomy).openyurt(pools::QUERY),
        get   ("/deployments",     "console.deployments",  Authenticated, "Deployments", overview::deployments).openyurt(paging::NAMESPACED_QUERY),
        get   ("/statefulsets",    "console.statefulsets", Authenticated, "StatefulSets", overview::statefulsets).openyurt(paging::NAMESPACED_QUERY),
        get   ("/daemonsets",      "console.daemonsets",   Authenticated, "DaemonSets", overview::daemonsets).openyurt(paging::NAMESPACED_QUERY),
        get   ("/jobs",            "console.jobs",         Authenticated, "Jobs", overview::jobs).openyurt(paging::NAMESPACED_QUERY),
        get   ("/cronjobs",        "console.cronjobs",     Authenticated, "CronJobs", overview::cronjobs).openyurt(paging::NAMESPACED_QUERY),
        get   ("/pods",            "console.pods",         Authenticated, "Pods", overview::pods).openyurt(paging::NAMESPACED_QUERY),
        get   ("/login",         "console.login",     Public, "Log in, as old clients do", login::by_query).openyurt(login::QUERY),
        act   ("/login",         "console.login.post", Public, "Log in: the account, its kubeconfig, how a machine joins, and a session", login::by_form).openyurt(&[]),
        act   ("/register",      "console.register",  OptionalUser,  "Register, and be told the login token", register::register).openyurt(&[]),
    ]
}
