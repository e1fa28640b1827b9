package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"retake/internal/bus/keys"
)

// earlierAccounts are the folders of the accounts that the server had before they had keys: of the journal with its snapshots,
// and of reports and dead letters.
var earlierAccounts = []string{"DIRECTOR", "BUS"}

// adoptStreams moves the streams that were stored under the earlier accounts to those that have keys. It can be cut off at
// any moment and goes on at the next start.
func adoptStreams(store string, t keys.Trusted) error {
	store = filepath.Join(store, "jetstream") // NATS's own folder within
	for i, account := range []string{t.Director, t.Reports} {
		earlier := earlierAccounts[i]
		from := filepath.Join(store, earlier, "streams")
		streams, err := os.ReadDir(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to := filepath.Join(store, account, "streams")
		if err == nil {
			err = os.MkdirAll(to, 0o750)
		}
		for _, s := range streams {
			if err == nil {
				err = os.Rename(filepath.Join(from, s.Name()), filepath.Join(to, s.Name()))
			}
		}
		if err == nil {
			err = os.RemoveAll(filepath.Join(store, earlier))
		}
		if err != nil {
			return fmt.Errorf("bus: streams of an earlier version in %s: %w", from, err)
		}
	}
	return nil
}
