package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Names of files and directories.
const (
	auditsDir  = "audits"
	stateDir   = "state"
	outputsDir = "outputs"

	indexFile       = "index.json"
	eventsFile      = "events.jsonl"
	reportFile      = "ERROR_REPORT.md"
	metaFile        = "meta.json"
	workerLog       = "worker.log"
	buildLog        = "build.log"
	testLog         = "test.log"
	patchFile       = "patch.diff"
	summaryFile     = "summary.md"
	transitionsFile = "transitions.jsonl"
	statsFile       = "stats.json"
	failureFile     = "last_failure.json"
	taskSummaryFile = "_summary.md"
)

// ErrName reports an issue key or attempt id that cannot be used as a file name.
var ErrName = errors.New("audit: invalid name")

var (
	issueKey  = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_-]{0,99})/([A-Za-z0-9._-]{1,100})#([1-9][0-9]{0,17})$`)
	attemptID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
)

// TaskFolder returns the directory name of an issue, <owner>_<repo>_<n> in lower case, because GitHub ignores case in
// names. An underscore in an owner's name becomes %5f, so that two issues never share a directory.
func TaskFolder(issue string) (string, error) {
	m := issueKey.FindStringSubmatch(issue)
	if m == nil {
		return "", fmt.Errorf("%w: issue %.100q, want owner/repo#number", ErrName, issue)
	}
	return strings.ToLower(strings.ReplaceAll(m[1], "_", "%5f") + "_" + m[2] + "_" + m[3]), nil
}

// issueOf reverses TaskFolder, in lower case. It returns "" for any other directory name.
func issueOf(folder string) string {
	owner, rest, _ := strings.Cut(folder, "_")
	i := strings.LastIndexByte(rest, '_')
	if i < 0 {
		return ""
	}
	issue := strings.ReplaceAll(owner, "%5f", "_") + "/" + rest[:i] + "#" + rest[i+1:]
	if back, err := TaskFolder(issue); err != nil || back != folder {
		return ""
	}
	return issue
}

// StatsPath returns the path of an issue's stats.json.
func StatsPath(dir, issue string) (string, error) {
	folder, err := TaskFolder(issue)
	return filepath.Join(dir, stateDir, folder, statsFile), err
}

func attemptFolder(dir, id string) (string, error) {
	if !attemptID.MatchString(id) {
		return "", fmt.Errorf("%w: attempt %.100q", ErrName, id)
	}
	return filepath.Join(dir, auditsDir, id), nil
}
