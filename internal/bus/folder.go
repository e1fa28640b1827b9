package bus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Files in the bus's folder, besides the streams.
const (
	fileLock     = "lock"
	filePort     = "port.json"
	fileSecret   = "worker-secret"
	fileOperator = "operator.json"
)

// secretBytes is the size of the key that worker passwords derive from: that of SHA-256's output.
const secretBytes = 32

// A program that is just being started holds copies of all our files and sockets until it runs: a lock or a port can be
// taken for a moment although its owner has let go of it.
const (
	copiesLast = 2 * time.Second
	lookAgain  = 20 * time.Millisecond
)

// patiently repeats what fails because something is taken, for as long as a copy may be what has it.
func patiently(ctx context.Context, taken error, take func() error) error {
	for began := time.Now(); ; {
		err := take()
		if !errors.Is(err, taken) || time.Since(began) > copiesLast || !pause(ctx, lookAgain) {
			return err
		}
	}
}

// lockFolder takes the folder for this process; the kernel gives it back, also after a kill.
func lockFolder(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, fileLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := patiently(ctx, syscall.EWOULDBLOCK, func() error {
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: another director uses %s: stop it, or give this one a director.data_dir of its own", ErrUnavailable, dir), f.Close())
	}
	return f, nil
}

// keptSecret reads a secret from its file, or makes one at the first start.
func keptSecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) == secretBytes {
		return secret, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%w: %s has %d bytes instead of %d: remove it; running workers then lose their credentials", ErrUnavailable, path, len(secret), secretBytes)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	secret = make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return secret, writeFile(path, secret)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile replaces a file as a whole, readable by its owner only.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: write %s: %w", ErrUnavailable, path, err), os.Remove(f.Name()))
	}
	return nil
}
