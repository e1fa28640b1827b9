package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// maxSpooled is the maximum number of reports to read per attempt. A worker writes only one report, which ends the
// attempt.
const maxSpooled = 4

// Spooled returns the unacknowledged reports that an attempt's worker left in its spool, oldest first, each at most
// maxBytes long. They are the files .retake/spool/<attempt>.0001.json and so on, in the checkout and in the validation
// copy. Spooled never follows links or reads other files. The agent may have forged the reports, so the caller must
// verify their signatures. Spooled skips reports that it cannot read, and returns an error that lists them.
func (w *Workspaces) Spooled(nonce, attempt string, maxBytes int64) (reports [][]byte, err error) {
	const op = "read the spool"
	t, err := w.tasks.find(op, nonce)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{t.checkout(), t.validation()} {
		root, failed := os.OpenRoot(dir)
		if errors.Is(failed, fs.ErrNotExist) {
			continue
		}
		if failed != nil {
			err = errors.Join(err, system(op, failed))
			continue
		}
		for n := 1; n <= maxSpooled; n++ {
			data, whole, failed := safefile.Tail(root,
				path.Join(worktree.OwnFolder, "spool", fmt.Sprintf("%s.%04d.json", attempt, n)), 0, maxBytes)
			switch {
			case errors.Is(failed, fs.ErrNotExist):
			case failed == nil && !whole:
				err = errors.Join(err, refuse(op, "", "report %d of %s is larger than %d bytes", n, attempt, maxBytes))
			case failed != nil:
				err = errors.Join(err, system(op, failed))
			default:
				reports = append(reports, data)
			}
		}
		_ = root.Close()
	}
	return reports, err
}
