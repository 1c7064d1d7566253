//! Workspace members and objects that reach beyond the workspace: RoleBindings of removed members, unlimited numbers
//! of objects, quota of removed namespaces, and objects that policies reject unless an administrator allows them.

use http::Method;
use serde_json::{Value, json};

use super::access::kubernetes_client;
use crate::platform::{PlatformUser, until};
use crate::request::{HttpResponse, get, send_body};
use crate::target::Cluster;

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";

/// Every kind that a tenant may create: API, resource, kind, and its fields besides metadata.
fn tenant_kinds() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let labels = || json!({"app": "x"});
    let container = || json!([{"name": "c", "image": "registry.invalid/x"}]);
    let template = || json!({"metadata": {"labels": labels()}, "spec": {"containers": container()}});
    let workload = || json!({"replicas": 0, "selector": {"matchLabels": labels()}, "template": template()});
    let named = |mut spec: Value| {
        spec["serviceName"] = "x".into();
        spec
    };
    let mut job = json!({"suspend": true, "template": template()});
    job["template"]["spec"]["restartPolicy"] = "Never".into();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
    let nowhere = json!({"selector": {"matchLabels": labels()}, "template": {"metadata": {"labels": labels()},
        "spec": {"containers": container(), "nodeSelector": {"example.com/nowhere": "true"}}}});
    let backend = json!({"service": {"name": "x", "port": {"number": 80}}});
    #[rustfmt::skip]
    let kinds = vec![
        ("api/v1", "configmaps", "ConfigMap", json!({"data": {"a": "b"}})),
        ("api/v1", "persistentvolumeclaims", "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}})),
        ("api/v1", "pods", "Pod", json!({"spec": {"containers": container()}})),
        ("api/v1", "replicationcontrollers", "ReplicationController",
            json!({"spec": {"replicas": 0, "selector": labels(), "template": template()}})),
        ("api/v1", "secrets", "Secret", json!({"stringData": {"a": "b"}})),
        ("api/v1", "serviceaccounts", "ServiceAccount", json!({})),
        ("api/v1", "services", "Service", json!({"spec": {"ports": [{"port": 80}]}})),
        ("apis/apps/v1", "daemonsets", "DaemonSet", json!({"spec": nowhere})),
        ("apis/apps/v1", "deployments", "Deployment", json!({"spec": workload()})),
        ("apis/apps/v1", "replicasets", "ReplicaSet", json!({"spec": workload()})),
        ("apis/apps/v1", "statefulsets", "StatefulSet", json!({"spec": named(workload())})),
        ("apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": target}})),
        ("apis/batch/v1", "cronjobs", "CronJob",
            json!({"spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": job.clone()}}})),
        ("apis/batch/v1", "jobs", "Job", json!({"spec": job})),
        ("apis/coordination.k8s.io/v1", "leases", "Lease", json!({"spec": {}})),
        ("apis/longshore.dev/v1alpha1", "helmreleases", "HelmRelease",
            json!({"spec": {"name": "x", "version": 1, "source": {"package": format!("pkg-{}", "a".repeat(20))}}})),
        ("apis/networking.k8s.io/v1", "ingresses", "Ingress", json!({"spec": {"defaultBackend": backend}})),
        ("apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", json!({"spec": {"podSelector": {}}})),
        ("apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget",
            json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}}})),
        (RBAC, "rolebindings", "RoleBinding",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
                "subjects": [{"kind": "ServiceAccount", "name": "x"}]})),
        (RBAC, "roles", "Role", json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]})),
    ];
    kinds
}

/// The resource name with which a ResourceQuota counts a kind.
fn quota_key(api: &str, resource: &str) -> String {
    match api.strip_prefix("apis/").and_then(|rest| rest.split('/').next()) {
        Some(group) => format!("count/{resource}.{group}"),
        None => format!("count/{resource}"),
    }
}

/// A tenant with a workspace and a Kubernetes client for it.
struct WorkspaceTenant {
    cluster: Cluster,
    server: crate::program::Server,
    person: PlatformUser,
    workspace_name: String,
    client: kube::Client,
    admin: kube::Client,
}

impl WorkspaceTenant {
    async fn new(prefix: &str) -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let person = PlatformUser::register(&server, &cluster).await;
        let space = format!("{prefix}{}", &person.id[1..9]);
        person.workspace(&cluster, &space).await;
        let client = kubernetes_client(&person, &cluster).await;
        let admin = cluster.client().await;
        let tenant = Self { cluster, server, person, workspace_name: space, client, admin };
        let accounts = tenant.collection_path("api/v1", "serviceaccounts");
        until("the namespace is complete", async || {
            (get(&tenant.client, &format!("{accounts}/default")).await.code == 200).then_some(())
        })
        .await;
        tenant
    }

    fn collection_path(&self, api: &str, resource: &str) -> String {
        format!("/{api}/namespaces/{}/{resource}", self.workspace_name)
    }

    /// Creates an object as a tenant; `query` may be `?dryRun=All`.
    async fn create(
        &self,
        client: &kube::Client,
        (api, resource, kind): (&str, &str, &str),
        name: &str,
        fields: &Value,
        query: &str,
    ) -> HttpResponse {
        let version = api.split_once('/').map_or(api, |(_, version)| version);
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        let fields = fields.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        let path = format!("{}{query}", self.collection_path(api, resource));
        send_body(client, Method::POST, &path, "application/json", object.to_string()).await
    }
}

#[tokio::test]
async fn removed_member_leaves_rolebindings_and_they_are_deleted_unless_kept() {
    let tenant = WorkspaceTenant::new("rb").await;
    let WorkspaceTenant { cluster, server, person: ana, workspace_name: space, .. } = &tenant;
    let bindings = tenant.collection_path(RBAC, "rolebindings");
    let left = async |name: &str| get(&tenant.admin, &format!("{bindings}/{name}")).await.code == 200;
    for (name, query, is_kept) in [("kept", "?keepBindings=true", true), ("deleted", "", false)] {
        let member = PlatformUser::register(server, cluster).await;
        ana.add_member(space, &member, "developer").await;
        let client = kubernetes_client(&member, cluster).await;
        let fields = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": space}],
        });
        until("the member has its role", async || {
            let made = tenant.create(&client, (RBAC, "rolebindings", "RoleBinding"), name, &fields, "").await;
            assert!(matches!(made.code, 201 | 403), "{}", made.text);
            (made.code == 201).then_some(())
        })
        .await;
        let path = format!("workspaces/{space}/members/{}{query}", member.id);
        let removed = ana.call(Method::DELETE, &path, None).await;
        assert_eq!(removed.code, 200, "{}", removed.text);
        let told = removed.json();
        assert_eq!(told["bindingsDeleted"], !is_kept, "{told}");
        let listed = told["bindings"].as_array().unwrap();
        let found = listed.iter().find(|binding| binding["name"] == name).unwrap_or_else(|| panic!("{told}"));
        assert_eq!(found["namespace"], space.as_str(), "{told}");
        assert_eq!(found["serviceAccounts"], json!(["default"]), "{told}");
        if is_kept {
            ana.wait_until(&format!("workspaces/{space}"), |workspace| workspace["ready"] == true).await;
            assert!(left(name).await, "an administrator of the workspace kept it");
        } else {
            until("the RoleBinding is deleted", async || (!left(name).await).then_some(())).await;
        }
    }
    // The platform's own RoleBindings are kept.
    assert!(left("longshore-ws-admin").await);
}

#[tokio::test]
async fn tenant_plants_rolebindings_in_a_closed_workspace_to_block_its_restore() {
    let tenant = WorkspaceTenant::new("plt").await;
    let WorkspaceTenant { person: ana, workspace_name: space, admin, .. } = &tenant;
    let binding = |role: &str| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": space}],
        })
    };
    let kind = (RBAC, "rolebindings", "RoleBinding");
    let bound = tenant.create(&tenant.client, kind, "mine", &binding("longshore-ws-developer"), "").await;
    assert_eq!(bound.code, 201, "{}", bound.text);
    let reserved =
        tenant.create(&tenant.client, kind, "longshore-ws-x", &binding("longshore-ws-viewer"), "").await;
    assert!(reserved.code == 403 && reserved.text.contains("are reserved"), "{}", reserved.text);
    let mut generated = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"generateName": "longshore-ws-"}});
    generated.as_object_mut().unwrap().extend(binding("longshore-ws-viewer").as_object().unwrap().clone());
    let path = tenant.collection_path(RBAC, "rolebindings");
    let reserved =
        send_body(&tenant.client, Method::POST, &path, "application/json", generated.to_string()).await;
    assert!(reserved.code == 403 && reserved.text.contains("are reserved"), "{}", reserved.text);

    let workspace = format!("workspaces/{space}");
    let closed = ana.call(Method::DELETE, &workspace, None).await;
    assert_eq!(closed.code, 200, "{}", closed.text);
    until("the platform's RoleBindings are gone", async || {
        (get(admin, &format!("{path}/longshore-ws-admin")).await.code == 404).then_some(())
    })
    .await;
    // Planted before the names were reserved.
    for name in ["longshore-ws-admin", "longshore-ws-developer"] {
        let planted = tenant.create(admin, kind, name, &binding("longshore-ws-viewer"), "").await;
        assert_eq!(planted.code, 201, "{}", planted.text);
    }
    let restored = ana.call(Method::POST, &format!("{workspace}/restore"), Some(&json!({}))).await;
    assert_eq!(restored.code, 200, "{}", restored.text);
    ana.wait_until(&workspace, |workspace| workspace["ready"] == true).await;
    for name in ["longshore-ws-admin", "longshore-ws-developer"] {
        let restored = async || {
            let binding = get(admin, &format!("{path}/{name}")).await.json();
            (binding["roleRef"]["name"] == name).then_some(())
        };
        until("the platform's RoleBinding is restored", restored).await;
    }
}

#[tokio::test]
async fn tenant_labels_pods_of_a_template_as_provisioned_and_cannot_delete_them() {
    let tenant = WorkspaceTenant::new("lbl").await;
    let labels = json!({"app": "x", "longshore.dev/provisioned": "true"});
    let nowhere = json!({"example.com/nowhere": "true"});
    let spec = json!({"containers": [{"name": "c", "image": "registry.invalid/x"}], "nodeSelector": nowhere});
    let deployment = json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": labels}, "spec": spec}}});
    let kind = ("apis/apps/v1", "deployments", "Deployment");
    let made = tenant.create(&tenant.client, kind, "x", &deployment, "").await;
    assert_eq!(made.code, 201, "{}", made.text);
    let pods = tenant.collection_path("api/v1", "pods");
    let pod = until("the pod is created", async || {
        let found =
            get(&tenant.client, &format!("{pods}?labelSelector=longshore.dev/provisioned")).await.json();
        found["items"].as_array()?.first()?["metadata"]["name"].as_str().map(ToOwned::to_owned)
    })
    .await;
    let now = json!({"gracePeriodSeconds": 0}).to_string();
    let deleted =
        send_body(&tenant.client, Method::DELETE, &format!("{pods}/{pod}"), "application/json", now).await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    // Provisioned objects stay protected.
    let policy = format!(
        "{}/longshore-default-deny",
        tenant.collection_path("apis/networking.k8s.io/v1", "networkpolicies")
    );
    let deleted = send_body(&tenant.client, Method::DELETE, &policy, "application/json", "").await;
    assert_eq!(deleted.code, 403, "{}", deleted.text);
}

#[tokio::test]
async fn tenant_creates_deployments_without_replicas_and_is_stopped_by_the_count() {
    let tenant = WorkspaceTenant::new("cnt").await;
    let (api, resource, kind, fields) =
        tenant_kinds().into_iter().find(|row| row.1 == "deployments").unwrap();
    let mut made = 0;
    let refused = loop {
        let answer =
            tenant.create(&tenant.client, (api, resource, kind), &format!("d{made}"), &fields, "").await;
        if answer.code != 201 {
            break answer;
        }
        made += 1;
        assert!(made <= 300, "nothing bounds the number of Deployments");
    };
    assert_eq!(made, 50, "{}", refused.text);
    assert_eq!(refused.code, 403, "{}", refused.text);
    for words in [
        "exceeded quota: longshore-counts",
        "used: count/deployments.apps=50",
        "limited: count/deployments.apps=50",
    ] {
        assert!(refused.text.contains(words), "{words}: {}", refused.text);
    }
}

#[tokio::test]
async fn every_kind_that_a_tenant_creates_is_counted_and_refused_beyond_its_count() {
    let tenant = WorkspaceTenant::new("all").await;
    let administrator = PlatformUser::administrator(&tenant.server, &tenant.cluster).await;
    let path = format!("workspaces/{}", tenant.workspace_name);
    let counts = get(
        &tenant.admin,
        &format!("{}/longshore-counts", tenant.collection_path("api/v1", "resourcequotas")),
    )
    .await;
    let counted: Vec<String> =
        counts.json()["spec"]["hard"].as_object().unwrap().keys().map(ToOwned::to_owned).collect();
    let words: Vec<String> = tenant_kinds().iter().map(|row| quota_key(row.0, row.1)).collect();
    for word in &counted {
        assert!(words.contains(word), "{word} is not tried");
    }
    // An administrator sets all counts to 0, so that the first object of each kind exceeds the quota.
    let mut quota = tenant.person.get(&path).await["quota"].clone();
    for word in &words {
        quota[word] = "0".into();
    }
    let set = administrator.call(Method::PUT, &format!("{path}/quota"), Some(&json!({"quota": quota}))).await;
    assert_eq!(set.code, 200, "{}", set.text);
    let at = format!("{}/longshore", tenant.collection_path("api/v1", "resourcequotas"));
    until("the quota is in force", async || {
        let hard = get(&tenant.admin, &at).await.json()["status"]["hard"].clone();
        words.iter().all(|word| hard[word] == "0").then_some(())
    })
    .await;
    for ((api, resource, kind, fields), word) in tenant_kinds().into_iter().zip(&words) {
        let refused = tenant.create(&tenant.client, (api, resource, kind), "x", &fields, "?dryRun=All").await;
        assert_eq!(refused.code, 403, "{word}: {}", refused.text);
        assert!(refused.text.contains("exceeded quota: longshore,"), "{word}: {}", refused.text);
        assert!(refused.text.contains(&format!("{word}=0")), "{word}: {}", refused.text);
    }
}

#[tokio::test]
async fn share_of_a_removed_namespace_stays_taken_while_a_finalizer_keeps_a_claim() {
    let tenant = WorkspaceTenant::new("shr").await;
    let WorkspaceTenant { person: ana, workspace_name: space, admin, .. } = &tenant;
    let path = format!("workspaces/{space}");
    let quota = format!("{}/longshore", tenant.collection_path("api/v1", "resourcequotas"));
    let storage = async || {
        let found = get(admin, &quota).await.json();
        found["spec"]["hard"]["requests.storage"].as_str().map(ToOwned::to_owned)
    };
    let whole = until("the quota is there", storage).await;
    let share = json!({"requests.storage": "1Gi", "persistentvolumeclaims": "1"});
    let added = ana
        .call(Method::POST, &format!("{path}/namespaces"), Some(&json!({"name": "more", "share": share})))
        .await;
    assert_eq!(added.code, 201, "{}", added.text);
    let namespace = format!("{space}-more");
    let rest = until("the share is taken", async || storage().await.filter(|rest| *rest != whole)).await;
    let is_made = |workspace: &Value| {
        let namespaces = workspace["namespaces"].as_array().unwrap();
        workspace["ready"] == true && namespaces.iter().all(|own| own["made"] == true)
    };
    ana.wait_until(&path, is_made).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kept", "finalizers": ["example.com/kept"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
    until("the claim is made", async || {
        let made =
            send_body(&tenant.client, Method::POST, &claims, "application/json", claim.to_string()).await;
        (made.code == 201).then_some(())
    })
    .await;
    let removed = ana.call(Method::DELETE, &format!("{path}/namespaces/{namespace}"), None).await;
    assert_eq!(removed.code, 200, "{}", removed.text);
    until("the namespace is being deleted", async || {
        let found = get(admin, &format!("/api/v1/namespaces/{namespace}")).await.json();
        found["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    for _ in 0..20 {
        assert_eq!(storage().await.as_ref(), Some(&rest), "the share is back while the claim is there");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let freed =
        send_body(admin, Method::PATCH, &format!("{claims}/kept"), "application/merge-patch+json", free)
            .await;
    assert_eq!(freed.code, 200, "{}", freed.text);
    until("the share is back", async || storage().await.filter(|now| *now == whole)).await;
}

/// Objects that policies reject in a workspace: resource, name, `spec`, and part of the message; `None` if accepted.
fn policy_cases(space: &str) -> Vec<(&'static str, &'static str, Value, Option<&'static str>)> {
    let pod = |extra: Value| {
        merge_spec(json!({"containers": [{"name": "a", "image": "registry.invalid/x"}]}), &extra)
    };
    let port = json!([{"name": "a", "image": "registry.invalid/x", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
    let service =
        |extra: Value| merge_spec(json!({"ports": [{"port": 80}], "selector": {"app": "a"}}), &extra);
    let balanced = |extra: Value| merge_spec(service(extra), &json!({"type": "LoadBalancer"}));
    let network = |rules: Value| merge_spec(json!({"podSelector": {}}), &rules);
    let to = |peer: Value| network(json!({"egress": [{"to": [peer]}], "policyTypes": ["Egress"]}));
    let block = |cidr: &str| to(json!({"ipBlock": {"cidr": cidr}}));
    let private = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];
    let space_of =
        |name: &str| json!({"namespaceSelector": {"matchLabels": {"longshore.dev/workspace": name}}});
    let (open, policies) = (Some("names its peers"), "networkpolicies");
    #[rustfmt::skip]
    let rows = vec![
        ("pods",     "plain-pod",      pod(json!({})), None),
        ("pods",     "system-pod",     pod(json!({"priorityClassName": "system-node-critical"})), Some("PriorityClass of the system")),
        ("pods",     "port-pod",       pod(json!({"containers": port})), Some("hostPort")),
        ("services", "plain-service",  service(json!({})), None),
        ("services", "external",       service(json!({"externalIPs": ["192.0.2.1"]})), Some("externalIPs")),
        ("services", "ranges",         balanced(json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]})), Some("loadBalancerSourceRanges")),
        (policies,   "no-rules",       network(json!({})), None),
        (policies,   "own-pods",       network(json!({"ingress": [{"from": [{"podSelector": {}}]}]})), None),
        (policies,   "own-workspace",  to(space_of(space)), None),
        (policies,   "internet",       to(json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": private}})), None),
        (policies,   "public-4",       block("8.8.8.0/24"), None),
        (policies,   "public-6",       block("2001:db8::/32"), None),
        (policies,   "everyone-in",    network(json!({"ingress": [{}]})), open),
        (policies,   "everyone-out",   network(json!({"egress": [{}], "policyTypes": ["Egress"]})), open),
        (policies,   "all-namespaces", to(json!({"namespaceSelector": {}})), open),
        (policies,   "other",          to(space_of("other")), open),
        (policies,   "all-addresses",  block("0.0.0.0/0"), open),
        (policies,   "private",        block("10.0.0.0/8"), open),
        (policies,   "wide",           block("8.0.0.0/5"), open),
        (policies,   "metadata",       block("169.254.169.254/32"), open),
    ];
    rows
}

fn merge_spec(mut spec: Value, extra: &Value) -> Value {
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    spec
}

#[tokio::test]
async fn tenant_claims_priority_ports_addresses_and_open_networks_and_is_refused_until_allowed() {
    let tenant = WorkspaceTenant::new("pol").await;
    let at = |resource: &str| match resource {
        "pods" => ("api/v1", "pods", "Pod"),
        "services" => ("api/v1", "services", "Service"),
        _ => ("apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    };
    let create = async |resource: &str, name: &str, spec: &Value| {
        tenant.create(&tenant.client, at(resource), name, &json!({"spec": spec}), "?dryRun=All").await
    };
    for (resource, name, spec, refusal) in policy_cases(&tenant.workspace_name) {
        let answer = create(resource, name, &spec).await;
        let Some(words) = refusal else {
            assert_eq!(answer.code, 201, "{name}: {}", answer.text);
            continue;
        };
        assert_eq!(answer.code, 403, "{name}: {}", answer.text);
        // Pod Security runs before the policies and rejects host ports with its own message.
        let by = if name == "port-pod" { "PodSecurity" } else { "spec.allow" };
        assert!(answer.text.contains(words) && answer.text.contains(by), "{name}: {}", answer.text);
    }
    let allow =
        ["systemPriorityClasses", "hostPorts", "externalIPs", "loadBalancerAddresses", "openNetworkPolicies"];
    let path = format!("/apis/longshore.dev/v1alpha1/workspaces/{}", tenant.workspace_name);
    let allowed = json!({"spec": {"allow": allow}}).to_string();
    // Tenants cannot grant themselves the exception.
    let kind = "application/merge-patch+json";
    let own = send_body(&tenant.client, Method::PATCH, &path, kind, allowed.clone()).await;
    assert_eq!(own.code, 403, "{}", own.text);
    let allowed = send_body(&tenant.admin, Method::PATCH, &path, kind, allowed).await;
    assert_eq!(allowed.code, 200, "{}", allowed.text);
    // A new workspace has a quota of 0 load balancers.
    let administrator = PlatformUser::administrator(&tenant.server, &tenant.cluster).await;
    let path = format!("workspaces/{}", tenant.workspace_name);
    let mut quota = tenant.person.get(&path).await["quota"].clone();
    for word in ["services.loadbalancers", "services.nodeports"] {
        quota[word] = "5".into();
    }
    let set = administrator.call(Method::PUT, &format!("{path}/quota"), Some(&json!({"quota": quota}))).await;
    assert_eq!(set.code, 200, "{}", set.text);
    for (resource, name, spec, _) in policy_cases(&tenant.workspace_name) {
        until(&format!("{name} is allowed"), async || {
            (create(resource, name, &spec).await.code == 201).then_some(())
        })
        .await;
    }
    // The exception for host ports does not allow other host access.
    let privileged = json!({"securityContext": {"privileged": true}});
    let container = merge_spec(json!({"name": "a", "image": "registry.invalid/x"}), &privileged);
    for spec in [
        json!({"containers": [container]}),
        json!({"hostNetwork": true, "containers": [{"name": "a", "image": "registry.invalid/x"}]}),
        json!({"containers": [{"name": "a", "image": "registry.invalid/x"}],
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    ] {
        let answer = create("pods", "intruder", &spec).await;
        assert!(answer.code == 403 && answer.text.contains("cannot"), "{spec}: {}", answer.text);
    }
}
