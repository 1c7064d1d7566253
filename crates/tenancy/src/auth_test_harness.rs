//! Test harness: an embedded cluster, a manual clock, and accounts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use domain::Actor;
use domain::actor::AuthMethod;
use domain::clock::Clock;
use domain::fields::Password;
use domain::ids::UserId;
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use kube_access::Clients;
use kube_types::workspace::{Member, OwnedNamespace, WorkspaceNamespace};
use kube_types::{User, UserSpec, Workspace, WorkspaceSpec, WorkspaceStatus, well_known};
use testkit::{ManualClock, TestCluster};

use crate::credential_store::{self, Credentials, new_user_id, post_params};
use crate::tokens::{TokenText, mint_login};
use crate::{NewSession, Settings, Tenancy, manifests};

pub const PASSWORD: &str = "correct horse battery";
pub const LOCAL_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An embedded cluster with the platform, without its controllers.
pub struct AuthTestHarness {
    pub world: TestCluster,
    pub clock: ManualClock,
    pub tenancy: Tenancy,
}

/// A user with a password and a login token.
pub struct TestUser {
    pub id: UserId,
    pub token: TokenText,
}

impl AuthTestHarness {
    pub async fn new() -> Self {
        // The platform has only the rights of its manifests.
        let world = TestCluster::with_permissions(
            Arc::new(kube_embedded::clock::SystemClock),
            manifests::manifests(),
        )
        .await;
        let clock = ManualClock::starting_at(Timestamp::now());
        let clients = Clients::new(world.platform_client());
        let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(clock.clone())).await.unwrap();
        Self { world, clock, tenancy }
    }

    /// Creates the objects that a registration creates.
    pub async fn create_user(&self, spec: UserSpec) -> TestUser {
        let id = new_user_id();
        let (client, now) = (self.world.admin_client(), Clock::now(&self.clock));
        let kept = self.tenancy.0.hasher.hash(&Password::parse_new(PASSWORD).unwrap()).await.unwrap();
        let (token, record) = mint_login(&id, now);
        for secret in [Credentials::new(Some(kept), now).to_secret(&id), record.to_secret()] {
            credential_store::api(client.clone()).create(&post_params(), &secret).await.unwrap();
        }
        self.create_user_object(&id, spec).await;
        TestUser { id, token }
    }

    /// The User object alone.
    pub async fn create_user_object(&self, id: &UserId, spec: UserSpec) {
        let name = if spec.mobilephone.is_empty() { id.to_string() } else { spec.mobilephone.clone() };
        let mut user = User::new(&format!("user-{name}"), spec);
        user.annotations_mut().insert(well_known::TENANT_ID.to_owned(), id.to_string());
        Api::all(self.world.admin_client()).create(&post_params(), &user).await.unwrap();
        self.tenancy.directory().wait_until(|directory| directory.account(id).is_some()).await;
    }

    /// A workspace with its first namespace, as if provisioned.
    pub async fn create_workspace(&self, name: &str, members: &[(&UserId, &str)]) {
        let members =
            members.iter().map(|(user, role)| Member { user: user.to_string(), role: (*role).to_owned() });
        let spec = WorkspaceSpec {
            members: members.collect(),
            namespaces: vec![WorkspaceNamespace { name: name.to_owned(), ..WorkspaceNamespace::default() }],
            clusters: vec!["host".to_owned()],
            ..WorkspaceSpec::default()
        };
        let api: Api<Workspace> = Api::all(self.world.admin_client());
        let mut workspace = api.create(&post_params(), &Workspace::new(name, spec)).await.unwrap();
        let namespace = OwnedNamespace {
            name: name.to_owned(),
            uid: "x".to_owned(),
            cluster: "host".to_owned(),
            ..OwnedNamespace::default()
        };
        workspace.status =
            Some(WorkspaceStatus { namespaces: vec![namespace], ..WorkspaceStatus::default() });
        api.replace_status(name, &post_params(), &workspace).await.unwrap();
        self.tenancy.directory().wait_until(|directory| directory.workspace_of(name).is_some()).await;
    }

    pub async fn sign_in(&self, person: &TestUser) -> NewSession {
        self.tenancy.sign_in(person.id.as_str(), PASSWORD, LOCAL_CLIENT).await.unwrap()
    }

    /// The user's actor, with a session that was never opened.
    pub fn actor(&self, person: &TestUser) -> Actor {
        self.tenancy
            .directory()
            .actor(&person.id, AuthMethod::Session { id: "of a test".to_owned() })
            .unwrap()
    }
}
