//! Rights to set quotas, and enforcement by the cluster.

use domain::Kind;
use domain::roles::WorkspaceRole;
use testkit::until;

use super::*;
use crate::stage::Stage;

fn of(pairs: &[(&str, &str)]) -> Amounts {
    pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
}

fn whole(pairs: &[(&str, &str)]) -> QuotaPatch {
    QuotaPatch { quota: Some(of(pairs)), shares: BTreeMap::new() }
}

fn share(namespace: &str, pairs: &[(&str, &str)]) -> QuotaPatch {
    QuotaPatch { quota: None, shares: [(namespace.to_owned(), of(pairs))].into() }
}

#[tokio::test]
async fn the_whole_is_the_platforms_and_the_shares_are_the_workspaces() {
    let stage = Stage::new().await;
    let tenancy = &stage.tenancy;
    let (_, platform) = stage.administrator("18300000000").await;
    let (id, actor) = stage.person("18300000001").await;
    let acme = tenancy.create_workspace(&actor, "acme", "").await.unwrap().name;
    let admin = stage.actor(&id);
    assert_eq!(admin.memberships[&acme], WorkspaceRole::Admin);
    tenancy.add_namespace(&admin, &acme, "test", Amounts::new(), None).await.unwrap();

    let refused = tenancy.set_quota(&admin, &acme, whole(&[("pods", "1000")]), None).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Forbidden);
    tenancy.set_quota(&platform, &acme, whole(&[("pods", "30"), ("secrets", "9")]), None).await.unwrap();
    tenancy.set_quota(&admin, &acme, share("acme-test", &[("pods", "10")]), None).await.unwrap();
    #[rustfmt::skip]
    let table = [
        (share("acme-test", &[("pods", "31")]), Kind::Invalid),
        (share("acme-test", &[("services", "1")]), Kind::Invalid),
        (share("acme", &[("pods", "1")]), Kind::Invalid),
        (share("kube-system", &[("pods", "1")]), Kind::NotFound),
    ];
    for (patch, kind) in table {
        let refused = tenancy.set_quota(&admin, &acme, patch, None).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    let less = tenancy.set_quota(&platform, &acme, whole(&[("pods", "9")]), None).await.unwrap_err();
    assert_eq!(
        less.to_string(),
        "the namespaces' shares of `pods` are 10 together, more than the workspace's 9"
    );
    let outdated =
        tenancy.set_quota(&platform, &acme, whole(&[("pods", "99")]), Some("1")).await.unwrap_err();
    assert_eq!(outdated.kind(), Kind::Precondition);

    // The ResourceQuotas exist, and their use is counted.
    let counted = until("the cluster counts", async || {
        let info = tenancy.quota(&admin, &acme).await.unwrap();
        info.namespaces.iter().all(|namespace| namespace.used.contains_key("pods")).then_some(info)
    })
    .await;
    assert_eq!(counted.quota, of(&[("pods", "30"), ("secrets", "9")]));
    assert_eq!(counted.namespaces[0].hard, of(&[("pods", "20"), ("secrets", "9")]));
    assert_eq!(counted.namespaces[1].hard, of(&[("pods", "10"), ("secrets", "0")]));
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.world.admin(), "acme-test");
    until("the cluster holds them to it", async || {
        let hard = quotas.get_opt("longshore").await.unwrap()?.spec?.hard?;
        (hard.get("pods")?.0 == "10").then_some(())
    })
    .await;
}
