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
use crate::needs::Needs::{
    Anybody, Guest, Nearby, Nothing, Own, Platform, Release, Repo, Themselves, Workspace,
};
use crate::openyurt::{events, login, look, page, pools, register};
use crate::route::{Route, act, create, delete, get, order, patch, put, raw, retire};
use crate::{health, metrics, openapi};

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
        raw("/healthz",      "health.alive",     Nothing,             "The process answers", "text/plain", health::alive),
        raw("/readyz",       "health.ready",     Nothing,             "Every part is up; 503 names those that are not", "text/plain", health::ready),
        raw("/metrics",      "metrics.read",     Nearby(ReadAudit),   "What the process counts, for Prometheus", "application/openmetrics-text", metrics::show),
        raw("/openapi.json", "openapi.read",     Nothing,             "This document", "application/json", openapi::document),
        raw("/docs",         "docs.read",        Nothing,             "This document, for people", "text/html", openapi::page),

        get   (path!("auth/methods"), "session.methods",   Nothing,    "How one can sign in", session::methods),
        get   (path!("session"),      "session.read",      Anybody,    "Who one is, and what one may do", session::show),
        act   (path!("session"),      "session.create",    Nothing,    "Sign in", session::sign_in),
        delete(path!("session"),      "session.delete",    Anybody,    "Sign out", session::sign_out),

        get   (path!("users"),                     "users.list",       Platform(ReadUsers),   "Every account", users::list),
        create(path!("users"),                     "users.create",     Guest,                 "Register, or make an account for somebody", users::create),
        get   (USER,                               "users.read",       Own(ReadUsers),        "An account", users::show),
        patch (USER,                               "users.update",     Own(ManageUsers),      "Change an account", users::change).versioned(),
        delete(USER,                               "users.delete",     Own(ManageUsers),      "Remove an account and all that is its own", users::delete).versioned(),
        order (path!("users/{user}/password"),     "users.password",   Own(ManageUsers),      "Give an account a new password", users::password),
        act   (path!("users/{user}/revoke"),       "users.revoke",     Own(ManageUsers),      "Revoke all credentials of an account: sessions, tokens and kubeconfigs", users::revoke),
        get   (path!("accounts/{user}/progress"),  "users.progress",   Own(ReadUsers),        "How far an account is prepared, as it happens", progress::follow),

        get   (path!("tokens"),          "tokens.list",    Themselves, "One's tokens", tokens::list),
        create(path!("tokens"),          "tokens.create",  Themselves, "Make a token", tokens::create),
        delete(path!("tokens/{token}"),  "tokens.delete",  Anybody,    "Take a token back", tokens::revoke),
        act   (path!("kubeconfig"),      "kubeconfig.create", Themselves, "One's own kubeconfig, good for a day", kubeconfig::compose),
        get   (path!("roles"),           "roles.list",     Anybody,    "Who may do what", roles::list),

        get   (path!("workspaces"),      "workspaces.list",    Anybody,                     "The workspaces that one may see", workspaces::list),
        create(path!("workspaces"),      "workspaces.create",  Themselves,                  "Make a workspace", workspaces::create),
        get   (WORKSPACE,                "workspaces.read",    Workspace(ReadWorkspace),    "A workspace", workspaces::show),
        patch (WORKSPACE,                "workspaces.update",  Workspace(ManageNamespaces), "Call a workspace something else", workspaces::change).versioned(),
        retire(WORKSPACE,                "workspaces.delete",  Workspace(DeleteWorkspace),  "Remove a workspace, after a while or now", workspaces::delete).with(&["now"]).versioned(),
        act   (path!("workspaces/{workspace}/restore"),                  "workspaces.restore",   Workspace(DeleteWorkspace),  "Bring back a workspace that is to be removed", workspaces::restore).versioned(),
        create(path!("workspaces/{workspace}/namespaces"),               "namespaces.create",    Workspace(ManageNamespaces), "Add a namespace", workspaces::add_namespace).versioned(),
        retire(path!("workspaces/{workspace}/namespaces/{namespace}"),   "namespaces.delete",    Workspace(ManageNamespaces), "Remove a namespace and everything in it", workspaces::remove_namespace).versioned(),
        get   (path!("workspaces/{workspace}/quota"),                    "quota.read",           Workspace(ReadWorkspace),    "What a workspace may use, and uses", quota::quota),
        put   (path!("workspaces/{workspace}/quota"),                    "quota.update",         Workspace(ManageNamespaces), "Set what a workspace may use, and how its namespaces share it", quota::set_quota).versioned(),
        get   (path!("workspaces/{workspace}/members"),                  "members.list",         Workspace(ReadWorkspace),    "Who belongs to a workspace", members::list),
        put   (MEMBER,                                                   "members.update",       Workspace(ManageMembers),    "Give a member a role", members::set),
        retire(MEMBER,                                                   "members.delete",       Own(ManageMembers),          "Take somebody out of a workspace, or leave it", members::remove).with(&[members::KEEP_BINDINGS]),
        get   (path!("workspaces/{workspace}/invitations"),              "invitations.list",     Workspace(ManageMembers),    "Who was asked to join", invitations::list),
        create(path!("workspaces/{workspace}/invitations"),              "invitations.create",   Workspace(ManageMembers),    "Ask somebody to join", invitations::create),
        delete(path!("workspaces/{workspace}/invitations/{invitation}"), "invitations.delete",   Workspace(ManageMembers),    "Take an invitation back", invitations::withdraw),

        get   (path!("invitations"),              "invitations.own",      Themselves, "What one was asked to join", invitations::own),
        act   (path!("invitations/{workspace}"),  "invitations.accept",   Themselves, "Join", invitations::accept),
        delete(path!("invitations/{workspace}"),  "invitations.decline",  Themselves, "Do not join", invitations::decline),

        get   (path!("releases"),        "releases.list",      Anybody,                 "The releases that one may see", releases::list::list).with(releases::list::QUERY),
        create(path!("releases"),        "releases.create",    Anybody,                 "Ask for a release", releases::create).with(&[releases::AS_ADMINISTRATOR]).once(),
        get   (RELEASE,                  "releases.read",      Release(ReadReleases),   "A release", releases::show),
        patch (RELEASE,                  "releases.update",    Release(ChangeReleases), "Change a release; what is not said stays", releases::change).with(&[releases::AS_ADMINISTRATOR]).versioned().once(),
        retire(RELEASE,                  "releases.delete",    Release(ChangeReleases), "Uninstall a release", releases::delete).with(&["claims", releases::FORCE, releases::AS_ADMINISTRATOR]).versioned().saying(releases::FORCE, "releases.force-delete"),
        get   (path!("releases/{cluster}/{namespace}/{release}/history"),   "releases.history",   Release(ReadReleases),   "The revisions of a release, the newest first", releases::look::history).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/values"),    "releases.values",    Release(ReadReleases),   "The values of a revision", releases::look::values).with(&["revision", "all"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/manifest"),  "releases.manifest",  Release(ReadReleases),   "The objects of a revision, as they were written", releases::look::manifest).with(&["revision"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/notes"),     "releases.notes",     Release(ReadReleases),   "The notes of a revision", releases::look::notes).with(&["revision"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/diff"),      "releases.diff",      Release(ReadReleases),   "What is different between two revisions", releases::look::diff).with(&["from", "to", "of"]).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/resources"), "releases.resources", Release(ReadReleases),   "The objects of a release, and how each does", releases::look::resources).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/drift"),     "releases.drift",     Release(ReadReleases),   "What others made of a release since it was deployed", releases::look::drift).large(),
        get   (path!("releases/{cluster}/{namespace}/{release}/logs"),      "releases.logs",      Release(ReadReleases),   "What the containers of a release print; followed, as it comes", releases::look::logs).with(releases::look::OF_LOGS).large(),
        act   (path!("releases/{cluster}/{namespace}/{release}/plan"),      "releases.plan",      Release(ChangeReleases), "What a change would make of a release; nothing is written", releases::acts::plan).with(&[releases::AS_ADMINISTRATOR]),
        act   (path!("releases/{cluster}/{namespace}/{release}/rollback"),  "releases.rollback",  Release(ChangeReleases), "Go back to what a revision was made of", releases::acts::rollback).with(&[releases::AS_ADMINISTRATOR]).versioned().once(),
        act   (path!("releases/{cluster}/{namespace}/{release}/pause"),     "releases.pause",     Release(ChangeReleases), "Take all workloads to zero; data and addresses stay", releases::acts::pause).versioned().once(),
        act   (path!("releases/{cluster}/{namespace}/{release}/recover"),   "releases.recover",   Release(ChangeReleases), "Bring a paused release back", releases::acts::recover).versioned().once(),
        act   (path!("releases/{cluster}/{namespace}/{release}/suspend"),   "releases.suspend",   Release(ChangeReleases), "Look after a release no more, until it is resumed", releases::acts::suspend).versioned().once(),
        act   (path!("releases/{cluster}/{namespace}/{release}/resume"),    "releases.resume",    Release(ChangeReleases), "Look after a suspended release again", releases::acts::resume).versioned().once(),
        act   (path!("releases/{cluster}/{namespace}/{release}/retry"),     "releases.retry",     Release(ChangeReleases), "Try again what failed, as it was asked for", releases::acts::retry).versioned().once(),
        act   (path!("releases/{cluster}/{namespace}/{release}/restart"),   "releases.restart",   Release(ChangeReleases), "Restart the pods of all workloads", releases::acts::restart).with(&["rolling"]).large(),
        act   (path!("releases/{cluster}/{namespace}/{release}/test"),      "releases.test",      Release(ChangeReleases), "Run the tests of a release", releases::acts::test).with(&["only", "except", "logs", "timeout"]).within(releases::acts::TESTED_WITHIN),
        act   (path!("releases/{cluster}/{namespace}/{release}/adopt"),     "releases.adopt",     Release(ChangeReleases), "Look after a release that the helm command line made", releases::acts::adopt),

        get   (path!("operations/{operation}"),           "operations.read",   Anybody,  "How far something has come that was asked for", operations::show),
        get   (path!("operations/{operation}/progress"),  "operations.follow", Anybody,  "The same, as it happens, until it is over", operations::follow),

        get   (path!("repos"),                        "repos.list",    Anybody,                  "The repositories that one may see", repos::list).with(&["ws"]),
        create(path!("repos"),                        "repos.create",  Anybody,                  "Tell of a repository", repos::create).with(&[repos::CHECK]),
        get   (REPO,                                  "repos.read",    Repo(ReadStore),          "A repository", repos::show),
        patch (REPO,                                  "repos.update",  Repo(WriteRepositories),  "Change a repository; what is not said stays", repos::change).with(&[repos::CHECK]).versioned(),
        delete(REPO,                                  "repos.delete",  Repo(WriteRepositories),  "Forget a repository; releases of its charts stay", repos::delete).versioned(),
        get   (path!("repos/{repo}/charts"),          "repos.charts",  Repo(ReadStore),          "The charts of a repository", repos::charts),
        get   (path!("repos/{repo}/charts/{chart}"),  "repos.chart",   Repo(ReadStore),          "The versions of a chart, the newest first", repos::chart),
        act   (path!("packages"),        "packages.keep",      Anybody,                 "Keep the archive of a chart, so that a release can be asked for of it", packages::keep).with(&["ws"]),

        get   ("/clusterOverview", "console.overview",   Anybody, "How many there are of what, and how many of them are well", look::overview).of_console(look::OF_OVERVIEW),
        get   ("/clusterEvents",   "console.events",     Anybody, "What happened, the newest first", events::list).of_console(events::QUERY),
        get   ("/nodes",           "console.nodes",      Anybody, "The nodes that one may see", look::nodes).of_console(page::OF_CLUSTER),
        get   ("/nodepools",       "console.pools",      Anybody, "The pools that one may see", look::pools).of_console(look::OF_POOLS),
        create("/nodepools",        "console.pools.create", Anybody, "Make a pool", pools::create).of_console(pools::QUERY),
        put   ("/nodepools/{pool}", "console.pools.update", Anybody, "Change what the nodes of a pool get; what is not said stays", pools::change).of_console(pools::QUERY),
        retire("/nodepools/{pool}", "console.pools.delete", Anybody, "Remove a pool that has no nodes", pools::delete).of_console(pools::QUERY),
        put   ("/nodes/{node}/autonomy", "console.autonomy", Anybody, "Whether a node keeps its pods while it is cut off", pools::autonomy).of_console(pools::QUERY),
        get   ("/deployments",     "console.deployments",  Anybody, "Deployments", look::deployments).of_console(page::OF_NAMESPACES),
        get   ("/statefulsets",    "console.statefulsets", Anybody, "StatefulSets", look::statefulsets).of_console(page::OF_NAMESPACES),
        get   ("/daemonsets",      "console.daemonsets",   Anybody, "DaemonSets", look::daemonsets).of_console(page::OF_NAMESPACES),
        get   ("/jobs",            "console.jobs",         Anybody, "Jobs", look::jobs).of_console(page::OF_NAMESPACES),
        get   ("/cronjobs",        "console.cronjobs",     Anybody, "CronJobs", look::cronjobs).of_console(page::OF_NAMESPACES),
        get   ("/pods",            "console.pods",         Anybody, "Pods", look::pods).of_console(page::OF_NAMESPACES),
        get   ("/login",         "console.login",     Nothing, "Log in, as old clients do", login::by_query).of_console(login::QUERY),
        act   ("/login",         "console.login.post", Nothing, "Log in: the account, its kubeconfig, how a machine joins, and a session", login::by_form).of_console(&[]),
        act   ("/register",      "console.register",  Guest,  "Register, and be told the login token", register::register).of_console(&[]),
    ]
}
