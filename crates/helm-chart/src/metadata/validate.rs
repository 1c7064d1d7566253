//! Helm's validation of chart metadata.

use std::collections::BTreeSet;

use helm_template::go::{is_printable, quote};
use helm_template::profile::Profile;
use helm_template::semver::Version;
use helm_template::value::Str;

use super::{Dependency, Metadata};

/// Treatment of duplicate dependency names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DuplicatePolicy {
    Reject,
    Allow,
}

/// Validation error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("validation: {0}")]
pub struct InvalidMetadata(pub String);

impl Metadata {
    /// Sanitizes printed fields and validates the metadata.
    pub fn validate(&mut self, profile: Profile) -> Result<(), InvalidMetadata> {
        self.check_fields(profile)?;
        self.sanitize_maintainers();
        self.check_dependencies(DuplicatePolicy::Reject)
    }

    pub(super) fn check_fields(&mut self, profile: Profile) -> Result<(), InvalidMetadata> {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ]
        .into_iter()
        .chain(&mut self.sources)
        .chain(&mut self.keywords)
        {
            sanitize(text);
        }
        let invalid = |text: String| Err(InvalidMetadata(text));
        if self.api_version.is_empty() {
            return invalid("chart.metadata.apiVersion is required".into());
        }
        if self.name.is_empty() {
            return invalid("chart.metadata.name is required".into());
        }
        // Helm 3 accepts these names, although as paths they lead out of the chart.
        if matches!(&*self.name, "." | "..") {
            return invalid(format!("chart.metadata.name {} is not allowed", quote(&self.name)));
        }
        if self.name.contains('/') {
            return invalid(format!("chart.metadata.name {} is invalid", quote(&self.name)));
        }
        if self.version.is_empty() {
            return invalid("chart.metadata.version is required".into());
        }
        if Version::parse(&self.version, profile).is_err() {
            return invalid(format!("chart.metadata.version {} is invalid", quote(&self.version)));
        }
        if !matches!(&*self.chart_type, "" | "application" | "library") {
            return invalid("chart.metadata.type must be application or library".into());
        }
        Ok(())
    }

    pub(super) fn sanitize_maintainers(&mut self) {
        for maintainer in &mut self.maintainers {
            sanitize(&mut maintainer.name);
            sanitize(&mut maintainer.email);
            sanitize(&mut maintainer.url);
        }
    }

    pub(super) fn check_dependencies(&mut self, twins: DuplicatePolicy) -> Result<(), InvalidMetadata> {
        let mut taken = BTreeSet::new();
        for dependency in &mut self.dependencies {
            dependency.validate()?;
            if !taken.insert(dependency.key()) && twins == DuplicatePolicy::Reject {
                return Err(InvalidMetadata(format!(
                    "more than one dependency with name or alias {}",
                    quote(dependency.key())
                )));
            }
        }
        Ok(())
    }
}

impl Dependency {
    fn validate(&mut self) -> Result<(), InvalidMetadata> {
        for text in [&mut self.name, &mut self.version, &mut self.repository, &mut self.condition]
            .into_iter()
            .chain(&mut self.tags)
        {
            sanitize(text);
        }
        if !self.alias.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
            return Err(InvalidMetadata(format!(
                "dependency {} has disallowed characters in the alias",
                quote(&self.name)
            )));
        }
        Ok(())
    }
}

/// Replaces every whitespace character by a space and drops unprintable characters.
fn sanitize(text: &mut Str) {
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return;
    }
    let cleaned: String = text
        .chars()
        .filter_map(|c| if c.is_whitespace() { Some(' ') } else { is_printable(c).then_some(c) })
        .collect();
    *text = cleaned.into();
}
