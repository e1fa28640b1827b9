package container

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
)

// labelMade says which making of a container made a program's volume. The engine makes one that is not there
// with the labels that the container asks for, empty: so a volume of the same name with another label is not
// the one that was filled.
const labelMade = "retake.made"

// leavePatience is how long the end waits for the engine. The next one finds the volume.
const leavePatience = 2 * time.Second

// programs are the volumes with the worker's program in it, one for each version and process: all containers
// that a process makes with it have it mounted read-only. A copy for each of them cost a second container, and
// its size on the engine's disk, at every start. No two processes share one, so what one finds half filled is
// its own.
type programs struct {
	mu     sync.Mutex
	names  map[binaryFile]string // of their volumes
	filled map[string]string     // by the volume's name: its labelMade when it had all of the program
}

// binaryFile is one content of a file, as far as its surroundings tell.
type binaryFile struct {
	path string
	size int64
	at   time.Time
}

// program is the worker's program as containers get it.
type program struct {
	path   string // on this process's side
	volume string
}

// programOf names the volume of a spec's program. A spec with files has none: it gets a folder of its own, with
// the program in it.
func (d *Docker) programOf(spec Spec) (program, error) {
	if len(spec.Files) > 0 {
		return program{}, nil
	}
	f, size, err := openWorker(spec)
	if err != nil {
		return program{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return program{}, refused("attempt "+spec.AttemptID, "%w", err)
	}
	b := binaryFile{spec.WorkerBinary, size, info.ModTime()}
	d.programs.mu.Lock()
	defer d.programs.mu.Unlock()
	name, known := d.programs.names[b]
	if !known {
		name = programPrefix(d.fleet) + strings.ToLower(rand.Text()[:8])
		d.programs.names[b] = name
	}
	return program{b.path, name}, nil
}

// programPrefix begins the names of a fleet's volumes.
func programPrefix(fleet string) string { return "retake-worker-" + fleet + "-" }

// mount shows the program at WorkerPath. Nobody writes to Dir: not a worker, which fills no disk there, and not
// the image, whose own Dir would be copied.
func (p program) mount(fleet string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: p.volume, Target: Dir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{
			NoCopy: true, Labels: map[string]string{LabelFleet: fleet, labelMade: rand.Text()},
		},
	}
}

// provide makes sure that the program's volume, which a container holds, has all of it.
func (d *Docker) provide(ctx context.Context, image string, p program) error {
	doing := "put the worker into volume " + p.volume
	d.programs.mu.Lock()
	defer d.programs.mu.Unlock()
	v, err := d.api.VolumeInspect(ctx, p.volume)
	if err != nil {
		return failure(doing, err)
	}
	made := v.Labels[labelMade]
	if d.programs.filled[p.volume] == made && made != "" {
		return nil
	}
	helper, err := d.createAside(ctx, &apicontainer.Config{
		// an image may have them: it is no worker
		Image: image, Entrypoint: []string{WorkerPath}, Labels: map[string]string{
			labelHelper: d.fleet, LabelFleet: "",
			LabelAttempt: "",
		},
	}, &apicontainer.HostConfig{Mounts: []mount.Mount{p.mount(d.fleet, false)}, NetworkMode: "none"})
	if err != nil {
		return failure(doing, err)
	}
	err = d.copyArchive(ctx, helper.ID, Spec{AttemptID: "volume " + p.volume, WorkerBinary: p.path, User: "1:1"}, true)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.limits.confirm)
	defer cancel()
	// the sweep removes it
	if failed := d.api.ContainerRemove(ending, helper.ID, apicontainer.RemoveOptions{}); failed != nil &&
		!cerrdefs.IsNotFound(failed) {
		err = errors.Join(err, failure(doing, failed))
	}
	if err == nil {
		d.programs.filled[p.volume] = made
		d.removePrograms(ctx, func(name string) bool { return name != p.volume })
	}
	return err
}

// createAside makes a container that is no attempt, and that the caller removes. The engine goes on with it
// when the asker goes away, and it would be nobody's: so the end of ctx is found out by what comes next.
func (d *Docker) createAside(ctx context.Context, config *apicontainer.Config,
	host *apicontainer.HostConfig,
) (apicontainer.CreateResponse, error) {
	if err := ctx.Err(); err != nil {
		return apicontainer.CreateResponse{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.limits.operation)
	defer cancel()
	return d.api.ContainerCreate(ctx, config, host, nil, nil, "")
}

// removePrograms removes those of this fleet's volumes that nobody uses: of programs and processes of before.
// The engine keeps one that a container has, and a process that still lives and finds its own gone fills it
// again.
func (d *Docker) removePrograms(ctx context.Context, which func(name string) bool) {
	all, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: fleetFilter(d.fleet)})
	if err != nil {
		return // they are in nobody's way
	}
	for _, v := range all.Volumes {
		if strings.HasPrefix(v.Name, programPrefix(d.fleet)) && which(v.Name) {
			_ = d.api.VolumeRemove(ctx, v.Name, false)
		}
	}
}

// leavePrograms removes the volume that no container has.
func (d *Docker) leavePrograms() {
	d.programs.mu.Lock()
	used := len(d.programs.filled) > 0
	d.programs.mu.Unlock()
	if !used {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	d.removePrograms(ctx, func(string) bool { return true })
}
