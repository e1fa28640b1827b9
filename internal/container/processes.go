package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"retake/internal/container/supervisor"
)

// Processes runs attempts as plain processes of this machine, for development. Safe for concurrent use; operations on the same
// attempt take turns.
//
// Each attempt has a folder of its name in Options.Dir: what package supervisor puts there, recordFile, and three folders
// that belong to the worker's user: retakeDir stands for Dir, homeDir and tmpDir are gone with it.
type Processes struct {
	fleet  string
	dir    string
	log    *zap.Logger
	limits limits

	takes    turns[sent]
	mu       sync.Mutex
	children map[int]struct{} // supervisors that this process started and has to reap
}

// Names in an attempt's folder, beside the supervisor's.
const (
	recordFile = "attempt.json" // written last: without it the folder is an Ensure that was cut off
	retakeDir  = "retake"
	homeDir    = "home"
	tmpDir     = "tmp"
)

// gonePrefix begins the names of folders that are being removed; no attempt id begins with a dot.
const gonePrefix = ".gone-"

// record says whose folder it is.
type record struct {
	AttemptID string `json:"attempt_id"`
	Fleet     string `json:"fleet"`
	Task      string `json:"task"`
}

// OpenProcesses opens o.Dir, which it makes if need be. Errors: ErrSpec if the folder or this system cannot serve.
func OpenProcesses(_ context.Context, o Options) (*Processes, error) {
	if !fleetName.MatchString(o.Fleet) || !filepath.IsAbs(o.Dir) {
		return nil, refused("open", "fleet %q, folder %q: want a fleet of letters, digits, '_', '.', '-', and an absolute path", o.Fleet, o.Dir)
	}
	if _, err := supervisor.Boot(); err != nil {
		e := refused("open", "plain processes need Linux with /proc: %w", err)
		e.Next = "run workers in Docker"
		return nil, e
	}
	p := &Processes{fleet: o.Fleet, dir: filepath.Clean(o.Dir), log: o.Log, limits: defaultLimits, children: map[int]struct{}{}}
	if p.log == nil {
		p.log = zap.NewNop()
	}
	if err := os.MkdirAll(p.dir, p.folderMode()); err != nil {
		return nil, refused("open", "folder for processes: %w", err)
	}
	gone, _ := filepath.Glob(filepath.Join(p.dir, gonePrefix+"*"))
	for _, dir := range gone { // of a Stop that was cut off
		if err := removeTree(dir); err != nil {
			p.log.Warn("what is left of a process cannot be removed", zap.String("path", dir), zap.Error(err))
		}
	}
	return p, nil
}

// folderMode lets another user through to the worker's folders, without letting it look around.
func (p *Processes) folderMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// EnsureNetwork returns the loopback address: that is where processes reach this machine.
func (p *Processes) EnsureNetwork(context.Context) (gateway string, err error) {
	return "127.0.0.1", nil
}

// Workdir returns where the worker of a spec finds its checkout: where it really lies.
func (p *Processes) Workdir(s Spec) string { return s.Checkout }

// Close forgets everything. Processes go on.
func (p *Processes) Close() error {
	p.reap()
	return nil
}

// Adopt has nothing to do: streams go to files without our help. Errors: as List.
func (p *Processes) Adopt(_ context.Context, attemptID string) error {
	_, _, err := p.lookup(attemptID)
	return err
}

// Cannot says, in words for the log, which promises of a Spec plain processes do not keep.
func (p *Processes) Cannot() []string {
	cannot := []string{
		"no image: programs and files are this machine's",
		"no memory limit: an agent can use up this machine's memory, and what the kernel then kills is not told as out of memory",
		"no limit on CPUs and processes",
		"no file system of its own: a worker reads and changes whatever its user may, /tmp is shared, read-only mounts can be written",
		"no network of its own: a worker reaches whatever listens on this machine",
	}
	if uid := os.Geteuid(); uid != 0 {
		cannot = append(cannot, fmt.Sprintf("no user of its own: workers run as user %d, like the director, and can change its files", uid))
	}
	return cannot
}

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
	// The lock first: a supervisor writes its last word and then lets go. Once more if it seems to have died without one:
	// it may have been started in between.
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

// lost says that the supervisor died before it could say how the worker ended.
func (h *process) lost() bool { return h.started != nil && h.ended == nil && !h.supervised }

// ending is what is known of the end, in the words of an engine.
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

func (h *process) status() Status {
	e := h.ending()
	s := Status{AttemptID: h.AttemptID, Task: h.Task, ContainerID: h.id(), State: e.state, ExitCode: e.exitCode, StartError: e.startError}
	if h.started != nil {
		s.StartedAt = h.started.At
	}
	if h.ended != nil {
		s.FinishedAt = h.ended.At
	} else if e.state == StateExited {
		s.ExitCode = -1
	}
	return s
}

// id is for people, who want to know the process, and unique: starts are counted in hundredths of a second since boot.
func (h *process) id() string {
	if h.started == nil {
		return ""
	}
	return fmt.Sprintf("process-%d-%d", h.started.Worker.PID, h.started.Worker.Start)
}

// List returns all processes of this fleet, in the order of their attempt ids.
func (p *Processes) List(_ context.Context) ([]Status, error) {
	p.reap()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, hostFailure("list processes", err)
	}
	list := []Status{}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
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
			list = append(list, here.status())
		}
	}
	sortStatuses(list)
	return list, nil
}

// Signal sends a signal to an attempt's worker, as a person with its number would, but never to another process that got
// the same number. Errors: ErrSpec if no worker of that attempt lives.
func (p *Processes) Signal(attemptID string, sig syscall.Signal) error {
	here, found, err := p.lookup(attemptID)
	if err != nil {
		return err
	}
	if !found || here.started == nil {
		return refused("process "+attemptID, "it has no worker")
	}
	switch sent, err := here.signal(sig); {
	case err != nil:
		return hostFailure("signal "+attemptID, err)
	case !sent:
		return refused("process "+attemptID, "its worker has ended")
	}
	return nil
}

// signal signals the worker, if this is the boot that it was started in.
func (h *process) signal(sig syscall.Signal) (sent bool, err error) {
	if boot, err := supervisor.Boot(); err != nil || h.started == nil || boot != h.started.Boot {
		return false, err
	}
	return h.started.Worker.Signal(sig)
}

// reap clears the table of processes of supervisors that have ended and were our children.
func (p *Processes) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.children {
		if ended, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); ended == pid || errors.Is(err, syscall.ECHILD) {
			delete(p.children, pid)
		}
	}
}
