//! RBAC authorizer over the roles and bindings in the store.
//!
//! Every request calls [`Authorizer::decide`], which calls `super::node` first for nodes. Roles and bindings are compiled into one
//! [`Policy`], which follows changes of the four kinds; a change in one namespace leaves the others unchanged (`super::rbac_sources`).
//! Decisions are cached as long as the bindings that they depend on are unchanged.
//!
//! Invariant: a decision is never older than the last committed change of a role or binding.
//!
//! See also: a single rule (`super::rule`), privilege escalation (`super::escalation`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::held_rules::{EffectiveRules, ResolutionErrors};
use super::rbac_sources::{PolicySources, Role, RolesByNamespace};
use super::{Attributes, MASTERS, User, items, node, service_account_username, text};
use crate::error::ApiError;
use crate::go::quote;
use crate::store::Store;

pub const ROLES: &str = "roles.rbac.authorization.k8s.io";
pub const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
pub const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
pub const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
pub(super) const STORAGES: [&str; 4] = [ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS];

/// Capacity of the decision cache in bytes. The cache is cleared when full.
const MAX_CACHE_BYTES: usize = 16 << 20;
/// Larger keys are not cached.
const MAX_CACHE_KEY_BYTES: usize = 2 << 10;
/// Bytes counted per cached decision besides its strings.
const CACHE_ENTRY_OVERHEAD: usize = 400;

/// The decision and its reason: `RBAC: allowed by ...`, or the errors met before a denial. Most denials have no reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: Arc<str>,
}

pub struct Authorizer {
    store: Arc<Store>,
    policy: ArcSwap<Policy>,
    /// Sources of `policy`. The lock is held while one request updates the policy for all.
    sources: Mutex<Option<PolicySources>>,
    decisions: DecisionCache,
}

/// The compiled bindings, as of one version of the store.
struct Policy {
    /// The store version up to which changes of the four kinds are applied.
    version: u64,
    compiled: Arc<CompiledPolicy>,
}

/// Bindings with their rules. Unchanged scopes are shared with the next policy.
#[derive(Clone, Default)]
pub(super) struct CompiledPolicy {
    pub cluster: Arc<BindingScope>,
    pub local: HashMap<Box<str>, Arc<BindingScope>>,
}

/// The bindings of one namespace, or the cluster-wide ones.
#[derive(Default)]
pub(super) struct BindingScope {
    pub bindings: Vec<Binding>,
    /// Increases with each change.
    pub generation: u64,
}

/// Decision cache, bounded in bytes.
#[derive(Default)]
struct DecisionCache {
    hasher: RandomState,
    /// By hash of the key. The key itself is stored with the decision and compared.
    entries: RwLock<CachedDecisions>,
}

#[derive(Default)]
struct CachedDecisions {
    by_hash: HashMap<u64, CachedDecision>,
    bytes: usize,
}

struct CachedDecision {
    key: DecisionKey,
    /// Generations of the cluster scope and of the namespace. The entry is valid while both are current.
    generations: (u64, u64),
    decision: Decision,
}

#[derive(PartialEq, Eq)]
struct DecisionKey {
    user: String,
    groups: Vec<String>,
    attributes: Attributes,
}

pub(super) struct Binding {
    spec: Arc<BindingSpec>,
    /// The role, or the error that it was not found.
    role: Result<Arc<Role>, Arc<str>>,
}

/// The parsed fields of a binding.
pub(super) struct BindingSpec {
    /// Descriptions of the subjects, in order: `User "jane"`.
    subjects: Vec<String>,
    /// Index of the first subject per user name.
    users: HashMap<String, usize>,
    groups: HashMap<String, usize>,
    /// `ClusterRoleBinding "x" of ClusterRole "y"`
    source: String,
    pub role_kind: String,
    /// The binding's namespace; empty for a `ClusterRoleBinding`.
    namespace: String,
    pub role: String,
}

enum SubjectName {
    User(String),
    Group(String),
    Unsupported,
}

impl Authorizer {
    pub fn new(store: Arc<Store>) -> Self {
        // No store has this version, so that the first decision compiles the policy.
        let nothing = Policy { version: u64::MAX, compiled: Arc::default() };
        Self {
            store,
            policy: ArcSwap::from_pointee(nothing),
            sources: Mutex::default(),
            decisions: DecisionCache::default(),
        }
    }

    /// Decides whether `user` may make the request `asked`.
    pub fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        if user.in_group(MASTERS) {
            return Decision { allowed: true, reason: Arc::from("") };
        }
        let Some(name) = node::node_of(user) else {
            return self.decisions.decide(&self.compiled_policy(), user, attributes);
        };
        if let Some(why) = node::revocation(&self.store, name, attributes) {
            return Decision { allowed: false, reason: Arc::from(why) };
        }
        match node::decide(&self.store, name, attributes) {
            Ok(()) => Decision { allowed: true, reason: Arc::from("") },
            Err(why) => {
                let by_role = self.decisions.decide(&self.compiled_policy(), user, attributes);
                if by_role.allowed {
                    return by_role;
                }
                let reasons = [why.as_str(), &by_role.reason];
                let denial_reasons: Vec<&str> =
                    reasons.into_iter().filter(|reason| !reason.is_empty()).collect();
                Decision { allowed: false, reason: denial_reasons.join("\n").into() }
            }
        }
    }

    /// Returns a 403 error unless `user` may do what `attributes` describe.
    pub fn check(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
        let decision = self.decide(user, attributes);
        if decision.allowed { Ok(()) } else { Err(forbidden_error(user, attributes, &decision.reason)) }
    }

    /// Whether `user` is a tenant's node.
    pub(super) fn is_tenant_node(&self, user: &User) -> bool {
        node::is_tenant_node(&self.store, user)
    }

    /// Returns all rules that `user` has in `namespace` (empty: cluster-wide).
    pub(super) fn rules_for(&self, user: &User, namespace: &str) -> EffectiveRules {
        let compiled = self.compiled_policy();
        let mut held = EffectiveRules::default();
        for (binding, _) in compiled.bindings_for(user, namespace) {
            match &binding.role {
                Ok(role) => held.add(role),
                Err(error) => held.errors.add(error),
            }
        }
        held
    }

    /// Total size of the roles that `user` has in `namespace`, each counted once.
    pub fn bytes_of_rules(&self, user: &User, namespace: &str) -> usize {
        self.rules_for(user, namespace).bytes()
    }

    /// Size of a role. `namespace` is empty for a `ClusterRole`.
    pub fn bytes_of_role(&self, namespace: &str, name: &str) -> usize {
        self.role(namespace, name).map_or(0, |role| role.bytes())
    }

    /// Returns a role. `namespace` is empty for a `ClusterRole`.
    pub(super) fn role(&self, namespace: &str, name: &str) -> Option<Arc<Role>> {
        self.compiled_policy();
        let sources = self.sources.lock();
        sources.as_ref()?.role(namespace, name)
    }

    /// Returns the compiled rules, updated to the current store version.
    fn compiled_policy(&self) -> Arc<CompiledPolicy> {
        let policy = self.policy.load();
        if policy.version == self.store.version() {
            return policy.compiled.clone();
        }
        let mut sources = self.sources.lock();
        // Another request may have updated the policy while this one waited for the lock.
        let (policy, version) = (self.policy.load(), self.store.version());
        if policy.version == version {
            return policy.compiled.clone();
        }
        // `version` is read before the roles: at worst the next decision updates again.
        let rules = match &mut *sources {
            Some(known) => known.update(&self.store, &policy.compiled),
            none => {
                let (read, rules) = PolicySources::load(&self.store);
                *none = Some(read);
                Arc::new(rules)
            }
        };
        self.policy.store(Arc::new(Policy { version, compiled: rules.clone() }));
        rules
    }

    #[cfg(test)]
    pub(crate) fn decision_bytes(&self) -> usize {
        self.decisions.entries.read().bytes
    }
}

impl CompiledPolicy {
    /// Returns the bindings of `user`, each with the description of the first matching subject.
    fn bindings_for<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Binding, &'a str)> {
        let local = self.local.get(namespace).filter(|_| !namespace.is_empty());
        let local = local.into_iter().flat_map(|scope| &scope.bindings);
        self.cluster
            .bindings
            .iter()
            .chain(local)
            .filter_map(|binding| Some((binding, binding.spec.matching_subject(user)?)))
    }

    /// Returns the generations on which decisions in `namespace` depend.
    fn generations(&self, namespace: &str) -> (u64, u64) {
        (self.cluster.generation, self.local.get(namespace).map_or(0, |scope| scope.generation))
    }

    fn evaluate(&self, user: &User, attributes: &Attributes) -> Decision {
        let mut errors = ResolutionErrors::default();
        for (binding, subject) in self.bindings_for(user, &attributes.namespace) {
            match &binding.role {
                Ok(role) if role.rules().allow(attributes) => {
                    let reason = format!("RBAC: allowed by {} to {subject}", binding.spec.source);
                    return Decision { allowed: true, reason: reason.into() };
                }
                Err(error) => errors.add(error),
                Ok(_) => {}
            }
        }
        let reason = errors.text().map_or_else(String::new, |errors| format!("RBAC: {errors}"));
        Decision { allowed: false, reason: reason.into() }
    }
}

impl DecisionKey {
    /// Size of the key's strings in bytes.
    fn size(user: &User, asked: &Attributes) -> usize {
        let Attributes {
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
            node_name: on_node,
            path,
        } = asked;
        let texts = [verb, group, version, resource, subresource, namespace, name, on_node, path, &user.name];
        texts.into_iter().chain(&user.groups).map(|text| text.len() + size_of::<String>()).sum()
    }
}

impl DecisionCache {
    fn decide(&self, rules: &CompiledPolicy, user: &User, attributes: &Attributes) -> Decision {
        let size = DecisionKey::size(user, attributes);
        if size > MAX_CACHE_KEY_BYTES {
            return rules.evaluate(user, attributes);
        }
        let generations = rules.generations(&attributes.namespace);
        let hash = self.hasher.hash_one((&user.name, &user.groups, attributes));
        if let Some(known) = self.entries.read().by_hash.get(&hash)
            && known.generations == generations
            && known.key.user == user.name
            && known.key.groups == user.groups
            && known.key.attributes == *attributes
        {
            return known.decision.clone();
        }
        let decision = rules.evaluate(user, attributes);
        let size = size + decision.reason.len() + CACHE_ENTRY_OVERHEAD;
        let question = DecisionKey {
            user: user.name.clone(),
            groups: user.groups.clone(),
            attributes: attributes.clone(),
        };
        let mut known = self.entries.write();
        if known.bytes + size > MAX_CACHE_BYTES {
            *known = CachedDecisions::default();
        }
        let remembrance = CachedDecision { key: question, generations, decision: decision.clone() };
        let replaced = known.by_hash.insert(hash, remembrance);
        let freed = replaced.map_or(0, |old| {
            let of = User { name: old.key.user, groups: old.key.groups, ..User::default() };
            DecisionKey::size(&of, &old.key.attributes) + old.decision.reason.len() + CACHE_ENTRY_OVERHEAD
        });
        known.bytes = (known.bytes + size).saturating_sub(freed);
        decision
    }
}

impl BindingSpec {
    pub fn parse(binding: &Value) -> Self {
        let metadata = &binding["metadata"];
        let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
        let (kind, role) = (text(&binding["roleRef"], "kind"), text(&binding["roleRef"], "name"));
        let named = if namespace.is_empty() {
            format!("ClusterRoleBinding {}", quote(name))
        } else {
            format!("RoleBinding {}", quote(&format!("{name}/{namespace}")))
        };
        let (mut subjects, mut users, mut groups) = (Vec::new(), HashMap::new(), HashMap::new());
        for (at, subject) in items(binding, "subjects").iter().enumerate() {
            let (who, described) = parse_subject(subject, namespace);
            subjects.push(described);
            match who {
                SubjectName::User(name) => drop(users.entry(name).or_insert(at)),
                SubjectName::Group(name) => drop(groups.entry(name).or_insert(at)),
                SubjectName::Unsupported => {}
            }
        }
        Self {
            subjects,
            users,
            groups,
            source: format!("{named} of {kind} {}", quote(role)),
            role_kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            role: role.to_owned(),
        }
    }

    /// Describes the first subject that matches `user`.
    fn matching_subject(&self, user: &User) -> Option<&str> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        let first = groups.chain(self.users.get(&user.name)).min()?;
        self.subjects.get(*first).map(String::as_str)
    }

    /// Returns the binding with its role.
    pub fn resolve(self: &Arc<Self>, roles: &RolesByNamespace) -> Binding {
        let from = if self.role_kind == "Role" { self.namespace.as_str() } else { "" };
        let resolved = match self.role_kind.as_str() {
            "Role" | "ClusterRole" => {
                let found = roles.get(from).and_then(|roles| roles.get(self.role.as_str())).cloned();
                found.ok_or_else(|| {
                    let kind = self.role_kind.to_ascii_lowercase();
                    format!("{kind}.{} {} not found", super::RBAC_GROUP, quote(&self.role)).into()
                })
            }
            other => Err(format!("unsupported role reference kind: {}", quote(other)).into()),
        };
        Binding { spec: self.clone(), role: resolved }
    }
}

/// Parses a subject and its description. A `ServiceAccount` without a namespace is in the binding's namespace.
fn parse_subject(subject: &Value, binding_namespace: &str) -> (SubjectName, String) {
    let (kind, name) = (text(subject, "kind"), text(subject, "name"));
    let (who, shown) = match kind {
        "User" => (SubjectName::User(name.to_owned()), name.to_owned()),
        "Group" => (SubjectName::Group(name.to_owned()), name.to_owned()),
        "ServiceAccount" => {
            let own = text(subject, "namespace");
            let namespace = if own.is_empty() { binding_namespace } else { own };
            let who = if namespace.is_empty() {
                SubjectName::Unsupported
            } else {
                SubjectName::User(service_account_username(namespace, name))
            };
            (who, format!("{name}/{namespace}"))
        }
        _ => (SubjectName::Unsupported, name.to_owned()),
    };
    (who, format!("{kind} {}", quote(&shown)))
}

/// Returns the message `User "jane" cannot list resource "configmaps" in API group "" in the namespace "x"`.
pub fn forbidden_message(user: &User, attributes: &Attributes) -> String {
    let who = quote(&user.name);
    let message = if attributes.is_resource() {
        let place = if attributes.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quote(&attributes.namespace))
        };
        let (resource, group) = (quote(&attributes.combined_resource()), quote(&attributes.group));
        format!("User {who} cannot {} resource {resource} in API group {group} {place}", attributes.verb)
    } else {
        format!("User {who} cannot {} path {}", attributes.verb, quote(&attributes.path))
    };
    // Escapes HTML, as Kubernetes does.
    message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the 403 error for `asked`; `reason` is that of the decision.
pub fn forbidden_error(user: &User, attributes: &Attributes, reason: &str) -> ApiError {
    let message = forbidden_message(user, attributes);
    let why = if reason.is_empty() { message } else { format!("{message}: {reason}") };
    ApiError::forbidden(&attributes.group, &attributes.resource, &attributes.name, why)
}

/// Returns the name in the field selector of a list or watch: the term `metadata.name=<name>`. Rules with `resourceNames` allow such
/// requests.
pub fn name_in_field_selector(selector: &str) -> Option<&str> {
    let terms = selector.split(',').filter(|term| !term.contains("!="));
    let name = terms.filter_map(|term| term.split_once('=')).find_map(|(key, value)| {
        (key.trim() == "metadata.name").then(|| value.strip_prefix('=').unwrap_or(value).trim())
    })?;
    let unusable = name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']);
    (!unusable).then_some(name)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Change, Expect, Key, Op};

    /// Creates or replaces an RBAC object.
    pub async fn put(store: &Store, object: Value) {
        let storage = match object["kind"].as_str().unwrap() {
            "Role" => ROLES,
            "RoleBinding" => ROLE_BINDINGS,
            "ClusterRole" => CLUSTER_ROLES,
            _ => CLUSTER_ROLE_BINDINGS,
        };
        super::super::testing::store_object(store, storage, object).await;
    }

    pub fn binding(namespace: &str, name: &str, role: (&str, &str), subject: (&str, &str)) -> Value {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        json!({"kind": kind, "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
            "subjects": [{"kind": subject.0, "name": subject.1}]})
    }

    fn attributes(verb: &str, resource: &str, namespace: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            ..Attributes::default()
        }
    }

    #[tokio::test]
    async fn decisions_follow_bindings_and_name_them() {
        let store = Store::in_memory();
        let reader = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        put(&store, json!({"kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": reader})).await;
        put(&store, json!({"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": reader}))
            .await;
        put(&store, binding("a", "b", ("Role", "r"), ("User", "jane"))).await;
        put(&store, binding("b", "b", ("ClusterRole", "reader"), ("ServiceAccount", "bot"))).await;
        put(&store, binding("", "all", ("ClusterRole", "reader"), ("Group", "ops"))).await;
        put(&store, binding("", "lost", ("ClusterRole", "gone"), ("User", "tom"))).await;
        let authorizer = Authorizer::new(store.clone());
        let table = [
            ("jane", "", "a", true, "RBAC: allowed by RoleBinding \"b/a\" of Role \"r\" to User \"jane\""),
            ("jane", "", "b", false, ""),
            ("jane", "", "", false, ""),
            (
                "jane",
                "ops",
                "",
                true,
                "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"reader\" to Group \"ops\"",
            ),
            (
                "system:serviceaccount:b:bot",
                "",
                "b",
                true,
                "RBAC: allowed by RoleBinding \"b/b\" of ClusterRole \"reader\" to ServiceAccount \"bot/b\"",
            ),
            ("system:serviceaccount:a:bot", "", "b", false, ""),
            ("tom", "", "", false, "RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"),
            ("anybody", "system:masters", "", true, ""),
        ];
        for (name, group, namespace, allowed, reason) in table {
            for _ in 0..2 {
                let decision =
                    authorizer.decide(&User::named(name, &[group]), &attributes("get", "pods", namespace));
                assert_eq!((decision.allowed, &*decision.reason), (allowed, reason), "{name} {namespace}");
            }
        }

        // Changes of a role and deletion of a binding take effect immediately.
        let jane = User::named("jane", &[]);
        put(&store, json!({"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": []})).await;
        assert!(!authorizer.decide(&jane, &attributes("get", "pods", "a")).allowed);
        put(&store, json!({"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": reader}))
            .await;
        assert!(authorizer.decide(&jane, &attributes("get", "pods", "a")).allowed);
        let key = Key::new(&ROLE_BINDINGS.into(), "a", "b");
        let version = store.get(ROLE_BINDINGS, "a", "b").unwrap().version;
        store.commit(vec![Change { key, expect: Expect::Version(version), op: Op::Delete }]).await.unwrap();
        assert!(!authorizer.decide(&jane, &attributes("get", "pods", "a")).allowed);
    }

    #[tokio::test]
    async fn change_of_a_role_leaves_other_namespaces_as_they_are() {
        let store = Store::in_memory();
        let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        for namespace in ["a", "b"] {
            let role =
                json!({"kind": "Role", "metadata": {"name": "r", "namespace": namespace}, "rules": rules});
            put(&store, role).await;
            put(&store, binding(namespace, "b", ("Role", "r"), ("User", "jane"))).await;
        }
        put(&store, json!({"kind": "ClusterRole", "metadata": {"name": "c"}, "rules": []})).await;
        put(&store, binding("b", "c", ("ClusterRole", "c"), ("User", "tom"))).await;
        let authorizer = Authorizer::new(store.clone());
        let before = authorizer.compiled_policy();
        put(&store, json!({"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": []})).await;
        let after = authorizer.compiled_policy();
        assert!(!Arc::ptr_eq(&before.local["a"], &after.local["a"]));
        assert!(Arc::ptr_eq(&before.local["b"], &after.local["b"]));
        assert!(Arc::ptr_eq(&before.cluster, &after.cluster));
        let jane = User::named("jane", &[]);
        assert!(!authorizer.decide(&jane, &attributes("get", "pods", "a")).allowed);
        assert!(authorizer.decide(&jane, &attributes("get", "pods", "b")).allowed);

        // Only users who are bound to a large role wait until it is parsed.
        let is_read = |namespace: &str| {
            authorizer.compiled_policy().local[namespace].bindings[0]
                .role
                .as_ref()
                .is_ok_and(|role| role.is_parsed())
        };
        put(&store, json!({"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": rules}))
            .await;
        assert!(
            authorizer
                .decide(&jane, &Attributes { name: "x".to_owned(), ..attributes("get", "pods", "b") })
                .allowed
        );
        assert!(!is_read("a"));
        assert!(authorizer.decide(&jane, &attributes("get", "pods", "a")).allowed);
        assert!(is_read("a"));
        let after = authorizer.compiled_policy();

        // A `ClusterRole` affects the namespaces that refer to it.
        put(&store, json!({"kind": "ClusterRole", "metadata": {"name": "c"}, "rules": rules})).await;
        let last = authorizer.compiled_policy();
        assert!(Arc::ptr_eq(&after.local["a"], &last.local["a"]));
        assert!(!Arc::ptr_eq(&after.local["b"], &last.local["b"]));
        assert!(authorizer.decide(&User::named("tom", &[]), &attributes("get", "pods", "b")).allowed);
    }

    #[tokio::test]
    async fn question_takes_few_steps_however_many_values_the_bound_roles_have() {
        let store = Store::in_memory();
        for n in 0..60 {
            let name = format!("r{n}");
            let names: Vec<String> = (0..2_000).map(|value| format!("v{value}")).collect();
            let rules =
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names}]);
            put(
                &store,
                json!({"kind": "Role", "metadata": {"name": name, "namespace": "a"}, "rules": rules}),
            )
            .await;
            let mut bound = binding("a", &name, ("Role", &name), ("User", "tom"));
            let others = (0..500).map(|other| json!({"kind": "User", "name": format!("u{other}")}));
            bound["subjects"] = others.chain([json!({"kind": "User", "name": "jane"})]).collect();
            put(&store, bound).await;
        }
        let authorizer = Authorizer::new(store);
        let jane = User::named("jane", &[]);
        let one = |name: &str| Attributes { name: name.to_owned(), ..attributes("get", "pods", "a") };
        let steps = || super::super::rule_index::tests::STEPS.get();
        let before = steps();
        assert!(!authorizer.decide(&jane, &one("x")).allowed);
        assert!(steps() - before < 60 * 10, "{}", steps() - before);
        assert!(authorizer.decide(&jane, &one("v1999")).allowed);
    }

    #[tokio::test]
    async fn decisions_are_remembered_within_a_budget_of_bytes() {
        let authorizer = Authorizer::new(Store::in_memory());
        let jane = User::named("jane", &[]);
        for n in 0..60_000 {
            let name = format!("{n}-{}", "x".repeat(500));
            authorizer.decide(&jane, &Attributes { name, ..attributes("get", "pods", "a") });
            assert!(authorizer.decision_bytes() <= MAX_CACHE_BYTES);
        }
        let before = authorizer.decision_bytes();
        assert!(before > 0);
        authorizer.decide(&jane, &Attributes { name: "y".repeat(100_000), ..attributes("get", "pods", "a") });
        assert_eq!(authorizer.decision_bytes(), before);
    }

    #[test]
    fn forbidden_message_names_user_verb_resource_and_namespace() {
        let jane = User::named("jane", &[]);
        let scale = Attributes {
            group: "apps".to_owned(),
            subresource: "scale".to_owned(),
            name: "dm".to_owned(),
            ..attributes("update", "deployments", "x")
        };
        let path = Attributes { verb: "get".to_owned(), path: "/<a>".to_owned(), ..Attributes::default() };
        let table = [
            (
                attributes("list", "nodes", ""),
                r#"nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                scale,
                r#"deployments.apps "dm" is forbidden: User "jane" cannot update resource "deployments/scale" in API group "apps" in the namespace "x""#,
            ),
            (path, r#"forbidden: User "jane" cannot get path "/&lt;a&gt;""#),
        ];
        for (asked, message) in table {
            assert_eq!(forbidden_error(&jane, &asked, "").message, message);
        }
    }

    #[test]
    fn list_with_name_selector_is_authorized_by_resource_name() {
        let table = [
            ("metadata.name=a", Some("a")),
            ("metadata.name==a,spec.x=y", Some("a")),
            ("spec.x=y,metadata.name=b", Some("b")),
            ("metadata.name!=a", None),
            ("metadata.name=", None),
            ("metadata.name=a/b", None),
            ("", None),
        ];
        for (selector, name) in table {
            assert_eq!(name_in_field_selector(selector), name, "{selector}");
        }
    }
}
