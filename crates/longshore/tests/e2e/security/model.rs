//! Model test of identities on the whole program: tenants create, share, remove and recreate accounts, workspaces,
//! repositories, releases and nodes, and the server is killed with `SIGKILL` during removals.
//!
//! After each removal no object carries a removed id or UID, no credential of it is accepted, and no other tenant
//! reaches or takes over its objects. `MODEL_SEED` selects the run, except for the timing of the kills.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::config::Kubeconfig;
use kube::discovery::{ApiGroup, Discovery, verbs};
use kube_types::Workspace;
use serde_json::{Value, json};

use super::nodes::request_certificate;
use crate::console::ConsoleUser;
use crate::edge::JoinScript;
use crate::nodes::client;
use crate::platform::{PlatformUser, call, until, unused_phone};
use crate::program::Server;
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{get, send_body};
use crate::target::{Cluster, TestTarget, target};

const TENANTS: usize = 3;
const KILLS: usize = 8;
/// Minimum number of kills on a slow machine.
const MIN_KILLS: usize = 4;
const ATTACK_DURATION: Duration = Duration::from_mins(1);
const JSON: &str = "application/json";

/// Xorshift generator.
struct ModelRng(u64);

impl ModelRng {
    fn next_below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

struct ModelTenant {
    person: PlatformUser,
    /// A ServiceAccount token from a kubeconfig.
    kube_token: String,
}

/// A shared workspace and the indexes of its administrators.
struct SharedWorkspace {
    name: String,
    admins: BTreeSet<usize>,
}

/// Traces of removed objects, which must not be found again.
#[derive(Default)]
struct RemovedIdentities {
    /// Ids and UIDs.
    traces: Vec<String>,
    tokens: Vec<String>,
    kube_tokens: Vec<String>,
    /// Workspace names. The first namespace of a workspace has the same name.
    workspaces: Vec<String>,
}

struct ModelRun {
    cluster: Cluster,
    server: Option<Server>,
    data: PathBuf,
    rng: ModelRng,
    tenants: Vec<Option<ModelTenant>>,
    workspaces: Vec<SharedWorkspace>,
    former: RemovedIdentities,
}

impl ModelRun {
    async fn start(seed: u64) -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let data = server.data().to_owned();
        let mut run = Self {
            cluster,
            server: Some(server),
            data,
            rng: ModelRng(seed | 1),
            tenants: Vec::new(),
            workspaces: Vec::new(),
            former: RemovedIdentities::default(),
        };
        for tenant in 0..TENANTS {
            run.tenants.push(None);
            run.register(tenant).await;
        }
        run
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn tenant(&self, tenant: usize) -> &ModelTenant {
        self.tenants[tenant].as_ref().unwrap()
    }

    /// Current address and CA of the cluster.
    fn kubeconfig(&self) -> Kubeconfig {
        match target() {
            TestTarget::Embedded => Kubeconfig::from_yaml(&self.server().kubeconfig()).unwrap(),
            TestTarget::Real(_) => Kubeconfig::read_from(self.cluster.kubeconfig()).unwrap(),
        }
    }

    /// A client with these Kubernetes credentials.
    async fn kube(&self, user: &Value) -> kube::Client {
        let kubeconfig = self.kubeconfig();
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        let authority = cluster.certificate_authority_data.as_deref().unwrap();
        client(cluster.server.as_deref().unwrap(), authority, user).await
    }

    async fn admin(&self) -> kube::Client {
        match target() {
            TestTarget::Embedded => self.server().client().await,
            TestTarget::Real(_) => self.cluster.client().await,
        }
    }

    /// `kill -9`, then starts another server on the same data.
    async fn kill(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.rng.next_below(400) as u64)).await;
        self.server.take().unwrap().kill();
        let server = match target() {
            TestTarget::Embedded => Server::start(&self.data),
            TestTarget::Real(_) => Server::start_on_cluster(&self.cluster.kubeconfig(), &self.data),
        };
        for tenant in self.tenants.iter_mut().flatten() {
            tenant.person.set_server(&server);
        }
        self.server = Some(server);
    }

    async fn register(&mut self, tenant: usize) {
        let person = PlatformUser::register(self.server(), &self.cluster).await;
        let kubeconfig = std::fs::read_to_string(person.kubeconfig(&self.cluster).await).unwrap();
        let kubeconfig: Value = serde_norway::from_str(&kubeconfig).unwrap();
        let kube_token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned();
        self.tenants[tenant] = Some(ModelTenant { person, kube_token });
    }

    /// A workspace with a repository and credentials, a token, an invitation and a release. A second tenant
    /// administers it, too.
    async fn create_workspace(&mut self, tenant: usize, other: usize) {
        let (name, waits) = (format!("m{}", unused_phone()), self.rng.next_below(2) == 0);
        let (server, person) = (self.server(), &self.tenant(tenant).person);
        person.workspace(&self.cluster, &name).await;
        person.add_member(&name, &self.tenant(other).person, "admin").await;
        let package = upload_chart(server, person, &name, GREETING).await;
        let repo = json!({"name": "charts", "workspace": name, "url": "http://127.0.0.1:9/charts",
            "credentials": {"username": "u", "password": format!("of-{name}")}});
        let token = json!({"name": "scoped", "scopes": [format!("workspace:{name}"), "read"]});
        let stranger = json!({"to": format!("s{name}@example.com"), "role": "admin"});
        let release = release_body(&name, "db", &package, &json!({"greeting": "hello"}));
        for (path, body) in [
            ("repos?check=false", &repo),
            ("tokens", &token),
            (&*format!("workspaces/{name}/invitations"), &stranger),
            ("releases", &release),
        ] {
            let created = person.call(Method::POST, path, Some(body)).await;
            assert_eq!(created.code, 201, "{path}: {}", created.text);
        }
        if waits {
            wait_for_state(server, &person.token, &release_path(&name, "db"), "active").await;
        }
        self.workspaces.push(SharedWorkspace { name, admins: [tenant, other].into() });
    }

    /// Removes a workspace and kills the server during the removal.
    async fn remove_workspace(&mut self, index: usize, kills: bool) {
        let SharedWorkspace { name, admins } = self.workspaces.swap_remove(index);
        let admin = self.admin().await;
        for path in
            [format!("/apis/longshore.dev/v1alpha1/workspaces/{name}"), format!("/api/v1/namespaces/{name}")]
        {
            self.former.traces.push(uid(&get(&admin, &path).await.json()));
        }
        let person = &self.tenant(*admins.first().unwrap()).person;
        let removed = person.call(Method::DELETE, &format!("workspaces/{name}?now=true"), None).await;
        assert_eq!(removed.code, 200, "{}", removed.text);
        if kills {
            self.kill().await;
        }
        let admin = self.admin().await;
        wait_until_gone(&admin, &format!("/apis/longshore.dev/v1alpha1/workspaces/{name}")).await;
        self.former.workspaces.push(name);
    }

    /// Removes an account and kills the server during the removal.
    async fn remove_account(&mut self, tenant: usize) {
        let alone = |shared: &SharedWorkspace| shared.admins.iter().eq([&tenant]);
        while let Some(index) = self.workspaces.iter().position(alone) {
            self.remove_workspace(index, false).await;
        }
        let ModelTenant { person, kube_token } = self.tenants[tenant].take().unwrap();
        let path = format!("/apis/user.openyurt.io/v1alpha1/users/{}", person.account);
        let account = uid(&get(&self.admin().await, &path).await.json());
        self.former.traces.extend([person.id.clone(), account]);
        self.former.tokens.push(person.token.clone());
        self.former.kube_tokens.push(kube_token);
        let removed = person.call(Method::DELETE, &format!("users/{}", person.id), None).await;
        assert!(matches!(removed.code, 200 | 204), "{}", removed.text);
        for shared in &mut self.workspaces {
            shared.admins.remove(&tenant);
        }
        self.kill().await;
        wait_until_gone(&self.admin().await, &path).await;
    }

    /// Objects that still carry a removed id or UID.
    async fn leftovers(&self) -> Vec<String> {
        let admin = self.admin().await;
        let discovery = Discovery::new(admin.clone()).run().await.unwrap();
        let kinds = discovery.groups().flat_map(ApiGroup::recommended_resources);
        let mut found = Vec::new();
        let workspaces: Api<Workspace> = Api::all(admin.clone());
        let workspaces = workspaces.list_metadata(&ListParams::default()).await.unwrap().items.into_iter();
        let living: BTreeSet<String> = workspaces
            .filter(|workspace| workspace.metadata.deletion_timestamp.is_none())
            .filter_map(|workspace| workspace.metadata.name)
            .collect();
        // Events expire on their own.
        for (kind, found_kind) in kinds.filter(|(kind, _)| kind.kind != "Event") {
            if !found_kind.supports_operation(verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(admin.clone(), &kind);
            let Ok(list) = api.list(&ListParams::default()).await else { continue };
            for object in list.items {
                let name = object.metadata.name.clone().unwrap_or_default();
                let object = serde_json::to_value(&object).unwrap();
                let is_living = living.contains(workspace_of(&kind.kind, &name, &object));
                let members = object["spec"]["members"].to_string();
                let text = searchable_text(&kind.kind, &name, object);
                // A shared workspace continues to exist without the account. Its objects keep the id where they record who did something.
                let is_history = |trace: &str| {
                    is_living && trace.parse::<domain::ids::UserId>().is_ok() && !members.contains(trace)
                };
                let traces = self.former.traces.iter();
                let traces = traces.filter(|trace| text.contains(*trace) && !is_history(trace));
                found.extend(traces.map(|trace| format!("{} {name} carries {trace}: {text}", kind.kind)));
            }
        }
        found
    }

    /// Asserts that nothing removed exists, is accepted, or is reachable by another tenant.
    async fn assert_isolation(&self, seed: u64) {
        let mut last = Vec::new();
        let began = Instant::now();
        until("nothing carries what was removed", async || {
            last = self.leftovers().await;
            assert!(
                last.is_empty() || began.elapsed() < Duration::from_secs(45),
                "MODEL_SEED={seed}: {last:#?}"
            );
            last.is_empty().then_some(())
        })
        .await;
        let platform = self.server().platform();
        for token in &self.former.tokens {
            let answer = call(&platform, Some(token), Method::GET, "session", None).await;
            assert_eq!(answer.code, 401, "MODEL_SEED={seed}: {}", answer.text);
        }
        for token in &self.former.kube_tokens {
            let former = self.kube(&json!({"token": token})).await;
            let answer = get(&former, "/api/v1/namespaces/default/configmaps").await;
            assert_eq!(answer.code, 401, "MODEL_SEED={seed}: {}", answer.text);
        }
        for ModelTenant { person, kube_token } in self.tenants.iter().flatten() {
            let own = self.kube(&json!({"token": kube_token})).await;
            assert_eq!(person.call(Method::GET, "session", None).await.code, 200, "MODEL_SEED={seed}");
            for name in &self.former.workspaces {
                for path in
                    [format!("workspaces/{name}"), release_path(name, "db"), format!("repos/{name}.charts")]
                {
                    let answer = person.call(Method::GET, &path, None).await;
                    let is_refused = matches!(answer.code, 403 | 404);
                    assert!(is_refused, "MODEL_SEED={seed}: {path}: {} {}", answer.code, answer.text);
                }
                let answer = get(&own, &format!("/api/v1/namespaces/{name}/secrets")).await;
                assert!(matches!(answer.code, 403 | 404), "MODEL_SEED={seed}: {}", answer.text);
            }
            self.assert_others_unreachable(seed, person, &own).await;
        }
    }

    /// A tenant does not reach other users' personal namespaces or workspaces of which it is not a member.
    async fn assert_others_unreachable(&self, seed: u64, person: &PlatformUser, own: &kube::Client) {
        let is_self =
            |tenant: &Option<ModelTenant>| tenant.as_ref().is_some_and(|other| other.person.id == person.id);
        let index = self.tenants.iter().position(is_self).unwrap();
        let others = self.tenants.iter().flatten().map(|tenant| tenant.person.id.clone());
        let others = others.filter(|id| *id != person.id);
        let foreign = self.workspaces.iter().filter(|shared| !shared.admins.contains(&index));
        for namespace in others.chain(foreign.map(|shared| shared.name.clone())) {
            let answer = get(own, &format!("/api/v1/namespaces/{namespace}/secrets")).await;
            assert_eq!(answer.code, 403, "MODEL_SEED={seed}: {} reads {namespace}", person.id);
            let answer = person.call(Method::GET, &format!("workspaces/{namespace}"), None).await;
            assert_eq!(answer.code, 404, "MODEL_SEED={seed}: {} reads {namespace}", person.id);
        }
    }

    /// Another user cannot take the name of a removed workspace.
    async fn assert_names_are_reserved(&self, seed: u64) {
        let stranger = PlatformUser::register(self.server(), &self.cluster).await;
        for name in &self.former.workspaces {
            let answer = stranger.call(Method::POST, "workspaces", Some(&json!({"name": name}))).await;
            assert_eq!(answer.code, 409, "MODEL_SEED={seed}: {name}: {}", answer.text);
        }
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_else(|| panic!("no UID in {object}")).to_owned()
}

async fn wait_until_gone(admin: &kube::Client, path: &str) {
    until("it is gone", async || (get(admin, path).await.code == 404).then_some(())).await;
}

/// The workspace to which an object belongs; empty if none.
fn workspace_of<'o>(kind: &str, name: &'o str, object: &'o Value) -> &'o str {
    let label = || object["metadata"]["labels"]["longshore.dev/workspace"].as_str().unwrap_or_default();
    if kind == "Workspace" { name } else { label() }
}

/// An object as text with decoded Secrets, without fields that may name a former identity (docs/security.md).
fn searchable_text(kind: &str, name: &str, mut object: Value) -> String {
    match kind {
        // The registry of retired names refers to the workspace that had the name.
        "ConfigMap" if name.starts_with("retired-") => drop(object["data"]["workspaceUID"].take()),
        // The user who changed it last: a release cannot act as a removed account.
        "HelmRequest" => drop(object["spec"]["runAs"].take()),
        "HelmRelease" => drop(object["spec"]["username"].take()),
        _ => {}
    }
    let mut text = object.to_string();
    if kind == "Secret" {
        for value in object["data"].as_object().into_iter().flat_map(|data| data.values()) {
            text.push_str(&String::from_utf8_lossy(&STANDARD.decode(value.as_str().unwrap()).unwrap()));
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_identities_are_usable_by_no_other_tenant_whenever_the_server_is_killed() {
    let seed = std::env::var("MODEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_119);
    let mut run = ModelRun::start(seed).await;
    // An account with a node, whose certificate the test holds.
    let visitor = ConsoleUser::register(run.server(), &run.cluster).await;
    let node = format!("{}-edge", visitor.namespace);
    let script = JoinScript::fetch(&visitor).await;
    let (decision, certificate) = request_certificate(&run.cluster, &script, &node).await;
    let certificate = certificate.unwrap_or_else(|| panic!("{decision}"));
    let began = Instant::now();
    for kill in 0..KILLS {
        if kill >= MIN_KILLS && began.elapsed() > ATTACK_DURATION {
            break;
        }
        let tenant = run.rng.next_below(TENANTS);
        let other = (tenant + 1 + run.rng.next_below(TENANTS - 1)) % TENANTS;
        for missing in [tenant, other] {
            if run.tenants[missing].is_none() {
                run.register(missing).await;
            }
        }
        run.create_workspace(tenant, other).await;
        // Each kind of removal in turn; the seed selects the object.
        match kill % 4 {
            0 | 2 => run.remove_workspace(run.workspaces.len() - 1, true).await,
            1 => run.remove_account(tenant).await,
            _ if run.former.traces.contains(&visitor.namespace) => run.remove_account(other).await,
            _ => {
                let path = format!("/apis/user.openyurt.io/v1alpha1/users/user-{}", visitor.phone);
                let admin = run.admin().await;
                let account = uid(&get(&admin, &path).await.json());
                run.former.traces.extend([visitor.namespace.clone(), account]);
                assert_eq!(send_body(&admin, Method::DELETE, &path, JSON, "").await.code, 200);
                run.kill().await;
                wait_until_gone(&run.admin().await, &path).await;
                // On other clusters access ends with the certificate's lifetime.
                if matches!(target(), TestTarget::Embedded) {
                    let own = run.kube(&certificate).await;
                    let answer = get(&own, &format!("/api/v1/nodes/{node}")).await;
                    assert!(matches!(answer.code, 401 | 403), "MODEL_SEED={seed}: {}", answer.text);
                }
            }
        }
        run.assert_isolation(seed).await;
    }
    run.assert_names_are_reserved(seed).await;
}
