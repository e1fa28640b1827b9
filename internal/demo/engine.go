package demo

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	retake "retake/internal/container"
)

// engine is Docker as the demo uses it, beside the director: to make an image, to inject faults, to look, and
// to clean up.
type engine struct {
	api    *client.Client
	fleet  string // in the label of everything that belongs to this run
	image  string
	worker string // the program in workers' containers; empty: none was made
}

// agentPath is where the image has the agent.
const agentPath = "/demo-agent"

func openEngine(ctx context.Context, fleet string) (*engine, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("demo: Docker: %w; correct DOCKER_HOST", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf(
			`demo: Docker does not answer: %w; start it (e.g. "systemctl start docker"), or set DOCKER_HOST`, err),
			api.Close())
	}
	return &engine{api: api, fleet: fleet, image: imageOf(fleet)}, nil
}

func imageOf(fleet string) string { return "retake-demo:" + strings.TrimPrefix(fleet, "demo-") }

// installAgent makes the image: the agent and nothing else.
func (e *engine) installAgent(ctx context.Context, agent string) (path string, err error) {
	e.worker = filepath.Join(filepath.Dir(agent), "worker")
	data, err := os.ReadFile(agent)
	if err != nil {
		return "", fmt.Errorf("demo: agent: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = errors.Join(
		w.WriteHeader(&tar.Header{
			Name: strings.TrimPrefix(agentPath, "/"), Mode: 0o755, Size: int64(len(data)),
			ModTime: time.Unix(0, 0),
		}),
		second(w.Write(data)), w.Close(),
	)
	if err != nil {
		return "", fmt.Errorf("demo: image: %w", err)
	}
	said, err := e.api.ImageImport(ctx, image.ImportSource{Source: &layer, SourceName: "-"}, e.image,
		image.ImportOptions{
			Message: "Retake's demo", Changes: []string{"LABEL " + retake.LabelFleet + "=" + e.fleet},
		})
	if err != nil {
		return "", fmt.Errorf("demo: image: %w", err)
	}
	defer said.Close()
	if text, err := io.ReadAll(said); err != nil || bytes.Contains(text, []byte(`"error"`)) {
		return "", fmt.Errorf("demo: image: %w: %s", err, text)
	}
	return agentPath, nil
}

func second(_ int, err error) error { return err }

// gateway makes the workers' network, as the director would, and returns our address in it.
func (e *engine) gateway(ctx context.Context) (address string, err error) {
	d, err := retake.OpenDocker(ctx, retake.Options{Fleet: e.fleet, Network: e.fleet})
	if err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	address, err = d.EnsureNetwork(ctx)
	return address, errors.Join(err, d.Close())
}

// memoryLimit is enough for go test, and little for an agent that has lost its way.
const memoryLimit = "1GiB"

func (e *engine) settings(s *testbed) string {
	return fmt.Sprintf("runtime = %q\nimage = %q\nuser = %q\nnetwork = %q\nmemory = %q\ncpus = 1.0\nmounts = [%s]\n"+
		"reachable = [%q, %q]\n",
		runtimeDocker, e.image, s.user, e.fleet, memoryLimit, s.mounts("/cache"), hostOf(s.model.url),
		hostOf(s.providerURL))
}

func (e *engine) sections(*testbed) (string, error) { return "", nil }

// hostOf is where a stand-in answers, which is this machine: workers reach only what is named of it.
func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Host
}

// env: the image has nothing that says where home is.
func (e *engine) env(*testbed) map[string]string {
	return map[string]string{"HOME": "/tmp", "GOCACHE": "/cache"}
}

func (e *engine) keeps(s *testbed, file string) (bool, error) {
	return inCheckouts(s.checkouts(), file)
}

// inject does to a container what the kernel or an operator could: nobody in it is asked.
func (e *engine) inject(ctx context.Context, attempt string, h fault) (err error) {
	switch h {
	case faultKill:
		err = e.api.ContainerKill(ctx, attempt, "SIGKILL")
	case faultFreeze:
		err = e.api.ContainerPause(ctx, attempt)
	}
	if err != nil {
		return fmt.Errorf("demo: %s: %s: %w", attempt, h, err)
	}
	return nil
}

func (e *engine) fleetFilter() filters.Args {
	return filters.NewArgs(filters.Arg("label", retake.LabelFleet+"="+e.fleet))
}

// clear removes everything of this run, then looks whether anything is left.
func (e *engine) clear(ctx context.Context) error {
	var errs []error
	note := func(err error) {
		if err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	containers, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: e.fleetFilter()})
	note(err)
	for _, c := range containers {
		note(e.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	}
	networks, err := e.api.NetworkList(ctx, network.ListOptions{Filters: e.fleetFilter()})
	note(err)
	for _, n := range networks {
		note(e.api.NetworkRemove(ctx, n.ID))
	}
	if e.worker != "" { // a director may have put up their firewall
		d, err := retake.OpenDocker(ctx, retake.Options{Fleet: e.fleet, Network: e.fleet})
		note(err)
		if err == nil {
			note(errors.Join(d.RemoveRules(ctx, e.image, e.worker), d.Close()))
		}
	}
	_, err = e.api.ImageRemove(ctx, e.image, image.RemoveOptions{Force: true, PruneChildren: true})
	note(err)
	left, err := e.left(ctx)
	note(err)
	if len(left) > 0 {
		note(fmt.Errorf("demo: left behind: %s", strings.Join(left, ", ")))
	}
	return errors.Join(errs...)
}

func (e *engine) close() error { return e.api.Close() }

var _ host = (*engine)(nil)

// workers lists the containers of the run, running or not.
func (e *engine) workers(ctx context.Context) (out []string, err error) {
	containers, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: e.fleetFilter()})
	for _, c := range containers {
		out = append(out, "container "+strings.Join(c.Names, " "))
	}
	return out, err
}

// left lists what carries the run's label.
func (e *engine) left(ctx context.Context) ([]string, error) {
	out, err1 := e.workers(ctx)
	networks, err2 := e.api.NetworkList(ctx, network.ListOptions{Filters: e.fleetFilter()})
	for _, n := range networks {
		out = append(out, "network "+n.Name)
	}
	volumes, err3 := e.api.VolumeList(ctx, volume.ListOptions{Filters: e.fleetFilter()})
	for _, v := range volumes.Volumes {
		out = append(out, "volume "+v.Name)
	}
	images, err4 := e.api.ImageList(ctx, image.ListOptions{Filters: e.fleetFilter()})
	for _, i := range images {
		out = append(out, "image "+strings.Join(i.RepoTags, " "))
	}
	return out, errors.Join(err1, err2, err3, err4)
}
