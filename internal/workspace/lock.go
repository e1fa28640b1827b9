package workspace

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lockPoll is the interval between attempts to take a busy lock. It is much shorter than a fetch, and much longer than
// a single attempt.
const lockPoll = 20 * time.Millisecond

// fileLock is an exclusive flock(2). It excludes other processes, and other calls in this process. Children that
// inherit the file keep the lock, so a new director waits until a killed director's git process has exited.
type fileLock struct {
	file *os.File
	path string
}

// lockFile waits for the lock until ctx is done.
func lockFile(ctx context.Context, path string) (*fileLock, error) {
	for {
		l, err := tryLock(path)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, interrupted(ctx, "lock "+path)
		case <-time.After(lockPoll):
		}
	}
}

// interrupted returns the error for an operation that was waiting for another git process when ctx ended.
func interrupted(ctx context.Context, op string) error {
	return &Error{
		Kind: Transient, Op: op, Detail: "a git process is still running here: " + ctx.Err().Error(), Err: ctx.Err(),
	}
}

// tryLock returns nil, nil if the lock is held.
func tryLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, system("lock", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && sameFile(f, path) {
		return &fileLock{file: f, path: path}, nil
	}
	_ = f.Close()
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, system("lock "+path, err)
}

// sameFile reports whether the path still names the locked file. The previous holder may have removed that file.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

func (l *fileLock) unlock() { _ = l.file.Close() }

// unlockAndRemove also removes the file. Waiting callers then create a new one.
func (l *fileLock) unlockAndRemove() {
	_ = os.Remove(l.path)
	l.unlock()
}
