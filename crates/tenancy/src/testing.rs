//! Test harness: an embedded cluster, a manual clock, and accounts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use domain::Actor;
use domain::actor::Via;
use domain::clock::Clock;
use domain::fields::Password;
use domain::ids::UserId;
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use kube_access::Clients;
use kube_types::workspace::{Member, OwnedNamespace, WorkspaceNamespace};
use kube_types::{User, UserSpec, Workspace, WorkspaceSpec, WorkspaceStatus, marks};
use testkit::{HeldClock, World};

use crate::secrets::{self, Credentials, new_user_id, writing};
use crate::tokens::{TokenText, mint_login};
use crate::{Settings, SignedIn, Tenancy, manifests};

pub const PASSWORD: &str = "correct horse battery";
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An embedded cluster with the platform, without its controllers.
pub struct Stage {
    pub world: World,
    pub clock: HeldClock,
    pub tenancy: Tenancy,
}

/// A user with a password and a login token.
pub struct Person {
    pub id: UserId,
    pub token: TokenText,
}

impl Stage {
    pub async fn new() -> Self {
        // The platform has the rights of its manifests, and no more.
        let world = World::under(Arc::new(kube_embedded::clock::SystemClock), manifests::manifests()).await;
        let clock = HeldClock::at(Timestamp::now());
        let clients = Clients::new(world.platform());
        let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(clock.clone())).await.unwrap();
        Self { world, clock, tenancy }
    }

    /// Creates the objects that a registration creates.
    pub async fn person(&self, spec: UserSpec) -> Person {
        let id = new_user_id();
        let (client, now) = (self.world.admin(), Clock::now(&self.clock));
        let kept = self.tenancy.0.hasher.hash(&Password::chosen(PASSWORD).unwrap()).await.unwrap();
        let (token, record) = mint_login(&id, now);
        for secret in [Credentials::new(Some(kept), now).to_secret(&id), record.to_secret()] {
            secrets::api(client.clone()).create(&writing(), &secret).await.unwrap();
        }
        self.user(&id, spec).await;
        Person { id, token }
    }

    /// The User object alone.
    pub async fn user(&self, id: &UserId, spec: UserSpec) {
        let name = if spec.mobilephone.is_empty() { id.to_string() } else { spec.mobilephone.clone() };
        let mut user = User::new(&format!("user-{name}"), spec);
        user.annotations_mut().insert(marks::TENANT_ID.to_owned(), id.to_string());
        Api::all(self.world.admin()).create(&writing(), &user).await.unwrap();
        self.tenancy.directory().until(|directory| directory.account(id).is_some()).await;
    }

    /// A workspace with its first namespace, as if provisioned.
    pub async fn workspace(&self, name: &str, members: &[(&UserId, &str)]) {
        let members =
            members.iter().map(|(user, role)| Member { user: user.to_string(), role: (*role).to_owned() });
        let spec = WorkspaceSpec {
            members: members.collect(),
            namespaces: vec![WorkspaceNamespace { name: name.to_owned(), ..WorkspaceNamespace::default() }],
            clusters: vec!["host".to_owned()],
            ..WorkspaceSpec::default()
        };
        let api: Api<Workspace> = Api::all(self.world.admin());
        let mut workspace = api.create(&writing(), &Workspace::new(name, spec)).await.unwrap();
        let namespace = OwnedNamespace {
            name: name.to_owned(),
            uid: "x".to_owned(),
            cluster: "host".to_owned(),
            ..OwnedNamespace::default()
        };
        workspace.status =
            Some(WorkspaceStatus { namespaces: vec![namespace], ..WorkspaceStatus::default() });
        api.replace_status(name, &writing(), &workspace).await.unwrap();
        self.tenancy.directory().until(|directory| directory.workspace_of(name).is_some()).await;
    }

    pub async fn sign_in(&self, person: &Person) -> SignedIn {
        self.tenancy.sign_in(person.id.as_str(), PASSWORD, HERE).await.unwrap()
    }

    /// The user's actor, with a session that was never opened.
    pub fn actor(&self, person: &Person) -> Actor {
        self.tenancy.directory().actor(&person.id, Via::Session { id: "of a test".to_owned() }).unwrap()
    }
}
