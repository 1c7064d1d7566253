//! Callers with very many RBAC rules: rules reviews, and writes of roles and bindings.

use std::time::Duration;

use serde_json::{Value, json};

use super::child::{kilobytes, run_test};
use super::tenant::{NAME, Tenant, put, reserved_bytes};
use crate::cluster::{Cluster, Config};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: usize = 60;

fn role(name: &str, rules: usize, values: usize) -> Value {
    let rule = |rule: usize| {
        let names: Vec<_> = (0..values).map(|value| format!("{name}-{rule}-{value}")).collect();
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names})
    };
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name, "namespace": "default"},
        "rules": (0..rules).map(rule).collect::<Vec<_>>()})
}

fn binding(name: &str, role: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": "default"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": NAME}]})
}

/// A tenant whose bindings refer to these roles in turn.
async fn tenant(config: Config, roles: Vec<Value>) -> Tenant {
    let cluster = Cluster::open(config).await.unwrap();
    let writes = json!([{"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]},
        {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"]}]);
    let tenant = Tenant::new(&cluster, writes).await;
    let names: Vec<String> =
        roles.iter().map(|role| role["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    put(&cluster, "roles.rbac.authorization.k8s.io", roles).await;
    let bindings = (0..BINDINGS).map(|n| binding(&format!("b{n}"), &names[n % names.len()])).collect();
    put(&cluster, "rolebindings.rbac.authorization.k8s.io", bindings).await;
    tenant
}

fn review() -> Value {
    json!({"spec": {"namespace": "default"}})
}

#[tokio::test]
async fn rules_of_a_role_with_many_bindings_are_listed_once() {
    let tenant = tenant(Config::default(), vec![role("r", 100, 100)]).await;
    let (code, answer) = tenant.post(REVIEWS, &review()).await;
    assert_eq!(code, 201);
    let status = &answer["status"];
    let listed = status["resourceRules"].as_array().unwrap();
    let of_role = listed.iter().filter(|rule| rule["resources"] == json!(["pods"])).count();
    assert_eq!(
        (of_role, &status["incomplete"], &status["evaluationError"]),
        (100, &json!(false), &Value::Null)
    );
    tenant.cluster.stop();
}

#[tokio::test]
async fn rules_review_is_cut_and_says_so() {
    let roles = (0..BINDINGS).map(|n| role(&format!("r{n}"), 10, 200)).collect();
    let tenant = tenant(Config::default(), roles).await;
    let (code, answer) = tenant.post(REVIEWS, &review()).await;
    assert_eq!(code, 201);
    let status = &answer["status"];
    assert_eq!(status["incomplete"], true);
    let why = status["evaluationError"].as_str().unwrap();
    assert!(why.contains("60000 values"), "{why}");
    let lists = status["resourceRules"].as_array().unwrap().iter();
    let values: usize = lists.filter_map(|rule| rule["resourceNames"].as_array().map(Vec::len)).sum();
    assert!((50_000..60_000).contains(&values), "{values}");
    tenant.cluster.stop();
}

#[tokio::test]
async fn reviews_and_writes_of_callers_with_many_rules_wait_for_the_pool() {
    let without_pool = || {
        let mut config = Config::default();
        config.work_limits.slots = 0;
        config.work_limits.wait = Duration::from_millis(10);
        config
    };
    for (rules, expected) in [(2, (201, 201)), (500, (429, 429))] {
        let tenant = tenant(without_pool(), vec![role("r", rules, 20)]).await;
        let reviewed = tenant.post(REVIEWS, &review()).await.0;
        let mut part = role("r", 1, 1);
        part["metadata"]["name"] = "part".into();
        let (written, answer) = tenant.post(ROLES, &part).await;
        assert_eq!((reviewed, written), expected, "{answer:#}");
        let yaml = "spec:\n  namespace: default\n";
        assert_eq!(tenant.send("POST", REVIEWS, "application/yaml", yaml).await.0, 429);
        tenant.cluster.stop();
    }
}

#[tokio::test]
async fn answer_of_a_review_counts_until_it_is_sent() {
    let tenant = tenant(Config::default(), vec![role("r", 100, 300)]).await;
    let answer = tenant.begin("POST", REVIEWS, "application/json", review().to_string().into_bytes()).await;
    assert_eq!(answer.status(), 201);
    let size: u64 = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
    assert!(
        size > 200_000 && reserved_bytes(&tenant.cluster) >= size,
        "{} of {size}",
        reserved_bytes(&tenant.cluster)
    );
    drop(answer);
    assert_eq!(reserved_bytes(&tenant.cluster), 0);
    tenant.cluster.stop();
}

#[tokio::test]
async fn escalation_is_found_among_many_rules() {
    let roles = (0..BINDINGS).map(|n| role(&format!("r{n}"), 20, 20)).collect();
    let tenant = tenant(Config::default(), roles).await;
    let held = role("r7", 20, 20)["rules"].clone();
    let more = json!([{"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["r7-1-1"]}]);
    for (name, rules, expected) in [("held", held, 201), ("more", more, 403)] {
        let mut role = role(name, 0, 0);
        role["rules"] = rules;
        let (code, answer) = tenant.post(ROLES, &role).await;
        assert_eq!(code, expected, "{answer:#}");
        if code == 403 {
            let expected =
                "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"r7-1-1\"], Verbs:[\"delete\"]}";
            assert!(answer["message"].as_str().unwrap().ends_with(expected), "{answer:#}");
        }
    }
    tenant.cluster.stop();
}

#[test]
fn role_of_a_long_name_and_many_verbs_takes_little_memory() {
    let printed = run_test("hostile::rules::role_of_a_long_name_and_many_verbs", &[("HOSTILE_ROLE", "1")]);
    let megabytes = printed.lines().find_map(|line| line.split_once("@@peak@@")).unwrap().1;
    assert!(megabytes.parse::<usize>().unwrap() < 300, "{megabytes} MB");
}

#[tokio::test]
#[ignore = "started by the test that measures memory"]
async fn role_of_a_long_name_and_many_verbs() {
    use std::io::Write as _;

    if std::env::var("HOSTILE_ROLE").is_err() {
        return;
    }
    let tenant = tenant(Config::default(), vec![role("r", 1, 1)]).await;
    let verbs: Vec<String> = (0..10_000).map(|n| format!("v{n}")).collect();
    let mut wanted = role("long", 1, 1);
    wanted["rules"][0]["verbs"] = json!(verbs);
    wanted["rules"][0]["resourceNames"] = json!(["x".repeat(100_000)]);
    let (code, _) = tenant.post(ROLES, &wanted).await;
    assert_eq!(code, 403);
    writeln!(std::io::stdout(), "@@peak@@{}", kilobytes("VmHWM:") >> 10).unwrap();
}
