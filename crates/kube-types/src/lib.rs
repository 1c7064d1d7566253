//! Custom resources of the platform, and custom resources of other projects that it uses.
//!
//! Modules:
//!
//! - [`user`]: `User`, a user account (OpenYurt's kind)
//! - [`node_pool`]: `NodePool`, a group of nodes (OpenYurt's kind)
//! - [`workspace`]: `Workspace`, shared namespaces and their members
//! - [`repo`]: `HelmRepo`, a chart repository
//! - [`package`]: `HelmPackage`, a stored chart archive
//! - [`request`]: `HelmRequest`, the release that a user requests (KubeSphere's design)
//! - [`release`]: `HelmRelease`, the release on the cluster (KubeSphere's design)
//! - [`conditions`]: conditions and transitions of every status
//! - [`well_known`]: labels, annotations, finalizers and Secret types
//! - [`definitions`]: all CRDs that the server installs
#![expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]

pub mod conditions;
pub mod definitions;
pub mod node_pool;
pub mod package;
pub mod release;
pub mod repo;
pub mod request;
pub mod user;
pub mod well_known;
pub mod workspace;

pub use node_pool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use package::{HelmPackage, HelmPackageSpec, HelmPackageStatus};
pub use release::{HelmRelease, HelmReleaseSpec, HelmReleaseStatus};
pub use repo::{HelmRepo, HelmRepoSpec, HelmRepoStatus};
pub use request::{HelmRequest, HelmRequestSpec, HelmRequestStatus};
pub use user::{User, UserSpec, UserStatus};
pub use workspace::{Workspace, WorkspaceSpec, WorkspaceStatus};

/// Namespace of the platform's own objects.
pub const SYSTEM_NAMESPACE: &str = "longshore-system";

/// Field manager of the platform's writes.
pub const FIELD_MANAGER: &str = "longshore";
