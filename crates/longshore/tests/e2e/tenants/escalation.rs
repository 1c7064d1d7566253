//! Attempts to gain more rights than granted. Kubernetes or the platform answers each with 403 or 404, and nothing
//! changes.

use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, unused_phone};
use crate::request::send_body;
use crate::target::Cluster;

async fn client(kubeconfig: &std::path::Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

fn role_binding(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [subject],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_api_grants_no_extra_rights() {
    let (cluster, server) = Cluster::with_platform().await;
    let owner = PlatformUser::register(&server, &cluster).await;
    let developer = PlatformUser::register(&server, &cluster).await;
    let workspace = format!("team-{}", unused_phone());
    owner.workspace(&cluster, &workspace).await;
    owner.add_member(&workspace, &developer, "developer").await;
    let kubeconfig = developer.kubeconfig(&cluster).await;
    let kube = client(&kubeconfig).await;

    let me = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": format!("longshore:user:{}", developer.id)});
    let namespaced = |group: &str, rest: &str| format!("{group}/namespaces/{workspace}/{rest}");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let bindings = namespaced(rbac, "rolebindings");
    let user = format!("/apis/user.openyurt.io/v1alpha1/users/{}", developer.account);
    let workspaces = "/apis/longshore.dev/v1alpha1/workspaces";
    let merge = "application/merge-patch+json";
    let create = "application/json";
    let wide = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    let aggregated = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "mine", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": [],
    });
    let attempts: &[(&str, Method, String, &str, Value)] = &[
        (
            "bind cluster-admin",
            Method::POST,
            bindings.clone(),
            create,
            role_binding("a", "cluster-admin", &me),
        ),
        ("bind edit", Method::POST, bindings.clone(), create, role_binding("b", "edit", &me)),
        ("write a role with everything", Method::POST, namespaced(rbac, "roles"), create, wide),
        ("write an aggregated role", Method::POST, format!("{rbac}/clusterroles"), create, aggregated),
        (
            "bind for the whole cluster",
            Method::POST,
            format!("{rbac}/clusterrolebindings"),
            create,
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "mine"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [me],
            }),
        ),
        (
            "join the administrators' binding",
            Method::PATCH,
            format!("{bindings}/longshore-ws-admin"),
            merge,
            json!({"subjects": [me]}),
        ),
        (
            "drop the administrators' binding",
            Method::DELETE,
            format!("{bindings}/longshore-ws-admin"),
            create,
            Value::Null,
        ),
        (
            "open the network",
            Method::DELETE,
            namespaced("/apis/networking.k8s.io/v1", "networkpolicies/longshore-default-deny"),
            create,
            Value::Null,
        ),
        (
            "drop the quota",
            Method::DELETE,
            namespaced("/api/v1", "resourcequotas/longshore"),
            create,
            Value::Null,
        ),
        (
            "edit the own account",
            Method::PATCH,
            user.clone(),
            merge,
            json!({"spec": {"platformRoles": ["admin"]}}),
        ),
        (
            "edit the own account's state",
            Method::PATCH,
            format!("{user}/status"),
            merge,
            json!({"status": {"tenantID": owner.id}}),
        ),
        (
            "edit the workspace",
            Method::PATCH,
            format!("{workspaces}/{workspace}"),
            merge,
            json!({"spec": {"members": [{"user": developer.id, "role": "admin"}]}}),
        ),
        (
            "make a workspace around the door",
            Method::POST,
            workspaces.to_owned(),
            create,
            json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": "kube-system"},
                   "spec": {"members": [], "namespaces": [{"name": "kube-system"}], "clusters": ["host"]}}),
        ),
        (
            "a token of another person's ServiceAccount",
            Method::POST,
            format!("/api/v1/namespaces/longshore-system/serviceaccounts/{}/token", owner.id),
            create,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
        ),
        (
            "a token of the platform's ServiceAccount",
            Method::POST,
            "/api/v1/namespaces/longshore-system/serviceaccounts/longshore/token".to_owned(),
            create,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
        ),
        (
            "label the namespace",
            Method::PATCH,
            format!("/api/v1/namespaces/{workspace}"),
            merge,
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        ),
        (
            "read credentials",
            Method::GET,
            "/api/v1/namespaces/longshore-system/secrets".to_owned(),
            create,
            Value::Null,
        ),
        (
            "read another's namespace",
            Method::GET,
            format!("/api/v1/namespaces/{}/pods", owner.id),
            create,
            Value::Null,
        ),
        ("watch everything", Method::GET, "/api/v1/pods?watch=true".to_owned(), create, Value::Null),
    ];
    for (what, method, path, media, body) in attempts {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = send_body(&kube, method.clone(), path, media, body).await;
        assert!(matches!(answer.code, 403 | 404), "{what}: {} {}", answer.code, answer.text);
    }
    assert_impersonation_is_rejected(&kube).await;
    assert_privileged_pod_is_rejected(&kube, &workspace).await;
    let members = owner.get(&format!("workspaces/{workspace}/members")).await;
    let role = |id: &str| {
        let items = members["items"].as_array().unwrap();
        items.iter().find(|member| member["user"] == id).map(|member| member["role"].clone())
    };
    assert_eq!(role(&developer.id), Some(json!("developer")), "{members}");
    assert_eq!(role(&owner.id), Some(json!("admin")), "{members}");
}

async fn assert_impersonation_is_rejected(kube: &kube::Client) {
    for (name, value) in [
        ("Impersonate-User", "longshore:user:uaaaaaaaaaa"),
        ("Impersonate-User", "system:serviceaccount:longshore-system:longshore"),
        ("Impersonate-Group", "system:masters"),
    ] {
        let mut request = http::Request::get("/api/v1/namespaces").header(name, value);
        if name == "Impersonate-Group" {
            request = request.header("Impersonate-User", "longshore:user:uaaaaaaaaaa");
        }
        let answer = crate::request::send(kube, request.body(Vec::new()).unwrap()).await;
        assert_eq!(answer.code, 403, "{name}: {value}: {}", answer.text);
    }
}

async fn assert_privileged_pod_is_rejected(kube: &kube::Client, namespace: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"},
        "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "a", "securityContext": {"privileged": true}}]},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let answer = send_body(kube, Method::POST, &path, "application/json", pod.to_string()).await;
    assert_eq!(answer.code, 403, "{}", answer.text);
}

/// Description, user, method, path, body, and accepted status codes.
type EscalationAttempt<'a> = (&'a str, &'a PlatformUser, Method, String, Value, &'a [u16]);

#[tokio::test(flavor = "multi_thread")]
async fn platform_api_grants_no_extra_rights() {
    let (cluster, server) = Cluster::with_platform().await;
    let owner = PlatformUser::register(&server, &cluster).await;
    let member = PlatformUser::register(&server, &cluster).await;
    let stranger = PlatformUser::register(&server, &cluster).await;
    let workspace = format!("team-{}", unused_phone());
    owner.workspace(&cluster, &workspace).await;
    owner.add_member(&workspace, &member, "developer").await;
    let at = format!("workspaces/{workspace}");
    let attempts: &[EscalationAttempt] = &[
        ("see a foreign workspace", &stranger, Method::GET, at.clone(), Value::Null, &[404]),
        (
            "join a foreign workspace",
            &stranger,
            Method::PUT,
            format!("{at}/members/{{me}}"),
            json!({"role": "admin"}),
            &[404],
        ),
        (
            "accept what nobody asked",
            &stranger,
            Method::POST,
            format!("invitations/{workspace}"),
            Value::Null,
            &[404],
        ),
        (
            "rise in rank",
            &member,
            Method::PUT,
            format!("{at}/members/{{me}}"),
            json!({"role": "admin"}),
            &[403],
        ),
        (
            "raise the quota",
            &owner,
            Method::PUT,
            format!("{at}/quota"),
            json!({"quota": {"pods": "10000"}}),
            &[403],
        ),
        (
            "become an administrator",
            &owner,
            Method::PATCH,
            "users/{me}".to_owned(),
            json!({"platformRoles": ["admin"]}),
            &[403],
        ),
        ("read who there is", &owner, Method::GET, "users".to_owned(), Value::Null, &[403]),
        ("see somebody else", &owner, Method::GET, format!("users/{}", stranger.id), Value::Null, &[404]),
        (
            "remove somebody else",
            &owner,
            Method::DELETE,
            format!("users/{}", stranger.id),
            Value::Null,
            &[404],
        ),
        (
            "take a system's name",
            &owner,
            Method::POST,
            "workspaces".to_owned(),
            json!({"name": "kube-system"}),
            &[400],
        ),
        (
            "take somebody's name",
            &owner,
            Method::POST,
            "workspaces".to_owned(),
            json!({"name": stranger.id}),
            &[400],
        ),
        (
            "set what is not asked",
            &owner,
            Method::POST,
            "workspaces".to_owned(),
            json!({"name": "fine", "quota": {"pods": "1"}}),
            &[400],
        ),
    ];
    for (what, person, method, path, body, codes) in attempts {
        let body = (!body.is_null()).then_some(body);
        let answer = person.call(method.clone(), path, body).await;
        assert!(codes.contains(&answer.code), "{what}: {} {}", answer.code, answer.text);
    }
}
