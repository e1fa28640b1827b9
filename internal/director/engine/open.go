// Package engine opens the workers' container runtime, locates their binary and collects their environment.
package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/container/kubernetes"
	"retake/internal/director/failure"
)

// Limits on how long startup waits for the container engine. After a boot, the director may start before the engine, so
// it waits longer for an engine that it has used before. On the very first start, a shorter wait reveals a wrong
// configuration sooner.
const (
	enginePatience      = 2 * time.Minute
	firstEnginePatience = 10 * time.Second
	engineRetryMost     = 15 * time.Second
)

// Engine opens the runtime.
type Engine struct {
	Config config.Config
	Say    func(error) // tells people why the director is waiting
	Log    *zap.Logger
}

// Open opens the runtime, and ensures that it has the workers' image. owner is the permanent id that marks our
// attempts.
func (e *Engine) Open(ctx context.Context, owner string) (r container.Runtime, err error) {
	if err := e.Await(ctx, func() (err error) { r, err = e.open(ctx, owner); return err }); err != nil {
		return nil, err
	}
	return r, e.Await(ctx, func() error { return r.EnsureImage(ctx, e.Config.Containers.Image) })
}

// Await calls do until it succeeds, fails permanently, or the engine has been unreachable for too long.
func (e *Engine) Await(ctx context.Context, do func() error) error {
	patience := firstEnginePatience
	if _, err := os.Stat(filepath.Join(e.Config.Director.DataDir, "bus")); err == nil {
		patience = enginePatience
	}
	return failure.Retry(ctx, failure.Pauses(time.Second, engineRetryMost), patience, func() error {
		err := do()
		if err != nil && !container.Transient(err) {
			return backoff.Permanent(err)
		}
		return err
	}, func(err error, pause time.Duration) {
		e.Say(fmt.Errorf("waiting for the container engine: %w", err))
		e.Log.Warn("waiting for the container engine", zap.Duration("in", pause), zap.Error(err))
	})
}

// open opens the runtime set in containers.runtime. If attempts may still run in the previous runtime, it ends them or
// returns an error, so that a changed runtime does not orphan them.
func (e *Engine) open(ctx context.Context, owner string) (container.Runtime, error) {
	o := container.Options{
		Owner: owner, Runtime: e.Config.Containers.Runtime, Fleet: e.Config.Director.Fleet,
		Network: e.Config.Containers.Network, OCI: e.Config.Containers.OCIRuntime,
		Dir: filepath.Join(e.Config.SharedDir(), "processes"), Log: e.Log, SameUser: e.Config.Containers.SameUser,
		Hide: e.Config.Private(),
	}
	if !e.Config.OnCluster() {
		if err := e.leaveCluster(ctx); err != nil {
			return nil, err
		}
		return container.Open(ctx, o)
	}
	if err := container.LeaveMachine(ctx, o); err != nil {
		return nil, err
	}
	cluster := ClusterOptions(e.Config, owner)
	cluster.Log = e.Log
	if err := e.rememberCluster(cluster); err != nil {
		return nil, err
	}
	return kubernetes.Open(ctx, cluster)
}
