//! Uploaded chart archives.

use releases::service::packages::PackageReport;

use crate::body::ArchiveBody;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

/// `POST packages`: stores an archive, from which releases can then be created.
pub async fn upload(call: ApiRequest<ArchiveBody>) -> Result<JsonResponse<PackageReport>, Problem> {
    let report =
        call.api.releases.upload_package(call.actor()?, call.query_param("ws"), call.body.0.clone()).await?;
    let name = report.package.clone();
    Ok(JsonResponse::new(report).audit_object(&name))
}
