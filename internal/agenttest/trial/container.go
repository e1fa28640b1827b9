package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"retake/internal/container"
)

// InContainer returns a function for Options.Start that runs jobs in the same type of container as attempts. spec holds
// the settings that all these containers share.
func InContainer(runtime container.Runtime, spec container.Spec, uid, gid int) func(context.Context, Job) error {
	return func(ctx context.Context, j Job) (err error) {
		ctx, cancel := context.WithTimeout(ctx, j.Limit+time.Minute)
		defer cancel()
		spec := spec
		spec.AttemptID, spec.Checkout, spec.WorkerBinary = filepath.Base(j.Dir), j.Dir, j.Worker
		at := runtime.Workdir(spec)
		spec.Entrypoint = Command(container.WorkerPath, at)
		spec.Env = append([]string{"HOME=" + filepath.Join(at, ownFolder, "home")}, j.Env...)
		j.Plan.Workdir = at
		if err := errors.Join(j.WritePlan(), chown(j.Dir, uid, gid)); err != nil {
			return err
		}
		defer func() {
			x, stopped := runtime.Stop(context.WithoutCancel(ctx), spec.AttemptID, grace, nil)
			j.Output.Write(x.Stdout)
			if err = errors.Join(err, stopped); err == nil && x.StartError != "" {
				err = fmt.Errorf("trial: %s", x.StartError)
			}
		}()
		if err := runtime.Ensure(ctx, spec); err != nil {
			return err
		}
		return ended(ctx, runtime, spec.AttemptID)
	}
}

// lookEvery is the interval between inspections of a container.
const lookEvery = 200 * time.Millisecond

// ended waits until the container has ended.
func ended(ctx context.Context, runtime container.Runtime, id string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		list, err := runtime.List(ctx)
		if err != nil {
			return err
		}
		live := false
		for _, s := range list {
			live = live || s.AttemptID == id && s.State.Live()
		}
		if !live {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// chown gives the checkout to the worker's user.
func chown(dir string, uid, gid int) error {
	if os.Getuid() != 0 {
		return nil // this process must already run as the configured user, or the report would be unreadable
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	})
}
