package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// riverPeer is riverqueue/river on PostgreSQL.
type riverPeer struct {
	url  string
	pool *pgxpool.Pool
}

var _ peer = (*riverPeer)(nil)

// connections to PostgreSQL; more connections were no faster on two cores.
const connections = 16

func (p *riverPeer) open(ctx context.Context, synced bool) (string, error) {
	config, err := pgxpool.ParseConfig(p.url)
	if err != nil {
		return "", err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["synchronous_commit"] = map[bool]string{true: "on", false: "off"}[synced]
	if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return "", err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool),
		&rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return "", fmt.Errorf("migrate: %w", err)
	}
	settings := ""
	for _, name := range []string{
		"server_version", "fsync", "synchronous_commit", "wal_sync_method",
		"full_page_writes", "shared_buffers", "max_wal_size",
	} {
		var value string
		if err := p.pool.QueryRow(ctx, "SHOW "+name).Scan(&value); err != nil {
			return "", err
		}
		settings += " " + name + "=" + value
	}
	return "PostgreSQL" + settings, nil
}

func (p *riverPeer) close() { p.pool.Close() }

// concurrencies omits the maximum that river allows, 10,000, because it is slower.
func (*riverPeer) concurrencies() []int { return []int{200, 1000, 5000} }

func (p *riverPeer) publish(ctx context.Context, jobs int) error {
	if _, err := p.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	const batch = 1000
	for n := 0; n < jobs; n += batch {
		params := make([]river.InsertManyParams, 0, batch)
		for i := n; i < min(n+batch, jobs); i++ {
			params = append(params, river.InsertManyParams{Args: failure(i)})
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return err
		}
	}
	// Run these statements before the clock starts.
	for _, statement := range []string{"VACUUM ANALYZE river_job", "CHECKPOINT"} {
		if _, err := p.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// failing is a job handler that always fails.
type failing struct {
	river.WorkerDefaults[workerError]
}

func (*failing) Work(_ context.Context, job *river.Job[workerError]) error {
	return errors.New(job.Args.Message)
}

// anHour schedules every retry an hour ahead, so that none runs or becomes available while the clock runs.
type anHour struct{}

func (anHour) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Hour) }

func (p *riverPeer) fail(ctx context.Context, jobs, concurrency int) (took time.Duration, err error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &failing{})
	client, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers, RetryPolicy: anHour{},
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return 0, err
	}
	// River sends an event after it has committed the batch with the job's new state.
	durable, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		Kinds:    []river.EventKind{river.EventKindJobFailed},
		ChanSize: jobs,
	})
	defer cancel()
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.StopAndCancel(context.WithoutCancel(ctx))) }()
	for range jobs {
		select {
		case <-durable:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	took = time.Since(began)
	var scheduled int
	if err := p.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'retryable' AND attempt = 1 AND "+
		"cardinality(errors) = 1").Scan(&scheduled); err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	if scheduled != jobs {
		return 0, fmt.Errorf("%d jobs are scheduled for a retry, want %d", scheduled, jobs)
	}
	return took, nil
}
