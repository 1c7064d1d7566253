package main

import (
	"encoding/json"
	"sort"
	"strings"
)

// writeRBAC gives the roles and bindings that the server has made by itself, one per line: metadata
// reduced to what is not of this one server.
func writeRBAC(s *server) (string, error) {
	var lines []string
	for _, plural := range []string{"clusterrolebindings", "clusterroles", "rolebindings", "roles"} {
		var list struct {
			Kind  string
			Items []map[string]any
		}
		if err := s.getJSON("/apis/rbac.authorization.k8s.io/v1/"+plural, "application/json", &list); err != nil {
			return "", err
		}
		for _, item := range list.Items {
			item["apiVersion"] = "rbac.authorization.k8s.io/v1"
			item["kind"] = strings.TrimSuffix(list.Kind, "List")
			kept := map[string]any{}
			for _, name := range []string{"name", "namespace", "labels", "annotations"} {
				if value, ok := item["metadata"].(map[string]any)[name]; ok {
					kept[name] = value
				}
			}
			item["metadata"] = kept
			line, err := json.Marshal(item)
			if err != nil {
				return "", err
			}
			lines = append(lines, string(line))
		}
	}
	sort.Strings(lines)
	return "[\n" + strings.Join(lines, ",\n") + "\n]\n", nil
}
