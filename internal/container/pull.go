package container

import (
	"context"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/jsonmessage"
	"go.uber.org/zap"
)

// pull fetches an image that the daemon does not have. Errors: ErrImagePull, permanent if the registry answered that it
// has no such image or does not give it to us, transient if it could not be asked; ErrDaemon.
func (d *Docker) pull(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.pull)
	defer cancel()
	d.log.Info("image is not on this host, pulling it", zap.String("image", name))
	stream, err := d.api.ImagePull(ctx, name, image.PullOptions{})
	if err == nil {
		// failures that come late are in here
		err = jsonmessage.DisplayJSONMessagesStream(stream, io.Discard, 0, false, nil)
		stream.Close()
	}
	if err == nil {
		return nil
	}
	if client.IsErrConnectionFailed(err) || ctx.Err() != nil {
		return failure("pull "+name, err)
	}
	answered := cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) ||
		cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err)
	return &Error{Kind: ErrImagePull, Transient: !answered, Doing: name, Cause: err, Next: nextImage(name)}
}

// EnsureImage makes sure that an image is on this host, and pulls it if not. Errors: as of pull.
func (d *Docker) EnsureImage(ctx context.Context, name string) error {
	_, err := d.api.ImageInspect(ctx, name)
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsNotFound(err):
		return d.pull(ctx, name)
	}
	return failure("look for image "+name, err)
}

func nextImage(name string) string {
	return fmt.Sprintf("build it (docker build -t %s .), or set containers.image to one that exists", name)
}
