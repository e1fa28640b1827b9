package worker

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/safefile"

	"github.com/bmatcuk/doublestar/v4"
	"go.uber.org/zap"
)

// Limits on reading a program's logs: the number of files, and the number of bytes from the end of each file.
const (
	maxLogFiles = 1000
	maxLogBytes = 16 << 10
)

// logPlace is a log file in the HOME of the stage's program or in the work tree.
type logPlace struct {
	inHome bool
	name   string
}

func (p logPlace) String() string {
	if p.inHome {
		return "~/" + p.name
	}
	return p.name
}

// stageLogs finds the log file written by a stage's program. before holds the log files that existed before the stage.
type stageLogs struct {
	paths   []string
	folders map[bool]string // indexed by inHome
	before  map[logPlace]fs.FileInfo
	log     *zap.Logger
}

// logsOf records the log files that exist before a stage runs.
func (a *attempt) logsOf(s wire.StagePlan) stageLogs {
	l := stageLogs{
		paths: s.LogPaths, log: a.log,
		folders: map[bool]string{false: a.plan.Workdir, true: cmp.Or(s.Env["HOME"], a.env["HOME"])},
	}
	l.before = l.list()
	return l
}

// list returns the log files that exist now. It stops searching when it has found maxLogFiles.
func (l stageLogs) list() map[logPlace]fs.FileInfo {
	found := map[logPlace]fs.FileInfo{}
	for _, glob := range l.paths {
		glob, inHome := strings.CutPrefix(glob, "~/")
		root, err := os.OpenRoot(l.folders[inHome])
		if err != nil {
			continue // if the directory is missing, so are the logs
		}
		_ = doublestar.GlobWalk(root.FS(), glob, func(name string, d fs.DirEntry) error {
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				found[logPlace{inHome, name}] = info
			}
			if len(found) >= maxLogFiles {
				return fs.SkipAll
			}
			return nil
		}, doublestar.WithNoFollow())
		_ = root.Close()
	}
	return found
}

// written returns the tail of the text that the stage added to its newest log file, under a heading with the file name.
// It returns "" if the stage did not write a log file.
func (l stageLogs) written() string {
	var newest logPlace
	var now fs.FileInfo
	for place, info := range l.list() {
		old := l.before[place]
		if old != nil && os.SameFile(old, info) && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime()) {
			continue
		}
		if now == nil || info.ModTime().After(now.ModTime()) || info.ModTime().Equal(now.ModTime()) &&
			place.name > newest.name {
			newest, now = place, info
		}
	}
	if now == nil {
		return ""
	}
	from := int64(0)
	if old := l.before[newest]; old != nil && os.SameFile(old, now) && old.Size() <= now.Size() {
		from = old.Size()
	}
	text, err := l.read(newest, from)
	if err != nil {
		l.log.Warn("could not read log file", zap.Stringer("file", newest), zap.Error(err))
		return ""
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return fmt.Sprintf("--- %s ---\n%s\n", newest, strings.TrimRight(text, "\n"))
}

// read returns the tail of a log file, starting with a whole line, because the redactor would not recognize half a
// secret.
func (l stageLogs) read(place logPlace, from int64) (string, error) {
	root, err := os.OpenRoot(l.folders[place.inHome])
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	data, whole, err := safefile.Tail(root, place.name, from, maxLogBytes)
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if !whole {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text, err
}
