//! Rights to set quotas, and enforcement by the cluster.

use domain::ErrorKind;
use domain::roles::WorkspaceRole;
use testkit::wait_for;

use super::*;
use crate::test_harness::TestHarness;

fn quantities(pairs: &[(&str, &str)]) -> ResourceQuantities {
    pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
}

fn total_patch(pairs: &[(&str, &str)]) -> QuotaPatch {
    QuotaPatch { quota: Some(quantities(pairs)), shares: BTreeMap::new() }
}

fn share_patch(namespace: &str, pairs: &[(&str, &str)]) -> QuotaPatch {
    QuotaPatch { quota: None, shares: [(namespace.to_owned(), quantities(pairs))].into() }
}

#[tokio::test]
async fn total_is_set_by_the_platform_and_shares_by_workspace_admins() {
    let stage = TestHarness::new().await;
    let tenancy = &stage.tenancy;
    let (_, platform) = stage.register_administrator("18300000000").await;
    let (id, actor) = stage.register_user("18300000001").await;
    let acme = tenancy.create_workspace(&actor, "acme", "").await.unwrap().name;
    let admin = stage.actor(&id);
    assert_eq!(admin.memberships[&acme], WorkspaceRole::Admin);
    tenancy.add_namespace(&admin, &acme, "test", ResourceQuantities::new(), None).await.unwrap();

    let refused = tenancy.set_quota(&admin, &acme, total_patch(&[("pods", "1000")]), None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);
    tenancy
        .set_quota(&platform, &acme, total_patch(&[("pods", "30"), ("secrets", "9")]), None)
        .await
        .unwrap();
    tenancy.set_quota(&admin, &acme, share_patch("acme-test", &[("pods", "10")]), None).await.unwrap();
    #[rustfmt::skip]
    let table = [
        (share_patch("acme-test", &[("pods", "31")]), ErrorKind::Invalid),
        (share_patch("acme-test", &[("services", "1")]), ErrorKind::Invalid),
        (share_patch("acme", &[("pods", "1")]), ErrorKind::Invalid),
        (share_patch("kube-system", &[("pods", "1")]), ErrorKind::NotFound),
    ];
    for (patch, kind) in table {
        let refused = tenancy.set_quota(&admin, &acme, patch, None).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    let less = tenancy.set_quota(&platform, &acme, total_patch(&[("pods", "9")]), None).await.unwrap_err();
    assert_eq!(
        less.to_string(),
        "the namespaces' shares of `pods` sum up to 10, more than the workspace's quota of 9"
    );
    let outdated =
        tenancy.set_quota(&platform, &acme, total_patch(&[("pods", "99")]), Some("1")).await.unwrap_err();
    assert_eq!(outdated.kind(), ErrorKind::Precondition);

    // The ResourceQuotas exist, and their use is counted.
    let counted = wait_for("the cluster counts", async || {
        let info = tenancy.quota(&admin, &acme).await.unwrap();
        info.namespaces.iter().all(|namespace| namespace.used.contains_key("pods")).then_some(info)
    })
    .await;
    assert_eq!(counted.quota, quantities(&[("pods", "30"), ("secrets", "9")]));
    assert_eq!(counted.namespaces[0].hard, quantities(&[("pods", "20"), ("secrets", "9")]));
    assert_eq!(counted.namespaces[1].hard, quantities(&[("pods", "10"), ("secrets", "0")]));
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.world.admin_client(), "acme-test");
    wait_for("the cluster holds them to it", async || {
        let hard = quotas.get_opt("longshore").await.unwrap()?.spec?.hard?;
        (hard.get("pods")?.0 == "10").then_some(())
    })
    .await;
}
