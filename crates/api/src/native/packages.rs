//! Uploaded chart archives.

use releases::acts::packages::PackageReport;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::Archive;

/// `POST packages`: stores an archive, from which releases can then be created.
pub async fn keep(call: Call<Archive>) -> Result<Answer<PackageReport>, Problem> {
    let report = call.api.releases.keep_package(call.actor()?, call.said("ws"), call.body.0.clone()).await?;
    let name = report.package.clone();
    Ok(Answer::new(report).about(&name))
}
