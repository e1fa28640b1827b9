package container

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// scratch lists directories that programs expect to be writable in any image. Their content is held in memory and
// counts against the container's limit.
var scratch = []string{"/tmp", "/var/tmp", "/run"}

// writable returns the writable directories of a container with a read-only root, in addition to its checkout and
// mounts. They are directories in memory, and anonymous volumes that are removed with the container. If the spec has
// files, Dir is a volume, because the daemon copies files only into volumes. The home is a volume, because it starts
// with the image's content.
func writable(spec Spec, home string, p program) (memory map[string]string, volumes []mount.Mount) {
	taken := []string{spec.Workdir}
	for _, m := range spec.Mounts {
		taken = append(taken, m.Target)
	}
	memory = map[string]string{}
	for _, p := range append(slices.Clone(scratch), spec.Scratch...) {
		if !slices.Contains(taken, p) {
			memory[p] = tmpOptions
		}
	}
	if p.volume == "" {
		volumes = append(volumes, mount.Mount{Type: mount.TypeVolume, Target: Dir})
	}
	for p := range memory {
		taken = append(taken, p)
	}
	if home != "" && home != "/" && !within(home, Dir) &&
		!slices.ContainsFunc(taken, func(t string) bool { return within(home, t) }) {
		volumes = append(volumes, mount.Mount{Type: mount.TypeVolume, Target: home})
	}
	return memory, volumes
}

// homes caches the home directory for each image and user.
type homes struct {
	*engine
	mu    sync.Mutex
	found map[homeKey]string
}

type homeKey struct{ image, user string }

// of returns HOME as the worker will see it, from the spec or else from the image's settings or /etc/passwd. known is
// false if the caller must first read /etc/passwd in a container from the image.
func (h *homes) of(ctx context.Context, spec Spec) (home string, known bool) {
	if home, ok := variable(spec.Env, "HOME"); ok {
		return path.Clean(home), true
	}
	info, err := h.api.ImageInspect(ctx, spec.Image)
	if err == nil && info.Config != nil {
		if home, ok := variable(info.Config.Env, "HOME"); ok {
			return path.Clean(home), true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	home, known = h.found[homeKey{info.ID, spec.User}]
	return home, known
}

func variable(env []string, name string) (value string, ok bool) {
	for _, e := range env {
		if v, is := strings.CutPrefix(e, name+"="); is {
			value, ok = v, strings.HasPrefix(v, "/")
		}
	}
	return value, ok
}

// learn reads the home from /etc/passwd of a created container.
func (h *homes) learn(ctx context.Context, id string, spec Spec) (string, error) {
	uid, _, err := spec.IDs()
	if err != nil {
		return "", err
	}
	home := ""
	content, _, err := h.api.CopyFromContainer(ctx, id, "/etc/passwd")
	switch {
	case cerrdefs.IsNotFound(err):
	case err != nil:
		return "", failure("read the users of image "+spec.Image, err)
	default:
		home, err = homeIn(content, uid)
		if err = errors.Join(err, content.Close()); err != nil {
			return "", failure("read the users of image "+spec.Image, err)
		}
	}
	info, err := h.api.ImageInspect(ctx, spec.Image)
	if err != nil {
		return "", failure("find image "+spec.Image, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found[homeKey{info.ID, spec.User}] = home
	return home, nil
}

// homeIn finds a user's home in an archive that contains /etc/passwd.
func homeIn(archive io.Reader, uid int) (string, error) {
	t := tar.NewReader(archive)
	header, err := t.Next()
	if err != nil || header.Typeflag != tar.TypeReg {
		return "", err
	}
	lines := bufio.NewScanner(io.LimitReader(t, 1<<20))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), ":"); len(f) >= 6 && f[2] == strconv.Itoa(uid) && clean(f[5]) {
			return f[5], nil
		}
	}
	return "", lines.Err()
}

// createReadOnly creates a container with a read-only root. For the first container of an image it reads the user's
// home, and recreates the container if the home needs a mount.
func (d *Docker) createReadOnly(ctx context.Context, spec Spec, create func(home string) (apicontainer.CreateResponse,
	error),
) (apicontainer.CreateResponse, error) {
	home, known := d.homes.of(ctx, spec)
	made, err := create(home)
	if err != nil || known {
		return made, err
	}
	if home, err = d.homes.learn(ctx, made.ID, spec); err != nil || home == "" {
		return made, err
	}
	if err := d.remove(ctx, made.ID, spec.AttemptID); err != nil {
		return made, err
	}
	return create(home)
}

// helperSuffix is the suffix of a helper's name. A helper passes files to another container and never runs.
const helperSuffix = "-files"

// labelHelper is the label that names a helper's fleet.
const labelHelper = "retake.files"

// helperConfig configures a helper. It overrides image labels that would make the helper look like a worker.
func (e *engine) helperConfig(image string, entrypoint []string) *apicontainer.Config {
	return &apicontainer.Config{
		Image: image, Entrypoint: entrypoint,
		Labels: map[string]string{labelHelper: e.fleet, LabelFleet: "", LabelAttempt: ""},
	}
}

// throughHelper copies files into a container with a read-only root. The daemon refuses to copy into such a container,
// and would not change the owner of a volume's root, so throughHelper copies them into a helper with the same volumes.
func (e *engine) throughHelper(ctx context.Context, id string, spec Spec, withWorker bool) error {
	if err := e.removeHelper(ctx, spec.AttemptID); err != nil { // left by an interrupted Ensure
		return err
	}
	made, err := e.api.ContainerCreate(ctx, e.helperConfig(spec.Image, spec.Entrypoint),
		&apicontainer.HostConfig{VolumesFrom: []string{id}, NetworkMode: "none"}, nil, nil, spec.AttemptID+helperSuffix)
	if err != nil {
		return failure("copy files into "+spec.AttemptID, err)
	}
	return errors.Join(e.copyArchive(ctx, made.ID, spec, withWorker),
		e.removeHelper(context.WithoutCancel(ctx), spec.AttemptID))
}

// removeHelper removes a helper but not the volumes, which belong to another container.
func (e *engine) removeHelper(ctx context.Context, attemptID string) error {
	ctx, cancel := context.WithTimeout(ctx, e.limits.operation)
	defer cancel()
	err := e.api.ContainerRemove(ctx, attemptID+helperSuffix, apicontainer.RemoveOptions{})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return failure("remove "+attemptID+helperSuffix, err)
	}
	return nil
}

// copyArchive streams a spec's tar archive instead of buffering it, because the worker's program is tens of megabytes
// long.
func (e *engine) copyArchive(ctx context.Context, id string, spec Spec, withWorker bool) error {
	var worker io.Reader
	var size int64
	if withWorker {
		f, n, err := openWorker(spec)
		if err != nil {
			return err
		}
		defer f.Close()
		worker, size = f, n
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := archive(w, spec, worker, size)
		w.CloseWithError(err)
		written <- err
	}()
	err := e.api.CopyToContainer(ctx, id, "/", r, apicontainer.CopyToContainerOptions{})
	r.CloseWithError(errors.New("the daemon has stopped reading"))
	archiveErr := <-written
	if err != nil {
		return failure("copy files into "+spec.AttemptID, errors.Join(err, archiveErr))
	}
	return nil
}
