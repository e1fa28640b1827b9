package container

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestRuntimeOfTheEngine: attempts get the configured runtime. The helper container, through which the director copies
// files, gets the engine's default runtime, because it never runs.
func TestRuntimeOfTheEngine(t *testing.T) {
	asked := map[string]string{}
	openFake(t, answers{
		"GET /info": say(http.StatusOK, `{"Runtimes":{"runc":{},"runsc":{}}}`),
		"GET /networks": say(http.StatusOK,
			`[{"Name":"n","Id":"n1","Driver":"bridge","Containers":{},"IPAM":{"Config":[{"Gateway":"10.0.0.1"}]}}]`),
		"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
			var body struct{ HostConfig struct{ Runtime string } }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			asked[r.URL.Query().Get("name")] = body.HostConfig.Runtime
			say(http.StatusCreated, `{"Id":"c1"}`)(w, r)
		},
	})
	for _, runtime := range []string{"", "runsc"} {
		d, err := OpenDocker(t.Context(), Options{Fleet: "f", Network: "n", OCI: runtime})
		if err != nil {
			t.Fatal(err)
		}
		s := goodSpec()
		if _, err := d.createOnce(t.Context(), s); err != nil {
			t.Errorf("%q: %v", runtime, err)
		}
		if err := d.throughHelper(t.Context(), "c1", s, true); err == nil {
			t.Error("files went into an unknown container")
		}
		if got := asked[s.AttemptID]; got != runtime {
			t.Errorf("the attempt got %q, want %q", got, runtime)
		}
		if got, made := asked[s.AttemptID+helperSuffix]; got != "" || !made {
			t.Errorf("the helper got %q (created: %v), want the engine's default", got, made)
		}
		holds, _, err := d.Isolation(t.Context())
		if says := strings.Contains(strings.Join(holds, "\n"), "runtime runsc"); err != nil || says != (runtime != "") {
			t.Errorf("%q: isolation reports %q, %v", runtime, holds, err)
		}
		d.Close()
	}
}

// TestRuntimeThatTheEngineLacks: Open refuses an unknown runtime, and the error has the known runtimes and the next
// step.
func TestRuntimeThatTheEngineLacks(t *testing.T) {
	for _, c := range []struct {
		info      http.HandlerFunc
		kind      error
		transient bool
		says      []string
	}{
		{
			say(http.StatusOK, `{"Runtimes":{"runc":{},"kata":{}},"DefaultRuntime":"kata"}`), ErrSpec, false,
			[]string{"runtime runsc", "kata, runc", "containers.oci_runtime", `"" selects the default, kata`},
		},
		{say(http.StatusInternalServerError, `{"message":"busy"}`), ErrDaemon, true, []string{"runtimes", "busy"}},
	} {
		openFake(t, answers{"GET /info": c.info, "GET /containers/json": say(http.StatusOK, "[]")})
		o, _ := options(t, "docker")
		o.OCI = "runsc"
		_, err := Open(t.Context(), o)
		if !errors.Is(err, c.kind) || Transient(err) != c.transient {
			t.Fatalf("got %v (transient %v), want %v", err, Transient(err), c.kind)
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
		o, _ = options(t, "process") // plain processes need the engine only to list remaining containers
		o.OCI = "runsc"
		opened(t, o)
	}
}

// TestHelperIsNoWorker: a killed director's helper does not belong to any fleet, even if its image has labels,
// and is removed once it is old.
func TestHelperIsNoWorker(t *testing.T) {
	var labels map[string]string
	removed := 0
	openFake(t, answers{
		"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Labels map[string]string }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			labels = body.Labels
			say(http.StatusCreated, `{"Id":"c1"}`)(w, r)
		},
		"GET /containers/json": func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Query().Get("filters"), labelHelper+"=f") {
				say(http.StatusOK, `[{"Id":"left","Created":1}]`)(w, r)
				return
			}
			say(http.StatusOK, "[]")(w, r)
		},
		"DELETE /containers/left": func(w http.ResponseWriter, _ *http.Request) {
			removed++
			w.WriteHeader(http.StatusNoContent)
		},
	})
	d, err := OpenDocker(t.Context(), Options{Fleet: "f", Network: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_ = d.throughHelper(t.Context(), "c1", goodSpec(), true)
	for _, name := range []string{LabelFleet, LabelAttempt} {
		if value, set := labels[name]; value != "" || !set {
			t.Errorf("%s is %q (set: %v), want an empty value that overrides the image", name, value, set)
		}
	}
	if d.firewall.sweep(t.Context()); removed != 1 {
		t.Errorf("removed %d times, want once", removed)
	}
}
