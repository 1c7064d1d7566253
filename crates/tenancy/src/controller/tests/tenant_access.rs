//! Tokens of ServiceAccounts and certificates of nodes, after a revocation and while the account is closed.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::core::v1::Node;

use super::edge::{
    DAY, HUB_PEM, client_with_token, create_csr_as, create_csr_for_node, create_two_accounts, csr_condition,
    join_token, kubelet_client, manual_clock_at_system_time, report_when_signed, run_until,
};
use super::*;
use crate::node_join::node_csr::CLIENT_SIGNER;
use crate::revocation::revoke_credentials;

const NODE: &str = "uaaaaaaaaaa-edge-1";

/// Binds `default` and a ServiceAccount `bot` to a role in the account's namespace, as its owner may.
async fn bind_service_accounts(world: &TestCluster) {
    let binding = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": ID, "finalizers": ["example.com/keep"]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": ID}]})
    };
    let bot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": [{"name": "pull"}],
        "metadata": {"name": "bot", "namespace": ID, "labels": {"color": "blue"}, "finalizers": ["example.com/keep"]}});
    world.apply([bot, binding("bot"), binding("default")]).await;
}

async fn issue_token(world: &TestCluster, account: &str) -> String {
    let request: TokenRequest =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 86_400}})).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.admin_client(), ID);
    let issued = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    issued.status.unwrap().token.unwrap()
}

/// The token that yurthub reads.
async fn yurthub_token(world: &TestCluster) -> Option<String> {
    let secrets: Api<Secret> = Api::namespaced(world.admin_client(), ID);
    let token = secrets.get_opt("yurthub-token").await.unwrap()?.data?.remove("token")?;
    Some(String::from_utf8(token.0).unwrap())
}

async fn is_accepted(world: &TestCluster, token: &str) -> bool {
    let review: TokenReview = serde_json::from_value(json!({"spec": {"token": token}})).unwrap();
    let reviewed =
        Api::<TokenReview>::all(world.admin_client()).create(&PostParams::default(), &review).await;
    reviewed.unwrap().status.unwrap().authenticated == Some(true)
}

async fn tenant_bindings(world: &TestCluster) -> Vec<String> {
    let all = names::<RoleBinding>(world, ID).await;
    all.into_iter().filter(|name| !name.starts_with("longshore-")).collect()
}

/// Whether the workspace's controller has handled the last revocation.
async fn is_revoked(world: &TestCluster) -> Option<()> {
    let workspace: Workspace = get(world, ID).await?;
    let left = workspace.annotations().get(well_known::MEMBER_LEFT)?;
    (workspace.status.as_ref()?.member_left == *left).then_some(())
}

/// An account with a node that runs a yurthub, and the tokens that a thief of its credentials has.
async fn cluster_with_stolen_tokens(clock: &ManualClock) -> (TestCluster, Vec<String>) {
    let world = test_cluster().await;
    create_two_accounts(&world, clock, 2).await;
    let token = join_token(&world, clock, ID, None).await;
    create_csr_for_node(&world, &token, NODE).await;
    let joined = async || report_when_signed(&world, NODE).await;
    run_until(&world, clock, "joined", joined).await;
    create_csr_as(client_with_token(&world, &token), CLIENT_SIGNER, "hub", HUB_PEM).await;
    let made = async || {
        csr_condition(&world, "hub").await?;
        yurthub_token(&world).await.map(drop)
    };
    run_until(&world, clock, "made", made).await;
    bind_service_accounts(&world).await;
    let legacy = yurthub_token(&world).await.unwrap();
    let stolen = vec![legacy, issue_token(&world, "default").await, issue_token(&world, "bot").await];
    for token in &stolen {
        assert!(is_accepted(&world, token).await);
    }
    (world, stolen)
}

async fn assert_rejected(world: &TestCluster, stolen: &[String], when: &str) {
    for (number, token) in stolen.iter().enumerate() {
        assert!(!is_accepted(world, token).await, "{when}: token {number}");
    }
}

#[tokio::test]
async fn stolen_service_account_tokens_survive_revoke_all() {
    let clock = manual_clock_at_system_time();
    let (world, stolen) = cluster_with_stolen_tokens(&clock).await;
    let now = domain::clock::Clock::now(&clock);
    revoke_credentials(world.platform_client(), &ID.parse().unwrap(), None, now).await.unwrap();
    let replaced = async || {
        is_revoked(&world).await?;
        let fresh = yurthub_token(&world).await?;
        is_accepted(&world, &fresh).await.then_some(())
    };
    run_until(&world, &clock, "replaced", replaced).await;
    assert_rejected(&world, &stolen, "revoked").await;
    assert_eq!(tenant_bindings(&world).await, Vec::<String>::new());
    assert_fully_provisioned(&world, ID).await;
    let bot: ServiceAccount = Api::namespaced(world.admin_client(), ID).get("bot").await.unwrap();
    assert_eq!(bot.labels()["color"], "blue");
    assert_eq!(bot.image_pull_secrets.unwrap()[0].name, "pull");
    assert!(issue_token(&world, "default").await != stolen[1]);
}

#[tokio::test]
async fn stolen_tokens_and_node_certificates_survive_the_closing_of_their_account() {
    let clock = manual_clock_at_system_time();
    let (world, mut stolen) = cluster_with_stolen_tokens(&clock).await;
    let machine: Api<Node> = Api::all(kubelet_client(&world, NODE));
    machine.get(NODE).await.unwrap();
    // A workspace of an older version has no record of its deployers.
    let workspaces: Api<Workspace> = Api::all(world.admin_client());
    let older = Patch::Merge(json!({"status": {"deployers": null}}));
    workspaces.patch_status(ID, &PatchParams::default(), &older).await.unwrap();
    for (how, close, open) in [
        ("disabled", json!({"spec": {"disabled": true}}), json!({"spec": {"disabled": null}})),
        ("expired", json!({"spec": {"validPeriod": 1}}), json!({"spec": {"validPeriod": 30}})),
    ] {
        if how == "expired" {
            clock.advance(DAY);
        }
        patch::<User>(&world, "ana", close).await;
        let has_label = async || {
            let namespace: Namespace = get(&world, ID).await.unwrap();
            namespace.labels().contains_key(well_known::ACCOUNT_CLOSED)
        };
        let closed = async || {
            is_revoked(&world).await?;
            (has_label().await && yurthub_token(&world).await.is_none()).then_some(())
        };
        run_until(&world, &clock, how, closed).await;
        assert_rejected(&world, &stolen, how).await;
        match machine.get(NODE).await {
            Err(kube::Error::Api(status)) => {
                assert!(
                    status.code == 403 && status.message.contains("is disabled or has expired"),
                    "{status:?}"
                );
            }
            other => panic!("{how}: {other:?}"),
        }
        assert_eq!(tenant_bindings(&world).await, ["bot", "default"], "the account may be opened again");
        assert!(get::<Node>(&world, NODE).await.is_some(), "the account may be opened again");

        clock.advance(jiff::SignedDuration::from_secs(1));
        patch::<User>(&world, "ana", open).await;
        let opened = async || {
            is_revoked(&world).await?;
            let fresh = yurthub_token(&world).await?;
            (!has_label().await && is_accepted(&world, &fresh).await).then_some(())
        };
        run_until(&world, &clock, "open again", opened).await;
        machine.get(NODE).await.unwrap();
        assert_rejected(&world, &stolen, "open again").await;
        stolen.extend([yurthub_token(&world).await.unwrap(), issue_token(&world, "bot").await]);
    }
    assert_eq!(tenant_bindings(&world).await, ["bot", "default"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_of_a_closed_account_is_revoked_despite_a_crash_at_any_write() {
    let clock = manual_clock_at_system_time();
    let points = testkit::every_kill_point(
        async || {
            let world = test_cluster().await;
            create_two_accounts(&world, &clock, 1).await;
            bind_service_accounts(&world).await;
            let stolen = vec![issue_token(&world, "default").await, issue_token(&world, "bot").await];
            patch::<User>(&world, "ana", json!({"spec": {"disabled": true}})).await;
            (world, stolen)
        },
        async |(world, _), fault| {
            run_controllers_until(world, fault, &clock, "revoked", async || is_revoked(world).await).await;
            Ok::<(), ()>(())
        },
        async |(world, stolen)| {
            assert_rejected(world, stolen, "disabled").await;
            let namespace: Namespace = get(world, ID).await.unwrap();
            assert!(namespace.labels().contains_key(well_known::ACCOUNT_CLOSED));
            assert!(!namespace.annotations().contains_key(well_known::PENDING_SERVICE_ACCOUNT));
            assert_eq!(tenant_bindings(world).await, ["bot", "default"]);
            let bot: ServiceAccount = Api::namespaced(world.admin_client(), ID).get("bot").await.unwrap();
            assert_eq!(bot.labels()["color"], "blue");
        },
    )
    .await;
    assert!(points >= 8, "{points}");
}
