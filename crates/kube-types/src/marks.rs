//! Labels, annotations, finalizers and types by which objects say whose they are.
//!
//! A label is an index, never a decision: what belongs to whom is recorded in a status, by UID.

/// Label of whatever belongs to a workspace; on its namespaces too.
pub const WORKSPACE: &str = "longshore.dev/workspace";
/// Label of whatever belongs to a workspace, its namespaces among it: the id of the account whose budgets it uses. Workspaces of
/// platform administrators have none, and use budgets of their own.
pub const ACCOUNT: &str = "longshore.dev/account";
/// Label of whatever belongs to a user: their id.
pub const USER: &str = "longshore.dev/user";
/// Label of the account that can be signed in to by this name beside its others: the first administrator's.
pub const LOGIN: &str = "longshore.dev/login";
/// Label of what the platform provisioned, and tenants may not change.
pub const PROVISIONED: &str = "longshore.dev/provisioned";
/// OpenYurt's label of whatever belongs to a tenant: on the personal namespace, on nodes and pools.
pub const TENANT: &str = "openyurt/tenant";
/// OpenYurt's label of a node: the pool that it is to be in.
pub const DESIRED_POOL: &str = "apps.openyurt.io/desired-nodepool";
/// OpenYurt's label of a node: the pool that it is in.
pub const POOL: &str = "apps.openyurt.io/nodepool";
/// OpenYurt's label of a node that works at the edge.
pub const EDGE_WORKER: &str = "openyurt.io/is-edge-worker";
/// Label of a node: `false` keeps the embedded cluster from simulating its kubelet. Other clusters do not read it.
pub const SIMULATED: &str = "sim.longshore.dev/node";
/// Label of the roles of a join token: the token's id.
pub const JOIN_TOKEN: &str = "longshore.dev/join-token";
/// Label of a piece of a package's bytes: the name of the package.
pub const PACKAGE: &str = "longshore.dev/package";
/// Label of the Secrets with a request's values, one for each version: the name of the request.
pub const REQUEST: &str = "longshore.dev/request";
/// Label of whatever needs a chart: the name of the package.
pub const CHART_PACKAGE: &str = "longshore.dev/chart-package";
/// Label of Helm's records that we made: the beginning of the hash of what they were made of.
pub const SPEC_HASH: &str = "longshore.dev/spec-hash";
/// Label of Helm's records that we made: the operation that made them. Helm copies it to the revisions that follow.
pub const OPERATION: &str = "longshore.dev/operation";
/// Label of the Leases of those who work on something, for as long as they do.
pub const ERRAND: &str = "longshore.dev/errand";
/// Label of the record of a retired name: the id of the account that may use it again.
pub const NAME_OWNER: &str = "longshore.dev/name-owner";
/// Label of a namespace that tenants may exchange traffic with, such as an ingress controller's (`true`). Administrators set it.
pub const SHARED: &str = "longshore.dev/shared";
/// Who made it, for people.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Annotation of a new User: the id that it will have in its status.
pub const TENANT_ID: &str = "longshore.dev/tenant-id";
/// Annotation of what somebody is to be told once and was not yet: of a new User whose token is still untold, and of the
/// first administrator's credentials. Nobody can enter by it.
pub const UNTOLD: &str = "longshore.dev/untold";
/// Annotation of a workspace that is to be removed after that moment, and can be brought back until then.
pub const REMOVE_AFTER: &str = "longshore.dev/remove-after";
/// Annotation of a workspace: when a member last left it, or lost the right to change things in it. Written with that change, so
/// that a controller that did not see the membership still learns of its end.
pub const MEMBER_LEFT: &str = "longshore.dev/member-left";
/// Annotation of a workspace: the value of `longshore.dev/member-left` of a member whose RoleBindings an administrator keeps.
pub const KEEP_BINDINGS: &str = "longshore.dev/keep-bindings";
/// Annotation of a token's Secret: when it was last used, to the minute.
pub const LAST_USE: &str = "longshore.dev/last-use";
/// Annotation of namespaces, requests and repositories: the UID of the workspace that they were made for. One of a former workspace
/// of the same name, or one that somebody made and labelled, is not ours.
pub const WORKSPACE_UID: &str = "longshore.dev/workspace-uid";
/// Annotation of a person's ServiceAccount: the UID of the User whose id it claims.
pub const USER_UID: &str = "longshore.dev/user-uid";
/// Annotation of what somebody asked for under a key of theirs: a digest of who they are, what they asked for, and the key. What
/// they send again under it is not done again.
pub const ASKED: &str = "longshore.dev/asked";
/// Annotation of a `HelmPackage` whose readers are recorded. One without it was kept before they were.
pub const READERS_RECORDED: &str = "longshore.dev/readers-recorded";
/// Prefix of the annotations of a `HelmPackage`, one for each reader: the UID of the workspace. The value is the name of the
/// workspace and when it last used the package.
pub const READER_PREFIX: &str = "readers.longshore.dev/";
/// OpenYurt's annotation of a node: what its pool gave it, as JSON, so that it can be taken away again.
pub const PREVIOUS: &str = "nodepool.openyurt.io/previous-attributes";
/// OpenYurt's annotation of a node whose pods stay while it is cut off.
pub const AUTONOMY: &str = "node.beta.openyurt.io/autonomy";
/// Annotation of a tenant's node that leaves (`true`): the platform deletes the Node and frees its place in the account.
pub const LEAVING: &str = "longshore.dev/leaving";
/// Annotation of a tenant's node: when its machine was let in. The embedded cluster refuses certificates issued before: they are of an
/// earlier machine of that name.
pub const CERTIFICATES_NOT_BEFORE: &str = "longshore.dev/certificates-not-before";
/// Annotation of our definitions: an older server leaves a newer definition alone.
pub const CRD_REVISION: &str = "longshore.dev/crd-revision";

pub const RELEASE_FINALIZER: &str = "longshore.dev/uninstall";
pub const REQUEST_FINALIZER: &str = "longshore.dev/member";
pub const WORKSPACE_FINALIZER: &str = "longshore.dev/workspace";
/// OpenYurt's own.
pub const USER_FINALIZER: &str = "v1alpha1.user.finalizer";

/// Type of the Secret with a person's password and epoch.
pub const CREDENTIALS_TYPE: &str = "longshore.dev/credentials";
/// Type of the Secret with a token's digest.
pub const TOKEN_TYPE: &str = "longshore.dev/token";
/// Type of the Secret with the keys that sign sessions.
pub const SESSION_KEYS_TYPE: &str = "longshore.dev/session-keys";
/// Type of the Secret with what lets one into a repository of charts. Only such a Secret is ever sent there.
pub const REPO_CREDENTIALS_TYPE: &str = "longshore.dev/repo-credentials";
