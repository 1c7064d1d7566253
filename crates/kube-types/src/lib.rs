//! Our custom resources, and those of other projects that we keep.
//!
//! Modules in reading order: the account of a person ([`user`], OpenYurt's kind), machines that belong together ([`node_pool`],
//! OpenYurt's too), what people share ([`workspace`]), where charts come from and are kept ([`repo`], [`package`]), what people
//! ask for ([`request`]) and what follows from it ([`release`], both of KubeSphere's design), what every status of ours has
//! ([`progress`]), labels and annotations ([`marks`]), and all definitions to be installed ([`definitions`]).
#![expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]

pub mod definitions;
pub mod marks;
pub mod node_pool;
pub mod package;
pub mod progress;
pub mod release;
pub mod repo;
pub mod request;
pub mod user;
pub mod workspace;

pub use node_pool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use package::{HelmPackage, HelmPackageSpec, HelmPackageStatus};
pub use release::{HelmRelease, HelmReleaseSpec, HelmReleaseStatus};
pub use repo::{HelmRepo, HelmRepoSpec, HelmRepoStatus};
pub use request::{HelmRequest, HelmRequestSpec, HelmRequestStatus};
pub use user::{User, UserSpec, UserStatus};
pub use workspace::{Workspace, WorkspaceSpec, WorkspaceStatus};

/// Where the platform keeps what is its own.
pub const SYSTEM_NAMESPACE: &str = "longshore-system";

/// The field manager of our own objects.
pub const FIELD_MANAGER: &str = "longshore";
