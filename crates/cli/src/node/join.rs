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
use super::folder::{Folder, Identity};
use super::line::{self, Trouble, code};
use super::machine::{self, Facts, Machine};
use super::renewal::Renewal;
use super::{Failure, JoinArgs, discovery, stay};

const LEASES: &str = "kube-node-lease";

pub(super) type Say<'a> = &'a mut (dyn FnMut(&str) -> Result<(), Failure> + Send);

pub(super) async fn run(args: &JoinArgs, say: Say<'_>) -> Result<(), Failure> {
    let (folder, identity, mut joined) = enter(args, Arc::new(SystemClock), say).await?;
    if args.stay {
        let renewal = Renewal::of(&folder, &identity, args.lifetime_seconds())?;
        stay::run(&mut joined, renewal).await?;
    }
    Ok(())
}

/// Joins the cluster, or resumes as the node that it already is.
pub(super) async fn enter(
    args: &JoinArgs,
    clock: Arc<dyn Clock>,
    say: Say<'_>,
) -> Result<(Folder, Identity, Joined), Failure> {
    let args = &JoinArgs { name: args.node_name(), ..args.clone() };
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => default_dir(&args.name).ok_or(Failure::NoFolder)?,
    };
    let folder = Folder::enter(&dir, &args.server, &args.name)?;
    let identity = match kept(&folder, clock.as_ref())? {
        Some(identity) => identity,
        None => admitted(args, &folder, clock.as_ref(), say).await?,
    };
    let client = line::node(&identity).map_err(|error| cluster("use the node's certificate", error))?;
    let machine = Machine {
        name: args.name.clone(),
        id: folder.machine.id.clone(),
        pool: args.pool.clone(),
        labels: args.labels.clone(),
        facts: Facts::read(&args.server, &dir),
    };
    let joined = Joined { client, machine, clock };
    let node = joined.register().await?;
    joined.live(&node).await?;
    joined.report(&node).await?;
    say(&format!("node `{}` has joined {}", args.name, args.server))?;
    Ok((folder, identity, joined))
}

fn default_dir(name: &str) -> Option<PathBuf> {
    let environment = crate::environment();
    let set = |key: &str| environment.get(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(data.join("longshore/nodes").join(name))
}

pub(super) fn cluster(what: &'static str, error: kube::Error) -> Failure {
    let trouble = match code(&error) {
        401 => Trouble::said(
            "the cluster does not accept the node's certificate: reset the node, and join again",
        ),
        _ => error.into(),
    };
    Failure::Cluster { what, trouble }
}

/// The stored identity, if its certificate is still valid. An expired certificate is deleted together with its key.
fn kept(folder: &Folder, clock: &dyn Clock) -> Result<Option<Identity>, Failure> {
    let Some(identity) = folder.identity()? else { return Ok(None) };
    let checked = certificate::check(&identity.certificate, &identity.key, &folder.machine.name);
    let (_, end) = checked.map_err(|error| folder.damaged("certificate.pem", &error))?;
    if end > clock.now() {
        return Ok(Some(identity));
    }
    folder.forget()?;
    Ok(None)
}

/// Verifies the cluster, requests a certificate from it and stores the certificate.
async fn admitted(
    args: &JoinArgs,
    folder: &Folder,
    clock: &dyn Clock,
    say: Say<'_>,
) -> Result<Identity, Failure> {
    let authority = discovery::authority(&args.server, &args.token, args.ca_cert_hash).await?;
    let asked = folder.asked(|| certificate::ask(&args.name))?;
    let client = line::bootstrap(&args.server, &authority, &args.token)
        .map_err(|error| CertificateError::Ask(error.into()))?;
    say(&format!("{} has proved itself; waiting until it lets `{}` in", args.server, args.name))?;
    let patience = Duration::from_secs(args.timeout);
    let certificate = match certificate::obtain(client, &asked, args.lifetime_seconds(), patience).await {
        // A decided CSR stays decided, so the next attempt creates a new one.
        Err(error @ (CertificateError::Denied(_) | CertificateError::Failed(_))) => {
            folder.forget()?;
            return Err(error.into());
        }
        other => other?,
    };
    let (_, end) = certificate::check(&certificate, &asked.key, &args.name)?;
    if end <= clock.now() {
        return Err(CertificateError::Wrong("it has ended already").into());
    }
    folder.certify(&authority, &certificate)?;
    Ok(Identity { server: args.server.clone(), authority, certificate, key: asked.key })
}

/// A node that has joined.
pub(super) struct Joined {
    pub client: Client,
    pub machine: Machine,
    pub clock: Arc<dyn Clock>,
}

impl Joined {
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Returns this machine's Node, creating it if necessary.
    async fn register(&self) -> Result<Node, Failure> {
        let what = "register the node";
        let wanted = serde_json::from_value(self.machine.node(self.clock.now()))
            .map_err(|error| cluster(what, kube::Error::SerdeError(error)))?;
        match self.nodes().create(&PostParams::default(), &wanted).await {
            // A client that may not create Nodes adopts the existing one: the platform creates the Nodes of tenants.
            Err(error) if matches!(code(&error), 403 | 409) => {
                let found = self.found().await?.ok_or_else(|| cluster(what, error))?;
                self.adopt(found).await
            }
            other => other.map_err(|error| cluster(what, error)),
        }
    }

    /// Adds the labels that the machine would have registered to a Node created by another client.
    async fn adopt(&self, found: Node) -> Result<Node, Failure> {
        let missing = self.machine.labels_missing_on(&found);
        if missing.is_empty() {
            return Ok(found);
        }
        let labels = Patch::Merge(json!({ "metadata": { "labels": missing } }));
        let labelled = self.nodes().patch(&self.machine.name, &PatchParams::default(), &labels).await;
        labelled.map_err(|error| cluster("label the node", error))
    }

    /// Returns the Node of this name, or an error if it belongs to another machine.
    pub async fn found(&self) -> Result<Option<Node>, Failure> {
        let found = self.nodes().get_opt(&self.machine.name).await;
        let found = found.map_err(|error| cluster("read the node", error))?;
        match found {
            Some(node) if !self.machine.is(&node) => Err(Failure::NameTaken(self.machine.name.clone())),
            other => Ok(other),
        }
    }

    /// Renews the node's Lease.
    pub async fn live(&self, node: &Node) -> Result<(), Failure> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let (what, now) = ("renew the node's Lease", self.clock.now());
        let renew = async || {
            let renewal = Patch::Merge(machine::renewal(now));
            leases.patch(&self.machine.name, &PatchParams::default(), &renewal).await
        };
        let lived = match renew().await {
            Err(error) if code(&error) == 404 => {
                let lease = serde_json::from_value(machine::lease(node, now))
                    .map_err(|error| cluster(what, kube::Error::SerdeError(error)))?;
                match leases.create(&PostParams::default(), &lease).await {
                    // The node lifecycle controller created the Lease in the meantime.
                    Err(error) if code(&error) == 409 => renew().await,
                    made => made,
                }
            }
            renewed => renewed,
        };
        lived.map(drop).map_err(|error| cluster(what, error))
    }

    /// Reports the node's status.
    pub async fn report(&self, seen: &Node) -> Result<(), Failure> {
        let report = Patch::Strategic(self.machine.report(seen, self.clock.now()));
        let reported = self.nodes().patch_status(&self.machine.name, &PatchParams::default(), &report).await;
        reported.map(drop).map_err(|error| cluster("report the node's state", error))
    }
}
