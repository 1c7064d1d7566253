//! Labels, annotations, finalizers and Secret types by which objects of the platform are found.
//!
//! A label is an index and decides nothing: ownership is recorded in a status, by UID.

/// Label of every object of a workspace, including its namespaces.
pub const WORKSPACE: &str = "longshore.dev/workspace";
/// Label of every object of a workspace, including its namespaces: the id of the account whose budgets it uses.
/// Workspaces of platform administrators have none and use budgets of their own.
pub const ACCOUNT: &str = "longshore.dev/account";
/// Label of every object of a user: the user's id.
pub const USER: &str = "longshore.dev/user";
/// Label of the account that can also sign in with this name: the first administrator's.
pub const LOGIN: &str = "longshore.dev/login";
/// Label of objects that the platform provisioned and that tenants may not change.
pub const PROVISIONED_OBJECT: &str = "longshore.dev/provisioned";
/// OpenYurt's label of objects of a tenant: the personal namespace, nodes and pools.
pub const TENANT: &str = "openyurt/tenant";
/// OpenYurt's label of a node: the desired pool.
pub const DESIRED_POOL: &str = "apps.openyurt.io/desired-nodepool";
/// OpenYurt's label of a node: the current pool.
pub const POOL: &str = "apps.openyurt.io/nodepool";
/// OpenYurt's label of an edge node.
pub const EDGE_WORKER: &str = "openyurt.io/is-edge-worker";
/// Label of a node: `false` keeps the embedded cluster from simulating its kubelet. Other clusters do not read it.
pub const SIMULATED: &str = "sim.longshore.dev/node";
/// Label of the roles of a join token: the token's id.
pub const JOIN_TOKEN: &str = "longshore.dev/join-token";
/// Label of a ConfigMap with a chunk of a package's bytes: the name of the package.
pub const PACKAGE: &str = "longshore.dev/package";
/// Label of the Secrets with a request's values, one per version: the name of the request.
pub const REQUEST: &str = "longshore.dev/request";
/// Label of objects that use a chart: the name of the package.
pub const CHART_PACKAGE: &str = "longshore.dev/chart-package";
/// Label of Helm records written by the platform: the beginning of the spec hash they were rendered from.
pub const SPEC_HASH: &str = "longshore.dev/spec-hash";
/// Label of Helm records written by the platform: the operation that wrote them. Helm copies it to later revisions.
pub const OPERATION: &str = "longshore.dev/operation";
/// Label of the Leases that are held during an operation.
pub const OPERATION_LEASE: &str = "longshore.dev/errand";
/// Label of the record of a retired name: the id of the account that may use it again.
pub const NAME_OWNER: &str = "longshore.dev/name-owner";
/// Label of a namespace that tenants may exchange traffic with, such as an ingress controller's (`true`). Administrators set it.
pub const SHARED_NAMESPACE: &str = "longshore.dev/shared";
/// Kubernetes' recommended label for the program that manages an object; informational.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Annotation of a new `User`: the id that it will have in its status.
pub const TENANT_ID: &str = "longshore.dev/tenant-id";
/// Annotation of one-time credentials that have not been returned yet: of a new `User` whose login token was not
/// returned, and of the first administrator's credentials. The value grants no access.
pub const CREDENTIALS_UNDISCLOSED: &str = "longshore.dev/untold";
/// Annotation of a workspace: it is removed after this time and can be restored until then.
pub const REMOVE_AFTER: &str = "longshore.dev/remove-after";
/// Annotation of a workspace: when a member last left it or lost write access. Written together with that change, so
/// that a controller that did not observe the membership still observes its end.
pub const MEMBER_LEFT: &str = "longshore.dev/member-left";
/// Annotation of a workspace: the value of `longshore.dev/member-left` of a member whose RoleBindings an administrator keeps.
pub const KEEP_BINDINGS: &str = "longshore.dev/keep-bindings";
/// Annotation of a personal workspace and label of its namespaces (`true`): the account is disabled or has expired.
/// The embedded cluster rejects the certificates of its nodes.
pub const ACCOUNT_CLOSED: &str = "longshore.dev/account-closed";
/// Annotation of a workspace's namespace: the ServiceAccount that is being recreated, as JSON.
pub const PENDING_SERVICE_ACCOUNT: &str = "longshore.dev/pending-service-account";
/// Annotation of a token's Secret: when it was last used, to the minute.
pub const LAST_USE: &str = "longshore.dev/last-use";
/// Annotation of namespaces, requests and repositories: the UID of the workspace that they were created for. An
/// object of a former workspace of the same name, or one labelled by another client, has another UID or none and is
/// not managed.
pub const WORKSPACE_UID: &str = "longshore.dev/workspace-uid";
/// Annotation of a user's ServiceAccount: the UID of the `User` whose id it belongs to.
pub const USER_UID: &str = "longshore.dev/user-uid";
/// Annotation of objects created by a request with an `Idempotency-Key`: a digest of the user, the request and the
/// key. A repeated request with the same key is not executed again.
pub const IDEMPOTENCY_DIGEST: &str = "longshore.dev/asked";
/// Annotation of a `HelmPackage` whose readers are recorded. Packages without it were stored before readers were
/// recorded.
pub const READERS_RECORDED: &str = "longshore.dev/readers-recorded";
/// Prefix of the annotations of a `HelmPackage`, one per reader: the UID of the workspace. The value is the
/// workspace's name and when it last used the package.
pub const READER_PREFIX: &str = "readers.longshore.dev/";
/// OpenYurt's annotation of a node: the attributes that its pool applied, as JSON, so that they can be removed again.
pub const PREVIOUS_POOL_ATTRIBUTES: &str = "nodepool.openyurt.io/previous-attributes";
/// OpenYurt's annotation of a node whose pods are not evicted while it is disconnected.
pub const AUTONOMY: &str = "node.beta.openyurt.io/autonomy";
/// Annotation of a tenant's node that leaves (`true`): the platform deletes the Node and frees its slot in the
/// account's limit.
pub const NODE_LEAVING: &str = "longshore.dev/leaving";
/// Annotation of a tenant's node: when its machine was admitted. The embedded cluster rejects certificates issued
/// before that time, because they belong to an earlier machine of the same name.
pub const CERTIFICATES_NOT_BEFORE: &str = "longshore.dev/certificates-not-before";
/// Annotation of the platform's CRDs: a server does not replace a definition of a newer revision.
pub const CRD_REVISION: &str = "longshore.dev/crd-revision";

pub const RELEASE_FINALIZER: &str = "longshore.dev/uninstall";
pub const REQUEST_FINALIZER: &str = "longshore.dev/member";
pub const WORKSPACE_FINALIZER: &str = "longshore.dev/workspace";
/// OpenYurt's finalizer.
pub const USER_FINALIZER: &str = "v1alpha1.user.finalizer";

/// Type of the Secret with a user's password hash and credential epoch.
pub const CREDENTIALS_TYPE: &str = "longshore.dev/credentials";
/// Type of the Secret with a token's digest.
pub const TOKEN_TYPE: &str = "longshore.dev/token";
/// Type of the Secret with the keys that sign sessions.
pub const SESSION_KEYS_TYPE: &str = "longshore.dev/session-keys";
/// Type of the Secret with credentials for a chart repository. Only Secrets of this type are sent to repositories.
pub const REPO_CREDENTIALS_TYPE: &str = "longshore.dev/repo-credentials";
