//! SubjectAccessReviews, for actions that the platform performs on behalf of a user.

use domain::actor::Impersonation;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::{Api, PostParams};

/// Whether `who` may do `what` under Kubernetes RBAC. `client` is the platform's own.
pub async fn is_allowed(
    client: &kube::Client,
    who: &Impersonation,
    what: ResourceAttributes,
) -> Result<bool, kube::Error> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(who.user().to_owned()),
            groups: Some(groups(who)),
            resource_attributes: Some(what),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(matches!(answer.status, Some(SubjectAccessReviewStatus { allowed: true, .. })))
}

/// All groups that an impersonated request would have. Impersonation adds implicit groups; a review does not.
fn groups(who: &Impersonation) -> Vec<String> {
    let mut groups = who.groups().to_vec();
    let account = who.user().strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    groups.push("system:authenticated".to_owned());
    groups
}
