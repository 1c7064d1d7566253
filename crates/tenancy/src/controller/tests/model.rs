//! Model test of identities: three tenants create, share, remove and recreate accounts, workspaces, namespaces, repositories,
//! requests and nodes in random order while the controllers are killed at random writes.
//!
//! A model predicts memberships and the reuse of names. After each step the platform agrees with the model, no credential of a removed
//! identity is accepted, no credential reaches objects of others, and no object carries an id or a UID that was removed. `MODEL_SEED`
//! selects the run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::actor::AuthMethod;
use domain::ids::{UserId, WorkspaceName};
use domain::roles::WorkspaceRole;
use domain::{AccessScope, Actor};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::DynamicObject;
use kube::discovery::{ApiResource, Discovery, verbs};
use kube_types::{NodePool, NodePoolSpec};
use testkit::FailurePoint;

use super::edge::{
    create_csr_for_node, join_token, manual_clock_at_system_time, nodes_of, report_when_signed,
};
use super::*;
use crate::RequestCredentials;
use crate::quota::ResourceQuantities;
use crate::test_harness::registration;

const TENANTS: usize = 3;
/// Names that all tenants compete for. `<name>-prod` may also be a namespace of the workspace `<name>`.
const NAMES: [&str; 4] = ["corp", "corp-prod", "shop", "shop-prod"];
const STEPS: usize = 24;
const ATTACK_DURATION: Duration = Duration::from_secs(20);
/// More writes than a step needs, so that some runs end without being killed.
const MAX_WRITES: usize = 14;

/// Xorshift generator: the seed reproduces the run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len())].clone())
    }
}

/// An account with its credentials.
#[derive(Clone)]
struct ModelAccount {
    id: UserId,
    /// The name of the User object: a recreated account has the name of its predecessor.
    name: String,
    uid: String,
    /// The login token.
    token: String,
    /// An API token with all rights of the account.
    api_token: String,
    /// A token of the ServiceAccount, as in a kubeconfig.
    kube_token: String,
    nodes: BTreeSet<String>,
    has_pool: bool,
}

/// A shared workspace.
#[derive(Clone)]
struct ModelWorkspace {
    uid: String,
    creator: Option<UserId>,
    members: BTreeMap<UserId, WorkspaceRole>,
    namespaces: BTreeSet<String>,
}

impl ModelWorkspace {
    /// The account that may use a name of the workspace again.
    fn name_owner(&self) -> Option<UserId> {
        self.creator.clone().filter(|creator| self.members.get(creator) == Some(&WorkspaceRole::Admin))
    }
}

/// A removed account or workspace.
struct RemovedIdentity {
    /// Ids and UIDs.
    traces: Vec<String>,
    account: Option<ModelAccount>,
}

struct Model {
    world: TestCluster,
    clock: ManualClock,
    /// A replica that is not the leader: it serves the tenants' requests.
    replica: Tenancy,
    kinds: Vec<ApiResource>,
    rng: Rng,
    accounts: [Option<ModelAccount>; TENANTS],
    workspaces: BTreeMap<String, ModelWorkspace>,
    /// By retired name: the account, and the UID of the workspace, that may use it again.
    retired: BTreeMap<String, (Option<UserId>, String)>,
    removed: Vec<RemovedIdentity>,
    /// Names of nodes that left.
    left_nodes: BTreeSet<String>,
    /// Namespaces that were removed from a workspace.
    removed_namespaces: BTreeSet<String>,
    counter: u32,
}

fn settings() -> Settings {
    let limits = Settings::default().account_quota.into_keys().map(|name| {
        let amount = if name.contains("memory") || name.contains("storage") { "9000Gi" } else { "9000" };
        (name, amount.to_owned())
    });
    Settings {
        is_registration_open: true,
        max_nodes: 2,
        registration_timeout: Duration::from_millis(1),
        account_quota: limits.collect(),
        ..Settings::default()
    }
}

/// Whether a kind records past events, which expire by themselves.
fn is_record_of_events(kind: &ApiResource) -> bool {
    kind.kind == "Event"
}

impl Model {
    async fn new(seed: u64) -> Self {
        let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
        let clients = Clients::new(world.platform_client());
        let front = Tenancy::start(clients, settings(), Arc::new(clock.clone())).await.unwrap();
        let discovery = Discovery::new(world.admin_client()).run().await.unwrap();
        let kinds = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        let kinds = kinds.filter(|(_, found)| found.supports_operation(verbs::LIST)).map(|(kind, _)| kind);
        Self {
            kinds: kinds.filter(|kind| !is_record_of_events(kind)).collect(),
            world,
            clock,
            replica: front,
            rng: Rng(seed | 1),
            accounts: [const { None }; TENANTS],
            workspaces: BTreeMap::new(),
            retired: BTreeMap::new(),
            removed: Vec::new(),
            left_nodes: BTreeSet::new(),
            removed_namespaces: BTreeSet::new(),
            counter: 0,
        }
    }

    fn next_number(&mut self) -> u32 {
        self.counter += 1;
        self.counter
    }

    fn actor(&self, id: &UserId) -> Actor {
        self.replica.directory().actor(id, AuthMethod::Session { id: "session".to_owned() }).unwrap()
    }

    fn existing_accounts(&self) -> impl Iterator<Item = &ModelAccount> {
        self.accounts.iter().flatten()
    }

    /// A random workspace that an account administrates.
    fn random_administrated_workspace(&mut self, id: &UserId) -> Option<String> {
        let is_admin = |shared: &ModelWorkspace| shared.members.get(id) == Some(&WorkspaceRole::Admin);
        let own = self.workspaces.iter().filter(|(_, shared)| is_admin(shared));
        let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
        self.rng.pick(&own)
    }

    fn is_in_use(&self, name: &str) -> bool {
        self.workspaces.iter().any(|(used, shared)| used == name || shared.namespaces.contains(name))
    }

    /// Executes one random step. Returns its description.
    async fn step(&mut self) -> String {
        let tenant = self.rng.below(TENANTS);
        let Some(account) = self.accounts[tenant].clone() else { return self.register(tenant).await };
        match self.rng.below(20) {
            0..=1 => self.remove_account(tenant, &account).await,
            2..=6 => self.create_workspace(&account).await,
            7..=8 => self.add_namespace(&account).await,
            9 => self.remove_namespace(&account).await,
            10..=12 => self.add_member(&account).await,
            13 => self.invite(&account).await,
            14 => self.remove_member(&account).await,
            15..=16 => self.join(tenant, &account).await,
            17 => self.leave(tenant, &account).await,
            _ => self.remove_workspace().await,
        }
    }

    async fn register(&mut self, tenant: usize) -> String {
        let phone = format!("1390000000{tenant}");
        let from = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + self.next_number()));
        let registered = self.replica.register(registration(&phone, None), from).await.unwrap();
        let what = format!("register {}", registered.id);
        let (name, id) = (registered.name.clone(), registered.id.clone());
        let uid = get::<User>(&self.world, &name).await.unwrap().uid().unwrap();
        let account = ModelAccount {
            id: id.clone(),
            name,
            uid,
            token: registered.token.expose().to_owned(),
            api_token: String::new(),
            kube_token: String::new(),
            nodes: BTreeSet::new(),
            has_pool: false,
        };
        self.accounts[tenant] = Some(account);
        self.run_until_settled(&what).await;
        let request = crate::tokens::TokenRequest {
            name: "all".to_owned(),
            scopes: vec!["all".to_owned()],
            days: None,
        };
        let api_token = self.replica.create_token(&self.actor(&id), &request).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.world.admin_client(), SYSTEM_NAMESPACE);
        let (params, unbound) = (PostParams::default(), TokenRequest::default());
        let issued = accounts.create_token_request(id.as_str(), &params, &unbound);
        let account = self.accounts[tenant].as_mut().unwrap();
        account.api_token = api_token.text.expose().to_owned();
        account.kube_token = issued.await.unwrap().status.unwrap().token.unwrap();
        what
    }

    async fn remove_account(&mut self, tenant: usize, account: &ModelAccount) -> String {
        let personal = get::<Workspace>(&self.world, account.id.as_str()).await.unwrap();
        let namespace = get::<Namespace>(&self.world, account.id.as_str()).await.unwrap();
        delete::<User>(&self.world, &account.name).await;
        self.accounts[tenant] = None;
        for shared in self.workspaces.values_mut() {
            shared.members.remove(&account.id);
            shared.creator.take_if(|creator| *creator == account.id);
        }
        for (owner, _) in self.retired.values_mut() {
            owner.take_if(|owner| *owner == account.id);
        }
        let uids = [personal.uid(), namespace.uid()].into_iter().flatten();
        let traces = uids.chain([account.id.to_string(), account.uid.clone()]).collect();
        self.removed.push(RemovedIdentity { traces, account: Some(account.clone()) });
        let what = format!("remove account {}", account.id);
        self.run_until_settled(&what).await;
        what
    }

    async fn create_workspace(&mut self, account: &ModelAccount) -> String {
        let name = self.rng.pick(&NAMES).unwrap();
        let what = format!("{} creates workspace {name}", account.id);
        let is_free = !self.is_in_use(name)
            && self.retired.get(name).is_none_or(|(owner, _)| owner.as_ref() == Some(&account.id));
        let created = self.replica.create_workspace(&self.actor(&account.id), name, "").await;
        assert_eq!(created.is_ok(), is_free, "{what}: {created:?}");
        if !is_free {
            return what;
        }
        let created = get::<Workspace>(&self.world, name).await.unwrap();
        let shared = ModelWorkspace {
            uid: created.uid().unwrap(),
            creator: Some(account.id.clone()),
            members: [(account.id.clone(), WorkspaceRole::Admin)].into(),
            namespaces: [name.to_owned()].into(),
        };
        self.workspaces.insert(name.to_owned(), shared);
        self.run_until_settled(&what).await;
        self.create_workspace_objects(name, account).await;
        what
    }

    /// Creates the objects that the platform keeps for a workspace outside of its namespaces.
    async fn create_workspace_objects(&mut self, workspace: &str, account: &ModelAccount) {
        let (number, uid) = (self.next_number(), self.workspaces[workspace].uid.clone());
        let metadata = |name: &str| json!({"name": name, "labels": {well_known::WORKSPACE: workspace}, "annotations": {well_known::WORKSPACE_UID: uid}});
        let secret = |name: &str, kind: &str| {
            let mut metadata = metadata(name);
            metadata["namespace"] = SYSTEM_NAMESPACE.into();
            json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata,
                "stringData": {"password": format!("of {uid}")}})
        };
        let own = "longshore.dev/v1alpha1";
        let credentials = format!("repo-{workspace}.charts-{number}");
        let reader = format!("{}{uid}", well_known::READER_PREFIX);
        let package = format!("pkg-{number:064}");
        self.world
            .apply([
                json!({"apiVersion": own, "kind": "HelmRequest", "metadata": metadata(&format!("req-{number}")),
                    "spec": {"releaseName": "db", "workspace": workspace, "cluster": "host", "namespace": workspace,
                        "source": {"package": package}, "chart": {"name": "db", "version": "1.0.0"}, "version": 1,
                        "runAs": {"user": account.id, "uid": account.uid}}}),
                secret(&format!("req-{number}.v1.a"), "longshore.dev/values"),
                secret(&credentials, well_known::REPO_CREDENTIALS_TYPE),
                json!({"apiVersion": own, "kind": "HelmRepo", "metadata": metadata(&format!("{workspace}.charts-{number}")),
                    "spec": {"name": "charts", "workspace": workspace, "url": "https://charts.example.com",
                        "credentialRef": {"name": credentials}}}),
                json!({"apiVersion": own, "kind": "HelmPackage",
                    "metadata": {"name": package, "annotations": {well_known::READERS_RECORDED: "true",
                        reader: format!("{workspace} 2026-01-02T03:04:05Z")}},
                    "spec": {"digest": format!("sha256:{number:064}"), "size": 1, "chunks": 1,
                        "chart": {"name": "db", "version": "1.0.0"}, "origin": "upload"}}),
            ])
            .await;
    }

    async fn remove_workspace(&mut self) -> String {
        let all: Vec<String> = self.workspaces.keys().cloned().collect();
        let Some(name) = self.rng.pick(&all) else { return "no workspace to remove".to_owned() };
        let shared = self.workspaces.remove(&name).unwrap();
        let mut traces = vec![shared.uid.clone()];
        for namespace in &shared.namespaces {
            traces.extend(get::<Namespace>(&self.world, namespace).await.unwrap().uid());
            self.removed_namespaces.insert(namespace.clone());
        }
        for retired in shared.namespaces.iter().chain([&name]) {
            self.retired.insert(retired.clone(), (shared.name_owner(), shared.uid.clone()));
        }
        delete::<Workspace>(&self.world, &name).await;
        self.removed.push(RemovedIdentity { traces, account: None });
        let what = format!("remove workspace {name}");
        self.run_until_settled(&what).await;
        what
    }

    async fn add_namespace(&mut self, account: &ModelAccount) -> String {
        let Some(workspace) = self.random_administrated_workspace(&account.id) else {
            return "no workspace".to_owned();
        };
        let (name, shared) = (format!("{workspace}-prod"), &self.workspaces[&workspace]);
        let what = format!("{} adds namespace {name}", account.id);
        let is_reusable = |(owner, uid): &(Option<UserId>, String)| {
            (owner.is_some() && *owner == shared.creator) || *uid == shared.uid
        };
        let is_free = !self.is_in_use(&name) && self.retired.get(&name).is_none_or(is_reusable);
        let (actor, place) = (self.actor(&account.id), workspace.parse().unwrap());
        let added = self.replica.add_namespace(&actor, &place, "prod", ResourceQuantities::new(), None).await;
        assert_eq!(added.is_ok(), is_free, "{what}: {added:?}");
        if is_free {
            self.removed_namespaces.remove(&name);
            self.workspaces.get_mut(&workspace).unwrap().namespaces.insert(name);
            self.run_until_settled(&what).await;
        }
        what
    }

    async fn remove_namespace(&mut self, account: &ModelAccount) -> String {
        let Some(workspace) = self.random_administrated_workspace(&account.id) else {
            return "no workspace".to_owned();
        };
        let name = format!("{workspace}-prod");
        let shared = self.workspaces.get_mut(&workspace).unwrap();
        if !shared.namespaces.remove(&name) {
            return "no namespace to remove".to_owned();
        }
        self.retired.insert(name.clone(), (shared.name_owner(), shared.uid.clone()));
        let namespace = get::<Namespace>(&self.world, &name).await.unwrap();
        let (actor, place) = (self.actor(&account.id), workspace.parse().unwrap());
        self.replica.remove_namespace(&actor, &place, &name, None).await.unwrap();
        self.removed_namespaces.insert(name.clone());
        self.removed.push(RemovedIdentity { traces: namespace.uid().into_iter().collect(), account: None });
        let what = format!("{} removes namespace {name}", account.id);
        self.run_until_settled(&what).await;
        what
    }

    /// Another tenant becomes a member.
    async fn add_member(&mut self, account: &ModelAccount) -> String {
        let Some(workspace) = self.random_administrated_workspace(&account.id) else {
            return "no workspace".to_owned();
        };
        let members = &self.workspaces[&workspace].members;
        let others: Vec<UserId> = self.existing_accounts().map(|other| other.id.clone()).collect();
        let others: Vec<UserId> = others.into_iter().filter(|other| !members.contains_key(other)).collect();
        let Some(other) = self.rng.pick(&others) else { return "nobody to invite".to_owned() };
        let roles = [WorkspaceRole::Admin, WorkspaceRole::Developer, WorkspaceRole::Viewer];
        let role = self.rng.pick(&roles).unwrap();
        let place: WorkspaceName = workspace.parse().unwrap();
        self.replica.invite(&self.actor(&account.id), &place, other.as_str(), role).await.unwrap();
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.replica.accept_invitation(&self.actor(&other), &place, None, from).await.unwrap();
        self.workspaces.get_mut(&workspace).unwrap().members.insert(other.clone(), role);
        let what = format!("{} takes {other} into {workspace} as {role}", account.id);
        self.run_until_settled(&what).await;
        what
    }

    /// Creates an invitation that is never answered.
    async fn invite(&mut self, account: &ModelAccount) -> String {
        let Some(workspace) = self.random_administrated_workspace(&account.id) else {
            return "no workspace".to_owned();
        };
        let place: WorkspaceName = workspace.parse().unwrap();
        let invited = format!("n{}@example.com", self.next_number());
        let actor = self.actor(&account.id);
        self.replica.invite(&actor, &place, &invited, WorkspaceRole::Admin).await.unwrap();
        format!("{} invites a stranger into {workspace}", account.id)
    }

    async fn remove_member(&mut self, account: &ModelAccount) -> String {
        let Some(workspace) = self.random_administrated_workspace(&account.id) else {
            return "no workspace".to_owned();
        };
        let shared = &self.workspaces[&workspace];
        let is_last = |id: &UserId| {
            !shared.members.iter().any(|(other, role)| other != id && *role == WorkspaceRole::Admin)
        };
        let members: Vec<UserId> = shared.members.keys().filter(|id| !is_last(id)).cloned().collect();
        let Some(member) = self.rng.pick(&members) else { return "nobody to remove".to_owned() };
        let place: WorkspaceName = workspace.parse().unwrap();
        self.replica.remove_member(&self.actor(&account.id), &place, &member).await.unwrap();
        self.workspaces.get_mut(&workspace).unwrap().members.remove(&member);
        let what = format!("{} removes {member} from {workspace}", account.id);
        self.run_until_settled(&what).await;
        what
    }

    async fn join(&mut self, tenant: usize, account: &ModelAccount) -> String {
        if account.nodes.len() >= 2 {
            return "no node more".to_owned();
        }
        let node = format!("{}-edge-{}", account.id, self.next_number());
        let token = join_token(&self.world, &self.clock, account.id.as_str(), None).await;
        create_csr_for_node(&self.world, &token, &node).await;
        if !account.has_pool {
            let mut pool = NodePool::new(&format!("pool-{}", account.id), NodePoolSpec::default());
            pool.labels_mut().insert(well_known::TENANT.to_owned(), account.id.to_string());
            create(&self.world, &pool).await;
        }
        let own = self.accounts[tenant].as_mut().unwrap();
        own.has_pool = true;
        own.nodes.insert(node.clone());
        let what = format!("{node} joins");
        self.run_until_settled(&what).await;
        what
    }

    async fn leave(&mut self, tenant: usize, account: &ModelAccount) -> String {
        let Some(node) = account.nodes.first() else { return "no node to leave".to_owned() };
        patch::<Node>(
            &self.world,
            node,
            json!({"metadata": {"annotations": {well_known::NODE_LEAVING: "true"}}}),
        )
        .await;
        self.accounts[tenant].as_mut().unwrap().nodes.remove(node);
        self.left_nodes.insert(node.clone());
        let what = format!("{node} leaves");
        self.run_until_settled(&what).await;
        what
    }

    /// Runs the controllers until the cluster agrees with the model. Sometimes kills them at some write first.
    async fn run_until_settled(&mut self, what: &str) {
        for _ in 0..self.rng.below(3) {
            let blow = if self.rng.below(2) == 0 {
                FailurePoint::BeforeHandling
            } else {
                FailurePoint::AfterHandling
            };
            let fault = FaultInjector::cut_after_writes(self.rng.below(MAX_WRITES), blow);
            let Ok(tenancy) = tenancy(&self.world, &fault, &self.clock).await else { continue };
            tokio::select! {
                () = crate::controller::run(tenancy) => panic!("the controllers ended"),
                () = fault.wait_until_disconnected() => {}
                () = wait_for(what, self.poll_settled(what)) => {}
            }
        }
        run_controllers_until(
            &self.world,
            &FaultInjector::healthy(),
            &self.clock,
            what,
            self.poll_settled(what),
        )
        .await;
        self.check_credentials(what).await;
    }

    /// Polls whether the cluster agrees with the model. Prints the difference after a long time.
    fn poll_settled<'m>(&'m self, what: &'m str) -> impl AsyncFnMut() -> Option<()> + 'm {
        let (mut last, began) = (String::new(), Instant::now());
        async move || match self.check_settled().await {
            Ok(()) => Some(()),
            Err(missing) => {
                if missing != last && began.elapsed() > Duration::from_secs(50) {
                    eprintln!("{what}: {missing}");
                    last = missing;
                }
                None
            }
        }
    }

    /// Whether the cluster agrees with the model; otherwise the difference.
    async fn check_settled(&self) -> Result<(), String> {
        for account in self.existing_accounts() {
            let missing = || format!("account {} is not ready", account.id);
            user_is_ready(&self.world, &account.name).await.ok_or_else(missing)?;
            is_ready(&self.world, account.id.as_str()).await.ok_or_else(missing)?;
            for node in &account.nodes {
                report_when_signed(&self.world, node)
                    .await
                    .ok_or_else(|| format!("{node} has not joined"))?;
            }
            let (_, nodes) = nodes_of(&self.world, &account.name).await;
            // Compared as sets: the recorded order is that of joining.
            if nodes.iter().collect::<BTreeSet<_>>() != account.nodes.iter().collect() {
                return Err(format!("account {} has the nodes {nodes:?}", account.id));
            }
            let own = self.workspaces.iter().filter_map(|(name, shared)| {
                Some((name.parse().unwrap(), *shared.members.get(&account.id)?))
            });
            let personal = (WorkspaceName::personal(&account.id), WorkspaceRole::Admin);
            let expected: BTreeMap<WorkspaceName, WorkspaceRole> = own.chain([personal]).collect();
            let found = self.replica.directory().memberships(&account.id);
            if found != expected {
                return Err(format!("account {} has the memberships {found:?}", account.id));
            }
        }
        for (name, shared) in &self.workspaces {
            is_ready(&self.world, name).await.ok_or_else(|| format!("workspace {name} is not ready"))?;
            let status = get::<Workspace>(&self.world, name).await.and_then(|workspace| workspace.status);
            let status = status.unwrap_or_default();
            let made: BTreeSet<String> = status.namespaces.into_iter().map(|owned| owned.name).collect();
            if made != shared.namespaces {
                return Err(format!("workspace {name} has the namespaces {made:?}"));
            }
        }
        for node in &self.left_nodes {
            if get::<Node>(&self.world, node).await.is_some() {
                return Err(format!("node {node} is still there"));
            }
        }
        for namespace in self.removed_namespaces.iter().filter(|name| !self.is_in_use(name)) {
            if get::<Namespace>(&self.world, namespace).await.is_some() {
                return Err(format!("namespace {namespace} is still there"));
            }
        }
        let objects = self.objects().await;
        for former in &self.removed {
            if let Some(account) = &former.account
                && self.replica.directory().account(&account.id).is_some()
            {
                return Err(format!("account {} is still known", account.id));
            }
            for trace in &former.traces {
                if let Some((kind, name, _)) = objects.iter().find(|(.., text)| text.contains(trace)) {
                    return Err(format!("{kind} {name} carries {trace}"));
                }
            }
        }
        Ok(())
    }

    /// Kind, name and text of all objects, with decoded Secrets, except fields that may name a former identity.
    async fn objects(&self) -> Vec<(String, String, String)> {
        let mut objects = Vec::new();
        for kind in &self.kinds {
            let api: Api<DynamicObject> = Api::all_with(self.world.admin_client(), kind);
            for object in api.list(&ListParams::default()).await.unwrap().items {
                let (name, mut object) = (object.name_any(), serde_json::to_value(&object).unwrap());
                let is_registry = kind.kind == "ConfigMap" && name.starts_with("retired-");
                if is_registry {
                    // The registry of names refers to the former workspace.
                    object["data"]["workspaceUID"].take();
                }
                if kind.kind == "HelmRequest" {
                    // The last editor: a release cannot act as a removed account.
                    object["spec"]["runAs"].take();
                }
                let mut text = object.to_string();
                if kind.kind == "Secret" {
                    for value in object["data"].as_object().into_iter().flat_map(|data| data.values()) {
                        let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
                        text.push_str(&String::from_utf8_lossy(&bytes));
                    }
                }
                objects.push((kind.kind.clone(), name, text));
            }
        }
        objects
    }

    /// Tries every credential of existing and removed accounts.
    async fn check_credentials(&self, what: &str) {
        for account in self.existing_accounts().filter(|account| !account.kube_token.is_empty()) {
            for token in [&account.token, &account.api_token] {
                let actor =
                    self.authenticate(token).await.unwrap_or_else(|| panic!("{what}: {}", account.id));
                self.check_reach(what, account, &actor).await;
            }
            let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{}", account.id);
            assert_eq!(self.review(&account.kube_token).await, Some(user), "{what}");
        }
        for account in self.removed.iter().filter_map(|former| former.account.as_ref()) {
            for token in [&account.token, &account.api_token] {
                assert!(self.authenticate(token).await.is_none(), "{what}: a token of {}", account.id);
            }
            assert_eq!(self.review(&account.kube_token).await, None, "{what}: {}", account.id);
            for node in &account.nodes {
                self.check_node(what, node).await;
            }
        }
        for node in &self.left_nodes {
            self.check_node(what, node).await;
        }
    }

    async fn authenticate(&self, token: &str) -> Option<Actor> {
        self.replica
            .authenticate(&RequestCredentials { bearer: Some(token), ..RequestCredentials::default() })
            .await
            .ok()
    }

    /// The user that a Kubernetes token authenticates.
    async fn review(&self, token: &str) -> Option<String> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = Api::all(self.world.admin_client())
            .create(&PostParams::default(), &review)
            .await
            .unwrap()
            .status?;
        status.user.filter(|_| status.authenticated == Some(true))?.username
    }

    /// Asserts that an account reaches the namespaces of its own workspaces and no others, through the API and with its kubeconfig.
    async fn check_reach(&self, what: &str, account: &ModelAccount, actor: &Actor) {
        assert_eq!(actor.user_id(), Some(&account.id), "{what}");
        let through_api = actor.impersonation();
        let groups: Vec<&str> = through_api.groups().iter().map(String::as_str).collect();
        let kubeconfig = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{}", account.id);
        let of_accounts = format!("system:serviceaccounts:{SYSTEM_NAMESPACE}");
        let clients = [
            self.world.client_for(through_api.user(), &groups),
            self.world
                .client_for(&kubeconfig, &["system:serviceaccounts", &of_accounts, "system:authenticated"]),
        ];
        let others = self.existing_accounts().filter(|other| other.id != account.id).map(|other| {
            let id = other.id.to_string();
            (id.clone(), BTreeSet::from([id]), false)
        });
        let shared = self.workspaces.iter().map(|(name, shared)| {
            (name.clone(), shared.namespaces.clone(), shared.members.contains_key(&account.id))
        });
        for (name, namespaces, is_member) in others.chain(shared) {
            let place: WorkspaceName = name.parse().unwrap();
            let may_read = actor
                .authorize(domain::roles::Capability::ReadWorkspace, AccessScope::Workspace(&place))
                .is_ok();
            assert_eq!(may_read, is_member, "{what}: {} and workspace {name}", account.id);
            for namespace in namespaces {
                for client in &clients {
                    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
                    let listed = maps.list(&ListParams::default()).await;
                    let is_refused = matches!(&listed, Err(kube::Error::Api(status)) if status.code == 403);
                    assert_eq!(is_refused, !is_member, "{what}: {} lists {namespace}", account.id);
                }
            }
        }
    }

    /// Asserts that the certificate of a removed node grants no access.
    async fn check_node(&self, what: &str, node: &str) {
        let client =
            self.world.client_for(&format!("system:node:{node}"), &["system:nodes", "system:authenticated"]);
        let own: Api<Node> = Api::all(client.clone());
        let untainted = serde_json::from_value(json!({"metadata": {"name": node}})).unwrap();
        let created = own.create(&PostParams::default(), &untainted).await;
        assert!(
            matches!(&created, Err(kube::Error::Api(status)) if status.code == 403),
            "{what}: {created:?}"
        );
        let reported = Patch::Merge(json!({"status": {}}));
        let patched = own.patch_status(node, &PatchParams::default(), &reported).await;
        let is_refused =
            matches!(&patched, Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404));
        assert!(is_refused, "{what}: {patched:?}");
        let secrets: Api<Secret> = Api::all(client);
        assert!(secrets.list(&ListParams::default()).await.is_err(), "{what}: {node} lists Secrets");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_are_not_inherited_by_random_tenants_whenever_the_server_dies() {
    let seed = std::env::var("MODEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_119);
    eprintln!("MODEL_SEED={seed}");
    let mut model = Model::new(seed).await;
    let began = Instant::now();
    let mut steps = 0;
    while steps < STEPS || began.elapsed() < ATTACK_DURATION {
        let step = model.step().await;
        eprintln!("{:>5} ms: {step}", began.elapsed().as_millis());
        steps += 1;
    }
    // Remove everything that is left: no object remains of any tenant.
    for tenant in 0..TENANTS {
        if let Some(account) = model.accounts[tenant].clone() {
            model.remove_account(tenant, &account).await;
        }
    }
    while !model.workspaces.is_empty() {
        model.remove_workspace().await;
    }
    assert!(model.removed.len() >= 2 * TENANTS, "{} removals in {steps} steps", model.removed.len());
}
