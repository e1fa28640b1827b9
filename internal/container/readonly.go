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

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// scratch are the folders where programs expect to write, whatever the image. They are in memory, which the
// container's limit bounds.
var scratch = []string{"/tmp", "/var/tmp", "/run"}

// writable is what a container with a read-only root file system gets to write to, beside its checkout and its
// mounts: folders in memory, and volumes without a name, which go with it. Dir is one if files are put there,
// which the engine does only in a volume; the home is one, since it begins with what the image has there.
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

// homes are found once for an image and a user.
type homeKey struct{ image, user string }

// home is HOME as the worker will have it: the spec's, or the image's, or that of the user in the image's
// /etc/passwd, as the engine sets it. known is false if a container of the image has to be looked into first.
func (d *Docker) home(ctx context.Context, spec Spec) (home string, known bool) {
	if home, ok := variable(spec.Env, "HOME"); ok {
		return path.Clean(home), true
	}
	info, err := d.api.ImageInspect(ctx, spec.Image)
	if err == nil && info.Config != nil {
		if home, ok := variable(info.Config.Env, "HOME"); ok {
			return path.Clean(home), true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	home, known = d.homes[homeKey{info.ID, spec.User}]
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

// learnHome reads it in a container that was created.
func (d *Docker) learnHome(ctx context.Context, id string, spec Spec) (string, error) {
	uid, _, err := spec.IDs()
	if err != nil {
		return "", err
	}
	home := ""
	content, _, err := d.api.CopyFromContainer(ctx, id, "/etc/passwd")
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
	info, err := d.api.ImageInspect(ctx, spec.Image)
	if err != nil {
		return "", failure("look for image "+spec.Image, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.homes[homeKey{info.ID, spec.User}] = home
	return home, nil
}

// homeIn finds a user's home in an archive of passwd(5).
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

// createReadOnly makes a container that can write where it must. The first one of an image is looked into, and
// made anew if it needs a home.
func (d *Docker) createReadOnly(ctx context.Context, spec Spec, create func(home string) (apicontainer.CreateResponse,
	error),
) (apicontainer.CreateResponse, error) {
	home, known := d.home(ctx, spec)
	made, err := create(home)
	if err != nil || known {
		return made, err
	}
	if home, err = d.learnHome(ctx, made.ID, spec); err != nil || home == "" {
		return made, err
	}
	if err := d.remove(ctx, made.ID, spec.AttemptID); err != nil {
		return made, err
	}
	return create(home)
}

// helperSuffix ends the name of the container through which another one gets its files. It is never started,
// and no attempt.
const helperSuffix = "-files"

// throughHelper copies into a container whose root file system is read-only: the engine refuses that, and in a
// volume's root it would not give it an owner. What has the same volumes and another root file system is
// unpacked into instead.
func (d *Docker) throughHelper(ctx context.Context, id string, spec Spec, withWorker bool) error {
	if err := d.removeHelper(ctx, spec.AttemptID); err != nil { // of an Ensure that was cut off
		return err
	}
	made, err := d.api.ContainerCreate(ctx, &apicontainer.Config{
		// an image may have them: it is no worker
		Image: spec.Image, Entrypoint: spec.Entrypoint, Labels: map[string]string{
			labelHelper: d.fleet, LabelFleet: "",
			LabelAttempt: "",
		},
	}, &apicontainer.HostConfig{VolumesFrom: []string{id}, NetworkMode: "none"}, nil, nil, spec.AttemptID+helperSuffix)
	if err != nil {
		return failure("copy files into "+spec.AttemptID, err)
	}
	return errors.Join(d.copyArchive(ctx, made.ID, spec, withWorker),
		d.removeHelper(context.WithoutCancel(ctx), spec.AttemptID))
}

// labelHelper says of which fleet a helper is.
const labelHelper = "retake.files"

// removeHelper leaves the volumes alone: they are another container's.
func (d *Docker) removeHelper(ctx context.Context, attemptID string) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	err := d.api.ContainerRemove(ctx, attemptID+helperSuffix, apicontainer.RemoveOptions{})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return failure("remove "+attemptID+helperSuffix, err)
	}
	return nil
}
