//! API of the OpenYurt console on every target: accounts, the rights of a login's kubeconfig, nodes, pools and
//! workloads as they exist in the cluster, and rejected requests.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use http::{Method, Request};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_types::User;
use serde_json::{Value, json};

use crate::platform::{PlatformUser, kubectl, until, unused_phone};
use crate::program::Server;
use crate::request::{HttpResponse, get, send, send_body};
use crate::target::{Cluster, report_skipped};

/// Routes that list or summarise objects.
const LISTS: &[&str] = &[
    "/clusterOverview",
    "/clusterEvents",
    "/nodes",
    "/nodepools",
    "/deployments",
    "/statefulsets",
    "/daemonsets",
    "/jobs",
    "/cronjobs",
    "/pods",
];

/// A user registered through the console's `/register` route.
pub struct ConsoleUser {
    email: String,
    pub phone: String,
    token: String,
    pub namespace: String,
    platform: kube::Client,
}

impl ConsoleUser {
    pub async fn register(server: &Server, cluster: &Cluster) -> Self {
        let phone = unused_phone();
        let email = format!("v{phone}@example.com");
        cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/user-{phone}"));
        let platform = server.platform();
        let form = json!({"email": email, "phone": phone, "organization": "Acme"});
        let made = post(&platform, "/register", &form).await;
        assert_eq!(made.code, 200, "{}\n{}", made.text, server.log());
        let told = made.json();
        let text = |name: &str| told[name].as_str().unwrap_or_else(|| panic!("{name} in {told}")).to_owned();
        Self { token: text("token"), namespace: text("namespace"), email, phone, platform }
    }

    pub async fn login(&self) -> HttpResponse {
        get(&self.platform, &format!("/login?email={}&token={}", self.email, self.token)).await
    }

    pub async fn get(&self, path: &str) -> HttpResponse {
        get_with_token(&self.platform, &self.token, path).await
    }

    /// Sends a request below `/api/longshore/v1`.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> HttpResponse {
        crate::platform::call(&self.platform, Some(&self.token), method, path, body).await
    }
}

async fn post(platform: &kube::Client, path: &str, body: &Value) -> HttpResponse {
    send_body(platform, Method::POST, path, "application/json", body.to_string()).await
}

async fn get_with_token(platform: &kube::Client, token: &str, path: &str) -> HttpResponse {
    let request = Request::get(path).header("authorization", format!("Bearer {token}"));
    send(platform, request.body(Vec::new()).unwrap()).await
}

/// Creates an object with its status as cluster administrator.
async fn create_with_status(cluster: &Cluster, path: &str, object: &Value) {
    let client = cluster.client().await;
    let name = object["metadata"]["name"].as_str().unwrap();
    // Pods are rejected with 403 until the namespace's default ServiceAccount exists.
    until("the object can be made", async || {
        let made = send_body(&client, Method::POST, path, "application/json", object.to_string()).await;
        assert!(matches!(made.code, 201 | 403), "{}", made.text);
        (made.code == 201).then_some(())
    })
    .await;
    if !path.contains("/namespaces/") {
        cluster.remove_at_end(format!("{path}/{name}"));
    }
    if let Some(status) = object.get("status") {
        let path = format!("{path}/{name}/status");
        let body = json!({"status": status}).to_string();
        let written = send_body(&client, Method::PATCH, &path, "application/merge-patch+json", body).await;
        assert_eq!(written.code, 200, "{}", written.text);
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn console_user_registers_logs_in_and_gets_namespace() {
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let admin = cluster.client().await;
    let space = &visitor.namespace;
    for path in [
        format!("/apis/user.openyurt.io/v1alpha1/users/user-{}", visitor.phone),
        format!("/api/v1/namespaces/{space}"),
        format!("/api/v1/namespaces/longshore-system/serviceaccounts/{space}"),
    ] {
        assert_eq!(get(&admin, &path).await.code, 200, "{path}");
    }
    for path in [
        format!("/api/v1/namespaces/{space}/resourcequotas"),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings"),
    ] {
        let list = get(&admin, &path).await.json();
        assert!(!list["items"].as_array().unwrap().is_empty(), "{path}: {list}");
    }
    for (email, phone) in
        [(&visitor.email, &unused_phone()), (&format!("x{}", visitor.email), &visitor.phone)]
    {
        let form = json!({"email": email, "phone": phone, "organization": "Acme"});
        let again = post(&visitor.platform, "/register", &form).await;
        assert_eq!(
            (again.code, again.json()["code"].as_str()),
            (409, Some("already_exists")),
            "{}",
            again.text
        );
    }
    for phone in ["kube-system", "default", "longshore-system"] {
        let form = json!({"email": "k@example.com", "phone": phone, "organization": "Acme"});
        assert_eq!(post(&visitor.platform, "/register", &form).await.code, 400, "{phone}");
        assert!(matches!(get(&admin, &format!("/api/v1/namespaces/{phone}")).await.code, 200), "{phone}");
    }

    let login = visitor.login().await;
    assert_eq!(login.code, 200, "{}", login.text);
    let told = login.json();
    assert_eq!(keys(&told), ["spec", "status"]);
    assert_eq!(
        keys(&told["spec"]),
        ["kubeConfig", "maxNodeNum", "namespace", "nodeAddScript", "validPeriod"],
        "{told}"
    );
    assert_eq!(keys(&told["status"]), ["effectiveTime", "expired", "nodeNum"], "{told}");
    assert_eq!((&told["spec"]["namespace"], &told["status"]["expired"]), (&json!(space), &json!(false)));
    assert!(!told["status"]["effectiveTime"].as_str().unwrap().is_empty(), "{told}");
    assert!(login.header("set-cookie").contains("HttpOnly; SameSite=Strict"));
    assert_eq!((login.header("cache-control"), login.header("referrer-policy")), ("no-store", "no-referrer"));
    assert!(login.header("deprecation").starts_with('@'));

    let wrong = |email: &str, token: &str| format!("/login?email={email}&token={token}");
    let refused = [
        wrong(&visitor.email, "lsh_aaaaaaaaaa_wrong"),
        wrong("nobody@example.com", &visitor.token),
        wrong(&visitor.email, ""),
    ];
    let mut said = Vec::new();
    for path in refused {
        let answer = get(&visitor.platform, &path).await;
        said.push((answer.code, answer.text));
    }
    assert_eq!(said[0].0, 401, "{said:?}");
    assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn console_kubeconfig_is_limited_to_own_namespace() {
    if std::env::var_os("LONGSHORE_KUBECTL").is_none() {
        report_skipped("LONGSHORE_KUBECTL names no kubectl");
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let other = ConsoleUser::register(&server, &cluster).await;
    let told = visitor.login().await.json();
    let file = cluster.folder.path().join("login");
    fs::write(&file, told["spec"]["kubeConfig"].as_str().unwrap()).unwrap();
    let rows: &[(&[&str], bool, &str)] = &[
        (&["create", "configmap", "mine", "--from-literal=a=b"], true, "configmap/mine created"),
        (&["create", "deployment", "web", "--image=nginx"], true, "deployment.apps/web created"),
        (&["get", "pods"], true, ""),
        (&["get", "nodes"], false, "orbidden"),
        (&["-n", &other.namespace, "get", "pods"], false, "orbidden"),
        (&["-n", "kube-system", "get", "secrets"], false, "orbidden"),
        (&["get", "nodepools.apps.openyurt.io"], false, "orbidden"),
        (&["get", "users.user.openyurt.io"], false, "orbidden"),
    ];
    for (args, well, part) in rows {
        let (ok, said) = kubectl(&file, args, "").unwrap();
        assert!(ok == *well && said.contains(part), "kubectl {}: {said}", args.join(" "));
    }
    let listed = until("the deployment is listed", async || {
        let list = visitor.get("/deployments").await.json();
        let first = list["items"].get(0)?.clone();
        Some(first)
    })
    .await;
    assert_eq!((&listed["name"], &listed["labels"]), (&json!("web"), &json!("app=web")), "{listed}");
    assert_eq!(listed["image"], json!([{"image": "nginx"}]));
    assert_eq!(listed["image"], listed["images"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn console_rejects_anonymous_and_foreign_namespaces() {
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let other = ConsoleUser::register(&server, &cluster).await;
    let platform = &visitor.platform;
    for path in LISTS {
        let nobody = get(platform, path).await;
        assert_eq!(nobody.code, 401, "{path}");
        assert_eq!(nobody.json()["status"], false, "{path}");
        let forged = get_with_token(platform, "lsh_aaaaaaaaaa_forged", path).await;
        assert_eq!(forged.code, 401, "{path}");
        assert_eq!(visitor.get(path).await.code, 200, "{path}");
        if !matches!(*path, "/nodes" | "/nodepools") {
            let own = visitor.get(&format!("{path}?namespace={}", visitor.namespace)).await;
            assert_eq!(own.code, 200, "{path}: {}", own.text);
            let mut said = Vec::new();
            for namespace in [other.namespace.as_str(), "kube-system", "there-is-none"] {
                let foreign = visitor.get(&format!("{path}?namespace={namespace}")).await;
                assert_eq!(foreign.code, 403, "{path} {namespace}: {}", foreign.text);
                said.push(foreign.text.replace(namespace, ""));
            }
            assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
        }
    }
    for (method, path) in [
        (Method::POST, "/nodepools"),
        (Method::PUT, "/nodepools/some"),
        (Method::DELETE, "/nodepools/some"),
        (Method::PUT, "/nodes/some/autonomy"),
    ] {
        let nobody = send_body(platform, method.clone(), path, "application/json", "{}").await;
        assert_eq!(nobody.code, 401, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console_ignores_kubeconfig_in_request() {
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let address = trap.local_addr().unwrap();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\nusers: [{{name: a, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [/tmp/never]}}}}}}]\n"
    );
    let encoded = kubeconfig.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").unwrap();
        text
    });
    for path in LISTS {
        let answer = visitor.get(&format!("{path}?kubeConfig={encoded}")).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        let body = json!({"kubeConfig": kubeconfig, "namespace": "kube-system"}).to_string();
        let request = Request::get(*path)
            .header("authorization", format!("Bearer {}", visitor.token))
            .header("content-type", "application/json");
        let answer = send(&visitor.platform, request.body(body.into_bytes()).unwrap()).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
    }
    let login = json!({"email": visitor.email, "token": visitor.token, "kubeConfig": kubeconfig});
    assert_eq!(post(&visitor.platform, "/login", &login).await.code, 200);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(trap.accept().is_err(), "somebody connected to the server of that kubeconfig");
}

/// Conditions, labels and sums of objects that a cluster administrator wrote.
#[tokio::test(flavor = "multi_thread")]
async fn console_lists_match_cluster_state() {
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let admin = PlatformUser::administrator(&server, &cluster).await;
    let platform = server.platform();
    let tag = unused_phone();
    let pool = format!("pool-{tag}");
    let nodes = "/api/v1/nodes";
    let bare = |name: &str, labels: Value, ready: Option<&str>| {
        let conditions: Vec<Value> = ready
            .map(|status| json!({"type": "Ready", "status": status, "reason": "Told", "message": "by hand"}))
            .into_iter()
            .collect();
        let mut marked = json!({"sim.longshore.dev/node": "false"});
        marked.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("{name}-{tag}"), "labels": marked},
            "status": {
                "conditions": conditions, "capacity": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "40Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.9.8.7"}],
            },
        })
    };
    create_with_status(
        &cluster,
        nodes,
        &bare("cloud", json!({"node-role.kubernetes.io/control-plane": ""}), Some("True")),
    )
    .await;
    create_with_status(
        &cluster,
        nodes,
        &bare(
            "ill",
            json!({"apps.openyurt.io/nodepool": pool, "apps.openyurt.io/desired-nodepool": pool}),
            Some("False"),
        ),
    )
    .await;
    create_with_status(&cluster, nodes, &bare("lost", json!({}), Some("Unknown"))).await;
    create_with_status(&cluster, nodes, &bare("new", json!({}), None)).await;
    let pods = format!("/api/v1/namespaces/{}/pods", cluster.namespace);
    let container = |name: &str, cpu: &str| json!({"name": name, "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}});
    for (name, phase) in [("runs", "Running"), ("ended", "Succeeded")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeName": format!("cloud-{tag}"), "tolerations": [{"operator": "Exists"}],
                "initContainers": [container("first", "700m")], "containers": [container("a", "100m"), container("b", "250m")],
            },
            "status": {"phase": phase},
        });
        create_with_status(&cluster, &pods, &pod).await;
    }
    let listed = until("the node is listed as it is", async || {
        let answer = get_with_token(&platform, &admin.token, "/nodes").await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        let list = answer.json();
        let rows: Vec<Value> = list["allNodes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["name"].as_str().unwrap().ends_with(&tag))
            .cloned()
            .collect();
        let summed = rows.iter().any(|row| row["nodeStatus"]["cpu"].as_str().unwrap().starts_with("700m"));
        (rows.len() == 4 && summed).then_some(rows)
    })
    .await;
    let said: Vec<_> =
        listed.iter().map(|row| (row["role"].as_str().unwrap(), row["status"].as_str().unwrap())).collect();
    assert_eq!(said[0].0, "master");
    let statuses: Vec<&str> = said.iter().map(|(_, status)| status.split(',').next().unwrap()).collect();
    assert_eq!(statuses, ["Ready", "NotReady", "Unknown", "Unknown"], "{listed:?}");
    // Init containers run one after another, so the larger of init and main counts. Finished pods count nothing.
    assert_eq!(listed[0]["nodeStatus"]["cpu"], "700m / 2000m / -", "{}", listed[0]);
    assert_eq!(listed[0]["nodeStatus"]["memory"], "128.0Mi / 256.0Mi / -", "{}", listed[0]);
    assert_eq!((&listed[0]["ip"], &listed[1]["nodePool"]), (&json!("10.9.8.7"), &json!(pool)));
    let own = visitor.get("/nodes").await.json();
    assert_eq!(own["allNodes"], json!([]), "a tenant sees none of them");

    let made = json!({"name": pool, "type": "Edge"});
    let request = |method: Method, path: &str, token: &str, body: &Value| {
        Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap()
    };
    cluster.remove_at_end(format!("/apis/apps.openyurt.io/v1alpha1/nodepools/{pool}"));
    let created = send(&platform, request(Method::POST, "/nodepools", &admin.token, &made)).await;
    assert!(created.code < 300, "{}", created.text);
    let row = until("the pool has its node", async || {
        let list = get_with_token(&platform, &admin.token, "/nodepools").await.json();
        let row = list["items"].as_array()?.iter().find(|row| row["name"] == json!(pool))?.clone();
        (row["nodeStatus"]["totalNum"] == 1).then_some(row)
    })
    .await;
    assert_eq!((&row["type"], &row["status"]), (&json!("Edge"), &json!("NotReady")), "{row}");
    assert_eq!(row["nodeStatus"], json!({"totalNum": 1, "healthyNum": 0}));
    let path = format!("/nodepools/{pool}");
    let refused = send(&platform, request(Method::DELETE, &path, &admin.token, &json!({}))).await;
    assert_eq!(refused.code, 409, "{}", refused.text);
    assert_eq!(visitor.get("/nodepools").await.json()["items"], json!([]));

    let overview = visitor.get("/clusterOverview").await.json();
    let kinds: Vec<&str> = overview["clusterStatus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["pods", "nodes", "deployments", "statefulsets", "jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_account_is_rejected_and_log_contains_no_secret() {
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let before = visitor.login().await.json();
    for path in LISTS {
        let answer = get(&visitor.platform, &format!("{path}?token={}", visitor.token)).await;
        assert_eq!(
            (answer.code, answer.header("cache-control")),
            (200, "no-store"),
            "{path}: {}",
            answer.text
        );
        assert!(answer.header("deprecation").starts_with('@'), "{path}");
    }
    let users: Api<User> = Api::all(cluster.client().await);
    let name = format!("user-{}", visitor.phone);
    let past =
        json!({"status": {"effectiveTime": "2020-01-01T00:00:00Z", "expireTime": "2020-01-08T00:00:00Z"}});
    users.patch_status(&name, &PatchParams::default(), &Patch::Merge(past)).await.unwrap();
    let expired = until("the account has expired", async || {
        let answer = visitor.login().await;
        (answer.code != 200 || answer.json()["status"]["expired"] == true).then_some(answer)
    })
    .await;
    assert_eq!(expired.code, 200, "{}", expired.text);
    let told = expired.json();
    assert_eq!((&told["spec"]["kubeConfig"], &told["spec"]["nodeAddScript"]), (&json!(""), &json!("")));
    assert_eq!(expired.header("set-cookie"), "");
    for path in ["/nodes", "/deployments", "/clusterOverview"] {
        let refused = visitor.get(path).await;
        assert!(matches!(refused.code, 401 | 403), "{path}: {}", refused.text);
    }

    let kubeconfig = before["spec"]["kubeConfig"].as_str().unwrap();
    let bearer = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    let script = before["spec"]["nodeAddScript"].as_str().unwrap();
    let join = script.split("--token=").nth(1).or_else(|| script.split("--token ").nth(1));
    let join = join.map(|rest| rest.split_whitespace().next().unwrap().trim_matches(['"', '\'']).to_owned());
    let join = join.unwrap_or_else(|| panic!("no join token in {script}"));
    let log = server.log();
    // `lsh_<id>_<secret>`: the secret is base64url and may contain `_`.
    let secret = visitor.token.splitn(3, '_').nth(2).unwrap();
    for (what, canary) in
        [("the token", secret), ("the kubeconfig's token", bearer), ("the join token", &join)]
    {
        assert!(!log.contains(canary), "{what} is in the log");
    }
}
