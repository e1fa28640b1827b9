package testbed

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"retake/internal/container"
)

// Docker is a container engine. Its network has the fleet's name.
type Docker struct {
	API    *client.Client
	Image  string // of workers
	Worker string // path of the worker program, to remove firewall rules; empty if no firewall was installed
	Fleet  string // value of the label on the fleet's objects
}

// AgentPath is the path of the agent in an image.
const AgentPath = "/agent"

// OpenDocker connects to the engine. Its error explains why the engine does not answer.
func OpenDocker(ctx context.Context, fleet string) (*Docker, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("testbed: Docker: %w; check DOCKER_HOST", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf(
			`testbed: Docker is not responding: %w; start it (e.g. "systemctl start docker"), or set DOCKER_HOST`, err),
			api.Close())
	}
	return &Docker{API: api, Image: "retake-testbed:" + fleet, Fleet: fleet}, nil
}

// Install builds an image that contains only the agent.
func (d *Docker) Install(ctx context.Context, agent string) (string, error) {
	data, err := os.ReadFile(agent)
	if err != nil {
		return "", fmt.Errorf("testbed: agent: %w", err)
	}
	return AgentPath, d.Import(ctx, &tar.Header{Name: strings.TrimPrefix(AgentPath, "/"), Mode: 0o755}, data)
}

// Import builds an image with one file and any additional empty entries.
func (d *Docker) Import(ctx context.Context, file *tar.Header, data []byte, more ...*tar.Header) error {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	file.Size = int64(len(data))
	err := w.WriteHeader(file)
	if err == nil {
		_, err = w.Write(data)
	}
	for _, h := range more {
		err = errors.Join(err, w.WriteHeader(h))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("testbed: image: %w", err)
	}
	said, err := d.API.ImageImport(ctx, image.ImportSource{Source: &layer, SourceName: "-"}, d.Image,
		image.ImportOptions{Changes: []string{"LABEL " + container.LabelFleet + "=" + d.Fleet}})
	if err != nil {
		return fmt.Errorf("testbed: image: %w", err)
	}
	text, err := io.ReadAll(said)
	if err = errors.Join(err, said.Close()); err != nil || bytes.Contains(text, []byte(`"error"`)) {
		return fmt.Errorf("testbed: image: %w: %s", err, text)
	}
	return nil
}

// Settings implements Host.
func (d *Docker) Settings() string {
	return fmt.Sprintf("runtime = %q\nimage = %q\nuser = %q\nnetwork = %q\n", RuntimeDocker, d.Image, User(), d.Fleet)
}

// Gateway creates the workers' network, as the director does, and returns the address of its gateway.
func (d *Docker) Gateway(ctx context.Context) (address string, err error) {
	err = d.runtime(ctx, func(r *container.Docker) error {
		address, err = r.EnsureNetwork(ctx)
		return err
	})
	return address, err
}

// runtime calls use with the director's runtime for this engine.
func (d *Docker) runtime(ctx context.Context, use func(*container.Docker) error) error {
	r, err := container.OpenDocker(ctx, container.Options{Fleet: d.Fleet, Network: d.Fleet})
	if err != nil {
		return err
	}
	return errors.Join(use(r), r.Close())
}

func (d *Docker) filter() filters.Args {
	return filters.NewArgs(filters.Arg("label", container.LabelFleet+"="+d.Fleet))
}

// Workers implements Host.
func (d *Docker) Workers(ctx context.Context) (all []Worker, err error) {
	list, err := d.API.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: d.filter()})
	for _, c := range list {
		all = append(all, Worker{
			c.Labels[container.LabelAttempt], c.Labels[container.LabelTask],
			c.State == "running" || c.State == "paused",
		})
	}
	return all, err
}

// Record records the engine's events.
func (d *Docker) Record() *Record {
	filter := d.filter()
	filter.Add("type", string(events.ContainerEventType))
	return NewRecord(func(ctx context.Context, r *Record) error {
		messages, failed := d.API.Events(ctx, events.ListOptions{Filters: filter})
		for {
			select {
			case m := <-messages:
				r.Add(Event{
					Action: string(m.Action), Attempt: m.Actor.Attributes[container.LabelAttempt],
					Task: m.Actor.Attributes[container.LabelTask], At: time.Unix(0, m.TimeNano),
				})
			case err := <-failed:
				return err
			}
		}
	})
}

// Kill implements Host.
func (d *Docker) Kill(ctx context.Context, attempt string) error {
	return d.API.ContainerKill(ctx, attempt, "SIGKILL")
}

// Pause implements Host.
func (d *Docker) Pause(ctx context.Context, attempt string) error {
	return d.API.ContainerPause(ctx, attempt)
}

// Unpause implements Host.
func (d *Docker) Unpause(ctx context.Context, attempt string) error {
	return d.API.ContainerUnpause(ctx, attempt)
}

// Remove implements Host.
func (d *Docker) Remove(ctx context.Context, attempt string) error {
	return d.API.ContainerRemove(ctx, attempt, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true})
}

// Leave implements Host.
func (d *Docker) Leave(ctx context.Context, attempt, like string) error {
	info, err := d.API.ContainerInspect(ctx, like)
	if err != nil {
		return err
	}
	info.Config.Labels[container.LabelAttempt] = attempt
	_, err = d.API.ContainerCreate(ctx,
		&apicontainer.Config{Image: d.Image, Entrypoint: []string{AgentPath}, Labels: info.Config.Labels},
		nil, nil, nil, attempt)
	return err
}

// Disconnect implements Host.
func (d *Docker) Disconnect(ctx context.Context, attempt string) error {
	return d.API.NetworkDisconnect(ctx, d.Fleet, attempt, true)
}

// Reconnect implements Host.
func (d *Docker) Reconnect(ctx context.Context, attempt string) error {
	return d.API.NetworkConnect(ctx, d.Fleet, attempt, nil)
}

// Networks implements Host.
func (d *Docker) Networks(ctx context.Context) (names []string, err error) {
	list, err := d.API.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", d.Fleet))})
	for _, n := range list {
		names = append(names, n.Name)
	}
	return names, err
}

// Clear implements Host.
func (d *Docker) Clear(ctx context.Context) error {
	var errs []error
	note := func(err error) {
		if err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	containers, err := d.API.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: d.filter()})
	note(err)
	for _, c := range containers {
		note(d.Remove(ctx, c.ID))
	}
	networks, err := d.API.NetworkList(ctx, network.ListOptions{Filters: d.filter()})
	note(err)
	for _, n := range networks {
		note(d.API.NetworkRemove(ctx, n.ID))
	}
	note(d.runtime(ctx, func(r *container.Docker) error { // objects left over from killed directors
		_, err := r.RemoveLeftovers(ctx, d.Fleet, 0)
		return err
	}))
	if d.Worker != "" { // the director may have installed a firewall
		note(d.runtime(ctx, func(r *container.Docker) error { return r.RemoveRules(ctx, d.Image, d.Worker) }))
	}
	_, err = d.API.ImageRemove(ctx, d.Image, image.RemoveOptions{Force: true, PruneChildren: true})
	note(err)
	left, err := d.Left(ctx)
	note(err)
	if len(left) > 0 {
		note(fmt.Errorf("testbed: left behind: %s", strings.Join(left, ", ")))
	}
	return errors.Join(errs...)
}

// Left lists all objects with the fleet's label.
func (d *Docker) Left(ctx context.Context) (out []string, err error) {
	workers, err1 := d.Workers(ctx)
	for _, w := range workers {
		out = append(out, "container "+w.Attempt)
	}
	networks, err2 := d.API.NetworkList(ctx, network.ListOptions{Filters: d.filter()})
	for _, n := range networks {
		out = append(out, "network "+n.Name)
	}
	volumes, err3 := d.API.VolumeList(ctx, volume.ListOptions{Filters: d.filter()})
	for _, v := range volumes.Volumes {
		out = append(out, "volume "+v.Name)
	}
	images, err4 := d.API.ImageList(ctx, image.ListOptions{Filters: d.filter()})
	for _, i := range images {
		out = append(out, "image "+strings.Join(i.RepoTags, " "))
	}
	return out, errors.Join(err1, err2, err3, err4)
}

// Close implements Host.
func (d *Docker) Close() error { return d.API.Close() }

var _ Host = (*Docker)(nil)
