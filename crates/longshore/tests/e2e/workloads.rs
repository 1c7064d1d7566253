//! Workloads with kubectl: rollout and rollback, pause, drain, and the statuses they report.

use crate::clients::Client;
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

const OTHERS: &str = "
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
const BERTH: &str = "
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

impl Client {
    /// Waits until the rollout is complete.
    fn rolled_out(&self, workload: &str) {
        self.ok(&format!("rollout status {workload} --timeout=2m"));
    }
}

#[test]
fn a_deployment_rolls_out_and_back() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.with("apply -f -", WEB);
    kubectl.mentions(
        "rollout status deployment/web --timeout=2m",
        &["deployment \"web\" successfully rolled out"],
    );
    kubectl.ok("scale deployment web --replicas=5");
    kubectl.rolled_out("deployment/web");
    kubectl.prints(
        "get deployment web -o jsonpath='{.status.replicas} {.status.readyReplicas} {.status.availableReplicas}'",
        "5 5 5",
    );
    kubectl.ok("scale deployment web --replicas=2");
    kubectl.rolled_out("deployment/web");

    kubectl.ok("set image deployment/web main=web:2");
    kubectl.rolled_out("deployment/web");
    kubectl.ok("wait pods -l app=web --for=jsonpath='{.spec.containers[0].image}'=web:2 --timeout=1m");
    kubectl.mentions("rollout history deployment/web", &["REVISION", "1 ", "2 "]);
    kubectl.mentions("rollout history deployment/web --revision=1", &["web:1"]);
    kubectl.prints("rollout undo deployment/web", "deployment.apps/web rolled back");
    kubectl.rolled_out("deployment/web");
    kubectl.prints(
        "get deployment web -o jsonpath='{.spec.template.spec.containers[0].image} {.metadata.annotations.deployment\\.kubernetes\\.io/revision}'",
        "web:1 3",
    );

    kubectl.prints("rollout restart deployment/web", "deployment.apps/web restarted");
    kubectl.rolled_out("deployment/web");
    let restarted = "get deployment web -o jsonpath='{.spec.template.metadata.annotations}'";
    kubectl.mentions(restarted, &["kubectl.kubernetes.io/restartedAt"]);
    kubectl.mentions(
        "describe deployment web",
        &["ScalingReplicaSet", "2 desired | 2 updated | 2 total | 2 available"],
    );
}

#[test]
fn a_paused_deployment_waits() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.with("apply -f -", WEB);
    kubectl.rolled_out("deployment/web");
    kubectl.ok("set image deployment/web main=web:2");
    kubectl.rolled_out("deployment/web");
    kubectl.ok("wait pods -l app=web --for=jsonpath='{.spec.containers[0].image}'=web:2 --timeout=1m");
    kubectl.prints("rollout pause deployment/web", "deployment.apps/web paused");
    kubectl.refuses("rollout pause deployment/web", "", "deployments.apps \"web\" is already paused");
    kubectl.ok("set image deployment/web main=web:3");
    kubectl.ok("wait deployment/web --for=jsonpath='{.status.conditions[?(@.type==\"Progressing\")].reason}'=DeploymentPaused --timeout=1m");
    // A paused Deployment can still be scaled; new pods have the old template.
    kubectl.ok("scale deployment web --replicas=4");
    kubectl.ok("wait deployment/web --for=jsonpath='{.status.readyReplicas}'=4 --timeout=1m");
    kubectl.prints(IMAGES, "web:2 web:2 web:2 web:2");
    kubectl.refuses("rollout undo deployment/web", "", "you cannot rollback a paused deployment");
    kubectl.refuses("rollout restart deployment/web", "", "can't restart paused deployment");
    kubectl.prints("rollout resume deployment/web", "deployment.apps/web resumed");
    kubectl.rolled_out("deployment/web");
    kubectl.prints("get deployment web -o jsonpath='{.status.updatedReplicas}'", "4");
}

#[test]
fn statefulsets_and_daemonsets_roll_out_and_back() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.with("apply -f -", OTHERS);
    for (workload, said) in [
        ("statefulset/db", "statefulset.apps/db rolled back"),
        ("daemonset/agent", "daemonset.apps/agent rolled back"),
    ] {
        kubectl.rolled_out(workload);
        kubectl.ok(&format!("set image {workload} main=other:2"));
        kubectl.rolled_out(workload);
        kubectl.prints(&format!("rollout undo {workload}"), said);
        kubectl.rolled_out(workload);
        kubectl.ok(&format!("rollout restart {workload}"));
        kubectl.rolled_out(workload);
        kubectl.mentions(&format!("rollout history {workload}"), &["REVISION", "3", "4"]);
    }
    kubectl.ok("scale statefulset db --replicas=3");
    kubectl.rolled_out("statefulset/db");
    kubectl.prints("get pods -l app=db -o jsonpath='{.items[*].metadata.name}'", "db-0 db-1 db-2");
    kubectl.prints("get pvc -o jsonpath='{.items[*].status.phase}'", "Bound Bound Bound");
    // A claim outlives its pod and is reused by the next pod of that name.
    kubectl.ok("scale statefulset db --replicas=0");
    kubectl.ok("wait pods -l app=db --for=delete --timeout=1m");
    kubectl.prints("get pvc -o jsonpath='{.items[*].metadata.name}'", "data-db-0 data-db-1 data-db-2");
}

#[test]
fn a_node_is_cordoned_and_drained() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.cluster.removes(format!("/api/v1/nodes/{}-node", kubectl.cluster.namespace));
    kubectl.with("apply -f -", BERTH);
    kubectl.ok("wait node/{ns}-node --for=condition=Ready --timeout=1m");
    kubectl.rolled_out("deployment/web");

    kubectl.prints("cordon {ns}-node", "node/{ns}-node cordoned");
    kubectl.prints("cordon {ns}-node", "node/{ns}-node already cordoned");
    kubectl.mentions("get node {ns}-node", &["Ready,SchedulingDisabled"]);
    kubectl.ok("scale deployment web --replicas=3");
    kubectl.ok("wait deployment/web --for=jsonpath='{.status.unavailableReplicas}'=1 --timeout=1m");
    let pending = "get pods --field-selector status.phase=Pending -o jsonpath='{.items[*].status.conditions[0].reason}'";
    kubectl.eventually(pending, "Unschedulable");
    kubectl.mentions(
        "get pods --field-selector status.phase=Pending -o jsonpath='{.items[*].status.conditions[0].message}'",
        &["1 node(s) were unschedulable"],
    );
    kubectl.prints("uncordon {ns}-node", "node/{ns}-node uncordoned");
    kubectl.rolled_out("deployment/web");

    // Three pods of which two must stay, and no other node accepts them: the first eviction succeeds, the next is
    // refused.
    kubectl.ok("wait pdb/web --for=jsonpath='{.status.disruptionsAllowed}'=1 --timeout=1m");
    kubectl.refuses(
        "drain {ns}-node --ignore-daemonsets --timeout=8s",
        "",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    kubectl.ok("delete pdb web");
    kubectl.ok("run alone --image=web:1 --overrides='{\"spec\":{\"nodeName\":\"{ns}-node\"}}'");
    kubectl.refuses(
        "drain {ns}-node --ignore-daemonsets --timeout=1m",
        "",
        "cannot delete Pods that declare no controller (use --force to override)",
    );
    kubectl.mentions(
        "drain {ns}-node --ignore-daemonsets --force --timeout=1m",
        &["evicting pod {ns}/alone", "node/{ns}-node drained"],
    );
    kubectl.prints("get pods --field-selector spec.nodeName={ns}-node -o name", "");
    kubectl.eventually("get deployment web -o jsonpath='{.status.unavailableReplicas}'", "3");
}

#[test]
fn there_are_no_metrics() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.refuses("top nodes", "", "error: Metrics API not available");
    kubectl.refuses("top pods", "", "error: Metrics API not available");
}

#[test]
fn logs_and_exec_say_that_nothing_runs() {
    if !only_on_embedded() {
        return;
    }
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.with("apply -f -", WEB);
    kubectl.rolled_out("deployment/web");
    kubectl.mentions("logs deployment/web", &["container \"main\" is simulated: no process runs"]);
    kubectl.refuses("exec deployment/web -- true", "", "there is no process in container \"main\"");
}
