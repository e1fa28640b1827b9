package chaos

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"retake/internal/container"
)

// engine is Docker.
type engine struct {
	api    *client.Client
	fleet  string // in the label of everything that belongs to this world; name of its network and of its image
	worker string // the program in workers' containers; empty: none was made
}

func openEngine(ctx context.Context, fleet string) (*engine, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	return &engine{api: api, fleet: fleet}, nil
}

func (e *engine) image() string { return "retake-chaos:" + e.fleet }

// install makes the image: the agent and nothing else.
func (e *engine) install(ctx context.Context, w *world, agent string) (path string, err error) {
	e.worker = filepath.Join(w.programs, "worker")
	data, err := os.ReadFile(agent)
	if err != nil {
		return "", err
	}
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	header := out.WriteHeader(&tar.Header{Name: "agent", Mode: 0o755, Size: int64(len(data)), ModTime: time.Unix(0, 0)})
	_, body := out.Write(data)
	if err := errors.Join(header, body, out.Close()); err != nil {
		return "", err
	}
	said, err := e.api.ImageImport(ctx, image.ImportSource{Source: &layer, SourceName: "-"}, e.image(),
		image.ImportOptions{
			Changes: []string{"LABEL " + container.LabelFleet + "=" + e.fleet},
		})
	if err != nil {
		return "", err
	}
	defer func() { _ = said.Close() }()
	text, err := io.ReadAll(said)
	if err == nil && bytes.Contains(text, []byte(`"error"`)) {
		err = fmt.Errorf("image: %s", text)
	}
	return "/agent", err
}

func (e *engine) settings(w *world) string {
	return fmt.Sprintf("runtime = %q\nimage = %q\nuser = %q\nnetwork = %q\nmounts = [%q]\nenv = { HOME = \"/tmp\" }\n",
		runtimeDocker, e.image(), workerUser(), e.fleet, w.runs()+":"+w.runs()+":rw")
}

func (e *engine) filter() filters.Args {
	return filters.NewArgs(filters.Arg("label", container.LabelFleet+"="+e.fleet))
}

func (e *engine) workers(ctx context.Context) (all []worker, err error) {
	list, err := e.api.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: e.filter()})
	for _, c := range list {
		all = append(all, worker{
			c.Labels[container.LabelAttempt], c.Labels[container.LabelTask],
			c.State == "running" || c.State == "paused",
		})
	}
	return all, err
}

func (e *engine) kill(ctx context.Context, attempt string) error {
	return e.api.ContainerKill(ctx, attempt, "SIGKILL")
}

func (e *engine) pause(ctx context.Context, attempt string) error {
	return e.api.ContainerPause(ctx, attempt)
}

func (e *engine) unpause(ctx context.Context, attempt string) error {
	return e.api.ContainerUnpause(ctx, attempt)
}

func (e *engine) remove(ctx context.Context, attempt string) error {
	return e.api.ContainerRemove(ctx, attempt, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true})
}

func (e *engine) leave(ctx context.Context, attempt, like string) error {
	info, err := e.api.ContainerInspect(ctx, like)
	if err != nil {
		return err
	}
	info.Config.Labels[container.LabelAttempt] = attempt
	_, err = e.api.ContainerCreate(ctx, &apicontainer.Config{
		Image: e.image(), Entrypoint: []string{"/agent"},
		Labels: info.Config.Labels,
	}, nil, nil, nil, attempt)
	return err
}

func (e *engine) disconnect(ctx context.Context, attempt string) error {
	return e.api.NetworkDisconnect(ctx, e.fleet, attempt, true)
}

func (e *engine) reconnect(ctx context.Context, attempt string) error {
	return e.api.NetworkConnect(ctx, e.fleet, attempt, nil)
}

// gateway makes the workers' network as the director would.
func (e *engine) gateway(ctx context.Context) (address string, err error) {
	d, err := container.OpenDocker(ctx, container.Options{Fleet: e.fleet, Network: e.fleet})
	if err != nil {
		return "", err
	}
	address, err = d.EnsureNetwork(ctx)
	return address, errors.Join(err, d.Close())
}

func (e *engine) networks(ctx context.Context) (names []string, err error) {
	list, err := e.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", e.fleet))})
	for _, n := range list {
		names = append(names, n.Name)
	}
	return names, err
}

func (e *engine) clear(ctx context.Context) error {
	var errs []error
	note := func(err error) {
		if err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	all, err := e.workers(ctx)
	note(err)
	for _, x := range all {
		note(e.remove(ctx, x.attempt))
	}
	networks, err := e.api.NetworkList(ctx, network.ListOptions{Filters: e.filter()})
	note(err)
	for _, n := range networks {
		note(e.api.NetworkRemove(ctx, n.ID))
	}
	if e.worker != "" { // a director may have put up their firewall
		d, err := container.OpenDocker(ctx, container.Options{Fleet: e.fleet, Network: e.fleet})
		note(err)
		if err == nil {
			note(errors.Join(d.RemoveRules(ctx, e.image(), e.worker), d.Close()))
		}
	}
	_, err = e.api.ImageRemove(ctx, e.image(), image.RemoveOptions{Force: true, PruneChildren: true})
	note(err)
	left, err := e.workers(ctx)
	note(err)
	names, err := e.networks(ctx)
	note(err)
	for _, x := range left {
		names = append(names, x.attempt)
	}
	if len(names) > 0 {
		note(errors.New("left behind: " + strings.Join(names, ", ")))
	}
	return errors.Join(append(errs, e.api.Close())...)
}

var _ host = (*engine)(nil)
