package director

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// reading is how the configuration is read again.
type reading struct {
	again   func() (config.Config, config.Problems) // nil: it cannot be
	file    string                                  // that it is read from; empty: none
	mu      sync.Mutex                              // one at a time
	last    atomic.Pointer[operator.Reading]
	files   []string      // that it consists of, in force or as read last
	sum     string        // of those before the last reading: what has changed while they were read has changed since
	every   time.Duration // between two looks at the files, whatever the watch notices
	changed chan struct{} // room for one: another setup is in force
}

// atStart is by whom the start has read it.
const atStart = "start"

// startReading notes what the start has read.
func (d *daemon) startReading(o Options) {
	d.reading.again, d.reading.file, d.reading.changed = o.Read, o.ConfigFile, make(chan struct{}, 1)
	d.reading.files, d.reading.every = d.configFiles(d.setup().Read), cmp.Or(o.filesEvery, filesEvery)
	d.reading.last.Store(&operator.Reading{At: d.since, By: atStart, Digest: d.setup().Digest, Since: d.since})
}

// configFiles are the files that configurations consist of.
func (d *daemon) configFiles(of ...config.Config) (files []string) {
	if d.reading.file != "" {
		files = append(files, d.reading.file)
	}
	for _, c := range of {
		own := c.OwnFiles()
		for _, key := range sortedKeys(own) {
			if !slices.Contains(files, own[key]) {
				files = append(files, own[key])
			}
		}
	}
	return files
}

// readFiles reads the configuration, and notes what its files held before that.
func (d *daemon) readFiles() (next config.Config, problems config.Problems) {
	for known := false; !known; {
		d.reading.sum = sumOf(d.reading.files)
		next, problems = d.reading.again()
		files := d.configFiles(d.setup().Read, next)
		known = slices.Equal(files, d.reading.files) // otherwise it names files that were not summed
		d.reading.files = files
	}
	return next, problems
}

// sumOf is the sum of what files hold. One that cannot be read has a sum, too.
func sumOf(files []string) string {
	sum := sha256.New()
	for _, name := range files {
		data, err := os.ReadFile(name)
		fmt.Fprintf(sum, "%s %d %t\n%s", name, len(data), err == nil, data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ownSums are the sums of a configuration's own files, by key.
func ownSums(c config.Config) map[string]string {
	sums := map[string]string{}
	for key, path := range c.OwnFiles() {
		sums[key] = sumOf([]string{path})
	}
	return sums
}

// reread reads the configuration again, and puts it in force as far as that goes while the director runs. by
// says on whose word.
func (d *daemon) reread(by string) operator.Reading {
	d.reading.mu.Lock()
	defer d.reading.mu.Unlock()
	r := operator.Reading{At: time.Now().UTC(), By: by, Since: d.reading.last.Load().Since}
	if d.reading.again == nil {
		r.Digest, r.Problems = d.setup().Digest,
			[]string{"this director was started without a way to read its configuration again: restart it"}
		return r
	}
	next, problems := d.readFiles()
	now, change, err := d.next(next, problems)
	if err != nil {
		r.Problems = strings.Split(err.Error(), "\n")
	}
	r.Changed, r.Restart = change.Keys, change.Restart
	if err == nil && len(r.Changed) > 0 {
		d.putInForce(now, by, change)
		r.Since = r.At
	}
	r.Digest = d.setup().Digest
	d.reading.last.Store(&r)
	d.sayReading(r)
	return r
}

// next is what would be in force after the one that is. An error: it is refused.
func (d *daemon) next(next config.Config,
	problems config.Problems,
) (now *inforce.Setup, change config.Change, err error) {
	if problems.Err() != nil {
		return nil, change, problems.Err()
	}
	was := d.setup()
	mixed, change, problems := was.Read.Reread(next)
	if problems.Err() != nil {
		return nil, config.Change{}, problems.Err()
	}
	if most := d.watchdog + workerLifeAfter/2; mixed.Timeouts.WorkerWatchdog > most {
		return nil, config.Change{}, fmt.Errorf("reload: timeouts.worker_watchdog_seconds: workers' keys are made "+
			"for %s at most, until a restart: want at most %.0f, or restart the director",
			most, most.Seconds())
	}
	sums := ownSums(mixed)
	if now, err = d.newSetup(mixed, sums); err != nil {
		return nil, config.Change{}, err
	}
	for _, key := range sortedKeys(sums) { // the same path, and another content
		if was.FileSums[key] != sums[key] && !slices.Contains(change.Keys, key) {
			change.Keys = append(change.Keys, key)
		}
	}
	return now, change, nil
}

// putInForce replaces the setup as a whole. The session makes the machine follow.
func (d *daemon) putInForce(now *inforce.Setup, by string, change config.Change) {
	d.inForce.Replace(now, &fsm.SettingsChanged{
		By: by, Digest: now.Digest, Keys: change.Keys, Restart: change.Restart,
		Settings: d.settingsOf(now),
	})
	d.workspace.LeaveOut(now.StateGlobs)
	select {
	case d.reading.changed <- struct{}{}:
	default:
	}
}

// setup is what is in force. Keys that need a restart are in d.config, too, which never changes.
func (d *daemon) setup() *inforce.Setup {
	if c := d.inForce.Load(); c != nil {
		return c
	}
	return &inforce.Setup{Config: d.config} // nothing was opened yet
}

// newSetup derives a setup, whose folders are the absolute ones.
func (d *daemon) newSetup(read config.Config, sums map[string]string) (*inforce.Setup, error) {
	c, err := inforce.New(read, sums)
	c.Director.DataDir, c.Director.SharedDir = d.config.Director.DataDir, d.config.Director.SharedDir
	return c, err
}

// machineConfig is the part of a setup that decisions are made by.
func (d *daemon) machineConfig(c *inforce.Setup) fsm.Config {
	cfg := c.Machine(d.only.issues())
	if d.decides != nil {
		d.decides(&cfg)
	}
	return cfg
}

// sayReading logs what came of it.
func (d *daemon) sayReading(r operator.Reading) {
	log := d.log.With(zap.String("by", r.By), zap.String("digest", r.Digest))
	switch {
	case len(r.Problems) > 0:
		log.Error("the configuration is refused; what was read before goes on", zap.Strings("problems", r.Problems),
			zap.Time("since", r.Since))
	case len(r.Changed)+len(r.Restart) == 0 && r.By == atStart:
	case len(r.Changed)+len(r.Restart) == 0:
		log.Info("the configuration was read again; nothing in it has changed")
	default:
		log.Info("the configuration was read again", zap.Strings("changed", r.Changed))
		if len(r.Restart) > 0 {
			log.Warn("keys have other values in the configuration's file, which wait for a restart",
				zap.Strings("keys", r.Restart))
		}
	}
}

// followSettings has the machine decide by the setup that is in force, until ctx ends.
func (s *session) followSettings(ctx context.Context) error {
	for {
		// the session before may have ended too early
		if now := s.setup(); now != s.begun || now.Change != nil && !now.IsDecided() {
			if s.server != nil {
				s.server.Admit(now.Director.MaxWorkers)
			}
			cfg := s.machineConfig(now)
			if !s.owner.Decided(ctx, fsm.SettingsRead{SettingsChanged: *now.Change, Config: &cfg}) {
				return nil // the next session begins with it, and says so
			}
			s.begun = now
			s.views.Configure(cfg)
			s.metrics.Slots(now.Director.MaxWorkers)
			s.broker.limit(now.ModelLimits())
			now.MarkDecided()
		}
		select {
		case <-s.reading.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// reloadWait bounds how long /reload waits for the journal.
const reloadWait = 3 * time.Second

// reload answers POST /reload.
func (d *daemon) reload(w http.ResponseWriter, req *http.Request) {
	r := d.reread("director reload")
	status := http.StatusOK
	if len(r.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	} else if now := d.setup(); now.Decided() != nil {
		late := time.NewTimer(reloadWait)
		defer late.Stop()
		select {
		case <-now.Decided():
		case <-late.C:
			r.Pending = true
		case <-req.Context().Done():
		}
	}
	operator.Respond(w, status, r)
}

// configState is the reading for who asks how the director is.
func (d *daemon) configState() *wire.SnapshotConfig {
	r := d.reading.last.Load()
	if r == nil {
		return nil
	}
	s := &wire.SnapshotConfig{
		ReadAt: wire.At(r.At), By: r.By, Digest: r.Digest, Since: wire.At(r.Since),
		Restart: r.Restart, Problems: r.Problems,
	}
	return s
}

// configProblem is a clause about a configuration that was refused; empty: the last one was not.
func (d *daemon) configProblem() string {
	r := d.reading.last.Load()
	if r == nil || len(r.Problems) == 0 {
		return ""
	}
	return fmt.Sprintf("the configuration that was read at %s is refused (%s), and that of %s goes on: director "+
		"status shows each problem",
		r.At.Format(time.RFC3339), countOf(len(r.Problems), "problem"), r.Since.Format(time.RFC3339))
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// folders are where files lie, and where those lie that they are links to.
func folders(files []string) (dirs []string) {
	add := func(name string) {
		dir := filepath.Dir(name)
		if abs, err := filepath.Abs(dir); err == nil && !slices.Contains(dirs, abs) {
			dirs = append(dirs, abs)
		}
	}
	for _, name := range files {
		add(name)
		if real, err := filepath.EvalSymlinks(name); err == nil {
			add(real)
		}
	}
	return dirs
}

// changedFiles names the files of a configuration for people.
func changedFiles(files []string) string { return cmp.Or(strings.Join(files, ", "), "a file") }
