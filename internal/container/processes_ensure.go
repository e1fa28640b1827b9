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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"retake/internal/container/supervisor"
	"retake/internal/safefile"
	"retake/internal/sys/crashpoint"
)

// imagePath is the PATH of common base images, and the default for images that do not set PATH.
const imagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Ensure starts the attempt's worker unless it has already been started. The package comment describes what happens to
// an existing one. In the worker's arguments, it replaces Dir with the real path of the attempt's directory. Errors:
// ErrSpec, ErrHost.
func (p *Processes) Ensure(ctx context.Context, spec Spec) error {
	if err := checkProcess(spec); err != nil {
		return err
	}
	_, release, err := p.attempts.acquire(ctx, spec.AttemptID)
	if err != nil {
		return hostFailure("wait for attempt "+spec.AttemptID, err)
	}
	defer release(false)
	here, found, err := p.lookup(spec.AttemptID)
	if err != nil || found && here.started != nil {
		return err
	}
	return p.start(ctx, spec)
}

// checkProcess refuses settings that processes do not support.
func checkProcess(spec Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	doing := "attempt " + spec.AttemptID
	if !clean(spec.Entrypoint[0]) {
		return refused(doing, "entrypoint %q: want an absolute path", spec.Entrypoint[0])
	}
	if len(spec.Scratch) > 0 {
		return refused(doing, "scratch %q: a plain process uses the machine's directories", spec.Scratch)
	}
	for _, m := range spec.Mounts {
		if err := checkProcessMount(m); err != nil {
			return &Error{
				Kind: ErrSpec, Doing: doing, Cause: err,
				Next: "mount the directory at the same path, or run workers in Docker",
			}
		}
	}
	return nil
}

// checkProcessMount accepts only mounts of existing paths at the same path.
func checkProcessMount(m Mount) error {
	switch {
	case m.Volume:
		return fmt.Errorf("mount of volume %s at %s: a plain process has no volumes", m.Source, m.Target)
	case m.Source != m.Target:
		return fmt.Errorf("mount of %s at %s: a plain process sees this machine's files only at their real "+
			"paths", m.Source,
			m.Target)
	}
	if _, err := os.Stat(m.Source); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// start creates the directory and starts the supervisor. The lock prevents other starts until the attempt's last
// process has ended.
func (p *Processes) start(ctx context.Context, spec Spec) error {
	dir := filepath.Join(p.dir, spec.AttemptID)
	doing := "start " + spec.AttemptID
	if err := safefile.MkdirAll(dir, p.folderMode()); err != nil {
		return hostFailure(doing, err)
	}
	lock, running, err := p.lock(ctx, dir, spec)
	if err != nil || running {
		return err
	}
	defer lock.Close()
	if err := p.prepare(dir, spec); err != nil {
		return err
	}
	crashpoint.Reached("process/start/before")
	ready, err := p.launch(dir, lock, spec)
	crashpoint.Reached("process/start/after")
	if err != nil {
		return err
	}
	defer ready.Close()
	// The supervisor closes its end of the pipe after it has written its first record, or when it exits.
	_ = ready.SetReadDeadline(time.Now().Add(p.limits.operation))
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := io.Copy(io.Discard, ready); err != nil {
		return hostFailure(doing, errors.Join(err, ctx.Err()))
	}
	return startOutcome(dir, spec)
}

// startOutcome reads the supervisor's record.
func startOutcome(dir string, spec Spec) error {
	here, err := readProcess(dir)
	switch doing := "start " + spec.AttemptID; {
	case err != nil:
		return hostFailure(doing, err)
	case here.ended != nil && here.ended.StartError != "":
		e := refused(doing, "%s", here.ended.StartError)
		e.Next = "check the entrypoint, the checkout and the user"
		return e
	case here.started == nil:
		output, _ := os.ReadFile(filepath.Join(dir, supervisor.LogFile))
		e := refused(doing, "%s %s: %s", spec.WorkerBinary, supervisor.Command, output)
		e.Next = "check that the worker and the director have the same version"
		return e
	}
	return nil
}

// lock takes the directory's lock, unless another process has just started the worker. If a worker fails to start, its
// supervisor soon releases the lock.
func (p *Processes) lock(ctx context.Context, dir string, spec Spec) (lock *os.File, running bool, err error) {
	doing := "start " + spec.AttemptID
	locked := false
	done, err := until(ctx, p.limits.confirm, func() (bool, error) {
		if lock, locked, err = supervisor.Lock(dir); err != nil {
			return false, hostFailure(doing, err)
		}
		here, found, err := p.lookup(spec.AttemptID)
		running = found && here.started != nil
		return locked || running, err
	})
	if locked && (err != nil || running) {
		lock.Close()
	}
	if err == nil && !done {
		err = hostFailure(doing, errors.New("another process is still starting the worker"))
	}
	return lock, running, err
}

// ownFolders are the directories of an attempt that belong to the worker's user. They are removed with the attempt.
var ownFolders = [...]string{retakeDir, homeDir, tmpDir, workDir}

// prepare removes the leftovers of an earlier start and creates the worker's files.
func (p *Processes) prepare(dir string, spec Spec) error {
	uid, gid := -1, -1 // unchanged
	if os.Geteuid() == 0 {
		uid, gid, _ = spec.IDs() // already validated
	}
	err := supervisor.Forget(dir)
	for _, name := range ownFolders {
		err = errors.Join(err, safefile.RemoveAll(filepath.Join(dir, name)), os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	if err == nil {
		err = copyFiles(dir, spec)
	}
	for _, name := range ownFolders {
		if err == nil {
			err = chownTree(filepath.Join(dir, name), uid, gid)
		}
	}
	if err == nil {
		err = supervisor.WriteFile(dir, recordFile, record{AttemptID: spec.AttemptID, Fleet: p.fleet, Task: spec.Task})
	}
	if _, ours := errors.AsType[*Error](err); err != nil && !ours {
		err = hostFailure("write the files of "+spec.AttemptID, err)
	}
	return err
}

func copyFiles(dir string, spec Spec) error {
	worker, _, err := openWorker(spec)
	if err != nil {
		return err
	}
	defer worker.Close()
	if err := safefile.Create(truePath(dir, WorkerPath), 0o555, worker); err != nil {
		return err
	}
	for _, f := range spec.Files {
		if err := safefile.Create(filepath.Join(dir, retakeDir, f.Name), 0o600, bytes.NewReader(f.Data)); err != nil {
			return err
		}
	}
	return nil
}

// chownTree gives a directory and its content to the worker's user. It changes the directory itself last, because that
// user's processes could otherwise enter it and plant links during the walk.
func chownTree(dir string, uid, gid int) error {
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
	return errors.Join(err, os.Lchown(dir, uid, gid))
}

// truePath maps a path in Dir to its location in the attempt's directory.
func truePath(dir, p string) string {
	if !within(p, Dir) {
		return p
	}
	return filepath.Join(dir, retakeDir, strings.TrimPrefix(p, Dir))
}

// launch starts the supervisor in a new session and gives it the lock and the order. It does not run the program's copy
// in the attempt's directory, because the worker's user can modify that copy.
func (p *Processes) launch(dir string, lock *os.File, spec Spec) (ready *os.File, err error) {
	doing := "start " + spec.AttemptID
	order, err := json.Marshal(p.newOrder(dir, spec))
	if err != nil {
		return nil, refused(doing, "%w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, supervisor.LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, hostFailure(doing, err)
	}
	defer log.Close()
	ready, readyWrite, err := os.Pipe()
	if err != nil {
		return nil, hostFailure(doing, err)
	}
	defer readyWrite.Close()
	cmd := exec.Command(spec.WorkerBinary, supervisor.Command, dir)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + imagePath, supervisor.Marker + "=" + spec.AttemptID}
	cmd.Stdin = bytes.NewReader(order)                                         // a file could leak the secrets
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = readyWrite, log, []*os.File{lock} // the lock becomes supervisor.LockFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ready.Close()
		e := hostFailure(doing, err)
		if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC) {
			e.Kind, e.Transient, e.Next = ErrSpec, false, "build the worker for this machine, in a directory that "+
				"allows execution"
		}
		return nil, e
	}
	go func() { _ = cmd.Wait() }() // avoid a zombie; the result is in the directory
	return ready, nil
}

// newOrder returns the supervisor's order for a worker. The worker's environment consists of the variables that an
// engine usually sets, a home and a temporary directory, the spec's variables, and the supervisor's marker.
func (p *Processes) newOrder(dir string, spec Spec) supervisor.Order {
	var own []string
	for _, name := range ownFolders {
		own = append(own, filepath.Join(dir, name))
	}
	o := supervisor.Order{Workdir: p.Workdir(spec), Stdin: spec.Stdin, Apart: p.keptApart(own, spec)}
	for _, arg := range spec.Entrypoint {
		o.Argv = append(o.Argv, truePath(dir, arg))
	}
	if os.Geteuid() == 0 {
		o.UID, o.GID, _ = spec.IDs() // already validated
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

// MissingPrograms returns the names that plain processes cannot find in path, a list of directories. An empty path
// means imagePath.
func MissingPrograms(path string, names []string) (missing []string) {
	if path == "" {
		path = imagePath
	}
	for _, name := range names {
		if !isProgram(name, strings.Split(path, string(os.PathListSeparator))) {
			missing = append(missing, name)
		}
	}
	return missing
}

func isProgram(name string, folders []string) bool {
	if filepath.IsAbs(name) {
		folders = []string{""}
	}
	for _, dir := range folders {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
