//! Attempts of tenants to escape their restrictions, each refused by Kubernetes itself.

use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;

use super::*;

/// A cluster with a provisioned workspace and its admin.
async fn provisioned_cluster() -> TestCluster {
    let world = test_cluster().await;
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || is_ready(&world, "acme").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &ManualClock::new(), "ready", ready).await;
    world
}

fn tenant_clients(world: &TestCluster) -> Vec<(&'static str, kube::Client)> {
    let person = world
        .client_for(&format!("longshore:user:{ID}"), &["longshore:ws:acme:admin", "system:authenticated"]);
    let by_kubeconfig = kube_embedded::access::User::service_account(SYSTEM_NAMESPACE, ID, "");
    let program = kube_embedded::access::User::service_account("acme", "longshore-deployer", "");
    vec![
        ("through the platform", person),
        ("by kubeconfig", world.cluster.client(by_kubeconfig)),
        ("a program of theirs", world.cluster.client(program)),
    ]
}

/// Asserts that Kubernetes refused the request, by RBAC or by policy.
fn assert_refused<T: std::fmt::Debug>(what: &str, answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
        other => panic!("{what}: {other:?}"),
    }
}

fn object(kind: &str, group_version: &str, content: &Value) -> (ApiResource, DynamicObject) {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let mut whole = content.clone();
    (whole["apiVersion"], whole["kind"]) = (group_version.into(), kind.into());
    (
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)),
        serde_json::from_value(whole).unwrap(),
    )
}

#[tokio::test]
async fn tenant_cannot_change_provisioned_objects() {
    let world = provisioned_cluster().await;
    for (who, client) in tenant_clients(&world) {
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), "acme");
        let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), "acme");
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "acme");
        let (quotas, limits): (Api<ResourceQuota>, Api<LimitRange>) =
            (Api::namespaced(client.clone(), "acme"), Api::namespaced(client.clone(), "acme"));
        let gone = DeleteParams::default();
        assert_refused(who, bindings.delete("longshore-ws-viewer", &gone).await.map(drop));
        assert_refused(who, policies.delete("longshore-default-deny", &gone).await.map(drop));
        assert_refused(who, accounts.delete("longshore-deployer", &gone).await.map(drop));
        assert_refused(who, quotas.delete("longshore", &gone).await.map(drop));
        assert_refused(who, limits.delete("longshore", &gone).await.map(drop));
        assert_refused(who, policies.delete_collection(&gone, &ListParams::default()).await.map(drop));
        let unmarked = Patch::Merge(json!({"metadata": {"labels": {well_known::PROVISIONED_OBJECT: null}}}));
        assert_refused(who, bindings.patch("longshore-ws-admin", &PatchParams::default(), &unmarked).await);
        assert_refused(
            who,
            policies.patch("longshore-default-deny", &PatchParams::default(), &unmarked).await,
        );
        let open = Patch::Merge(json!({"spec": {"egress": [{}]}}));
        assert_refused(who, policies.patch("longshore-default-deny", &PatchParams::default(), &open).await);
        let more = Patch::Merge(json!({"spec": {"hard": {"pods": "1000"}}}));
        assert_refused(who, quotas.patch("longshore", &PatchParams::default(), &more).await);
        let privileged = Patch::Merge(
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
        );
        assert_refused(
            who,
            Api::<Namespace>::all(client.clone()).patch("acme", &PatchParams::default(), &privileged).await,
        );
        // What closes an account, or makes its ServiceAccounts new.
        for key in [well_known::ACCOUNT_CLOSED, well_known::PENDING_SERVICE_ACCOUNT] {
            let change = Patch::Merge(json!({"metadata": {"labels": {key: "x"}, "annotations": {key: "x"}}}));
            let spaces: Api<Namespace> = Api::all(client.clone());
            assert_refused(who, spaces.patch("acme", &PatchParams::default(), &change).await);
        }
        for change in [
            json!({"spec": {"members": []}}),
            json!({"metadata": {"annotations": {well_known::ACCOUNT_CLOSED: null}}}),
            json!({"metadata": {"annotations": {well_known::MEMBER_LEFT: null}}}),
        ] {
            let (workspaces, change): (Api<Workspace>, _) = (Api::all(client.clone()), Patch::Merge(change));
            assert_refused(who, workspaces.patch("acme", &PatchParams::default(), &change).await);
        }
    }
    assert_fully_provisioned(&world, "acme").await;
}

#[tokio::test]
async fn tenant_plants_rolebindings_of_the_platform_in_a_closed_workspace() {
    let world = provisioned_cluster().await;
    let binding = |meta: Value, role: &str| {
        json!({"metadata": meta, "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "acme"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    for (who, client) in tenant_clients(&world) {
        let bindings: Api<RoleBinding> = Api::namespaced(client, "acme");
        let create = async |meta: Value| {
            let binding = serde_json::from_value(binding(meta, "longshore-ws-viewer")).unwrap();
            bindings.create(&PostParams::default(), &binding).await
        };
        for meta in [
            json!({"name": "longshore-ws-other"}),
            json!({"name": "longshore-"}),
            json!({"generateName": "longshore-ws-"}),
        ] {
            match create(meta.clone()).await {
                Err(kube::Error::Api(status)) => {
                    assert!(
                        status.code == 403 && status.message.contains("are reserved"),
                        "{who}: {meta}: {status:?}"
                    );
                }
                other => panic!("{who}: {meta}: {other:?}"),
            }
        }
        for meta in [json!({"name": "longshoreman"}), json!({"generateName": "mine-"})] {
            let made = create(meta).await.unwrap();
            bindings.delete(&made.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }

    // Planted before names were reserved. The role of a RoleBinding is immutable.
    let (clock, fault) = (ManualClock::new(), FaultInjector::healthy());
    let after = domain::clock::Clock::now(&clock) + jiff::SignedDuration::from_hours(1);
    let close =
        |after: Option<String>| json!({"metadata": {"annotations": {well_known::REMOVE_AFTER: after}}});
    patch::<Workspace>(&world, "acme", close(Some(after.to_string()))).await;
    let closed = async || {
        let told = condition(&world, "acme", "Ready").await? == ("False".to_owned(), "Removing".to_owned());
        (told && names::<RoleBinding>(&world, "acme").await.is_empty()).then_some(())
    };
    run_controllers_until(&world, &fault, &clock, "closed", closed).await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.admin_client(), "acme");
    for name in ["longshore-ws-admin", "longshore-ws-isv", "longshore-deployer"] {
        let meta = json!({"name": name, "finalizers": ["example.com/keep"]});
        let planted = serde_json::from_value(binding(meta, "longshore-ws-viewer")).unwrap();
        bindings.create(&PostParams::default(), &planted).await.unwrap();
    }
    patch::<Workspace>(&world, "acme", close(None)).await;
    run_controllers_until(&world, &fault, &clock, "restored", async || is_ready(&world, "acme").await).await;
    assert_fully_provisioned(&world, "acme").await;
    for name in ["longshore-ws-admin", "longshore-ws-isv", "longshore-ws-viewer"] {
        assert_eq!(bindings.get(name).await.unwrap().role_ref.name, name);
    }
    assert_eq!(subjects_of_role(&world, "acme", "admin").await, ["longshore:ws:acme:admin", ID]);
}

#[tokio::test]
async fn tenant_creates_objects_that_it_cannot_delete_by_labels_of_pod_templates() {
    let world = provisioned_cluster().await;
    let labels = json!({well_known::PROVISIONED_OBJECT: "true"});
    let container = json!([{"name": "c", "image": "registry.invalid/x"}]);
    // As controllers copy the labels of a tenant's templates.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copied", "namespace": "acme", "labels": labels},
        "spec": {"containers": container}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "copied", "namespace": "acme", "labels": labels},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": container}}}});
    for (who, client) in tenant_clients(&world) {
        world.apply([pod.clone(), job.clone()]).await;
        for (kind, group_version) in [("Pod", "v1"), ("Job", "batch/v1")] {
            let (resource, _) = object(kind, group_version, &json!({"metadata": {"name": "x"}}));
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "acme", &resource);
            let change = Patch::Merge(json!({"metadata": {"annotations": {"a": who}}}));
            let changed = api.patch("copied", &PatchParams::default(), &change).await;
            changed.unwrap_or_else(|error| panic!("{who}: {kind}: {error}"));
            let deleted = api.delete("copied", &DeleteParams::background().grace_period(0)).await;
            deleted.unwrap_or_else(|error| panic!("{who}: {kind}: {error}"));
            wait_for("it is gone", async || api.get_opt("copied").await.unwrap().is_none().then_some(()))
                .await;
        }
    }
}

#[tokio::test]
async fn tenant_cannot_escalate_rights_or_use_platform_labels() {
    let world = provisioned_cluster().await;
    let binding = |name: &str, role: &str, subject: Value| {
        json!({"metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let own = json!({"kind": "ServiceAccount", "name": "default", "namespace": "acme"});
    let friend = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "longshore:user:ucccccccccc"});
    let foreign = json!({"kind": "ServiceAccount", "name": "default", "namespace": "elsewhere"});
    let marked = |label: &str, value: &str| json!({"metadata": {"name": "x", "labels": {label: value}}});
    let rbac = "rbac.authorization.k8s.io/v1";
    let secrets = json!({"metadata": {"name": "x"}, "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]}]});
    #[rustfmt::skip]
    let rows = [
        // more rights than the client has
        ("RoleBinding", rbac, binding("x", "cluster-admin", own.clone())),
        ("RoleBinding", rbac, binding("x", "admin", own.clone())),
        ("Role", rbac, secrets),
        // subjects that are not members
        ("RoleBinding", rbac, binding("x", "longshore-ws-developer", friend)),
        ("RoleBinding", rbac, binding("x", "longshore-ws-developer", foreign)),
        // labels of the platform
        ("ConfigMap", "v1", marked(well_known::PROVISIONED_OBJECT, "true")),
        ("ConfigMap", "v1", marked(well_known::WORKSPACE, "other")),
        ("ConfigMap", "v1", marked(well_known::ACCOUNT, OTHER_ID)),
        // kinds that tenants may not write
        ("ResourceQuota", "v1", json!({"metadata": {"name": "x"}, "spec": {"hard": {"pods": "1000"}}})),
        ("LimitRange", "v1", json!({"metadata": {"name": "x"}, "spec": {"limits": []}})),
    ];
    for (who, client) in tenant_clients(&world) {
        for (kind, group_version, content) in &rows {
            let (resource, object) = object(kind, group_version, content);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "acme", &resource);
            assert_refused(&format!("{who}: {content}"), api.create(&PostParams::default(), &object).await);
        }
        // Permitted writes succeed.
        for (kind, group_version, content) in [
            ("RoleBinding", rbac, binding("mine", "longshore-ws-viewer", own.clone())),
            ("ConfigMap", "v1", marked(well_known::WORKSPACE, "acme")),
        ] {
            let (resource, object) = object(kind, group_version, &content);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "acme", &resource);
            api.create(&PostParams::default(), &object)
                .await
                .unwrap_or_else(|error| panic!("{who}: {error}"));
            api.delete(&object.name_any(), &DeleteParams::default()).await.unwrap();
        }
        // No access to other namespaces.
        for place in ["default", "kube-system", SYSTEM_NAMESPACE] {
            assert_refused(
                who,
                Api::<ConfigMap>::namespaced(client.clone(), place).list(&ListParams::default()).await,
            );
            assert_refused(
                who,
                Api::<Secret>::namespaced(client.clone(), place).list(&ListParams::default()).await,
            );
        }
        assert_refused(who, Api::<Workspace>::all(client.clone()).list(&ListParams::default()).await);
        assert_refused(who, Api::<User>::all(client).list(&ListParams::default()).await);
    }
}

#[tokio::test]
async fn pods_are_not_scheduled_on_nodes_of_other_tenants() {
    let world = test_cluster().await;
    create(&world, &user("ana", Some(ID))).await;
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || user_is_ready(&world, "ana").await.and(is_ready(&world, "acme").await);
    run_controllers_until(&world, &FaultInjector::healthy(), &ManualClock::new(), "ready", ready).await;
    let tenant = |value: &str| json!({"tolerations": [{"key": "openyurt/tenant", "value": value, "effect": "NoSchedule"}]});
    #[rustfmt::skip]
    let rows = [
        // (in the tenant's own namespace, in a shared one)
        (json!({}), true, true),
        (json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}), true, true),
        (tenant(ID), true, false),
        (tenant(OTHER_ID), false, false),
        (json!({"tolerations": [{"key": "openyurt/tenant", "operator": "Exists"}]}), false, false),
        (json!({"tolerations": [{"operator": "Exists"}]}), false, false),
        (json!({"nodeName": "edge-1"}), false, false),
    ];
    for (spec, at_home, in_common) in rows {
        for (namespace, may) in [(ID, at_home), ("acme", in_common)] {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec});
            pod["spec"]["containers"] = json!([{"name": "x", "image": "x"}]);
            let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(world.admin_client(), namespace);
            let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await;
            match (made, may) {
                (Ok(_), true) => {
                    drop(pods.delete("x", &DeleteParams::default().grace_period(0)).await.unwrap());
                }
                (Err(kube::Error::Api(status)), false) => {
                    assert!(status.message.contains("longshore-nodes"), "{spec}: {}", status.message);
                }
                (made, may) => panic!("{namespace} {spec} {may}: {made:?}"),
            }
        }
    }
}

/// Creates an object with the client's rights. Returns the message of a refusal as the error.
async fn create_as(
    client: &kube::Client,
    name: &str,
    kind: &str,
    version: &str,
    spec: &Value,
) -> Result<(), String> {
    let (resource, object) = object(kind, version, &json!({"metadata": {"name": name}, "spec": spec}));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "acme", &resource);
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{name}: {error}"),
    }
}

#[tokio::test]
async fn workspace_claims_priority_ports_addresses_and_open_networks() {
    let world = provisioned_cluster().await;
    let (_, client) = tenant_clients(&world).remove(0);
    // Pod Security would refuse ports of nodes before the tested policy.
    let privileged = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    patch::<Namespace>(&world, "acme", privileged).await;
    let pod = |extra: Value| {
        let mut spec = json!({"containers": [{"name": "a", "image": "a"}]});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        ("Pod", "v1", spec)
    };
    let service = |extra: Value| {
        let mut spec = json!({"ports": [{"port": 80}], "selector": {"app": "a"}});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        ("Service", "v1", spec)
    };
    let network = |rules: Value| {
        let mut spec = json!({"podSelector": {}});
        spec.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
        ("NetworkPolicy", "networking.k8s.io/v1", spec)
    };
    let to = |peer: Value| json!({"egress": [{"to": [peer]}], "policyTypes": ["Egress"]});
    let block = |cidr: &str, except: &[&str]| {
        let except = except.to_vec();
        if except.is_empty() {
            json!({"ipBlock": {"cidr": cidr}})
        } else {
            json!({"ipBlock": {"cidr": cidr, "except": except}})
        }
    };
    let private = ["10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];
    let port = json!([{"name": "a", "image": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
    let init_port =
        json!([{"name": "init", "image": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}]);
    let open = "names its peers";
    #[rustfmt::skip]
    let rows = [
        ("plain-pod",      pod(json!({})), None),
        ("system-pod",     pod(json!({"priorityClassName": "system-node-critical"})), Some("PriorityClass of the system")),
        ("port-pod",       pod(json!({"containers": port})), Some("hostPort")),
        ("init-port-pod",  pod(json!({"initContainers": init_port})), Some("hostPort")),
        ("plain-service",  service(json!({})), None),
        ("external",       service(json!({"externalIPs": ["192.0.2.1"]})), Some("externalIPs")),
        ("ranges",         service(json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]})), Some("loadBalancerSourceRanges")),
        ("address",        service(json!({"loadBalancerIP": "192.0.2.1"})), Some("loadBalancerIP")),
        ("no-rules",       network(json!({})), None),
        ("pods",           network(json!({"ingress": [{"from": [{"podSelector": {}}]}]})), None),
        ("own",            network(to(json!({"namespaceSelector": {"matchLabels": {well_known::WORKSPACE: "acme"}}}))), None),
        ("shared",         network(to(json!({"namespaceSelector": {"matchLabels": {well_known::SHARED_NAMESPACE: "true"}}}))), None),
        ("internet",       network(to(block("0.0.0.0/0", &private))), None),
        ("public",         network(to(block("8.8.8.0/24", &[]))), None),
        ("public-6",       network(to(block("2001:db8::/32", &[]))), None),
        ("everyone-in",    network(json!({"ingress": [{}]})), Some(open)),
        ("everyone-out",   network(json!({"egress": [{}], "policyTypes": ["Egress"]})), Some(open)),
        ("ports-only",     network(json!({"egress": [{"ports": [{"port": 443}]}], "policyTypes": ["Egress"]})), Some(open)),
        ("all-namespaces", network(to(json!({"namespaceSelector": {}}))), Some(open)),
        ("other",          network(to(json!({"namespaceSelector": {"matchLabels": {well_known::WORKSPACE: "other"}}}))), Some(open)),
        ("all-addresses",  network(to(block("0.0.0.0/0", &[]))), Some(open)),
        ("some-except",    network(to(block("0.0.0.0/0", &private[1..]))), Some(open)),
        ("private",        network(to(block("10.0.0.0/8", &[]))), Some(open)),
        ("wide",           network(to(block("8.0.0.0/5", &[]))), Some(open)),
        ("metadata",       network(to(block("169.254.169.254/32", &[]))), Some(open)),
        ("private-6",      network(to(block("fd00::/8", &[]))), Some(open)),
    ];
    for (name, (kind, version, spec), expected) in &rows {
        let is = create_as(&client, name, kind, version, spec).await;
        match expected {
            None => assert_eq!(is, Ok(()), "{name}"),
            Some(words) => {
                let message = is.expect_err(name);
                assert!(message.contains(words) && message.contains("spec.allow"), "{name}: {message}");
            }
        }
    }
    let allow: Vec<&str> =
        kube_types::workspace::Allowance::ALL.iter().map(|allowance| allowance.as_str()).collect();
    // The default quota permits no load balancers.
    let quota = json!({"services.loadbalancers": "5", "services.nodeports": "5"});
    patch::<Workspace>(&world, "acme", json!({"spec": {"allow": allow, "quota": quota}})).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(world.admin_client(), "acme");
    let labelled = async || {
        let hard = quotas.get("longshore").await.unwrap().status?.hard?;
        let acme: Namespace = get(&world, "acme").await?;
        let all = kube_types::workspace::Allowance::ALL;
        let is_labelled = all.iter().all(|allowance| acme.labels().contains_key(allowance.label()));
        (is_labelled && hard.get("services.loadbalancers")?.0 == "5").then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &ManualClock::new(), "labelled", labelled).await;
    for (name, (kind, version, spec), expected) in &rows {
        if expected.is_some() {
            assert_eq!(create_as(&client, name, kind, version, spec).await, Ok(()), "{name}");
        }
    }
}

#[tokio::test]
async fn workspace_that_is_allowed_host_ports_takes_over_its_nodes() {
    let world = provisioned_cluster().await;
    let (_, client) = tenant_clients(&world).remove(0);
    patch::<Workspace>(&world, "acme", json!({"spec": {"allow": ["hostPorts"]}})).await;
    let level = async |level: &str| {
        let acme: Namespace = get(&world, "acme").await?;
        (acme.labels()["pod-security.kubernetes.io/enforce"] == level).then_some(())
    };
    let (fault, clock) = (FaultInjector::healthy(), ManualClock::new());
    run_controllers_until(&world, &fault, &clock, "allowed", async || level("privileged").await).await;
    let with = |container: Value, extra: Value| {
        let mut spec = json!({"containers": [{"name": "a", "image": "a"}]});
        spec["containers"][0].as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        spec
    };
    let container = |security: Value| with(json!({"securityContext": security}), json!({}));
    let pod = |security: Value| with(json!({}), json!({"securityContext": security}));
    let init = |security: Value| {
        with(json!({}), json!({"initContainers": [{"name": "i", "image": "a", "securityContext": security}]}))
    };
    let none = || json!({});
    #[rustfmt::skip]
    let rows = [
        ("port",           with(json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}), none()), None),
        ("default-caps",   container(json!({"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}})), None),
        ("profiles",       pod(json!({"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "RuntimeDefault"},
                                      "seLinuxOptions": {"type": "container_t"}, "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]})), None),
        ("volume",         with(none(), json!({"volumes": [{"name": "v", "emptyDir": {}}]})), None),
        ("probe",          with(json!({"livenessProbe": {"httpGet": {"port": 80}}}), none()), None),
        ("network",        with(none(), json!({"hostNetwork": true})), Some("of its node")),
        ("pid",            with(none(), json!({"hostPID": true})), Some("namespaces of its node")),
        ("ipc",            with(none(), json!({"hostIPC": true})), Some("namespaces of its node")),
        ("privileged",     container(json!({"privileged": true})), Some("privileged containers")),
        ("privileged-init", init(json!({"privileged": true})), Some("privileged containers")),
        ("caps",           container(json!({"capabilities": {"add": ["SYS_ADMIN"]}})), Some("capabilities")),
        ("all-caps",       init(json!({"capabilities": {"add": ["ALL"]}})), Some("capabilities")),
        ("path",           with(none(), json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]})), Some("hostPath")),
        ("proc",           with(json!({"securityContext": {"procMount": "Unmasked"}}), json!({"hostUsers": false})), Some("procMount but")),
        ("seccomp",        pod(json!({"seccompProfile": {"type": "Unconfined"}})), Some("seccomp")),
        ("seccomp-one",    container(json!({"seccompProfile": {"type": "Unconfined"}})), Some("seccomp")),
        ("apparmor",       container(json!({"appArmorProfile": {"type": "Unconfined"}})), Some("AppArmor")),
        ("selinux",        pod(json!({"seLinuxOptions": {"type": "spc_t"}})), Some("SELinux")),
        ("selinux-role",   container(json!({"seLinuxOptions": {"role": "x"}})), Some("SELinux")),
        ("sysctl",         pod(json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})), Some("sysctls")),
        ("windows",        pod(json!({"windowsOptions": {"hostProcess": true}})), Some("")),
        ("probed",         with(json!({"livenessProbe": {"httpGet": {"port": 80, "host": "169.254.169.254"}}}), none()), Some("probes")),
        ("hook",           with(json!({"lifecycle": {"preStop": {"tcpSocket": {"port": 80, "host": "10.0.0.1"}}}}), none()), Some("probes")),
    ];
    for (name, spec, expected) in &rows {
        match (create_as(&client, name, "Pod", "v1", spec).await, expected) {
            (Ok(()), None) => {}
            (Err(message), Some(words)) => assert!(message.contains(words), "{name}: {message}"),
            (is, expected) => panic!("{name}: {is:?}, not {expected:?}"),
        }
    }
    // Ephemeral containers are restricted in the same way.
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(world.admin_client(), "acme");
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "a", "securityContext": {"privileged": true}}]}});
    let debugged =
        pods.patch_ephemeral_containers("port", &PatchParams::default(), &Patch::Strategic(debug)).await;
    match debugged {
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains("privileged containers"), "{status:?}");
        }
        other => panic!("{other:?}"),
    }
    patch::<Workspace>(&world, "acme", json!({"spec": {"allow": []}})).await;
    run_controllers_until(&world, &fault, &clock, "not allowed", async || level("baseline").await).await;

    // Manifests of an older version lack the policy: Pod Security stays in force.
    let bindings: Api<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding> =
        Api::all(world.admin_client());
    bindings.delete("longshore-host-ports", &DeleteParams::default()).await.unwrap();
    patch::<Workspace>(&world, "acme", json!({"spec": {"allow": ["hostPorts"]}})).await;
    let labelled = async || {
        let acme: Namespace = get(&world, "acme").await?;
        acme.labels().contains_key("allow.longshore.dev/host-ports").then_some(())
    };
    run_controllers_until(&world, &fault, &clock, "labelled", labelled).await;
    level("baseline").await.expect("a namespace without Pod Security and without the policy");
}
