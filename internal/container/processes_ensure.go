package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/container/supervisor"
)

// imagePath is the PATH of common base images, which a container has when its image says nothing.
const imagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Ensure makes sure that the attempt's worker was started, and returns its id. See the package comment for what happens when
// it was before. Errors: ErrSpec, ErrHost. Whatever the spec says of Dir is meant for the attempt's own folder: the worker
// gets the true path in its arguments.
func (p *Processes) Ensure(ctx context.Context, spec Spec) (id string, err error) {
	if err := checkProcess(spec); err != nil {
		return "", err
	}
	_, release, err := p.takes.take(ctx, spec.AttemptID)
	if err != nil {
		return "", hostFailure("wait for attempt "+spec.AttemptID, err)
	}
	defer release(false)
	here, found, err := p.lookup(spec.AttemptID)
	if err != nil {
		return "", err
	}
	if found && here.started != nil {
		return here.id(), nil
	}
	return p.start(ctx, spec)
}

// checkProcess refuses what processes cannot have.
func checkProcess(spec Spec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	doing := "attempt " + spec.AttemptID
	if !clean(spec.Entrypoint[0]) {
		return refused(doing, "entrypoint %q: want an absolute path", spec.Entrypoint[0])
	}
	for _, f := range spec.Files {
		if !within(f.Path, Dir) || f.Path == Dir {
			return refused(doing, "file %s: a plain process is given files in %s only", f.Path, Dir)
		}
	}
	for _, m := range spec.Mounts {
		if err := checkProcessMount(m); err != nil {
			e := refused(doing, "%w", err)
			e.Next = `give it the same path on both sides, or run workers in Docker`
			return e
		}
	}
	return nil
}

// checkProcessMount accepts what a process sees anyway.
func checkProcessMount(m Mount) error {
	switch {
	case m.Volume:
		return fmt.Errorf("mount of volume %s at %s: a plain process has no volumes", m.Source, m.Target)
	case m.Source != m.Target:
		return fmt.Errorf("mount of %s at %s: a plain process sees this machine's files where they are", m.Source, m.Target)
	}
	if _, err := os.Stat(m.Source); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// start makes the folder and the supervisor. The lock keeps everybody else out from here until nothing of the attempt is left.
func (p *Processes) start(ctx context.Context, spec Spec) (id string, err error) {
	dir := filepath.Join(p.dir, spec.AttemptID)
	doing := "start " + spec.AttemptID
	if err := os.MkdirAll(dir, p.folderMode()); err != nil {
		return "", hostFailure(doing, err)
	}
	lock, id, err := p.lock(ctx, dir, spec)
	if err != nil || id != "" {
		return id, err
	}
	defer lock.Close()
	if err := p.furnish(dir, spec); err != nil {
		return "", err
	}
	ready, err := p.launch(dir, lock, spec)
	if err != nil {
		return "", err
	}
	defer ready.Close()
	// The supervisor lets go of its end when it has written something down, or when it dies.
	_ = ready.SetReadDeadline(time.Now().Add(p.limits.operation))
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := io.Copy(io.Discard, ready); err != nil {
		return "", hostFailure(doing, errors.Join(err, ctx.Err()))
	}
	return p.startOutcome(dir, spec)
}

// startOutcome reads what the supervisor says.
func (p *Processes) startOutcome(dir string, spec Spec) (id string, err error) {
	here, err := readProcess(dir)
	switch doing := "start " + spec.AttemptID; {
	case err != nil:
		return "", hostFailure(doing, err)
	case here.ended != nil && here.ended.StartError != "":
		e := refused(doing, "%s", here.ended.StartError)
		e.Next = "check the entrypoint, the checkout and the user"
		return "", e
	case here.started == nil:
		said, _ := os.ReadFile(filepath.Join(dir, supervisor.LogFile))
		e := refused(doing, "%s %s: %s", spec.WorkerBinary, supervisor.Command, said)
		e.Next = "is this the worker that belongs to this director?"
		return "", e
	default:
		return here.id(), nil
	}
}

// lock takes the folder's lock, or returns the id of a worker that somebody else has started meanwhile. A supervisor whose
// worker could not be started lets go of it in a moment.
func (p *Processes) lock(ctx context.Context, dir string, spec Spec) (lock *os.File, id string, err error) {
	doing := "start " + spec.AttemptID
	ours := false
	done, err := p.until(ctx, p.limits.confirm, func() (bool, error) {
		if lock, ours, err = supervisor.Lock(dir); err != nil {
			return false, hostFailure(doing, err)
		}
		here, found, err := p.lookup(spec.AttemptID)
		if found && here.started != nil {
			id = here.id()
		}
		return ours || id != "", err
	})
	if ours && (err != nil || id != "") {
		lock.Close()
	}
	if err == nil && !done {
		err = hostFailure(doing, errors.New("somebody else has begun to, and does not end"))
	}
	return lock, id, err
}

// furnish puts everything into the folder that has to be there before the worker runs, and nothing else.
func (p *Processes) furnish(dir string, spec Spec) error {
	uid, gid := -1, -1 // as ourselves
	if os.Geteuid() == 0 {
		uid, gid, _ = spec.ids() // valid
	}
	err := supervisor.Forget(dir)
	for _, name := range []string{retakeDir, homeDir, tmpDir} {
		err = errors.Join(err, removeTree(filepath.Join(dir, name)), os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	if err == nil {
		err = copyFiles(dir, spec)
	}
	for _, name := range []string{retakeDir, homeDir, tmpDir} {
		if err == nil {
			err = giveAway(filepath.Join(dir, name), uid, gid)
		}
	}
	if err == nil {
		err = supervisor.WriteFile(dir, recordFile, record{AttemptID: spec.AttemptID, Fleet: p.fleet, Task: spec.Task})
	}
	var e *Error
	if err != nil && !errors.As(err, &e) {
		err = hostFailure("put files for "+spec.AttemptID, err)
	}
	return err
}

func copyFiles(dir string, spec Spec) error {
	worker, _, err := openWorker(spec)
	if err != nil {
		return err
	}
	defer worker.Close()
	if err := putFile(truePath(dir, WorkerPath), worker, 0o555); err != nil {
		return err
	}
	for _, f := range spec.Files {
		at := truePath(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := putFile(at, bytes.NewReader(f.Data), f.Mode); err != nil {
			return err
		}
	}
	return nil
}

func putFile(at string, from io.Reader, mode os.FileMode) error {
	file, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

// giveAway makes the worker's user the owner of a folder and all in it, of the folder at last: until then nobody of that user
// can get in, to put a link to something else in our way.
func giveAway(dir string, uid, gid int) error {
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	return errors.Join(err, os.Lchown(dir, uid, gid))
}

// truePath translates a path of the spec: what lies in Dir lies in the attempt's folder.
func truePath(dir, p string) string {
	if !within(p, Dir) {
		return p
	}
	return filepath.Join(dir, retakeDir, strings.TrimPrefix(p, Dir))
}

// launch starts the supervisor, a session of its own, and hands it lock and order. Its program is never the copy in the
// folder, which the worker's user can change.
func (p *Processes) launch(dir string, lock *os.File, spec Spec) (ready *os.File, err error) {
	doing := "start " + spec.AttemptID
	order, err := json.Marshal(newOrder(dir, spec))
	if err != nil {
		return nil, refused(doing, "%w", err)
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	orderRead, orderWrite, err := os.Pipe()
	if err != nil {
		return nil, hostFailure(doing, err)
	}
	files = append(files, orderRead, orderWrite)
	ready, readyWrite, err := os.Pipe()
	if err != nil {
		return nil, hostFailure(doing, err)
	}
	files = append(files, readyWrite)
	log, err := os.OpenFile(filepath.Join(dir, supervisor.LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		files = append(files, log)
		err = p.fork(spec.WorkerBinary, []string{spec.WorkerBinary, supervisor.Command, dir}, &syscall.ProcAttr{
			Dir: "/", Env: []string{"PATH=" + imagePath, supervisor.Marker + "=" + spec.AttemptID},
			Files: []uintptr{orderRead.Fd(), readyWrite.Fd(), log.Fd(), lock.Fd()}, // the last one as supervisor.LockFD
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	}
	if err != nil {
		ready.Close()
		e := hostFailure(doing, fmt.Errorf("%s: %w", spec.WorkerBinary, err))
		if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC) {
			e.Kind, e.Transient, e.Next = ErrSpec, false, "build the worker for this machine, where programs may be executed"
		}
		return nil, e
	}
	// Through a pipe, since it may hold secrets. One that dies before it has read all shows in what it leaves.
	orderRead.Close()
	_ = orderWrite.SetWriteDeadline(time.Now().Add(p.limits.operation))
	if _, err := orderWrite.Write(order); err != nil {
		p.log.Warn("the supervisor did not take its order", zap.String("worker", spec.AttemptID), zap.Error(err))
	}
	return ready, nil
}

// fork makes a child that nobody waits for; reap clears up after it.
func (p *Processes) fork(program string, argv []string, attr *syscall.ProcAttr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(program, argv, attr)
	if err == nil {
		p.children[pid] = struct{}{}
	}
	return err
}

// newOrder says what the worker is: its environment is the spec's and what an engine adds, with a home of its own.
func newOrder(dir string, spec Spec) supervisor.Order {
	o := supervisor.Order{Workdir: spec.Checkout}
	for _, arg := range spec.Entrypoint {
		o.Argv = append(o.Argv, truePath(dir, arg))
	}
	if os.Geteuid() == 0 {
		o.UID, o.GID, _ = spec.ids() // valid
	}
	host, _ := os.Hostname()
	env := map[string]string{
		"PATH": imagePath, "HOSTNAME": host, "HOME": filepath.Join(dir, homeDir), "TMPDIR": filepath.Join(dir, tmpDir),
	}
	for _, e := range spec.Env {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	env[supervisor.Marker] = spec.AttemptID
	for _, name := range slices.Sorted(maps.Keys(env)) {
		o.Env = append(o.Env, name+"="+env[name])
	}
	return o
}
