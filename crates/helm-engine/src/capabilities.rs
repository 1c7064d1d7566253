//! The cluster capabilities that templates see as `.Capabilities`.

use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use helm_template::value::Str;

/// The Kubernetes version and the API versions of a cluster.
#[derive(Clone, Debug)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    pub api_versions: Vec<Str>,
}

/// A Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// The full version, such as `v1.33.4-gke.1245000`.
    pub version: Str,
    /// In Helm 4, the version without vendor suffix. Chart constraints are checked against it.
    pub without_suffix: Str,
    pub major: Str,
    pub minor: Str,
}

impl Capabilities {
    /// The capabilities that Helm assumes without a cluster.
    pub fn default_for(profile: Profile) -> Self {
        let minor = match profile {
            Profile::Helm3 => 32,
            Profile::Helm4 => 37,
        };
        let version: Str = format!("v1.{minor}.0").into();
        Self {
            kube_version: KubeVersion {
                without_suffix: version.clone(),
                version,
                major: "1".into(),
                minor: minor.to_string().into(),
            },
            api_versions: API_GROUPS.iter().flat_map(|row| group_versions(row, profile)).collect(),
        }
    }
}

fn group_versions((group, three, four): &'static ApiGroup, profile: Profile) -> impl Iterator<Item = Str> {
    let versions = match profile {
        Profile::Helm3 => three,
        Profile::Helm4 => four,
    };
    versions.split_whitespace().map(move |version| match *group {
        "" => version.into(),
        group => format!("{group}/{version}").into(),
    })
}

impl KubeVersion {
    /// Parses the value of `--kube-version`.
    pub fn parse(text: &str, profile: Profile) -> Result<Self, Str> {
        match profile {
            Profile::Helm3 => {
                let version = Version::parse(text, profile)?;
                let whole: Str = format!("v{version}").into();
                Ok(Self {
                    without_suffix: whole.clone(),
                    version: whole,
                    major: version.major.to_string().into(),
                    minor: version.minor.to_string().into(),
                })
            }
            Profile::Helm4 => parse_generic(text),
        }
    }

    /// Whether the version satisfies a chart's `kubeVersion`. An invalid constraint or version is not satisfied.
    pub fn satisfies(&self, constraint: &str, profile: Profile) -> bool {
        let version = Version::parse(&self.without_suffix, profile);
        let constraints = Constraints::parse(constraint, profile);
        matches!((version, constraints), (Ok(version), Ok(constraints)) if constraints.check(&version))
    }
}

/// Parses a version as Kubernetes' `version.ParseGeneric` does: numbers followed by an arbitrary suffix.
fn parse_generic(text: &str) -> Result<KubeVersion, Str> {
    let trimmed = text.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
    let bare = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    // A dot belongs to the version only if a digit follows.
    let numbers = bare[..end].split("..").next().unwrap_or_default().trim_end_matches('.');
    if numbers.is_empty() || numbers.starts_with('.') || bare[numbers.len()..].contains('\n') {
        return Err(format!("could not parse {} as version", quote(text)).into());
    }
    let components: Vec<&str> = numbers.split('.').collect();
    let [major, minor, ..] = components.as_slice() else {
        return Err(format!("illegal version string {}", quote(text)).into());
    };
    if major.starts_with('0') && *major != "0" {
        return Err(
            format!("illegal zero-prefixed version component {} in {}", quote(major), quote(text)).into()
        );
    }
    let mut plain = Vec::new();
    for component in &components {
        let number: u64 = component.parse().map_err(|_| {
            let (component, text) = (quote(component), quote(text));
            Str::from(format!(
                "illegal non-numeric version component {component} in {text}: strconv.ParseUint: parsing {component}: value out of range"
            ))
        })?;
        plain.push(number.to_string());
    }
    Ok(KubeVersion {
        version: if text.starts_with('v') { text.into() } else { format!("v{text}").into() },
        without_suffix: format!("v{}", plain.join(".")).into(),
        major: major.parse::<u64>().unwrap_or_default().to_string().into(),
        minor: minor.parse::<u64>().unwrap_or_default().to_string().into(),
    })
}

/// An API group, with its versions in Helm 3 and in Helm 4.
type ApiGroup = (&'static str, &'static str, &'static str);

/// The API groups and versions of the client libraries in Helm 3.17 and Helm 4.3, in their order.
#[rustfmt::skip]
const API_GROUPS: &[ApiGroup] = &[
    ("",                              "v1",                          "v1"),
    ("admissionregistration.k8s.io",  "v1 v1alpha1 v1beta1",         "v1 v1alpha1 v1beta1"),
    ("internal.apiserver.k8s.io",     "v1alpha1",                    "v1alpha1"),
    ("apps",                          "v1 v1beta1 v1beta2",          "v1 v1beta1 v1beta2"),
    ("authentication.k8s.io",         "v1 v1alpha1 v1beta1",         "v1 v1alpha1 v1beta1"),
    ("authorization.k8s.io",          "v1 v1beta1",                  "v1 v1beta1"),
    ("autoscaling",                   "v1 v2 v2beta1 v2beta2",       "v1 v2"),
    ("batch",                         "v1 v1beta1",                  "v1 v1beta1"),
    ("certificates.k8s.io",           "v1 v1beta1 v1alpha1",         "v1 v1beta1 v1alpha1"),
    ("coordination.k8s.io",           "v1alpha2 v1beta1 v1",         "v1alpha2 v1beta1 v1"),
    ("discovery.k8s.io",              "v1 v1beta1",                  "v1 v1beta1"),
    ("events.k8s.io",                 "v1 v1beta1",                  "v1 v1beta1"),
    ("extensions",                    "v1beta1",                     "v1beta1"),
    ("flowcontrol.apiserver.k8s.io",  "v1 v1beta1 v1beta2 v1beta3",  "v1 v1beta1 v1beta2 v1beta3"),
    ("lifecycle.k8s.io",              "",                            "v1alpha1"),
    ("networking.k8s.io",             "v1 v1alpha1 v1beta1",         "v1 v1beta1"),
    ("node.k8s.io",                   "v1 v1alpha1 v1beta1",         "v1 v1alpha1 v1beta1"),
    ("policy",                        "v1 v1beta1",                  "v1 v1beta1"),
    ("rbac.authorization.k8s.io",     "v1 v1beta1 v1alpha1",         "v1 v1beta1 v1alpha1"),
    ("resource.k8s.io",               "v1beta1 v1alpha3",            "v1 v1beta2 v1beta1 v1alpha3"),
    ("scheduling.k8s.io",             "v1alpha1 v1beta1 v1",         "v1alpha3 v1beta1 v1"),
    ("storage.k8s.io",                "v1beta1 v1 v1alpha1",         "v1beta1 v1 v1alpha1"),
    ("storagemigration.k8s.io",       "v1alpha1",                    "v1 v1beta1"),
    ("apiextensions.k8s.io",          "v1beta1 v1",                  "v1beta1 v1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_version_parse_matches_helm() {
        let table = [
            (Profile::Helm3, "1.20", "v1.20.0 v1.20.0 1 20"),
            (Profile::Helm3, "v1.20.3-gke.1+x", "v1.20.3-gke.1+x v1.20.3-gke.1+x 1 20"),
            (Profile::Helm3, "z", "Invalid Semantic Version"),
            (Profile::Helm4, "1.20", "v1.20 v1.20 1 20"),
            (Profile::Helm4, "v1.33.4-gke.1245000", "v1.33.4-gke.1245000 v1.33.4 1 33"),
            (Profile::Helm4, "1.29.x", "v1.29.x v1.29 1 29"),
            (Profile::Helm4, "z", r#"could not parse "z" as version"#),
            (Profile::Helm4, "1", r#"illegal version string "1""#),
            (Profile::Helm4, "01.2", r#"illegal zero-prefixed version component "01" in "01.2""#),
        ];
        for (profile, text, wanted) in table {
            let got = match KubeVersion::parse(text, profile) {
                Ok(KubeVersion { version, without_suffix: plain, major, minor }) => {
                    format!("{version} {plain} {major} {minor}")
                }
                Err(why) => why.to_string(),
            };
            assert_eq!(got, wanted, "{text}");
        }
    }

    #[test]
    fn default_capabilities_match_helm() {
        let [three, four] = [Profile::Helm3, Profile::Helm4].map(Capabilities::default_for);
        assert_eq!((three.api_versions.len(), four.api_versions.len()), (56, 57));
        assert!(three.kube_version.satisfies(">=1.16.0-0", Profile::Helm3));
        assert!(
            !four.kube_version.satisfies(">1.99", Profile::Helm4)
                && !four.kube_version.satisfies("x y", Profile::Helm4)
        );
    }
}
