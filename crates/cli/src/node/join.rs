//! `longshore node join`: the steps of joining. Each step is idempotent, so that a run after a crash resumes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::{Clock, SystemClock};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::certificate::{self, CertificateError};
use super::clients::{self, ErrorMessage, status_code};
use super::machine::{self, HostFacts, NodeRegistration};
use super::renewal::Renewal;
use super::state_dir::{NodeIdentity, StateDir};
use super::{JoinArgs, NodeError, discovery, heartbeat};

const LEASE_NAMESPACE: &str = "kube-node-lease";

pub(super) type PrintLine<'a> = &'a mut (dyn FnMut(&str) -> Result<(), NodeError> + Send);

pub(super) async fn run(args: &JoinArgs, print_line: PrintLine<'_>) -> Result<(), NodeError> {
    let (folder, identity, mut joined) = join_or_resume(args, Arc::new(SystemClock), print_line).await?;
    if args.stay {
        let renewal = Renewal::new(&folder, &identity, args.lifetime_seconds())?;
        heartbeat::run(&mut joined, renewal).await?;
    }
    Ok(())
}

/// Joins the cluster, or resumes as the node that it already is.
pub(super) async fn join_or_resume(
    args: &JoinArgs,
    clock: Arc<dyn Clock>,
    say: PrintLine<'_>,
) -> Result<(StateDir, NodeIdentity, JoinedNode), NodeError> {
    let args = &JoinArgs { name: args.node_name(), ..args.clone() };
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => default_dir(&args.name).ok_or(NodeError::NoStateDir)?,
    };
    let folder = StateDir::open_or_create(&dir, &args.server, &args.name)?;
    let identity = match load_valid_identity(&folder, clock.as_ref())? {
        Some(identity) => identity,
        None => obtain_identity(args, &folder, clock.as_ref(), say).await?,
    };
    let client =
        clients::node(&identity).map_err(|error| cluster_error("use the node's certificate", error))?;
    let machine = NodeRegistration {
        name: args.name.clone(),
        id: folder.machine.id.clone(),
        pool: args.pool.clone(),
        labels: args.labels.clone(),
        facts: HostFacts::read(&args.server, &dir),
    };
    let joined = JoinedNode { client, machine, clock };
    let node = joined.register().await?;
    joined.renew_lease(&node).await?;
    joined.update_status(&node).await?;
    say(&format!("node `{}` has joined {}", args.name, args.server))?;
    Ok((folder, identity, joined))
}

fn default_dir(name: &str) -> Option<PathBuf> {
    let environment = crate::environment();
    let set = |key: &str| environment.get(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(data.join("longshore/nodes").join(name))
}

pub(super) fn cluster_error(what: &'static str, error: kube::Error) -> NodeError {
    let trouble = match status_code(&error) {
        401 => ErrorMessage::new(
            "the cluster does not accept the node's certificate: run `longshore node reset`, then join again",
        ),
        _ => error.into(),
    };
    NodeError::Cluster { what, trouble }
}

/// The stored identity, if its certificate is still valid. An expired certificate is deleted together with its key.
fn load_valid_identity(folder: &StateDir, clock: &dyn Clock) -> Result<Option<NodeIdentity>, NodeError> {
    let Some(identity) = folder.identity()? else { return Ok(None) };
    let checked = certificate::verify(&identity.certificate, &identity.key, &folder.machine.name);
    let (_, end) = checked.map_err(|error| folder.damaged_error("certificate.pem", &error))?;
    if end > clock.now() {
        return Ok(Some(identity));
    }
    folder.remove_credentials()?;
    Ok(None)
}

/// Verifies the cluster, requests a certificate from it and stores the certificate.
async fn obtain_identity(
    args: &JoinArgs,
    folder: &StateDir,
    clock: &dyn Clock,
    say: PrintLine<'_>,
) -> Result<NodeIdentity, NodeError> {
    let authority = discovery::fetch_ca(&args.server, &args.token, args.ca_cert_hash).await?;
    let pending = folder.load_or_create_request(|| certificate::generate_request(&args.name))?;
    let client = clients::bootstrap(&args.server, &authority, &args.token)
        .map_err(|error| CertificateError::Request(error.into()))?;
    say(&format!(
        "{} verified; waiting for the certificate of node `{}` to be approved",
        args.server, args.name
    ))?;
    let timeout = Duration::from_secs(args.timeout);
    let certificate =
        match certificate::request_certificate(client, &pending, args.lifetime_seconds(), timeout).await {
            // A decided CSR stays decided, so the next attempt creates a new one.
            Err(error @ (CertificateError::Denied(_) | CertificateError::Failed(_))) => {
                folder.remove_credentials()?;
                return Err(error.into());
            }
            other => other?,
        };
    let (_, end) = certificate::verify(&certificate, &pending.key, &args.name)?;
    if end <= clock.now() {
        return Err(CertificateError::Mismatch("it has already expired").into());
    }
    folder.save_certificate(&authority, &certificate)?;
    Ok(NodeIdentity { server: args.server.clone(), authority, certificate, key: pending.key })
}

/// A node that has joined.
pub(super) struct JoinedNode {
    pub client: Client,
    pub machine: NodeRegistration,
    pub clock: Arc<dyn Clock>,
}

impl JoinedNode {
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Returns this machine's Node, creating it if necessary.
    async fn register(&self) -> Result<Node, NodeError> {
        let what = "register the node";
        let wanted = serde_json::from_value(self.machine.node_object(self.clock.now()))
            .map_err(|error| cluster_error(what, kube::Error::SerdeError(error)))?;
        match self.nodes().create(&PostParams::default(), &wanted).await {
            // A client that may not create Nodes adopts the existing one: the platform creates the Nodes of tenants.
            Err(error) if matches!(status_code(&error), 403 | 409) => {
                let found = self.get_node().await?.ok_or_else(|| cluster_error(what, error))?;
                self.add_missing_labels(found).await
            }
            other => other.map_err(|error| cluster_error(what, error)),
        }
    }

    /// Adds the labels that the machine would have registered to a Node created by another client.
    async fn add_missing_labels(&self, found: Node) -> Result<Node, NodeError> {
        let missing = self.machine.missing_labels(&found);
        if missing.is_empty() {
            return Ok(found);
        }
        let labels = Patch::Merge(json!({ "metadata": { "labels": missing } }));
        let labelled = self.nodes().patch(&self.machine.name, &PatchParams::default(), &labels).await;
        labelled.map_err(|error| cluster_error("label the node", error))
    }

    /// Returns the Node of this name, or an error if it belongs to another machine.
    pub async fn get_node(&self) -> Result<Option<Node>, NodeError> {
        let found = self.nodes().get_opt(&self.machine.name).await;
        let found = found.map_err(|error| cluster_error("read the node", error))?;
        match found {
            Some(node) if !self.machine.owns(&node) => Err(NodeError::NameTaken(self.machine.name.clone())),
            other => Ok(other),
        }
    }

    /// Renews the node's Lease.
    pub async fn renew_lease(&self, node: &Node) -> Result<(), NodeError> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let (what, now) = ("renew the node's Lease", self.clock.now());
        let renew = async || {
            let renewal = Patch::Merge(machine::lease_renewal_patch(now));
            leases.patch(&self.machine.name, &PatchParams::default(), &renewal).await
        };
        let lived = match renew().await {
            Err(error) if status_code(&error) == 404 => {
                let lease = serde_json::from_value(machine::new_lease(node, now))
                    .map_err(|error| cluster_error(what, kube::Error::SerdeError(error)))?;
                match leases.create(&PostParams::default(), &lease).await {
                    // The node lifecycle controller created the Lease in the meantime.
                    Err(error) if status_code(&error) == 409 => renew().await,
                    made => made,
                }
            }
            renewed => renewed,
        };
        lived.map(drop).map_err(|error| cluster_error(what, error))
    }

    /// Reports the node's status.
    pub async fn update_status(&self, observed: &Node) -> Result<(), NodeError> {
        let report = Patch::Strategic(self.machine.ready_status_patch(observed, self.clock.now()));
        let reported = self.nodes().patch_status(&self.machine.name, &PatchParams::default(), &report).await;
        reported.map(drop).map_err(|error| cluster_error("update the node's status", error))
    }
}
