//! Every route there is, with what it needs. The router, the description of the API, the audit trail, the actions of objects
//! and the matrix of roles all read this table.

use domain::roles::Capability::{
    DeleteWorkspace, ManageMembers, ManageNamespaces, ManageUsers, ReadAudit, ReadUsers, ReadWorkspace,
};

use crate::native::{
    invitations, kubeconfig, members, progress, quota, roles, session, tokens, users, workspaces,
};
use crate::needs::Needs::{Anybody, Guest, Nearby, Nothing, Own, Platform, Themselves, Workspace};
use crate::route::{Route, act, create, delete, get, order, patch, put, raw, retire};
use crate::{health, metrics, openapi};

macro_rules! path {
    ($path:literal) => {
        concat!("/api/longshore/v1/", $path)
    };
}

/// Above our own routes.
pub const ROOT: &str = "/api/longshore/v1";
/// Where an object of a kind is.
pub const USER: &str = path!("users/{user}");
pub const WORKSPACE: &str = path!("workspaces/{workspace}");
pub const MEMBER: &str = path!("workspaces/{workspace}/members/{user}");

/// The table. Whoever may observe the whole platform may read its metrics.
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
        order (path!("users/{user}/revoke"),       "users.revoke",     Own(ManageUsers),      "End all sessions of an account", users::revoke),
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
        delete(MEMBER,                                                   "members.delete",       Own(ManageMembers),          "Take somebody out of a workspace, or leave it", members::remove),
        get   (path!("workspaces/{workspace}/invitations"),              "invitations.list",     Workspace(ManageMembers),    "Who was asked to join", invitations::list),
        create(path!("workspaces/{workspace}/invitations"),              "invitations.create",   Workspace(ManageMembers),    "Ask somebody to join", invitations::create),
        delete(path!("workspaces/{workspace}/invitations/{invitation}"), "invitations.delete",   Workspace(ManageMembers),    "Take an invitation back", invitations::withdraw),

        get   (path!("invitations"),              "invitations.own",      Themselves, "What one was asked to join", invitations::own),
        act   (path!("invitations/{workspace}"),  "invitations.accept",   Themselves, "Join", invitations::accept),
        delete(path!("invitations/{workspace}"),  "invitations.decline",  Themselves, "Do not join", invitations::decline),
    ]
}
