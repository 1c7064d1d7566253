package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	//go:embed objects/node.yaml
	nodeText string
	//go:embed objects/cluster.yaml
	clusterText string
	//go:embed objects/hook-stage.yaml
	hookStage string
)

const nodeCount = 3

// objects is what a cluster has from its beginning: nodes, and unless it is bare, what an installer writes.
func (c *cluster) objects() string {
	texts := make([]string, 0, nodeCount+1)
	capacity := `{cpu: "32", memory: 256Gi, pods: "110"}`
	if !c.bare {
		// Charts ask for it, and the nodes of the recordings have none.
		capacity = `{cpu: "32", memory: 256Gi, pods: "110", ephemeral-storage: 256Gi}`
	}
	for number := 1; number <= nodeCount; number++ {
		fill := strings.NewReplacer("NODE", fmt.Sprintf("node-%d", number), "CAPACITY", capacity)
		texts = append(texts, fill.Replace(nodeText))
	}
	if !c.bare {
		fill := strings.NewReplacer("SERVER", c.server, "AUTHORITY", base64.StdEncoding.EncodeToString(c.authority.text))
		texts = append(texts, fill.Replace(clusterText))
	}
	return strings.Join(texts, "\n---\n")
}

// clients are an administrator's.
type clients struct {
	typed   *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

func newClients(folder folder) (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", folder.path(adminConfig))
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamic, err := dynamic.NewForConfig(config)
	return &clients{typed, dynamic}, err
}

func (c *clients) answers(ctx context.Context) error {
	_, err := c.typed.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

// create makes the objects of a YAML text. Those that exist are left alone, so that it can be repeated.
func (c *clients) create(ctx context.Context, text string) error {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.typed.Discovery()))
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		// An object outside of namespaces has none, and is asked for in none.
		resource := c.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
		_, err = resource.Create(ctx, object, meta.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
}

// settled tells whether controllers, scheduler and kwok have done what they do first.
func (c *clients) settled(ctx context.Context, bare bool) error {
	nodes, err := c.typed.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if !ready(node) || len(node.Spec.Taints) > 0 || !bare && node.Spec.PodCIDR == "" {
			return fmt.Errorf("%s is not ready", node.Name)
		}
	}
	if _, err := c.typed.CoreV1().ServiceAccounts("default").Get(ctx, "default", meta.GetOptions{}); err != nil {
		return err
	}
	_, err = c.typed.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", meta.GetOptions{})
	return err
}

func ready(node core.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady {
			return condition.Status == core.ConditionTrue
		}
	}
	return false
}
