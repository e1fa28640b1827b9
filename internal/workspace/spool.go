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

// maxSpooled is how many reports of an attempt are looked for. A worker makes one, which ends the attempt.
const maxSpooled = 4

// Spooled returns what an attempt's worker has left in its spool: reports that nobody acknowledged, in the
// order in which they were written, each of at most maxBytes. They are the files <attempt>.0001.json and so on
// in .retake/spool of the checkout and of the copy that is validated. No link is followed, and nothing else
// there is looked at, but the agent may have written all of it: the signature says whether it counts. A file
// that cannot be read is an error beside those that can.
func (w *Workspaces) Spooled(nonce, attempt string, maxBytes int64) (reports [][]byte, err error) {
	const op = "read the spool"
	if err := checkNonce(op, nonce); err != nil {
		return nil, err
	}
	t := w.task(op, nonce, nil)
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
