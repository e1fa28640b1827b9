package container

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
)

// labelMade identifies the creation of a program's volume. The daemon silently recreates a missing volume, empty and
// with the labels that a container requests, so only the recorded label proves that a volume is the filled one.
const labelMade = "retake.made"

// leavePatience is the maximum time that Close spends removing volumes. The next process removes the rest.
const leavePatience = 2 * time.Second

// programs manages the volumes that hold the worker's program, one per version and process. All containers of a process
// mount its volume read-only, because a copy for each would cost a second container and disk space at every start. Each
// process has separate volumes, so two processes never fill the same volume.
type programs struct {
	*engine
	mu     sync.Mutex
	names  map[binaryFile]string // names of the volumes
	filled map[string]string     // volume name → labelMade when the volume was complete
}

// binaryFile identifies the content of a file by its metadata.
type binaryFile struct {
	path string
	size int64
	at   time.Time
}

// program is the worker's program for containers.
type program struct {
	path   string // path on this process's host
	volume string // empty if the program is copied into a directory in the container
}

// of returns the program for a spec. If the spec has files, the program and the files go into a directory in the
// container instead of a volume.
func (s *programs) of(spec Spec) (program, error) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	name, known := s.names[b]
	if !known {
		name = s.prefix() + strings.ToLower(rand.Text()[:8])
		s.names[b] = name
	}
	return program{b.path, name}, nil
}

// prefix returns the common prefix of the fleet's volume names.
func (s *programs) prefix() string { return "retake-worker-" + s.fleet + "-" }

// mount returns a mount of the program's volume at Dir. NoCopy prevents the daemon from copying the image's files in
// Dir into the volume. A read-only mount prevents workers from filling the disk there.
func (p program) mount(fleet, owner string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: p.volume, Target: Dir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{
			NoCopy: true, Labels: map[string]string{
				LabelFleet: fleet, LabelOwner: owner, labelMade: rand.Text(),
			},
		},
	}
}

// provide copies the program into its volume unless the volume is complete. A container must already use the volume, so
// that Docker does not remove it.
func (s *programs) provide(ctx context.Context, image string, p program) error {
	doing := "put the worker into volume " + p.volume
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.api.VolumeInspect(ctx, p.volume)
	if err != nil {
		return failure(doing, err)
	}
	made := v.Labels[labelMade]
	if s.filled[p.volume] == made && made != "" {
		return nil
	}
	helper, err := s.createAside(ctx, s.helperConfig(image, []string{WorkerPath}),
		&apicontainer.HostConfig{Mounts: []mount.Mount{p.mount(s.fleet, s.owner, false)}, NetworkMode: "none"})
	if err != nil {
		return failure(doing, err)
	}
	err = s.copyArchive(ctx, helper.ID, Spec{AttemptID: "volume " + p.volume, WorkerBinary: p.path, User: "1:1"}, true)
	// The sweep removes leftover helpers.
	if failed := s.removeAside(ctx, helper.ID, apicontainer.RemoveOptions{}); failed != nil {
		err = errors.Join(err, failure(doing, failed))
	}
	if err == nil {
		s.filled[p.volume] = made
		s.removeUnused(ctx, func(name string) bool { return name != p.volume })
	}
	return err
}

// removeUnused removes volumes of earlier programs and processes. The daemon keeps a volume that a container uses.
// If a volume of a running process is removed, that process fills it again.
func (s *programs) removeUnused(ctx context.Context, which func(name string) bool) {
	all, err := s.api.VolumeList(ctx, volume.ListOptions{Filters: fleetFilter(s.fleet)})
	if err != nil {
		return // leftover volumes are harmless
	}
	for _, v := range all.Volumes {
		if strings.HasPrefix(v.Name, s.prefix()) && which(v.Name) {
			_ = s.api.VolumeRemove(ctx, v.Name, false)
		}
	}
}

// leave removes volumes that no container uses.
func (s *programs) leave() {
	s.mu.Lock()
	used := len(s.filled) > 0
	s.mu.Unlock()
	if !used {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	s.removeUnused(ctx, func(string) bool { return true })
}
