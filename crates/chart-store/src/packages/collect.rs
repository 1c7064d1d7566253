//! Removing packages that nobody refers to.

use std::collections::HashSet;

use futures::TryStreamExt;
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube_types::package::HelmPackage;

use super::{Packages, last_use};
use crate::failure::ChartError;

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub removed: Vec<String>,
    pub bytes: i64,
}

impl Packages {
    /// Removes every package that is not referred to, and that nobody wanted for a while. Somebody who wants one meanwhile
    /// has it: it is removed as it was looked at, or not at all.
    pub async fn collect(&self, referred: &HashSet<String>) -> Result<Collected, ChartError> {
        let unused: Vec<HelmPackage> = self
            .all()
            .try_filter(|package| {
                let unused = !referred.contains(&package.name_any()) && self.is_stale(package);
                async move { unused }
            })
            .try_collect()
            .await?;
        let mut collected = Collected::default();
        for package in unused {
            if self.remove(&package).await? {
                collected.bytes += package.spec.size;
                collected.removed.push(package.name_any());
            }
        }
        Ok(collected)
    }

    fn is_stale(&self, package: &HelmPackage) -> bool {
        let age = self.clock.now().duration_since(last_use(package));
        jiff::SignedDuration::try_from(self.limits.grace).is_ok_and(|grace| age >= grace)
    }

    /// Removes a package, and its bytes after it. Says whether it was still as it was looked at.
    async fn remove(&self, package: &HelmPackage) -> Result<bool, ChartError> {
        let preconditions =
            Preconditions { uid: package.uid(), resource_version: package.resource_version() };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let name = package.name_any();
        self.forget(&name);
        match self.entries.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(true),
        }
    }
}
