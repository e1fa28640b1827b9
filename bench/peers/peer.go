package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// peer is a queue that can be measured.
type peer interface {
	// open prepares the server for the given durability, and returns the actual settings.
	open(ctx context.Context, synced bool) (settings string, err error)
	// concurrencies lists the values to try. A single value is used without a trial.
	concurrencies() []int
	// publish queues jobs.
	publish(ctx context.Context, jobs int) error
	// fail takes every queued job, fails it, and returns the time from starting the queue until the last retry is
	// durable. It returns an error if the number of jobs is wrong.
	fail(ctx context.Context, jobs, concurrency int) (time.Duration, error)
	close()
}

// result is the measurement of a queue at one durability.
type result struct {
	name        string
	synced      bool
	perSecond   float64
	concurrency int // the fastest concurrency
	settings    string
}

// rounds is the number of rounds run at the best concurrency. The result is their median.
const rounds = 3

// measure finds the best concurrency with a quarter of the jobs, and then measures that concurrency with all of them.
func measure(ctx context.Context, name string, p peer, synced bool, jobs int) (result, error) {
	r := result{name: name, synced: synced}
	var err error
	if r.settings, err = p.open(ctx, synced); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	defer p.close()
	one := func(jobs, concurrency int) (float64, error) {
		if err := p.publish(ctx, jobs); err != nil {
			return 0, fmt.Errorf("%s: publish: %w", name, err)
		}
		took, err := p.fail(ctx, jobs, concurrency)
		if err != nil {
			return 0, fmt.Errorf("%s, concurrency %d: %w", name, concurrency, err)
		}
		fast := float64(jobs) / took.Seconds()
		fmt.Fprintf(os.Stderr, "  %s, %s, concurrency %d: %.0f/s of %d\n", name, durability(synced), concurrency, fast,
			jobs)
		return fast, nil
	}
	tried := p.concurrencies()
	r.concurrency = tried[0]
	for best, i := 0.0, 0; i < len(tried) && len(tried) > 1; i++ {
		fast, err := one(jobs/4, tried[i])
		if err != nil {
			return r, err
		}
		if fast > best {
			best, r.concurrency = fast, tried[i]
		}
	}
	var all []float64
	for range rounds {
		fast, err := one(jobs, r.concurrency)
		if err != nil {
			return r, err
		}
		all = append(all, fast)
	}
	slices.SortFunc(all, cmp.Compare)
	r.perSecond = all[len(all)/2]
	return r, nil
}

func durability(synced bool) string {
	if synced {
		return "synced"
	}
	return "not synced"
}

// payloadBytes is the size of a job, the same as a report's size in our own measurement.
const payloadBytes = 1 << 10

// workerError is a worker_error.v1 as our workers send it. For river it is also a job type.
type workerError struct {
	ErrorID         string `json:"error_id"`
	WorkerID        string `json:"worker_id"`
	IssueNumber     int    `json:"issue_number"`
	Stage           string `json:"stage"`
	Attempt         int    `json:"attempt"`
	ErrorType       string `json:"error_type"`
	IsTransient     bool   `json:"is_transient"`
	ShouldRetry     bool   `json:"should_retry"`
	EscalateToHuman bool   `json:"escalate_to_human"`
	Message         string `json:"message"`
	ExitCode        int    `json:"exit_code"`
	LastStdoutTail  string `json:"last_stdout_tail"`
}

// Kind returns river's name for the job type.
func (workerError) Kind() string { return "worker_error.v1" }

// failure returns the n-th job, padded to payloadBytes of JSON.
func failure(n int) workerError {
	e := workerError{
		ErrorID: fmt.Sprintf("e-%08d", n), WorkerID: fmt.Sprintf("w%07d-1", n), IssueNumber: n + 1, Stage: "AGENT",
		Attempt:   1,
		ErrorType: "model_overloaded", IsTransient: true, ShouldRetry: true,
		Message: "the model's provider is overloaded", ExitCode: 1,
	}
	e.LastStdoutTail = strings.Repeat("x", payloadBytes-len(e.encoded()))
	return e
}

func (e workerError) encoded() []byte {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot happen for these field types
	}
	return data
}
