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

// LockFile exists in every data directory that a director has used.
const LockFile = "lock"

// A child process holds the lock file open between fork and exec. The lock may therefore still be held shortly after
// the previous director has ended.
const (
	lockPatience = 2 * time.Second
	lockRetry    = 20 * time.Millisecond
)

// Lock ensures that only one process uses the data directory. The kernel releases it when the process ends. The zero
// value is not locked. Its methods are safe for concurrent use.
type Lock struct {
	mu   sync.Mutex
	file *os.File // nil if the lock is not taken
}

// ErrLocked means that another director uses the data directory.
var ErrLocked = errors.New("director: another director is running")

// Take creates the data directory if necessary, and locks it.
func (l *Lock) Take(ctx context.Context, dir string) error {
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	return l.take(ctx, dir, os.O_CREATE|os.O_RDWR, syscall.LOCK_EX)
}

// TakeToRead takes a shared lock on a data directory without writing to it, so that directors cannot start there. If no
// director has ever used the directory, TakeToRead returns nil without taking a lock.
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
		return fmt.Errorf("%w on %s: stop it, or set a different director.data_dir and director.fleet here",
			ErrLocked, dir)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = f
	return nil
}

// StopFirst changes the advice in an error from Take. Take advises a second director to use another data directory, but
// the user of a command must stop the running director first. StopFirst returns any other error unchanged.
func StopFirst(err error, dir string) error {
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w on %s. Stop it first; its workers will keep running", ErrLocked, dir)
	}
	return err
}

// Close releases the lock.
func (l *Lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	if l.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// Renew checks that the locked directory is still the data directory. If its disk was removed and reappeared as a
// different device, Renew takes the lock again.
func (l *Lock) Renew(dir string) error {
	name := filepath.Join(dir, LockFile)
	now, err := os.Stat(name) // without l.mu, because a hanging disk must not block the other methods
	if err != nil {           // the file exists, unless the directory or its disk was removed
		return fmt.Errorf("director.data_dir is no longer the same directory, because it was removed or its disk is "+
			"gone (%w)",
			err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return errors.New("another director has taken over director.data_dir, so this one stops")
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
		return fmt.Errorf("director.data_dir is now a different directory, and cannot be locked: is another director "+
			"using it? (%w)", err)
	}
	_ = l.file.Close()
	l.file = f
	return nil
}

// bootFile contains a random id of the current boot. The kernel of that boot holds the locks.
const bootFile = "/proc/sys/kernel/random/boot_id"

// Name returns an id for the lock, composed of the boot id and the lock file's device and inode. A copy of the
// directory, on this machine or a clone, has a different id. Name returns "" if it cannot read these values.
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
