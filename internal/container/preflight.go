package container

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"go.uber.org/zap"
)

// Host is the address of the daemon.
func (d *Docker) Host() string { return d.api.DaemonHost() }

// Cannot lists the limits of a Spec that this engine does not keep; none on an ordinary one.
func (d *Docker) Cannot() []string { return d.cannot }

// HasImage reports whether an image is on the daemon's host. It pulls nothing.
func (d *Docker) HasImage(ctx context.Context, name string) (bool, error) {
	_, err := d.api.ImageInspect(ctx, name)
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err):
		return false, nil
	}
	return false, failure("look for image "+name, err)
}

// Pullable has the daemon ask the image's registry for it, without fetching it. Errors: ErrImageMissing, ErrDaemon.
func (d *Docker) Pullable(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	_, err := d.api.DistributionInspect(ctx, name, "")
	if err == nil {
		return nil
	}
	return &Error{Kind: ErrImageMissing, Transient: !cerrdefs.IsNotFound(err), Doing: name, Cause: err}
}

// Gateway is that of the workers' network, as EnsureNetwork would return it; empty: the network is not there.
// It makes none.
func (d *Docker) Gateway(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	d.ensuring.Lock()
	defer d.ensuring.Unlock()
	all, err := d.networks(ctx)
	if err != nil {
		return "", err
	}
	chosen, err := d.choose(ctx, all)
	if err != nil || chosen == nil {
		return "", err
	}
	return d.join(*chosen)
}

// RemoveNetwork removes the network of this value's name, if its fleet has made it, and its firewall, if
// Confine was called.
func (d *Docker) RemoveNetwork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	all, err := d.networks(ctx)
	if err != nil {
		return err
	}
	var gone []string
	for _, n := range all {
		if n.Labels[LabelFleet] != d.fleet {
			continue
		}
		if err := d.api.NetworkRemove(ctx, n.ID); err != nil && !cerrdefs.IsNotFound(err) {
			d.log.Warn("network not removed", zap.String("network", n.Name), zap.Error(err))
			return failure("remove network "+n.Name, err)
		}
		gone = append(gone, bridgeOf(n))
	}
	return d.takeDown(ctx, gone...)
}

// MissingPrograms returns those of the names that plain processes do not find: in the folders of path, or, if
// that is empty, in those of common images.
func MissingPrograms(path string, names []string) (missing []string) {
	if path == "" {
		path = imagePath
	}
	for _, name := range names {
		if !isProgram(name, strings.Split(path, string(os.PathListSeparator))) {
			missing = append(missing, name)
		}
	}
	return missing
}

func isProgram(name string, folders []string) bool {
	if filepath.IsAbs(name) {
		folders = []string{""}
	}
	for _, dir := range folders {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
