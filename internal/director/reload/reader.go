// Package reload rereads the configuration of a running director: on request, on SIGHUP, and when a configuration file
// changes. If the new configuration is rejected, the previous one stays in force.
package reload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/worktree"
)

// atStart is the cause of the reading at startup, as status queries show it.
const atStart = "start"

// Reader rereads the configuration. Set the exported fields before Begin. Its methods are safe for concurrent use.
type Reader struct {
	Config          config.Config // the configuration at startup, with absolute directories
	InForce         *inforce.Current
	Again           func() (config.Config, config.Problems) // nil disables reloading
	File            string                                  // the configuration file, or ""
	Every           time.Duration                           // interval between checks of the files
	LongestWatchdog time.Duration                           // longest allowed watchdog, because workers' keys expire
	Image           func() string                           // the workers' image
	LeaveOut        func(worktree.Globs)                    // passes the patterns of state files to the workspace
	Since           time.Time                               // when the director started
	Log             *zap.Logger

	mu      sync.Mutex // serializes readings
	last    atomic.Pointer[operator.Reading]
	files   []string      // the files of the configuration in force and of the last one read
	sum     string        // checksum of the files before the last reading
	changed chan struct{} // signals that another setup is in force; capacity 1
}

// Begin records the first reading.
func (r *Reader) Begin() {
	first := r.InForce.Load()
	r.changed, r.files = make(chan struct{}, 1), r.configFiles(first.Read)
	r.last.Store(&operator.Reading{At: r.Since, By: atStart, Digest: first.Digest, Since: r.Since})
}

// Reread rereads the configuration and applies all keys that can change at run time. by names the cause.
func (r *Reader) Reread(by string) operator.Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	read := operator.Reading{At: time.Now().UTC(), By: by, Since: r.last.Load().Since}
	if r.Again == nil {
		read.Digest, read.Problems = r.InForce.Load().Digest,
			[]string{"this director cannot reload its configuration: restart it"}
		return read
	}
	next, problems := r.readFiles()
	now, change, err := r.next(next, problems)
	if err != nil {
		read.Problems = strings.Split(err.Error(), "\n")
	}
	read.Changed, read.Restart = change.Keys, change.Restart
	if err == nil && len(read.Changed) > 0 {
		r.putInForce(now, by, change)
		read.Since = read.At
	}
	read.Digest = r.InForce.Load().Digest
	r.last.Store(&read)
	r.sayReading(read)
	return read
}

// next derives the next setup from a newly read configuration, and describes the change. An error means that the
// configuration is rejected.
func (r *Reader) next(next config.Config,
	problems config.Problems,
) (now *inforce.Setup, change config.Change, err error) {
	if problems.Err() != nil {
		return nil, change, problems.Err()
	}
	was := r.InForce.Load()
	mixed, change, problems := was.Read.Reread(next)
	if problems.Err() != nil {
		return nil, config.Change{}, problems.Err()
	}
	if most := r.LongestWatchdog; mixed.Timeouts.WorkerWatchdog > most {
		return nil, config.Change{}, fmt.Errorf("reload: timeouts.worker_watchdog_seconds: until a restart, worker "+
			"keys are valid for at most %s: want at most %.0f, or restart the director",
			most, most.Seconds())
	}
	sums := ownSums(mixed)
	if now, err = derive(mixed, sums, r.Config.Director.DataDir, r.Config.Director.SharedDir); err != nil {
		return nil, config.Change{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(sums)) { // the path is the same, but not the content
		if was.FileSums[key] != sums[key] && !slices.Contains(change.Keys, key) {
			change.Keys = append(change.Keys, key)
		}
	}
	return now, change, nil
}

// putInForce replaces the whole setup. The session then updates the machine.
func (r *Reader) putInForce(now *inforce.Setup, by string, change config.Change) {
	r.InForce.Replace(now, &fsm.SettingsChanged{
		By: by, Digest: now.Digest, Keys: change.Keys, Restart: change.Restart,
		Settings: now.Settings(r.Image()),
	})
	r.LeaveOut(now.StateGlobs)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// First derives the first setup. Both directories must be absolute.
func First(read config.Config, dataDir, sharedDir string) (*inforce.Setup, error) {
	return derive(read, ownSums(read), dataDir, sharedDir)
}

func derive(read config.Config, sums map[string]string, dataDir, sharedDir string) (*inforce.Setup, error) {
	c, err := inforce.New(read, sums)
	c.Director.DataDir, c.Director.SharedDir = dataDir, sharedDir
	return c, err
}

// sayReading logs the result of a reading.
func (r *Reader) sayReading(read operator.Reading) {
	log := r.Log.With(zap.String("by", read.By), zap.String("digest", read.Digest))
	switch {
	case len(read.Problems) > 0:
		log.Error("configuration rejected, so the previous one stays in effect",
			zap.Strings("problems", read.Problems), zap.Time("since", read.Since))
	case len(read.Changed)+len(read.Restart) == 0 && read.By == atStart:
	case len(read.Changed)+len(read.Restart) == 0:
		log.Info("configuration reloaded without changes")
	default:
		log.Info("configuration reloaded", zap.Strings("changed", read.Changed))
		if len(read.Restart) > 0 {
			log.Warn("some changed keys will take effect only after a restart",
				zap.Strings("keys", read.Restart))
		}
	}
}

// Follow calls decide for each setup that comes into force, until ctx is done or decide returns false. begun is the
// setup at the start of the session. If it was never decided, because the previous session ended too soon, decide
// gets it first.
func (r *Reader) Follow(ctx context.Context, begun *inforce.Setup,
	decide func(context.Context, *inforce.Setup) bool,
) error {
	for {
		if now := r.InForce.Load(); now != begun || now.Change != nil && !now.IsDecided() {
			if !decide(ctx, now) {
				return nil
			}
			begun = now
			now.MarkDecided()
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil
		}
	}
}
