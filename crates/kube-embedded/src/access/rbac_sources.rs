//! Stored roles and bindings, and incremental compilation of the policy.
//!
//! A change of a role or binding in a namespace affects that namespace only: its bindings are compiled again, everything else is shared
//! with the previous policy. A changed binding is parsed once; a role is parsed at first use. A change of a `ClusterRole` affects the
//! bindings that refer to it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use futures::FutureExt;

use super::rbac::{BindingScope, BindingSpec, CLUSTER_ROLES, CompiledPolicy, ROLES, STORAGES};
use super::rule::Rule;
use super::rule_index::IndexedRules;
use crate::store::{Event, EventKind, Object, Store, Watch};

/// Roles by namespace (empty for `ClusterRoles`) and name.
pub(super) type RolesByNamespace = HashMap<Box<str>, HashMap<Box<str>, Arc<Role>>>;

/// A stored role. Its rules are parsed at the first decision that needs them, so that a large role delays only the users bound to it, and
/// not every request that waits for the policy.
pub(super) struct Role {
    object: Arc<Object>,
    rules: OnceLock<IndexedRules>,
}

impl Role {
    pub fn new(object: Arc<Object>) -> Self {
        Self { object, rules: OnceLock::new() }
    }

    /// The size of the stored object.
    pub fn bytes(&self) -> usize {
        self.object.bytes.len()
    }

    pub fn rules(&self) -> &IndexedRules {
        self.rules.get_or_init(|| IndexedRules::new(Rule::from_role(&self.object.value())))
    }

    #[cfg(test)]
    pub fn is_parsed(&self) -> bool {
        self.rules.get().is_some()
    }
}

/// The stored objects from which the policy is compiled.
pub(super) struct PolicySources {
    watches: [Watch; 4],
    roles: RolesByNamespace,
    /// By namespace (empty for `ClusterRoleBindings`) and name.
    bindings: HashMap<Box<str>, BTreeMap<Box<str>, Arc<BindingSpec>>>,
    generation: u64,
}

/// The scopes and roles that a batch of changes affects.
#[derive(Default)]
struct Affected {
    /// Namespaces; empty for the cluster scope.
    scopes: HashSet<Box<str>>,
    cluster_roles: HashSet<Box<str>>,
}

impl PolicySources {
    /// Reads all objects and compiles them.
    pub fn load(store: &Arc<Store>) -> (Self, CompiledPolicy) {
        let mut snapshots = Vec::with_capacity(STORAGES.len());
        let watches = STORAGES.map(|storage| {
            let (snapshot, watch) = store.list_and_watch(storage, None);
            snapshots.push((storage, snapshot.objects));
            watch
        });
        let mut sources =
            Self { watches, roles: RolesByNamespace::new(), bindings: HashMap::new(), generation: 0 };
        let mut affected = Affected::default();
        affected.scopes.insert("".into());
        for (storage, objects) in snapshots {
            for object in objects {
                sources.put(storage, &object, &mut affected);
            }
        }
        let compiled = sources.compile(&CompiledPolicy::default(), affected.scopes);
        (sources, compiled)
    }

    /// Returns a role. `namespace` is empty for a `ClusterRole`.
    pub fn role(&self, namespace: &str, name: &str) -> Option<Arc<Role>> {
        self.roles.get(namespace)?.get(name).cloned()
    }

    /// Returns the policy after the changes since the last call.
    pub fn update(&mut self, store: &Arc<Store>, before: &Arc<CompiledPolicy>) -> Arc<CompiledPolicy> {
        let mut affected = Affected::default();
        for (at, storage) in STORAGES.into_iter().enumerate() {
            loop {
                // Never waits: the future is ready if there are events, else pending.
                match self.watches[at].next().now_or_never() {
                    None => break,
                    Some(Ok(events)) => {
                        for event in &events {
                            self.apply(storage, event, &mut affected);
                        }
                    }
                    Some(Err(_)) => {
                        // The watch is too old: read everything again.
                        let generation = self.generation;
                        let (mut read, _) = Self::load(store);
                        read.generation = generation;
                        let all = read.bindings.keys().cloned().chain(["".into()]).collect();
                        *self = read;
                        return Arc::new(self.compile(&CompiledPolicy::default(), all));
                    }
                }
            }
        }
        self.add_referring(&mut affected);
        if affected.scopes.is_empty() {
            return before.clone();
        }
        Arc::new(self.compile(before, affected.scopes))
    }

    fn apply(&mut self, storage: &str, event: &Event, affected: &mut Affected) {
        if event.kind != EventKind::Deleted {
            return self.put(storage, &event.object, affected);
        }
        let Object { namespace, name, .. } = &*event.object;
        affected.add(storage, namespace, name);
        if is_role(storage) {
            if let Some(roles) = self.roles.get_mut(namespace) {
                roles.remove(name);
            }
        } else if let Some(bindings) = self.bindings.get_mut(namespace) {
            bindings.remove(name);
            if bindings.is_empty() {
                self.bindings.remove(namespace);
            }
        }
    }

    fn put(&mut self, storage: &str, object: &Arc<Object>, affected: &mut Affected) {
        let Object { namespace, name, .. } = &**object;
        affected.add(storage, namespace, name);
        if is_role(storage) {
            let role = Arc::new(Role::new(object.clone()));
            self.roles.entry(namespace.clone()).or_default().insert(name.clone(), role);
        } else {
            let spec = Arc::new(BindingSpec::parse(&object.value()));
            self.bindings.entry(namespace.clone()).or_default().insert(name.clone(), spec);
        }
    }

    /// Adds the namespaces with bindings to changed `ClusterRoles`.
    fn add_referring(&self, affected: &mut Affected) {
        if affected.cluster_roles.is_empty() {
            return;
        }
        for (namespace, bindings) in &self.bindings {
            let refers = |binding: &Arc<BindingSpec>| {
                binding.role_kind == "ClusterRole" && affected.cluster_roles.contains(binding.role.as_str())
            };
            if !affected.scopes.contains(namespace) && bindings.values().any(refers) {
                affected.scopes.insert(namespace.clone());
            }
        }
    }

    /// Returns the policy with these scopes compiled again.
    fn compile(&mut self, before: &CompiledPolicy, scopes: HashSet<Box<str>>) -> CompiledPolicy {
        let mut compiled = before.clone();
        for namespace in scopes {
            self.generation += 1;
            let bindings = self.bindings.get(&namespace).into_iter().flat_map(BTreeMap::values);
            let bindings = bindings.map(|binding| binding.resolve(&self.roles)).collect();
            let scope = Arc::new(BindingScope { bindings, generation: self.generation });
            if namespace.is_empty() {
                compiled.cluster = scope;
            } else if scope.bindings.is_empty() {
                compiled.local.remove(&namespace);
            } else {
                compiled.local.insert(namespace, scope);
            }
        }
        compiled
    }
}

impl Affected {
    fn add(&mut self, storage: &str, namespace: &str, name: &str) {
        if storage == CLUSTER_ROLES {
            self.cluster_roles.insert(name.into());
        } else {
            self.scopes.insert(namespace.into());
        }
    }
}

fn is_role(storage: &str) -> bool {
    matches!(storage, ROLES | CLUSTER_ROLES)
}
