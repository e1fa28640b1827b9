package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/safefile"
)

// earlierAccounts are the account directories of earlier versions, which identified accounts by name instead of key.
// The first has the journal and its snapshots, and the second has reports and dead letters.
var earlierAccounts = []string{"DIRECTOR", "BUS"}

// adoptStreams moves the streams of the earlier accounts to the accounts with keys. The next start continues an
// interrupted move. If both accounts have the same stream, an earlier version has run again after the move, so the
// stream of the earlier account is current. The other stream is kept in a separate directory.
func adoptStreams(dir string, t keys.Trusted, log *zap.Logger) error {
	store := filepath.Join(dir, dirStreams, "jetstream") // NATS itself adds "jetstream" to its StoreDir
	aside := filepath.Join(dir, "streams-before-"+time.Now().UTC().Format("20060102-150405Z"))
	for i, account := range []string{t.Director, t.Reports} {
		from := filepath.Join(store, earlierAccounts[i])
		streams, err := os.ReadDir(filepath.Join(from, "streams"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to := filepath.Join(store, account, "streams")
		if err == nil {
			err = safefile.MkdirAll(to, 0o750)
		}
		for _, s := range streams {
			if err == nil {
				err = replaceStream(filepath.Join(from, "streams", s.Name()), filepath.Join(to, s.Name()),
					filepath.Join(aside, earlierAccounts[i]), log)
			}
		}
		if err == nil {
			err = os.RemoveAll(from)
		}
		if err != nil {
			return fmt.Errorf("bus: adopt streams of an earlier version in %s: %w", from, err)
		}
	}
	return nil
}

// replaceStream moves a stream's directory. An existing directory at the target is moved into aside.
func replaceStream(from, to, aside string, log *zap.Logger) error {
	switch _, err := os.Lstat(to); {
	case errors.Is(err, fs.ErrNotExist):
		return safefile.Rename(from, to)
	case err != nil:
		return err
	}
	if err := safefile.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	log.Warn("continuing with the streams of an earlier version of Retake in this data directory; the previous "+
		"streams are kept",
		zap.String("stream", filepath.Base(to)), zap.String("kept_in", aside))
	return errors.Join(safefile.Rename(to, filepath.Join(aside, filepath.Base(to))), safefile.Rename(from, to))
}
