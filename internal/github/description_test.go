package github

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"retake/internal/testfiles"
)

// description is GitHub's own description of its API, joined by ours of what it lacks.
var description = sync.OnceValues(func() (routers.Router, error) {
	path, err := testfiles.OpenAPI()
	if err != nil {
		return nil, err
	}
	data, err := join(path, filepath.Join("testdata", "schemas", "ours.json"))
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	api := strings.TrimSuffix(testAPI, "/")
	doc.Servers = openapi3.Servers{{URL: api}, {URL: strings.TrimSuffix(api, "/v3")}} // GraphQL lies beside
	return legacy.NewRouter(doc, openapi3.DisableExamplesValidation())
})

// join adds our description to GitHub's. What GitHub describes, ours must not describe.
func join(theirs, ours string) ([]byte, error) {
	var all [2]struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	for n, file := range []string{theirs, ours} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &all[n]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	to := all[0]
	for path, methods := range all[1].Paths {
		for method, op := range methods {
			if to.Paths[path][method] != nil {
				return nil, fmt.Errorf("%s: %s %s is GitHub's", ours, method, path)
			}
			if to.Paths[path] == nil {
				to.Paths[path] = map[string]json.RawMessage{}
			}
			to.Paths[path][method] = op
		}
	}
	for name, schema := range all[1].Components["schemas"] {
		if to.Components["schemas"][name] != nil {
			return nil, fmt.Errorf("%s: schema %s is GitHub's", ours, name)
		}
		to.Components["schemas"][name] = schema
	}
	for path, item := range to.Paths {
		if wide, ok := strings.CutSuffix(path, "/{ref}"); ok { // names of branches have slashes
			to.Paths[wide+"/{ref*}"] = item
			delete(to.Paths, path)
		}
	}
	return json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]string{"title": "GitHub", "version": "as we use it"}, "paths": to.Paths, "components": to.Components,
	})
}
