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

// Processes runs attempts as plain processes of this machine, for development. Safe for concurrent use;
// operations on the same attempt wait for each other.
//
// Each attempt has a folder of its name in Options.Dir: what package supervisor puts there, recordFile, and
// three folders that belong to the worker's user: retakeDir stands for Dir, homeDir and tmpDir are gone with
// it.
type Processes struct {
	fleet  string
	dir    string
	log    *zap.Logger
	limits limits
	apart  bool // workers have another user than ours, and a view of this machine without hide
	hide   []string

	attempts keyedLock
}

// Names in an attempt's folder, beside the supervisor's.
const (
	recordFile = "attempt.json" // written last: without it the folder is an Ensure that was cut off
	retakeDir  = "retake"
	homeDir    = "home"
	tmpDir     = "tmp"
	workDir    = "work" // if the checkout is not on this machine
)

// record identifies the folder's attempt.
type record struct {
	AttemptID string `json:"attempt_id"`
	Fleet     string `json:"fleet"`
	Task      string `json:"task"`
}

// OpenProcesses opens o.Dir, which it makes if need be. Errors: ErrSpec if the folder or this system cannot
// serve, or if workers cannot be kept from what the director knows and that was not asked for.
func OpenProcesses(_ context.Context, o Options) (*Processes, error) {
	if err := CanKeepApart(); err != nil && !o.SameUser {
		return nil, err
	}
	return readProcesses(o)
}

// readProcesses opens what an earlier run may have left, too, whatever this one may start.
func readProcesses(o Options) (*Processes, error) {
	if !fleetName.MatchString(o.Fleet) || !filepath.IsAbs(o.Dir) {
		return nil, refused("open", "fleet %q, folder %q: want a fleet of letters, digits, '_', '.', '-', and an "+
			"absolute path", o.Fleet, o.Dir)
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
		return nil, refused("open", "folder for processes: %w", err)
	}
	found, _ := filepath.Glob(filepath.Join(p.dir, "*"))
	for _, dir := range found {
		if err := p.mend(dir); err != nil {
			return nil, hostFailure("read about "+filepath.Base(dir), err)
		}
		// Without a record it is of an Ensure or a Stop that was cut off.
		if _, err := os.Lstat(filepath.Join(dir, recordFile)); errors.Is(err, fs.ErrNotExist) {
			if err := p.removeUnrecorded(filepath.Base(dir)); err != nil {
				p.log.Warn("the folder of a process cannot be removed", zap.String("path", dir), zap.Error(err))
			}
		}
	}
	return p, nil
}

// mend sets aside what is damaged in an attempt's folder. The record is made again: its worker must be found,
// whatever became of the file.
func (p *Processes) mend(dir string) error {
	var r record
	err := safefile.Load(filepath.Join(dir, recordFile), func(data []byte) error { return json.Unmarshal(data, &r) })
	recordDamaged, ok := errors.AsType[*safefile.Damaged](err)
	if ok {
		err = supervisor.WriteFile(dir, recordFile, record{AttemptID: filepath.Base(dir), Fleet: p.fleet})
		p.log.Warn("the record of a process was made again", zap.Error(recordDamaged))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	damaged, more := supervisor.Mend(dir)
	for _, d := range damaged {
		p.log.Warn("how a process runs or ended is not known", zap.Error(d))
	}
	return errors.Join(err, more)
}

// folderMode lets another user through to the worker's folders, without letting it look around.
func (p *Processes) folderMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// Warm has nothing to do.
func (p *Processes) Warm(context.Context) {}

// EnsureImage has nothing to do: processes run from this machine's own files.
func (p *Processes) EnsureImage(context.Context, string) error { return nil }

// EnsureNetwork returns the loopback address: that is where processes reach this machine.
func (p *Processes) EnsureNetwork(context.Context) (gateway string, err error) {
	return "127.0.0.1", nil
}

// Workdir returns where the worker of a spec finds its checkout: where it really lies, or a folder of the attempt's.
func (p *Processes) Workdir(s Spec) string {
	if s.Checkout == "" {
		return filepath.Join(p.dir, s.AttemptID, workDir)
	}
	return s.Checkout
}

// Close leaves processes running.
func (p *Processes) Close() error { return nil }

// Adopt has nothing to do: streams go to files without our help.
func (p *Processes) Adopt(context.Context, string) error { return nil }

// process is one attempt as its folder shows it.
type process struct {
	record
	dir        string
	supervised bool // its supervisor lives, or is being started: processes may exist
	started    *supervisor.Started
	ended      *supervisor.Ended
}

// lookup reads an attempt's folder. Error: ErrSpec if it is another fleet's.
func (p *Processes) lookup(attemptID string) (*process, bool, error) {
	if !attemptName.MatchString(attemptID) {
		return nil, false, nil
	}
	here, err := readProcess(filepath.Join(p.dir, attemptID))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, hostFailure("read about "+attemptID, err)
	case here.Fleet != p.fleet:
		return nil, false, &Error{
			Kind: ErrSpec, Doing: "process " + attemptID, Cause: errors.New("it exists and is not of fleet " + p.fleet),
			Next: "stop it there, or give each fleet a data directory of its own",
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
	// The lock first: a supervisor writes its last record and then lets go. Once more if it seems to have died
	// without one: it may have been started in between.
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

// lost reports that the supervisor died before it could record how the worker ended.
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
		return StateRunning // any moment now
	default:
		return StateCreated
	}
}

// List returns all processes of this fleet, in the order of their attempt ids.
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
			continue // being made, or being removed
		}
		if err != nil { // to leave it out would say that nothing runs there
			return nil, hostFailure("read about "+e.Name(), err)
		}
		if here.Fleet == p.fleet {
			list = append(list, Status{AttemptID: here.AttemptID, Task: here.Task, State: here.state()})
		}
	}
	SortStatuses(list)
	return list, nil
}

// Find returns what List would say of one attempt.
func (p *Processes) Find(_ context.Context, attemptID string) (s Status, found bool, err error) {
	if !attemptName.MatchString(attemptID) {
		return Status{}, false, nil
	}
	here, err := readProcess(filepath.Join(p.dir, attemptID))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && here.Fleet != p.fleet:
		return Status{}, false, nil
	case err != nil:
		return Status{}, false, hostFailure("read about "+attemptID, err)
	}
	return Status{AttemptID: here.AttemptID, Task: here.Task, State: here.state()}, true, nil
}

// signal signals the worker, if this is the boot that it was started in.
func (h *process) signal(sig syscall.Signal) (sent bool, err error) {
	if boot, err := procfs.Boot(); err != nil || h.started == nil || boot != h.started.Boot {
		return false, err
	}
	return h.started.Worker.Signal(sig)
}

// watchEvery is how often Watch looks: a few files per attempt.
const watchEvery = 200 * time.Millisecond

// Watch calls changed, from one goroutine, at the beginning and whenever the list has changed, until ctx ends;
// it returns ctx's error.
func (p *Processes) Watch(ctx context.Context, changed func()) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var before []Status
	for listed, failing := false, false; ; {
		now, err := p.List(ctx)
		if err != nil && !failing {
			p.log.Warn("processes cannot be watched", zap.Error(err))
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
