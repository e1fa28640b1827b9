package lead

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/safefile"
)

// Installation returns the permanent id of a directory, and creates it if necessary. A director removes only
// containers and checkouts with that id.
func Installation(dir string, log *zap.Logger) (string, error) {
	path := filepath.Join(dir, "installation")
	name := ""
	err := safefile.Load(path, func(data []byte) error {
		if name = string(data); !loop.NonceForm.MatchString(name) {
			return fmt.Errorf("got %d bytes, want an id", len(data))
		}
		return nil
	})
	if damaged, ok := errors.AsType[*safefile.Damaged](err); ok {
		log.Warn("gave the data directory a new id, so containers with the old one are ignored",
			zap.Error(damaged))
	}
	if errors.Is(err, os.ErrNotExist) {
		name = loop.NewNonce()
		// ErrExist: another director that shares the directory has just created the file
		if err = safefile.WriteNew(path, 0o600, []byte(name)); errors.Is(err, os.ErrExist) {
			return Installation(dir, log)
		}
	}
	if err != nil {
		return "", fmt.Errorf("director: read the id of %s: %w", dir, err)
	}
	return name, nil
}

// Identity returns this process's entry in the lease. id identifies the process in the journal.
func Identity(id, runID, dataDir string, lock *Lock, log *zap.Logger) (bus.Leader, error) {
	dir, err := Installation(dataDir, log)
	if err != nil {
		return bus.Leader{}, err
	}
	host, _ := os.Hostname() // only for people
	return bus.Leader{ID: id, RunID: runID, Host: host, DataDir: dataDir, Dir: dir, Lock: lock.Name()}, nil
}
