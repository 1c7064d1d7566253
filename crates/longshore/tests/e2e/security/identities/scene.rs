//! Fixture for confused-deputy attacks: an attacking tenant, users with more rights who change the tenant's releases,
//! and objects that the tenant must not reach.

use helm_release::record::HookRecord;
use helm_release::storage::secret_name;
use helm_release::{Record, Status};
use http::Method;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, call, until, unused_phone};
use crate::program::Server;
use crate::releases::charts::{release_body, release_path, upload_chart, wait_for_state};
use crate::request::{HttpResponse, get};
use crate::target::Cluster;

/// A chart with a workload, a test, and objects from a value. All of it is ready immediately.
pub const CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ("values.yaml", "greeting: hello\nextra: \"\"\n"),
    (
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  replicas: 0\n  \
         selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    \
         spec:\n      containers:\n      - {name: web, image: web}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  \
         name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting | quote }}\n",
    ),
    (
        "templates/test.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-test\n  annotations: {helm.sh/hook: test}\n",
    ),
    ("templates/extra.yaml", "{{ tpl .Values.extra . }}\n"),
];

/// Content of a Secret of each deputy.
pub const PREY_SECRET: &str = "the-secret-of-the-deputy";

/// Users whose rights the tenant tries to gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deputy {
    /// Platform administrator without membership in the tenant's workspace.
    Administrator,
    /// Member of the tenant's workspace and of another one.
    Member,
    /// The member, with a token scoped to the tenant's workspace.
    Scoped,
}

impl Deputy {
    pub const ALL: [Self; 3] = [Self::Administrator, Self::Member, Self::Scoped];
}

pub struct DeputyScene {
    pub cluster: Cluster,
    pub server: Server,
    /// Owner of the workspace and of its namespace of the same name.
    pub tenant: PlatformUser,
    /// Client with the tenant's own rights.
    pub kube: kube::Client,
    pub administrator: PlatformUser,
    pub member: PlatformUser,
    pub scoped: PlatformUser,
    pub workspace: String,
    pub package: String,
}

impl DeputyScene {
    pub async fn new() -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let tenant = PlatformUser::register(&server, &cluster).await;
        let member = PlatformUser::register(&server, &cluster).await;
        let administrator = PlatformUser::administrator(&server, &cluster).await;
        let workspace = format!("t{}", unused_phone());
        tenant.workspace(&cluster, &workspace).await;
        tenant.add_member(&workspace, &member, "developer").await;
        let kube = kubernetes_client(&tenant, &cluster).await;
        let package = upload_chart(&server, &tenant, &workspace, CHART).await;
        let scope = format!("workspace:{workspace}");
        let scoped = member.with_token(scoped_token(&member, &[&scope]).await);
        let scene = Self { cluster, server, tenant, kube, administrator, member, scoped, workspace, package };
        // The scoped deputy and the member are the same user.
        for deputy in [Deputy::Administrator, Deputy::Member] {
            scene.create_prey(deputy).await;
        }
        scene
    }

    pub fn deputy(&self, deputy: Deputy) -> &PlatformUser {
        match deputy {
            Deputy::Administrator => &self.administrator,
            Deputy::Member => &self.member,
            Deputy::Scoped => &self.scoped,
        }
    }

    /// Installs a release as the tenant and waits until it is deployed.
    pub async fn install(&self, name: &str) {
        let body = release_body(&self.workspace, name, &self.package, &json!({"greeting": "mine"}));
        let made = self.tenant.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        self.wait_until_active(name).await;
    }

    /// Waits until the newest version of a release is active.
    pub async fn wait_until_active(&self, name: &str) {
        let path = release_path(&self.workspace, name);
        until("the release is active", async || {
            let release = self.tenant.get(&path).await;
            let done = release["deployedVersion"] == release["version"];
            (release["state"] == "active" && done).then_some(())
        })
        .await;
    }

    /// Waits until the version in this response is deployed.
    pub async fn wait_until_deployed(&self, name: &str, answer: &HttpResponse) {
        let (path, version) = (release_path(&self.workspace, name), answer.json()["version"].clone());
        assert!(version.is_i64(), "{}", answer.text);
        until("the version is deployed", async || {
            let release = self.tenant.get(&path).await;
            (release["state"] == "active" && release["deployedVersion"] == version).then_some(())
        })
        .await;
    }

    /// Waits until the version in this response has failed.
    pub async fn wait_until_failed(&self, name: &str, answer: &HttpResponse) -> Value {
        let (path, version) = (release_path(&self.workspace, name), answer.json()["version"].clone());
        assert!(version.is_i64(), "{}", answer.text);
        until("the version has failed", async || {
            let release = self.tenant.get(&path).await;
            (release["state"] == "failed" && release["version"] == version).then_some(release)
        })
        .await
    }

    pub async fn wait_for_state(&self, name: &str, state: &str) -> Value {
        wait_for_state(&self.server, &self.tenant.token, &release_path(&self.workspace, name), state).await
    }

    /// Posts an action on a release as this user.
    pub async fn post_action(
        &self,
        user: &PlatformUser,
        name: &str,
        act: &str,
        body: Option<&Value>,
    ) -> HttpResponse {
        user.call(Method::POST, &format!("{}/{act}", release_path(&self.workspace, name)), body).await
    }

    /// Upgrades a release as this user, who becomes its last actor.
    pub async fn upgrade(&self, who: &PlatformUser, name: &str, values: &Value) -> HttpResponse {
        let body = json!({"values": values});
        who.call(Method::PATCH, &release_path(&self.workspace, name), Some(&body)).await
    }

    /// Upgrades a release and waits until it is deployed.
    pub async fn upgrade_and_wait(&self, who: &PlatformUser, name: &str, greeting: &str) {
        let answer = self.upgrade(who, name, &json!({"greeting": greeting})).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client().await, &self.workspace);
        self.wait_until_deployed(name, &answer).await;
        assert_eq!(maps.get(name).await.unwrap().data.unwrap()["greeting"], greeting);
    }

    /// Identity with which the release is deployed.
    pub async fn release_identity(&self, name: &str) -> Value {
        let requests =
            get(&self.cluster.client().await, "/apis/longshore.dev/v1alpha1/helmrequests").await.json();
        let requests = requests["items"].as_array().unwrap().clone();
        let is_ours = |request: &&Value| {
            request["spec"]["releaseName"] == name && request["spec"]["namespace"] == self.workspace.as_str()
        };
        requests.iter().find(is_ours).unwrap()["spec"]["runAs"].clone()
    }

    /// The Helm record of a revision, or the newest one, read as the tenant.
    pub async fn record(&self, name: &str, revision: Option<i64>) -> (Secret, Record) {
        let secrets: Api<Secret> = Api::namespaced(self.kube.clone(), &self.workspace);
        let params = kube::api::ListParams::default().labels(&format!("owner=helm,name={name}"));
        let all = secrets.list(&params).await.unwrap().items;
        let number = |secret: &Secret| secret.labels()["version"].parse::<i64>().unwrap();
        let meant = |secret: &Secret| revision.is_none_or(|revision| number(secret) == revision);
        let secret = all.into_iter().filter(meant).max_by_key(number).unwrap();
        let record = Record::decode(&secret.data.as_ref().unwrap()["release"].0).unwrap();
        (secret, record)
    }

    /// Changes the newest Helm record with the tenant's own rights: it is a Secret in the tenant's namespace.
    pub async fn forge_newest_record(&self, name: &str, change: impl Fn(&mut Record)) {
        self.forge_record(name, None, change).await;
    }

    pub async fn forge_record(&self, name: &str, revision: Option<i64>, change: impl Fn(&mut Record)) {
        let secrets: Api<Secret> = Api::namespaced(self.kube.clone(), &self.workspace);
        for _ in 0..10 {
            let (mut secret, mut record) = self.record(name, revision).await;
            change(&mut record);
            let text = ByteString(record.encode().unwrap().into_bytes());
            secret.data = Some([("release".to_owned(), text)].into());
            match secrets.replace(&secret.name_any(), &PostParams::default(), &secret).await {
                Ok(_) => return,
                // The platform wrote concurrently.
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(error) => panic!("the tenant cannot write the record: {error}"),
            }
        }
        panic!("the record changes all the time");
    }

    /// Adds a revision with the tenant's own rights: a copy of the newest record's Secret with its labels. With
    /// annotations it looks like one written by the platform, without them like one of the helm command line.
    pub async fn add_forged_revision(&self, name: &str, annotated: bool, change: impl Fn(&mut Record)) {
        let secrets: Api<Secret> = Api::namespaced(self.kube.clone(), &self.workspace);
        let (mut secret, mut record) = self.record(name, None).await;
        record.version += 1;
        change(&mut record);
        let version = record.version.to_string();
        secret.metadata.name = Some(secret_name(name, record.version));
        secret.metadata.resource_version = None;
        secret.metadata.uid = None;
        secret.metadata.labels.as_mut().unwrap().insert("version".to_owned(), version);
        if !annotated {
            secret.metadata.annotations = None;
        }
        secret.data =
            Some([("release".to_owned(), ByteString(record.encode().unwrap().into_bytes()))].into());
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        self.forge_record(name, Some(record.version - 1), |before| {
            before.set_status(Status::Superseded, "");
        })
        .await;
    }

    /// Adds hooks for every event and objects to a record, as the tenant would; they need this deputy's rights.
    pub fn add_loot(&self, deputy: Deputy) -> impl Fn(&mut Record) {
        let victim = self.deputy(deputy).id.clone();
        let workspace = self.workspace.clone();
        move |record| {
            let binding = format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: loot-{workspace}}}\n\
                 roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
                 subjects: [{{kind: ServiceAccount, name: default, namespace: {workspace}}}]\n"
            );
            let map = |name: &str| {
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {victim}}}\n")
            };
            let events = [
                "pre-delete",
                "post-delete",
                "pre-rollback",
                "post-rollback",
                "pre-upgrade",
                "post-upgrade",
                "test",
            ];
            for (at, manifest) in [binding, map("loot-hook")].into_iter().enumerate() {
                record.hooks.push(HookRecord {
                    name: format!("loot-{at}"),
                    kind: "ConfigMap".to_owned(),
                    path: format!("web/templates/loot-{at}.yaml"),
                    manifest,
                    events: events.iter().map(|event| (*event).to_owned()).collect(),
                    weight: -1,
                    ..HookRecord::default()
                });
            }
            let workload = format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: prey, namespace: {victim}}}\nspec:\n  \
                 selector: {{matchLabels: {{app: prey}}}}\n"
            );
            for manifest in [map("loot-manifest"), map("prey"), workload] {
                record.manifest.push_str("---\n");
                record.manifest.push_str(&manifest);
            }
        }
    }

    /// Creates objects in the deputy's namespace that claim to belong to the release, so that only missing rights
    /// prevent their removal.
    async fn create_prey(&self, deputy: Deputy) {
        let namespace = &self.deputy(deputy).id;
        let annotations =
            json!({"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": self.workspace});
        let metadata = json!({"name": "prey", "annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}});
        let map: ConfigMap = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let client = self.cluster.client().await;
        Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &map).await.unwrap();
        let secret: Secret = serde_json::from_value(
            json!({"metadata": {"name": "prey"}, "stringData": {"password": PREY_SECRET}}),
        )
        .unwrap();
        Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &secret).await.unwrap();
        let workload: k8s_openapi::api::apps::v1::Deployment = serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "prey"}}, "template": {
                "metadata": {"labels": {"app": "prey"}}, "spec": {"containers": [{"name": "prey", "image": "prey"}]}}},
        }))
        .unwrap();
        Api::namespaced(client, namespace).create(&PostParams::default(), &workload).await.unwrap();
    }

    /// Asserts that nothing was created, changed or removed beyond the tenant's rights.
    pub async fn assert_unharmed(&self, deputy: Deputy, when: &str) {
        let client = self.cluster.client().await;
        let namespace = &self.deputy(deputy).id;
        let at = |path: &str| format!("/api/v1/namespaces/{namespace}/configmaps/{path}");
        for loot in [
            format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/loot-{}", self.workspace),
            at("loot-hook"),
            at("loot-manifest"),
            at("loot-chart"),
        ] {
            assert_eq!(get(&client, &loot).await.code, 404, "{when}, as {deputy:?}: {loot} was made");
        }
        assert_eq!(get(&client, &at("prey")).await.code, 200, "{when}, as {deputy:?}: it was removed");
        let workload = get(&client, &format!("/apis/apps/v1/namespaces/{namespace}/deployments/prey")).await;
        assert_eq!(workload.code, 200, "{when}, as {deputy:?}: the workload was removed");
        assert!(!workload.text.contains("restartedAt"), "{when}, as {deputy:?}: it was restarted");
    }

    /// A token of this user with these scopes.
    pub async fn token(&self, of: &PlatformUser, scopes: &[&str]) -> String {
        scoped_token(of, scopes).await
    }

    /// Sends a request with this token.
    pub async fn with_token(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> HttpResponse {
        call(&self.server.platform(), Some(token), method, path, body).await
    }

    /// Uninstalls a release and waits for the end.
    pub async fn uninstall_and_wait(&self, who: &PlatformUser, name: &str) {
        let path = release_path(&self.workspace, name);
        let gone = who.call(Method::DELETE, &path, None).await;
        assert_eq!(gone.code, 202, "{}", gone.text);
        until("the release is gone", async || {
            (self.tenant.call(Method::GET, &path, None).await.code == 404).then_some(())
        })
        .await;
    }

    /// Force-deletes a release that cannot be uninstalled, as administrator.
    pub async fn force_delete(&self, name: &str) {
        let path = format!("{}?force=true", release_path(&self.workspace, name));
        let answer = self.administrator.call(Method::DELETE, &path, None).await;
        assert!(matches!(answer.code, 200 | 202 | 404), "{}: {}", answer.code, answer.text);
    }
}

async fn scoped_token(of: &PlatformUser, scopes: &[&str]) -> String {
    let body = json!({"name": format!("s{}", unused_phone()), "scopes": scopes});
    let made = of.call(Method::POST, "tokens", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    made.json()["token"].as_str().unwrap().to_owned()
}

/// A client with the user's own rights.
async fn kubernetes_client(person: &PlatformUser, cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(person.kubeconfig(cluster).await).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Applies a merge patch to the status of a release.
pub async fn patch_status(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    status: &Value,
) -> Result<(), kube::Error> {
    let api: Api<kube_types::HelmRelease> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
}
