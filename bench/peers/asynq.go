package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqPeer is hibiken/asynq on Redis.
type asynqPeer struct {
	socket  string
	sync    string // value of appendfsync during the measurement
	servers int    // asynq servers in this process, each running one job at a time
	redis   *redis.Client
}

var _ peer = (*asynqPeer)(nil)

func (p *asynqPeer) open(ctx context.Context, synced bool) (string, error) {
	p.redis = redis.NewClient(&redis.Options{Network: "unix", Addr: p.socket})
	p.sync = map[bool]string{true: "always", false: "everysec"}[synced]
	if err := p.redis.ConfigSet(ctx, "appendfsync", p.sync).Err(); err != nil {
		return "", err
	}
	info, err := p.redis.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(info, "redis_version:")
	version, _, _ = strings.Cut(version, "\r\n")
	settings := "Redis redis_version=" + version
	for _, name := range []string{"appendonly", "appendfsync", "auto-aof-rewrite-percentage", "save"} {
		values, err := p.redis.ConfigGet(ctx, name).Result()
		if err != nil {
			return "", err
		}
		settings += fmt.Sprintf(" %s=%q", name, values[name])
	}
	return settings, nil
}

func (p *asynqPeer) close() { _ = p.redis.Close() }

// concurrencies returns low values: a server runs its jobs one at a time, so more jobs would only wait.
func (p *asynqPeer) concurrencies() []int {
	if p.servers > 1 {
		return []int{64} // 16 and 64 were equally fast
	}
	return []int{16, 64}
}

func (p *asynqPeer) options() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: p.socket, PoolSize: 256}
}

func (p *asynqPeer) publish(ctx context.Context, jobs int) error {
	if err := errors.Join(p.redis.FlushAll(ctx).Err(), p.redis.ConfigSet(ctx, "appendfsync", "no").Err()); err != nil {
		return err
	}
	client := asynq.NewClient(p.options())
	defer func() { _ = client.Close() }()
	const publishers = 64
	failed := make([]error, publishers)
	var wg sync.WaitGroup
	for i := range publishers {
		wg.Go(func() {
			for n := i; n < jobs && failed[i] == nil; n += publishers {
				_, failed[i] = client.EnqueueContext(ctx, asynq.NewTask(workerError{}.Kind(), failure(n).encoded()))
			}
		})
	}
	wg.Wait()
	syscall.Sync() // so that the first job does not wait until the published data is on disk
	return errors.Join(append(failed, p.redis.ConfigSet(ctx, "appendfsync", p.sync).Err())...)
}

func (p *asynqPeer) fail(ctx context.Context, jobs, concurrency int) (time.Duration, error) {
	began := time.Now()
	for range p.servers {
		server := asynq.NewServer(p.options(), asynq.Config{
			Concurrency: concurrency / p.servers, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
		})
		if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			return errors.New("the model's provider is overloaded")
		})); err != nil {
			return 0, err
		}
		defer server.Shutdown()
	}
	for {
		n, err := p.redis.ZCard(ctx, "asynq:{default}:retry").Result()
		if err != nil {
			return 0, err
		}
		if n == int64(jobs) {
			return time.Since(began), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
