package lead

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/safefile"
)

// LockFile is in every data directory that a director has run on.
const LockFile = "lock"

// A program that is just being started holds copies of all our files until it runs: the lock can be taken for a moment
// although the director that had it has ended.
const (
	lockPatience = 2 * time.Second
	lockRetry    = 20 * time.Millisecond
)

// Lock makes sure that one process has the data directory; the kernel releases it when that process ends. The
// zero value is a lock that was not taken. Any goroutine may call its methods.
type Lock struct {
	mu   sync.Mutex
	file *os.File // nil: it is not taken, or was released
}

// ErrLocked means that another director has the data directory.
var ErrLocked = errors.New("director: another director runs")

// Take takes a data directory, and makes it.
func (l *Lock) Take(ctx context.Context, dir string) error {
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	return l.take(ctx, dir, os.O_CREATE|os.O_RDWR, syscall.LOCK_EX)
}

// TakeToRead keeps directors from a data directory, and writes nothing: not even its lock file, if no director has ever
// run on it.
func (l *Lock) TakeToRead(ctx context.Context, dir string) error {
	err := l.take(ctx, dir, os.O_RDONLY, syscall.LOCK_SH)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (l *Lock) take(ctx context.Context, dir string, open, how int) error {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), open, 0o600)
	if err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	take := func() error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) } //nolint:gosec // a descriptor
	err = take()
	for began := time.Now(); errors.Is(err, syscall.EWOULDBLOCK) && time.Since(began) < lockPatience &&
		ctx.Err() == nil; err = take() {
		time.Sleep(lockRetry)
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("%w on %s: stop it, or give this one a director.data_dir and a director.fleet of its own",
			ErrLocked, dir)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = f
	return nil
}

// Close releases it.
func (l *Lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	if l.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// Renew makes sure that the data directory is the one that is locked. If its disk was away, and is back as
// another device, it is locked anew.
func (l *Lock) Renew(dir string) error {
	name := filepath.Join(dir, LockFile)
	now, err := os.Stat(name) // a disk that hangs keeps nobody from the lock
	if err != nil {           // every director makes one: an empty folder is what is left when a disk is taken away
		return fmt.Errorf("director.data_dir is not the folder that it was: its disk is gone, or somebody has "+
			"removed it (%w)", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return errors.New("director.data_dir is this director's no more: it ends")
	}
	if was, err := l.file.Stat(); err == nil && os.SameFile(was, now) {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err == nil {
		if err = syscall.Flock(int(f.Fd()),
			syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor
			_ = f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("director.data_dir is another folder than before, and cannot be locked: does another "+
			"director run on it? (%w)", err)
	}
	_ = l.file.Close()
	l.file = f
	return nil
}

// bootFile names the run of the machine, and with it who keeps its locks.
const bootFile = "/proc/sys/kernel/random/boot_id"

// Name is what the kernel that keeps the lock knows it by. A copy of the folder, on this machine or on a cloned
// one, has another. Empty: it cannot be told.
func (l *Lock) Name() string {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var st unix.Stat_t
	if l.file == nil || unix.Fstat(int(l.file.Fd()), &st) != nil { //nolint:gosec // a descriptor
		return ""
	}
	return fmt.Sprintf("%s/%x/%d", strings.TrimSpace(string(boot)), st.Dev, st.Ino)
}
