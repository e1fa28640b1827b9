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

// pull fetches an image. The error is ErrImagePull or ErrDaemon. ErrImagePull is permanent if the registry does not
// have the image or denies access, and transient if the registry did not respond.
func (e *engine) pull(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, e.limits.pull)
	defer cancel()
	e.log.Info("pulling missing image", zap.String("image", name))
	stream, err := e.api.ImagePull(ctx, name, image.PullOptions{})
	if err == nil {
		// If a pull fails after the first response, the error is in the stream.
		err = jsonmessage.DisplayJSONMessagesStream(stream, io.Discard, 0, false, nil)
		stream.Close()
	}
	if err == nil {
		return nil
	}
	if client.IsErrConnectionFailed(err) || ctx.Err() != nil {
		return failure("pull "+name, err)
	}
	return &Error{Kind: ErrImagePull, Transient: !answered(err), Doing: name, Cause: err, Next: nextImage(name)}
}

// EnsureImage pulls an image unless the daemon has it. Errors: ErrImagePull, ErrDaemon.
func (e *engine) EnsureImage(ctx context.Context, name string) error {
	has, err := e.HasImage(ctx, name)
	if err != nil || has {
		return err
	}
	return e.pull(ctx, name)
}

// HasImage reports whether the daemon has an image. It does not pull the image.
func (e *engine) HasImage(ctx context.Context, name string) (bool, error) {
	_, err := e.api.ImageInspect(ctx, name)
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsNotFound(err):
		return false, nil
	}
	return false, failure("find image "+name, err)
}

// answered reports whether an error comes from the registry.
func answered(err error) bool {
	return cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) || cerrdefs.IsUnauthorized(err) ||
		cerrdefs.IsPermissionDenied(err)
}

// Pullable checks that the image's registry has the image, without fetching it. reached reports whether the registry
// answered. Errors: ErrImageMissing.
func (e *engine) Pullable(ctx context.Context, name string) (reached bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.operation)
	defer cancel()
	if _, err := e.api.DistributionInspect(ctx, name, ""); err != nil {
		reached = answered(err)
		return reached, &Error{Kind: ErrImageMissing, Transient: !reached, Doing: name, Cause: err}
	}
	return true, nil
}

func nextImage(name string) string {
	return fmt.Sprintf("build it from the folder that contains its Dockerfile (docker build -t %s FOLDER), or set "+
		"containers.image to an existing image", name)
}
