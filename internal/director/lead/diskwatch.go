package lead

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/disk"
	"retake/internal/fsm"
	"retake/internal/workspace"
)

const (
	diskEvery = time.Second
	// diskLook bounds a look at the checkouts; diskRest is how often as long as a look there is none.
	diskLook = 30 * time.Second
	diskRest = 5
	// diskWarnEvery is the pause between two warnings of a disk that no attempt is known to fill.
	diskWarnEvery = 10 * time.Minute
	// diskTries is how often a checkout is walked that changes meanwhile.
	diskTries = 3
)

// DiskWatch keeps the disk that checkouts are on from being filled by an attempt: it stops the one that fills it. The
// rest of that disk mostly belongs to the journal.
type DiskWatch struct {
	// the key of the folder that is on the disk
	Of        string
	Watermark func() float64                                                   // in percent; 0: nothing is watched
	Use       func() (disk.Use, error)                                         // of the disk
	Live      func(context.Context) []fsm.Task                                 // the tasks with a worker that is up
	Used      func(ctx context.Context, nonce string) (workspace.Usage, error) // of the disk, by a task's checkout
	// bytes that a worker put on the embedded bus
	Uploaded func(worker string) int64
	Stop     func(ctx context.Context, worker, why string) // ends an attempt, and asks a person
	Log      *zap.Logger
}

// Run watches until ctx ends.
func (d *DiskWatch) Run(ctx context.Context) error {
	w := disk.Watch{Of: d.Of}
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	var restUntil, warned time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if w.Watermark = d.Watermark(); w.Watermark == 0 {
			w.Settled()
			continue
		}
		use, err := d.Use()
		if err != nil || time.Now().Before(restUntil) {
			continue
		}
		began := time.Now()
		blame, task, full := d.look(ctx, &w, use)
		restUntil = time.Now().Add(diskRest * time.Since(began))
		switch {
		case !full:
		case blame.Worker != "":
			what := fmt.Sprintf("%s; that is %.1f %% full (director.disk_watermark = %v)", blame,
				use.Percent(blame.Kind), w.Watermark)
			d.Log.Warn("an attempt is stopped for the disk", zap.String("issue", string(task)),
				zap.String("worker", blame.Worker), zap.String("reason", what))
			d.Stop(ctx, blame.Worker, what)
			w.Settled()
		case warned.IsZero() || time.Since(warned) >= diskWarnEvery:
			warned = time.Now()
			d.Log.Warn("the disk of "+d.Of+" is nearly full, and no running attempt is known to fill it: make room",
				zap.Float64("percent_of_bytes", use.Percent(disk.Bytes)),
				zap.Float64("percent_of_files", use.Percent(disk.Files)))
		}
	}
}

// look takes one look at the running attempts, and returns which one fills the disk, and its task.
func (d *DiskWatch) look(ctx context.Context, w *disk.Watch, use disk.Use) (b disk.Blame, of fsm.IssueKey, full bool) {
	live := map[string]fsm.Task{}
	var running []string
	for _, t := range d.Live(ctx) {
		live[t.AttemptID()], running = t, append(running, t.AttemptID())
	}
	ctx, cancel := context.WithTimeout(ctx, diskLook)
	defer cancel()
	b, full = w.Look(use, running, func(worker string) ([2]int64, bool) {
		u := d.used(ctx, live[worker].Nonce)
		u.Bytes += d.Uploaded(worker) // on the embedded bus: the same disk
		return [...]int64{u.Bytes, u.Files}, u.Whole
	})
	return b, live[b.Worker].Key, full
}

// used is what a checkout uses of the disk. One that changes while it is walked is walked again; then the most
// that was seen counts.
func (d *DiskWatch) used(ctx context.Context, nonce string) (most workspace.Usage) {
	for range diskTries {
		u, err := d.Used(ctx, nonce)
		if err == nil && u.Whole {
			return u
		}
		most.Bytes, most.Files = max(most.Bytes, u.Bytes), max(most.Files, u.Files)
	}
	return most
}
