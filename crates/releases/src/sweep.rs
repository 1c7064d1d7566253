//! What nobody refers to any more: charts, and values that were kept in vain by somebody who died.

use std::collections::HashSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt};
use kube_access::Feed;
use kube_types::SYSTEM_NAMESPACE;
use kube_types::marks::{CHART_PACKAGE, REQUEST};

use crate::Releases;
use crate::acts::Error;
use crate::records::Mark;

/// How often is looked for it.
pub(crate) const EVERY: Duration = Duration::from_hours(1);

/// How old values are that no request has, before they are given up: the request may be about to be written.
const GRACE: SignedDuration = SignedDuration::from_hours(1);

impl Releases {
    /// Removes what nobody refers to. `marks` are Helm's records: a chart that one was made of can be gone back to.
    pub(crate) async fn sweep(&self, marks: &Feed<Option<Mark>>) -> Result<(), Error> {
        let kept = self.kept_values().await?;
        let mut referred: HashSet<String> = kept.iter().filter_map(package).collect();
        let of_record = |mark: &Option<Mark>| mark.as_ref()?.package.as_deref().map(str::to_owned);
        referred.extend(marks.all().iter().filter_map(|mark| of_record(mark)));
        for request in self.parts().requests.all() {
            referred.insert(request.spec.chart.package.clone());
        }
        for release in self.parts().releases.all() {
            referred.extend(release.spec.source.as_ref().and_then(|source| source.package.clone()));
            let status = release.status.as_ref().and_then(|status| status.chart.as_ref());
            referred.extend(status.map(|chart| chart.package.clone()));
        }
        self.parts().charts.store().packages().collect(&referred).await?;
        self.sweep_values(&kept, self.parts().clock.now()).await
    }

    async fn kept_values(&self) -> Result<Vec<PartialObjectMeta<Secret>>, Error> {
        Ok(self.system_secrets().list_metadata(&ListParams::default().labels(REQUEST)).await?.items)
    }

    /// Deletes values of requests that there are not.
    async fn sweep_values(&self, kept: &[PartialObjectMeta<Secret>], now: Timestamp) -> Result<(), Error> {
        for secret in kept {
            let request = secret.labels().get(REQUEST).map(String::as_str).unwrap_or_default();
            let made = secret.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
            if now.duration_since(made) > GRACE && self.parts().requests.get(request).is_none() {
                self.system_secrets().delete(&secret.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    fn system_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.parts().clients.own(), SYSTEM_NAMESPACE)
    }
}

/// The chart that something needs.
fn package(mark: &PartialObjectMeta<Secret>) -> Option<String> {
    mark.labels().get(CHART_PACKAGE).cloned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_types::HelmPackage;
    use serde_json::json;
    use testkit::{Fault, HeldClock};

    use super::*;
    use crate::stage::{Stage, web};

    #[tokio::test]
    async fn a_chart_stays_while_a_release_or_a_record_has_it() {
        let stage = Stage::new().await;
        let package = stage.keep(web()).await;
        stage.write("web", json!({"name": "web", "source": {"package": package}})).await.unwrap();
        stage.until_state("web", "active").await;
        let packages: Api<HelmPackage> = Api::all(stage.world.admin());
        // A long time afterwards.
        let later = HeldClock::at(Timestamp::now() + SignedDuration::from_hours(24 * 30));
        let other = crate::stage::releases_at(&stage.world, &Fault::none(), Arc::new(later)).await;
        let marks = other.parts().marks.clone();
        marks.synced().await;
        other.sweep(&marks).await.unwrap();
        assert!(packages.get_opt(&package).await.unwrap().is_some());
        let releases = stage.of::<kube_types::HelmRelease>();
        releases.delete("web", &DeleteParams::default()).await.unwrap();
        stage.until_gone(&releases, "web").await;
        // Heard of by the watches after a while.
        testkit::until("it is gone", async || {
            other.sweep(&marks).await.unwrap();
            packages.get_opt(&package).await.unwrap().is_none().then_some(())
        })
        .await;
    }
}
