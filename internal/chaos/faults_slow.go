package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/testbed"
)

// From <uapi/linux/fs.h>. While a file system is frozen, every write and sync waits.
const (
	ioctlFreeze = 0xc0045877
	ioctlThaw   = 0xc0045878
)

// slowTime is the duration of a slow disk or processor.
const slowTime = 8 * time.Second

// slow is a period in which the director is slow. It must not stop living workers during it or shortly afterwards.
type slow struct{ from, to time.Time }

// blameTime is the time after a slow period in which a silent worker may still be given up because of it.
const blameTime = 3 * time.Second

// whileSlow calls a function repeatedly for slowTime, and records the period.
func whileSlow(ctx context.Context, w *world, do func() error) (err error) {
	began := time.Now()
	for err == nil && ctx.Err() == nil && time.Since(began) < slowTime {
		err = do()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = append(w.slow, slow{began, time.Now()})
	return errors.Join(err, ctx.Err())
}

// slowDisk delays each sync of the disk. A joined NATS server uses the same disk.
func slowDisk(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	_, _ = w.victim(ctx, r)
	d := between(r, 200*time.Millisecond, 5*time.Second)
	f, err := os.Open(w.disk.dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	err = whileSlow(ctx, w, func() error {
		if err := unix.IoctlSetInt(int(f.Fd()), ioctlFreeze, 0); err != nil {
			return fmt.Errorf("freeze the disk: %w", err)
		}
		_ = testbed.Pause(ctx, d)
		return errors.Join(unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0), testbed.Pause(ctx, 20*time.Millisecond))
	})
	return fmt.Sprintf("each sync waits up to %v", d.Round(time.Millisecond)), err
}

// slowProcessor gives the director a few per cent of a processor, by stopping and continuing it.
func slowProcessor(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	_, _ = w.victim(ctx, r)
	share, period := 1+r.IntN(5), between(r, 100*time.Millisecond, 5*time.Second)
	runs := max(time.Millisecond, period*time.Duration(share)/100)
	err := whileSlow(ctx, w, func() error {
		w.director.Signal(syscall.SIGSTOP)
		_ = testbed.Pause(ctx, period-runs)
		w.director.Signal(syscall.SIGCONT)
		return testbed.Pause(ctx, runs)
	})
	return fmt.Sprintf("%d %% of each %v", share, period.Round(time.Millisecond)), err
}

// blamed returns the runs of living workers that a slow director gave up.
func (w auditor) blamed(runs []*agentRun) (found []*agentRun) {
	for _, r := range runs {
		if !r.finished.IsZero() || r.asked || r.failed || w.byPeople(r.issue) || w.harmedSince(r) {
			continue
		}
		for _, s := range w.slow {
			if r.alive.After(s.from) && r.alive.Before(s.to.Add(blameTime)) {
				found = append(found, r)
				break
			}
		}
	}
	return found
}

// byPeople reports whether people may have ended attempts of an issue.
func (w auditor) byPeople(key string) bool {
	for _, i := range w.issues {
		if i.key == key {
			return i.gone || i.acts > 0
		}
	}
	return true
}

// harmedSince reports whether a fault ended a run's worker.
func (w auditor) harmedSince(r *agentRun) bool {
	for _, h := range w.harmed {
		if (h.attempt == "" || h.attempt == r.attempt) && h.at.After(r.began) {
			return true
		}
	}
	return false
}

// isPush reports whether a request belongs to a push.
func isPush(r *http.Request) bool {
	return isGit(r) && strings.Contains(r.URL.Path+"?"+r.URL.RawQuery, "git-receive-pack")
}

// page answers with a web page, as a proxy or a sign-in page in front of GitHub does.
func page(_ *proxy, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte("<!doctype html><title>Sign in</title><p>Please sign in to continue."))
}

// stall carries out the request, and delivers the answer after a delay.
func stall(p *proxy, w http.ResponseWriter, r *http.Request) {
	out := p.answer(r)
	select {
	case <-time.After(5 * time.Second):
	case <-r.Context().Done():
		return
	}
	for k, v := range out.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(out.Code)
	_, _ = w.Write(out.Body.Bytes())
}

// failPushes makes every push fail for a while. The director retries with growing pauses.
func failPushes(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	before := w.proxy.hits()
	w.proxy.set(&weather{share: 1, does: serverError(http.StatusInternalServerError), also: isPush}, r.Uint64())
	err := testbed.Pause(ctx, between(r, 10*time.Second, 25*time.Second))
	w.proxy.set(nil, 0)
	return fmt.Sprintf("%d requests", w.proxy.hits()-before), err
}
