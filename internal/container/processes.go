package container

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/container/supervisor"
	"retake/internal/safefile"
	"retake/internal/sys/procfs"
)

// Processes runs attempts as plain processes on this machine, for development. It is safe for concurrent use.
// Operations on the same attempt wait for each other.
//
// Each attempt has a directory in Options.Dir with the files of package supervisor, recordFile, and directories owned
// by the worker's user. Container paths below /retake are translated to retakeDir.
type Processes struct {
	fleet  string
	dir    string
	log    *zap.Logger
	limits limits
	apart  bool // set if workers run as another user and cannot see the paths in hide
	hide   []string

	attempts keyedLock
}

// Names in an attempt's directory, in addition to the supervisor's files.
const (
	recordFile = "attempt.json" // written last, so an interrupted Ensure leaves a directory without it
	retakeDir  = "retake"
	homeDir    = "home"
	tmpDir     = "tmp"
	workDir    = "work" // used if the attempt has no checkout on this machine
)

// record identifies the attempt that owns a directory.
type record struct {
	AttemptID string `json:"attempt_id"`
	Fleet     string `json:"fleet"`
	Task      string `json:"task"`
}

// OpenProcesses opens o.Dir and creates it if necessary. Error: ErrSpec if the directory or this system is unsuitable,
// or if workers cannot be isolated from the director although o.SameUser is false.
func OpenProcesses(_ context.Context, o Options) (*Processes, error) {
	if err := CanKeepApart(); err != nil && !o.SameUser {
		return nil, err
	}
	return readProcesses(o)
}

// readProcesses opens o.Dir without checking that workers can be started. It repairs damaged records and removes the
// directories of interrupted starts.
func readProcesses(o Options) (*Processes, error) {
	if !fleetName.MatchString(o.Fleet) || !filepath.IsAbs(o.Dir) {
		return nil, refused("open", "fleet %q, directory %q: want a fleet name of letters, digits, '_', '.', '-', "+
			"and an absolute path", o.Fleet, o.Dir)
	}
	if _, err := procfs.Boot(); err != nil {
		e := refused("open", "plain processes need Linux with /proc: %w", err)
		e.Next = "run workers in Docker"
		return nil, e
	}
	p := &Processes{
		fleet: o.Fleet, dir: filepath.Clean(o.Dir), log: cmp.Or(o.Log, zap.NewNop()), limits: defaultLimits,
		apart: !o.SameUser, hide: o.Hide,
	}
	if err := safefile.MkdirAll(p.dir, p.folderMode()); err != nil {
		return nil, refused("open", "process directory: %w", err)
	}
	found, _ := filepath.Glob(filepath.Join(p.dir, "*"))
	for _, dir := range found {
		if err := p.mend(dir); err != nil {
			return nil, hostFailure("read the state of "+filepath.Base(dir), err)
		}
		// If the record is missing, an Ensure or Stop was interrupted.
		if _, err := os.Lstat(filepath.Join(dir, recordFile)); errors.Is(err, fs.ErrNotExist) {
			if err := p.removeUnrecorded(filepath.Base(dir)); err != nil {
				p.log.Warn("could not remove process directory", zap.String("path", dir), zap.Error(err))
			}
		}
	}
	return p, nil
}

// mend moves damaged files in an attempt's directory aside. It recreates a damaged record, because later calls must
// find the worker.
func (p *Processes) mend(dir string) error {
	var r record
	err := safefile.Load(filepath.Join(dir, recordFile), func(data []byte) error { return json.Unmarshal(data, &r) })
	recordDamaged, ok := errors.AsType[*safefile.Damaged](err)
	if ok {
		err = supervisor.WriteFile(dir, recordFile, record{AttemptID: filepath.Base(dir), Fleet: p.fleet})
		p.log.Warn("recreated damaged process record", zap.Error(recordDamaged))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	damaged, more := supervisor.Mend(dir)
	for _, d := range damaged {
		p.log.Warn("set aside damaged process state", zap.Error(d))
	}
	return errors.Join(err, more)
}

// folderMode returns a mode that lets the workers' user traverse the directory without listing it.
func (p *Processes) folderMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// Warm does nothing.
func (p *Processes) Warm(context.Context) {}

// EnsureImage does nothing, because processes use this machine's files.
func (p *Processes) EnsureImage(context.Context, string) error { return nil }

// EnsureNetwork returns the loopback address, at which processes reach this machine.
func (p *Processes) EnsureNetwork(context.Context) (gateway string, err error) {
	return "127.0.0.1", nil
}

// Workdir returns the real path of a spec's checkout, or of the attempt's own work directory.
func (p *Processes) Workdir(s Spec) string {
	if s.Checkout == "" {
		return filepath.Join(p.dir, s.AttemptID, workDir)
	}
	return s.Checkout
}

// Close leaves processes running.
func (p *Processes) Close() error { return nil }

// Adopt does nothing, because the supervisor writes the streams to files.
func (p *Processes) Adopt(context.Context, string) error { return nil }

// process is an attempt's state, as read from the attempt's directory.
type process struct {
	record
	dir        string
	supervised bool // the supervisor is alive or being started, so processes may exist
	started    *supervisor.Started
	ended      *supervisor.Ended
}

// lookup reads an attempt's directory. Error: ErrSpec if it belongs to another fleet.
func (p *Processes) lookup(attemptID string) (*process, bool, error) {
	if !attemptName.MatchString(attemptID) {
		return nil, false, nil
	}
	here, err := readProcess(filepath.Join(p.dir, attemptID))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, hostFailure("read the state of "+attemptID, err)
	case here.Fleet != p.fleet:
		return nil, false, &Error{
			Kind: ErrSpec, Doing: "process " + attemptID,
			Cause: errors.New("a process with that id exists outside fleet " + p.fleet),
			Next:  "stop the process there, or give each fleet a separate data directory",
		}
	}
	return here, true, nil
}

func readProcess(dir string) (*process, error) {
	here := &process{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err == nil {
		err = json.Unmarshal(data, &here.record)
	}
	// Read the lock first, because a supervisor releases it after writing its last record. A supervisor that seems to
	// have died without a record may in fact have just started, so read everything twice.
	for try := 0; err == nil && try < 2; try++ {
		var errs [3]error
		here.supervised, errs[0] = supervisor.Locked(dir)
		here.started, errs[1] = supervisor.ReadStarted(dir)
		here.ended, errs[2] = supervisor.ReadEnded(dir)
		if err = errors.Join(errs[:]...); !here.lost() {
			break
		}
	}
	return here, err
}

// lost reports that the supervisor died before it recorded the worker's end.
func (h *process) lost() bool { return h.started != nil && h.ended == nil && !h.supervised }

func (h *process) ending() ending {
	e := ending{state: h.state()}
	if h.ended != nil {
		e.exitCode, e.startError = h.ended.ExitCode, h.ended.StartError
	}
	return e
}

func (h *process) state() State {
	switch {
	case h.ended != nil && h.ended.StartError != "":
		return StateCreated
	case h.ended != nil || h.lost():
		return StateExited
	case h.started != nil:
		if worker, lives := h.started.Worker.Lives(); lives && worker.Frozen() {
			return StatePaused
		}
		return StateRunning
	case h.supervised:
		return StateRunning // about to run
	default:
		return StateCreated
	}
}

// List returns all processes of this fleet, sorted by attempt id.
func (p *Processes) List(_ context.Context) ([]Status, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, hostFailure("list processes", err)
	}
	list := []Status{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		here, err := readProcess(filepath.Join(p.dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being created or removed
		}
		if err != nil { // omitting the attempt would mean that it is not running
			return nil, hostFailure("read the state of "+e.Name(), err)
		}
		if here.Fleet == p.fleet {
			list = append(list, Status{AttemptID: here.AttemptID, Task: here.Task, State: here.state()})
		}
	}
	SortStatuses(list)
	return list, nil
}

// Find returns the entry of List for one attempt.
func (p *Processes) Find(_ context.Context, attemptID string) (s Status, found bool, err error) {
	if !attemptName.MatchString(attemptID) {
		return Status{}, false, nil
	}
	here, err := readProcess(filepath.Join(p.dir, attemptID))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && here.Fleet != p.fleet:
		return Status{}, false, nil
	case err != nil:
		return Status{}, false, hostFailure("read the state of "+attemptID, err)
	}
	return Status{AttemptID: here.AttemptID, Task: here.Task, State: here.state()}, true, nil
}

// signal signals the worker, if it was started since the last boot.
func (h *process) signal(sig syscall.Signal) (sent bool, err error) {
	if boot, err := procfs.Boot(); err != nil || h.started == nil || boot != h.started.Boot {
		return false, err
	}
	return h.started.Worker.Signal(sig)
}

// watchEvery is the polling interval of Watch, which reads a few files per attempt.
const watchEvery = 200 * time.Millisecond

// Watch calls changed from one goroutine, once at the beginning and then whenever the list has changed. It returns
// ctx's error.
func (p *Processes) Watch(ctx context.Context, changed func()) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var before []Status
	for listed, failing := false, false; ; {
		now, err := p.List(ctx)
		if err != nil && !failing {
			p.log.Warn("could not watch processes", zap.Error(err))
		}
		if failing = err != nil; !failing && (!listed || !slices.Equal(before, now)) {
			before, listed = now, true
			changed()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
