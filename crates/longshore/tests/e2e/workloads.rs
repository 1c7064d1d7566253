//! Workloads with kubectl: rollout and rollback, pause, drain, and the statuses they report.

use crate::clients::CliClient;
use crate::target::only_on_embedded;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1'}]}
";

const STATEFULSET_AND_DAEMONSET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: 'db:1', volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: 'agent:1'}]}
";

/// A node for the test alone, and a Deployment with a disruption budget that runs only there.
const NODE_AND_DEPLOYMENT: &str = "
apiVersion: v1
kind: Node
metadata: {name: '{ns}-node', labels: {e2e: '{ns}', kubernetes.io/hostname: '{ns}-node'}}
spec: {taints: [{key: e2e, value: '{ns}', effect: NoSchedule}]}
status:
  allocatable: {cpu: '4', memory: 4Gi, pods: '20'}
  capacity: {cpu: '4', memory: 4Gi, pods: '20'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {e2e: '{ns}'}
      tolerations: [{key: e2e, operator: Exists}]
      containers: [{name: main, image: 'web:1'}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
";

const IMAGES: &str = "get pods -l app=web -o jsonpath='{.items[*].spec.containers[0].image}'";

impl CliClient {
    /// Waits until the rollout is complete.
    fn wait_for_rollout(&self, workload: &str) {
        self.run(&format!("rollout status {workload} --timeout=2m"));
    }
}

#[test]
fn deployment_rolls_out_and_back() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.run_with_stdin("apply -f -", WEB);
    kubectl.assert_mentions(
        "rollout status deployment/web --timeout=2m",
        &["deployment \"web\" successfully rolled out"],
    );
    kubectl.run("scale deployment web --replicas=5");
    kubectl.wait_for_rollout("deployment/web");
    kubectl.assert_prints(
        "get deployment web -o jsonpath='{.status.replicas} {.status.readyReplicas} {.status.availableReplicas}'",
        "5 5 5",
    );
    kubectl.run("scale deployment web --replicas=2");
    kubectl.wait_for_rollout("deployment/web");

    kubectl.run("set image deployment/web main=web:2");
    kubectl.wait_for_rollout("deployment/web");
    kubectl.run("wait pods -l app=web --for=jsonpath='{.spec.containers[0].image}'=web:2 --timeout=1m");
    kubectl.assert_mentions("rollout history deployment/web", &["REVISION", "1 ", "2 "]);
    kubectl.assert_mentions("rollout history deployment/web --revision=1", &["web:1"]);
    kubectl.assert_prints("rollout undo deployment/web", "deployment.apps/web rolled back");
    kubectl.wait_for_rollout("deployment/web");
    kubectl.assert_prints(
        "get deployment web -o jsonpath='{.spec.template.spec.containers[0].image} {.metadata.annotations.deployment\\.kubernetes\\.io/revision}'",
        "web:1 3",
    );

    kubectl.assert_prints("rollout restart deployment/web", "deployment.apps/web restarted");
    kubectl.wait_for_rollout("deployment/web");
    let restarted = "get deployment web -o jsonpath='{.spec.template.metadata.annotations}'";
    kubectl.assert_mentions(restarted, &["kubectl.kubernetes.io/restartedAt"]);
    kubectl.assert_mentions(
        "describe deployment web",
        &["ScalingReplicaSet", "2 desired | 2 updated | 2 total | 2 available"],
    );
}

#[test]
fn paused_deployment_waits() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.run_with_stdin("apply -f -", WEB);
    kubectl.wait_for_rollout("deployment/web");
    kubectl.run("set image deployment/web main=web:2");
    kubectl.wait_for_rollout("deployment/web");
    kubectl.run("wait pods -l app=web --for=jsonpath='{.spec.containers[0].image}'=web:2 --timeout=1m");
    kubectl.assert_prints("rollout pause deployment/web", "deployment.apps/web paused");
    kubectl.assert_refused("rollout pause deployment/web", "", "deployments.apps \"web\" is already paused");
    kubectl.run("set image deployment/web main=web:3");
    kubectl.run("wait deployment/web --for=jsonpath='{.status.conditions[?(@.type==\"Progressing\")].reason}'=DeploymentPaused --timeout=1m");
    // A paused Deployment can still be scaled; new pods have the old template.
    kubectl.run("scale deployment web --replicas=4");
    kubectl.run("wait deployment/web --for=jsonpath='{.status.readyReplicas}'=4 --timeout=1m");
    kubectl.assert_prints(IMAGES, "web:2 web:2 web:2 web:2");
    kubectl.assert_refused("rollout undo deployment/web", "", "you cannot rollback a paused deployment");
    kubectl.assert_refused("rollout restart deployment/web", "", "can't restart paused deployment");
    kubectl.assert_prints("rollout resume deployment/web", "deployment.apps/web resumed");
    kubectl.wait_for_rollout("deployment/web");
    kubectl.assert_prints("get deployment web -o jsonpath='{.status.updatedReplicas}'", "4");
}

#[test]
fn statefulsets_and_daemonsets_roll_out_and_back() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.run_with_stdin("apply -f -", STATEFULSET_AND_DAEMONSET);
    for (workload, said) in [
        ("statefulset/db", "statefulset.apps/db rolled back"),
        ("daemonset/agent", "daemonset.apps/agent rolled back"),
    ] {
        kubectl.wait_for_rollout(workload);
        kubectl.run(&format!("set image {workload} main=other:2"));
        kubectl.wait_for_rollout(workload);
        kubectl.assert_prints(&format!("rollout undo {workload}"), said);
        kubectl.wait_for_rollout(workload);
        kubectl.run(&format!("rollout restart {workload}"));
        kubectl.wait_for_rollout(workload);
        kubectl.assert_mentions(&format!("rollout history {workload}"), &["REVISION", "3", "4"]);
    }
    kubectl.run("scale statefulset db --replicas=3");
    kubectl.wait_for_rollout("statefulset/db");
    kubectl.assert_prints("get pods -l app=db -o jsonpath='{.items[*].metadata.name}'", "db-0 db-1 db-2");
    kubectl.assert_prints("get pvc -o jsonpath='{.items[*].status.phase}'", "Bound Bound Bound");
    // A claim outlives its pod and is reused by the next pod of that name.
    kubectl.run("scale statefulset db --replicas=0");
    kubectl.run("wait pods -l app=db --for=delete --timeout=1m");
    kubectl.assert_prints("get pvc -o jsonpath='{.items[*].metadata.name}'", "data-db-0 data-db-1 data-db-2");
}

#[test]
fn node_is_cordoned_and_drained() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.cluster.remove_at_end(format!("/api/v1/nodes/{}-node", kubectl.cluster.namespace));
    kubectl.run_with_stdin("apply -f -", NODE_AND_DEPLOYMENT);
    kubectl.run("wait node/{ns}-node --for=condition=Ready --timeout=1m");
    kubectl.wait_for_rollout("deployment/web");

    kubectl.assert_prints("cordon {ns}-node", "node/{ns}-node cordoned");
    kubectl.assert_prints("cordon {ns}-node", "node/{ns}-node already cordoned");
    kubectl.assert_mentions("get node {ns}-node", &["Ready,SchedulingDisabled"]);
    kubectl.run("scale deployment web --replicas=3");
    kubectl.run("wait deployment/web --for=jsonpath='{.status.unavailableReplicas}'=1 --timeout=1m");
    let pending = "get pods --field-selector status.phase=Pending -o jsonpath='{.items[*].status.conditions[0].reason}'";
    kubectl.wait_until_prints(pending, "Unschedulable");
    kubectl.assert_mentions(
        "get pods --field-selector status.phase=Pending -o jsonpath='{.items[*].status.conditions[0].message}'",
        &["1 node(s) were unschedulable"],
    );
    kubectl.assert_prints("uncordon {ns}-node", "node/{ns}-node uncordoned");
    kubectl.wait_for_rollout("deployment/web");

    // Three pods of which two must stay, and no other node accepts them: the first eviction succeeds, the next is
    // refused.
    kubectl.run("wait pdb/web --for=jsonpath='{.status.disruptionsAllowed}'=1 --timeout=1m");
    kubectl.assert_refused(
        "drain {ns}-node --ignore-daemonsets --timeout=8s",
        "",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    kubectl.run("delete pdb web");
    kubectl.run("run alone --image=web:1 --overrides='{\"spec\":{\"nodeName\":\"{ns}-node\"}}'");
    kubectl.assert_refused(
        "drain {ns}-node --ignore-daemonsets --timeout=1m",
        "",
        "cannot delete Pods that declare no controller (use --force to override)",
    );
    kubectl.assert_mentions(
        "drain {ns}-node --ignore-daemonsets --force --timeout=1m",
        &["evicting pod {ns}/alone", "node/{ns}-node drained"],
    );
    kubectl.assert_prints("get pods --field-selector spec.nodeName={ns}-node -o name", "");
    kubectl.wait_until_prints("get deployment web -o jsonpath='{.status.unavailableReplicas}'", "3");
}

#[test]
fn metrics_api_is_absent() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.assert_refused("top nodes", "", "error: Metrics API not available");
    kubectl.assert_refused("top pods", "", "error: Metrics API not available");
}

#[test]
fn logs_and_exec_report_no_containers() {
    if !only_on_embedded() {
        return;
    }
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.run_with_stdin("apply -f -", WEB);
    kubectl.wait_for_rollout("deployment/web");
    kubectl.assert_mentions("logs deployment/web", &["container \"main\" is simulated: no process runs"]);
    kubectl.assert_refused("exec deployment/web -- true", "", "there is no process in container \"main\"");
}
