package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/patience"
	"retake/internal/testbed"
)

// From <uapi/linux/fs.h>. While a file system is frozen, every write and sync waits.
const (
	ioctlFreeze = 0xc0045877
	ioctlThaw   = 0xc0045878
)

// Durations of the faults that make a director slow, and the number of workers that it might wrongly stop.
const (
	slowTime   = 16 * time.Second // duration of a slow disk or processor
	longWork   = 25.0             // seconds of work, so that agents outlive the fault
	occupied   = 4                // running workers before the fault
	occupyTime = 10 * time.Second // maximum wait until these workers run
	starting   = 3                // further workers, which start during the fault
	noticeTime = 2 * time.Second  // maximum time after a TTL until an idle machine notices a silent worker
	blameTime  = 3 * time.Second  // time after a slow period in which the director may still wrongly stop a worker
)

// slow is a period in which the director is slow. The director must not stop running workers during this period or
// shortly afterwards.
type slow struct{ from, to time.Time }

// occupy opens issues with long work, and waits up to occupyTime for several workers to be running.
func occupy(ctx context.Context, w *world, r *rand.Rand) {
	for range occupied - len(w.live(ctx)) {
		openPart(w, r, part{Seconds: longWork})
	}
	began := time.Now()
	for time.Since(began) < occupyTime && len(w.live(ctx)) < occupied && ctx.Err() == nil {
		_ = testbed.Pause(ctx, 50*time.Millisecond)
	}
	_ = testbed.Pause(ctx, between(r, 0, 3*time.Second))
}

// whileSlow calls a function repeatedly for slowTime, and records the period and the workers that were alive in it.
func whileSlow(ctx context.Context, w *world, r *rand.Rand, do func() error) (err error) {
	began := time.Now()
	defer func() { wasSlow(w, began) }()
	for range starting {
		openPart(w, r, part{Seconds: 1})
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { watch(watching, w) })
	defer watcher.Wait()
	defer stop()
	for err == nil && ctx.Err() == nil && time.Since(began) < slowTime {
		err = do()
	}
	return errors.Join(err, ctx.Err())
}

// watch records the living workers until ctx is done, because the agents' file does not contain workers that are still
// starting.
func watch(ctx context.Context, w *world) {
	for testbed.Pause(ctx, 500*time.Millisecond) == nil {
		live := w.live(ctx)
		w.mu.Lock()
		for _, x := range live {
			if !slices.Contains(w.lived, x) {
				w.lived = append(w.lived, x)
			}
		}
		w.mu.Unlock()
	}
}

// wasSlow records that the director was slow until now.
func wasSlow(w *world, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = append(w.slow, slow{since, time.Now()})
}

// throw injects a fault, as in fault.throw.
type throw func(ctx context.Context, w *world, r *rand.Rand) (note string, err error)

// freezeDirector stops the director for a while, as a suspended machine does.
func freezeDirector(least, most time.Duration) throw {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		d := between(r, least, most)
		if suspect := min(w.ttl, most-2*time.Second); suspect > least && r.IntN(2) == 0 {
			d = between(r, suspect, suspect+2*time.Second) // just long enough to miss all heartbeats of a TTL
		}
		occupy(ctx, w, r)
		defer wasSlow(w, time.Now())
		w.director.Signal(syscall.SIGSTOP)
		err := testbed.Pause(ctx, d)
		w.director.Signal(syscall.SIGCONT)
		return fmt.Sprintf("for %v", d.Round(time.Millisecond)), err
	}
}

// slowDisk delays each sync of the disk. A joined NATS server uses the same disk.
func slowDisk(least, most time.Duration) throw {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		d := between(r, least, most)
		occupy(ctx, w, r)
		f, err := os.Open(w.disk.dir)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		err = whileSlow(ctx, w, r, func() error {
			if err := unix.IoctlSetInt(int(f.Fd()), ioctlFreeze, 0); err != nil {
				return fmt.Errorf("freeze the disk: %w", err)
			}
			_ = testbed.Pause(ctx, d)
			return errors.Join(unix.IoctlSetInt(int(f.Fd()), ioctlThaw, 0), testbed.Pause(ctx, 20*time.Millisecond))
		})
		return fmt.Sprintf("each sync waits up to %v", d.Round(time.Millisecond)), err
	}
}

// slowProcessor limits the director to a share of a processor, in per cent, with a control group's quota. Without
// permission for that, it repeatedly suspends and resumes the director, which the director's own figures do not show.
func slowProcessor(least, most int) throw {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		share, period := least+r.IntN(most-least+1), between(r, 100*time.Millisecond, time.Second)
		occupy(ctx, w, r)
		note := fmt.Sprintf("%d%% of a CPU in each %v", share, period.Round(time.Millisecond))
		lift, err := limit(w.director.PID(), share, period)
		if err != nil {
			runs := max(time.Millisecond, period*time.Duration(share)/100)
			return note + " , limited by signals: " + err.Error(), whileSlow(ctx, w, r, func() error {
				w.director.Signal(syscall.SIGSTOP)
				_ = testbed.Pause(ctx, period-runs)
				w.director.Signal(syscall.SIGCONT)
				return testbed.Pause(ctx, runs)
			})
		}
		err = whileSlow(ctx, w, r, func() error { return testbed.Pause(ctx, time.Second) })
		return note + " , limited by quota", errors.Join(err, lift())
	}
}

// sweep lists the faults of Options.Sweep.
var sweep = []fault{
	{"disk syncs take 0.2 s", 1, needsDisk, slowDisk(200*time.Millisecond, 200*time.Millisecond)},
	{"disk syncs take 1 s", 1, needsDisk, slowDisk(time.Second, time.Second)},
	{"disk syncs take 2 s", 1, needsDisk, slowDisk(2*time.Second, 2*time.Second)},
	{"disk syncs take 5 s", 1, needsDisk, slowDisk(5*time.Second, 5*time.Second)},
	{"5% of a CPU", 1, always, slowProcessor(5, 5)},
	{"2% of a CPU", 1, always, slowProcessor(2, 2)},
	{"1% of a CPU", 1, always, slowProcessor(1, 1)},
	{"director frozen for 1 s", 1, always, freezeDirector(time.Second, time.Second)},
	{"director frozen for 5 s", 1, always, freezeDirector(5*time.Second, 5*time.Second)},
	{"director frozen for 15 s", 1, always, freezeDirector(15*time.Second, 15*time.Second)},
	{"director frozen for 60 s", 1, always, freezeDirector(time.Minute, time.Minute)},
	{"a silent worker", 1, always, silenceWorker},
}

// silent is a worker that a fault has silenced.
type silent struct {
	testbed.Worker
	at     time.Time
	within time.Duration // maximum time after the TTL until the director notices it: noticeTime on an idle machine
}

// silenceWorker stops a worker permanently, and waits until the director should have noticed. It first waits until two
// TTLs after the last slow period, because the director excuses silence until then.
func silenceWorker(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	w.mu.Lock()
	excused := time.Duration(0)
	if n := len(w.slow); n > 0 {
		excused = max(0, time.Until(w.slow[n-1].to.Add(2*w.ttl)))
	}
	w.mu.Unlock()
	if err := testbed.Pause(ctx, excused); err != nil {
		return "", err
	}
	occupy(ctx, w, r)
	v, ok := w.victim(ctx, r)
	if !ok {
		return nobody, nil
	}
	w.hurt(v.Attempt)
	if err := w.host.Pause(ctx, v.Attempt); err != nil {
		return v.Attempt + " had already ended", nil //nolint:nilerr // the fault came too late
	}
	s := silent{v, time.Now(), patience.For(noticeTime)}
	err := testbed.Pause(ctx, w.ttl)
	s.within = max(s.within, patience.For(noticeTime))
	err = cmp.Or(err, testbed.Pause(ctx, s.within))
	w.mu.Lock()
	w.silenced = append(w.silenced, s)
	w.mu.Unlock()
	return v.Task + " " + v.Attempt, err
}
