package main

import (
	"fmt"
	"strings"

	discovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

const resourcesHeader = `# What a Kubernetes 1.36 server serves, in its order. Written by tools/kube-schema; do not edit.
#
# GROUP/VERSION PLURAL SINGULAR KIND TYPE namespaced|cluster VERBS [short=A,B] [categories=A,B]
#  sub NAME KIND VERBS            KIND: group/version/Kind where it is not of the group version itself
#  column TYPE FORMAT PRIORITY NAME
`

// writeResources is the table of what is served: rows and subresources from discovery, columns from an
// empty list as a Table.
func writeResources(s *server, types map[string]*goType) (string, error) {
	var out strings.Builder
	out.WriteString(resourcesHeader)
	byKind := map[string]string{}
	for name, t := range types {
		short := name[strings.LastIndex(name, ".")+1:]
		for _, version := range t.kinds {
			byKind[version+" "+short] = name
		}
	}
	for _, path := range []string{"/api", "/apis"} {
		var groups discovery.APIGroupDiscoveryList
		if err := s.getJSON(path, aggregated, &groups); err != nil {
			return "", err
		}
		for _, group := range groups.Items {
			for _, version := range group.Versions {
				if !stable(version.Version) {
					continue
				}
				groupVersion := strings.TrimPrefix(group.Name+"/"+version.Version, "/")
				for _, row := range version.Resources {
					name := byKind[groupVersion+" "+row.ResponseKind.Kind]
					if name == "" {
						return "", fmt.Errorf("no type for %s %s", groupVersion, row.ResponseKind.Kind)
					}
					if err := writeResource(&out, s, path, groupVersion, name, row); err != nil {
						return "", err
					}
				}
			}
		}
	}
	return out.String(), nil
}

func writeResource(out *strings.Builder, s *server, root, groupVersion, name string, row discovery.APIResourceDiscovery) error {
	scope := "cluster"
	if row.Scope == discovery.ScopeNamespace {
		scope = "namespaced"
	}
	fmt.Fprintf(out, "%s %s %s %s %s %s %s", groupVersion, row.Resource, row.SingularResource,
		row.ResponseKind.Kind, name, scope, strings.Join(row.Verbs, ","))
	if len(row.ShortNames) > 0 {
		fmt.Fprintf(out, " short=%s", strings.Join(row.ShortNames, ","))
	}
	if len(row.Categories) > 0 {
		fmt.Fprintf(out, " categories=%s", strings.Join(row.Categories, ","))
	}
	out.WriteString("\n")
	for _, sub := range row.Subresources {
		kind := sub.ResponseKind.Kind
		if sub.ResponseKind.Version != "" {
			kind = sub.ResponseKind.Group + "/" + sub.ResponseKind.Version + "/" + kind
		}
		fmt.Fprintf(out, " sub %s %s %s\n", sub.Subresource, kind, strings.Join(sub.Verbs, ","))
	}
	for _, verb := range row.Verbs {
		if verb != "list" {
			continue
		}
		var table metav1.Table
		if err := s.getJSON(root+"/"+strings.TrimPrefix(groupVersion, "/")+"/"+row.Resource+"?limit=1", asTable, &table); err != nil {
			return err
		}
		for _, column := range table.ColumnDefinitions {
			format := column.Format
			if format == "" {
				format = "-"
			}
			fmt.Fprintf(out, " column %s %s %d %s\n", column.Type, format, column.Priority, column.Name)
		}
	}
	return nil
}
