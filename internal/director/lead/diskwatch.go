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
	// diskLook is the time limit for one check of the checkouts. The pause after a check is diskRest times as long as
	// the check took.
	diskLook = 30 * time.Second
	diskRest = 5
	// diskWarnEvery is the pause between two warnings about a disk that is filling up for an unknown reason.
	diskWarnEvery = 10 * time.Minute
	// diskTries limits how often DiskWatch measures a checkout that keeps changing.
	diskTries = 3
)

// DiskWatch stops an attempt that fills the disk of the checkouts, because the journal is usually on the same disk.
type DiskWatch struct {
	// configuration key for the directory on that disk
	Of        string
	Watermark func() float64                                                   // in percent; 0 disables the watch
	Use       func() (disk.Use, error)                                         // returns that disk's usage
	Live      func(context.Context) []fsm.Task                                 // tasks with a live worker
	Used      func(ctx context.Context, nonce string) (workspace.Usage, error) // returns the size of a task's checkout
	// returns how many bytes a worker has stored on the embedded bus
	Uploaded func(worker string) int64
	Stop     func(ctx context.Context, worker, why string) // ends an attempt and asks a person
	Log      *zap.Logger
}

// Run watches the disk until ctx is done.
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
			what := fmt.Sprintf("%s, and the disk is %.1f%% full (director.disk_watermark = %v)", blame,
				use.Percent(blame.Kind), w.Watermark)
			d.Log.Warn("stopping an attempt that is filling the disk", zap.String("issue", string(task)),
				zap.String("worker", blame.Worker), zap.String("reason", what))
			d.Stop(ctx, blame.Worker, what)
			w.Settled()
		case warned.IsZero() || time.Since(warned) >= diskWarnEvery:
			warned = time.Now()
			d.Log.Warn("the disk holding "+d.Of+" is nearly full, but no running attempt seems to be filling it: free "+
				"some "+"space",
				zap.Float64("percent_of_bytes", use.Percent(disk.Bytes)),
				zap.Float64("percent_of_files", use.Percent(disk.Files)))
		}
	}
}

// look measures the running attempts once. It returns the attempt that is filling the disk, if known, its task, and
// whether the disk is full.
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
		u.Bytes += d.Uploaded(worker) // the embedded bus is on the same disk
		return [...]int64{u.Bytes, u.Files}, u.Whole
	})
	return b, live[b.Worker].Key, full
}

// used returns the size of a checkout. If the checkout changes during the measurement, used measures it again. If that
// happens every time, used returns the maximum.
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
