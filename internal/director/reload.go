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

// reading holds what is needed to read the configuration again.
type reading struct {
	again   func() (config.Config, config.Problems) // nil if that is not possible
	file    string                                  // the configuration file; may be empty
	mu      sync.Mutex                              // serializes readings
	last    atomic.Pointer[operator.Reading]
	files   []string      // the files of the configuration, in force or as read last
	sum     string        // checksum of files from before the last reading
	every   time.Duration // pause between two checks of the files, regardless of the watch
	changed chan struct{} // another setup is in force; capacity 1, signals coalesce
}

// atStart is the origin of the first reading.
const atStart = "start"

// startReading records the first reading.
func (d *daemon) startReading(o Options) {
	d.reading.again, d.reading.file, d.reading.changed = o.Read, o.ConfigFile, make(chan struct{}, 1)
	d.reading.files, d.reading.every = d.configFiles(d.setup().Read), cmp.Or(o.filesEvery, filesEvery)
	d.reading.last.Store(&operator.Reading{At: d.since, By: atStart, Digest: d.setup().Digest, Since: d.since})
}

// configFiles returns the files of the given configurations.
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

// readFiles reads the configuration, and records the checksum of its files before the reading.
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

// sumOf returns the checksum of the files' content. Unreadable files contribute as well.
func sumOf(files []string) string {
	sum := sha256.New()
	for _, name := range files {
		data, err := os.ReadFile(name)
		fmt.Fprintf(sum, "%s %d %t\n%s", name, len(data), err == nil, data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ownSums returns the checksums of a configuration's own files, by key.
func ownSums(c config.Config) map[string]string {
	sums := map[string]string{}
	for key, path := range c.OwnFiles() {
		sums[key] = sumOf([]string{path})
	}
	return sums
}

// reread reads the configuration again and puts in force whatever can change at run time. by names the origin of
// the request.
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

// next returns the setup to put in force after the current one. An error means that the configuration is refused.
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
	for _, key := range sortedKeys(sums) { // same path, different content
		if was.FileSums[key] != sums[key] && !slices.Contains(change.Keys, key) {
			change.Keys = append(change.Keys, key)
		}
	}
	return now, change, nil
}

// putInForce replaces the whole setup. The session then updates the machine.
func (d *daemon) putInForce(now *inforce.Setup, by string, change config.Change) {
	d.inForce.Replace(now, &fsm.SettingsChanged{
		By: by, Digest: now.Digest, Keys: change.Keys, Restart: change.Restart,
		Settings: now.Settings(d.image()),
	})
	d.workspace.LeaveOut(now.StateGlobs)
	select {
	case d.reading.changed <- struct{}{}:
	default:
	}
}

// setup returns the setup in force. Keys that need a restart are also in d.config, which never changes.
func (d *daemon) setup() *inforce.Setup {
	if c := d.inForce.Load(); c != nil {
		return c
	}
	return &inforce.Setup{Config: d.config} // before the adapters are open
}

// newSetup derives a setup and makes its directories absolute.
func (d *daemon) newSetup(read config.Config, sums map[string]string) (*inforce.Setup, error) {
	c, err := inforce.New(read, sums)
	c.Director.DataDir, c.Director.SharedDir = d.config.Director.DataDir, d.config.Director.SharedDir
	return c, err
}

// machineConfig returns the part of a setup that the machine decides by.
func (d *daemon) machineConfig(c *inforce.Setup) fsm.Config {
	cfg := c.Machine(d.only.Issues())
	if d.decides != nil {
		d.decides(&cfg)
	}
	return cfg
}

// sayReading logs the result of a reading.
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

// followSettings makes the machine decide by the setup in force, until ctx ends.
func (s *session) followSettings(ctx context.Context) error {
	for {
		// the previous session may have ended before the decision
		if now := s.setup(); now != s.begun || now.Change != nil && !now.IsDecided() {
			if s.server != nil {
				s.server.Admit(now.Director.MaxWorkers)
			}
			cfg := s.machineConfig(now)
			if !s.owner.Decided(ctx, fsm.SettingsRead{SettingsChanged: *now.Change, Config: &cfg}) {
				return nil // the next session starts with it and reports it
			}
			s.begun = now
			s.views.Configure(cfg)
			s.metrics.Slots(now.Director.MaxWorkers)
			s.broker.Limit(now.ModelLimits())
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

// configState returns the last reading for status queries.
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

// configProblem returns a clause about a refused configuration, or "" if the last one was accepted.
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

// folders returns the directories of the files, and of the files that they link to.
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

// changedFiles names a configuration's files for people.
func changedFiles(files []string) string { return cmp.Or(strings.Join(files, ", "), "a file") }

// settings returns the settings that tasks remember.
func (d *daemon) settings() *fsm.Settings { return d.setup().Settings(d.image()) }
