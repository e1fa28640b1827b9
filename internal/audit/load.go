package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// Store holds the records read from a data directory. A director may still be writing there.
type Store struct {
	Dir      string // absolute path of the data directory
	Attempts []Meta // oldest first
	Tasks    []TaskRecord
	Problems []string // unreadable files, which stay unchanged
}

// TaskRecord is the state of one task.
type TaskRecord struct {
	Stats
	Last *LastFailure // nil if it never failed
	Path string       // path of the task's stats.json
}

// errNoDirector means that a directory does not exist or does not contain a director's files.
var errNoDirector = errors.New("audit: not a director's data directory")

const wantDir = "set --dir to the director.data_dir of a previous run, or --config to its configuration"

// traces lists the files that a director creates in its data directory as soon as it starts.
var traces = []string{"lock", "installation", auditsDir, stateDir, eventsFile}

// Find is like Load, but for a directory named by a person. It returns an error if a director has never used the
// directory.
func Find(dir string) (*Store, error) {
	s, err := Load(dir)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(traces, func(name string) bool { return exists(filepath.Join(s.Dir, name)) }) {
		return nil, fmt.Errorf("%w: %s; %s", errNoDirector, s.Dir, wantDir)
	}
	return s, nil
}

// errNoRun reports an unknown run.
var errNoRun = errors.New("audit: no such run")

// knows returns an error unless the store has records of the run. Run ids sort by time, so the error can list the
// latest runs.
func (s *Store) knows(run string) error {
	var runs []string
	for _, t := range s.Tasks {
		runs = append(runs, t.RunID)
	}
	for _, m := range s.Attempts {
		runs = append(runs, m.RunID)
	}
	if slices.Contains(runs, run) {
		return nil
	}
	slices.Sort(runs)
	runs = slices.DeleteFunc(slices.Compact(runs), func(id string) bool { return id == "" })
	if len(runs) == 0 {
		return fmt.Errorf("%w: %s; %s has no runs yet", errNoRun, run, s.Dir)
	}
	slices.Reverse(runs)
	return fmt.Errorf("%w: %s; the latest in %s are %s", errNoRun, run, s.Dir,
		strings.Join(runs[:min(len(runs), 3)], ", "))
}

// Load reads a data directory without changing it. It returns an error if dir is not a directory. Load adds unreadable
// files to Problems.
func Load(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{Dir: dir}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is not a directory; %s", errNoDirector, dir, wantDir)
	}
	err = each(filepath.Join(dir, auditsDir), func(name, path string) {
		var m Meta
		if !attemptID.MatchString(name) {
			return
		}
		if path = filepath.Join(path, metaFile); s.read(path, &m) {
			s.Attempts = append(s.Attempts, m)
		}
	})
	if err != nil {
		return nil, err
	}
	err = each(filepath.Join(dir, stateDir), func(name, path string) {
		t := TaskRecord{Path: filepath.Join(path, statsFile)}
		var err error
		if t.Stats, err = ReadStats(t.Path); errors.Is(err, fs.ErrNotExist) {
			return
		} else if err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", t.Path, err))
			return
		}
		var last LastFailure
		if path = filepath.Join(path, failureFile); s.read(path, &last) {
			t.Last = &last
		}
		t.Issue = cmp.Or(t.Issue, issueOf(name))
		s.Tasks = append(s.Tasks, t)
	})
	slices.SortFunc(s.Attempts, func(a, b Meta) int { return byAge(entryOf(a), entryOf(b)) })
	slices.SortFunc(s.Tasks, func(a, b TaskRecord) int {
		x, m, _ := strings.Cut(a.Issue, "#")
		y, n, _ := strings.Cut(b.Issue, "#")
		// a number with fewer digits is lower
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(m), len(n)), cmp.Compare(m, n))
	})
	return s, err
}

// read reads a JSON document. It returns false if the file is missing or unreadable, and adds an unreadable file to
// Problems.
func (s *Store) read(path string, v any) bool {
	err := readJSON(path, v)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", path, err))
	}
	return err == nil
}

func each(root string, do func(name, path string)) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			do(e.Name(), filepath.Join(root, e.Name()))
		}
	}
	return err
}

// standing is the category of a task in a report.
type standing int

const (
	underWay standing = iota
	completed
	failed
	asked
	givenBack
)

// gaveUp lists the actions that require a person before any retry.
var gaveUp = []string{"escalate", "skip", "stop", "abort"}

// standingOf returns the category of a task. A released task counts as failed if its last verdict gave up, and as
// givenBack otherwise, for example if its issue was closed while it waited for a retry.
func standingOf(s Stats, last *LastFailure) standing {
	switch s.State {
	case "Done":
		return completed
	case stateBlocked:
		if last != nil && last.Attempt == s.Attempt && last.ErrorType == string(recovery.NeedsHuman) {
			return asked
		}
		return failed
	case "Released", "Forgotten":
		if last != nil && last.Attempt == s.Attempt && slices.Contains(gaveUp, last.Action) {
			return failed
		}
		return givenBack
	}
	return underWay
}

// ReportOptions select and describe the content of a report.
type ReportOptions struct {
	RunID           string // only tasks last written by this run; empty for all
	Mode            string
	ContinueOnError bool
	Aborted         string
	Now             time.Time // zero: time.Now
}

// Report gathers a report's data.
func (s *Store) Report(o ReportOptions) ReportData {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	d := ReportData{
		Dir: s.Dir, Generated: wire.At(o.Now), RunID: o.RunID, Mode: cmp.Or(o.Mode, "normal"),
		ContinueOnError: o.ContinueOnError, Aborted: o.Aborted,
		DependsOn: map[string][]string{}, Problems: s.Problems,
	}
	failing, waiting := map[string]bool{}, map[string][]string{}
	for _, t := range s.Tasks {
		if o.RunID != "" && t.RunID != o.RunID {
			continue
		}
		d.Total++
		d.DependsOn[t.Issue] = t.DependsOn
		if t.Merged {
			d.Merged++
		}
		switch standingOf(t.Stats, t.Last) {
		case completed:
			d.Completed++
		case failed:
			d.Failed, failing[t.Issue] = append(d.Failed, s.failed(t)), true
		case asked:
			d.Asked = append(d.Asked, AskedTask{t.Issue, t.Title, t.URL, cmp.Or(t.Last.Message, t.Last.Ask)})
		case givenBack:
			d.GivenBack++
		case underWay:
			d.Open++
			waiting[t.Issue] = t.DependsOn
		}
	}
	for _, id := range slices.Sorted(maps.Keys(waiting)) {
		on := slices.DeleteFunc(slices.Clone(waiting[id]), func(on string) bool { return !failing[on] })
		if len(on) > 0 {
			d.Skipped, d.Open = append(d.Skipped, SkippedTask{id, on}), d.Open-1
		}
	}
	for _, m := range s.Attempts {
		if m.Failure != nil && (o.RunID == "" || m.RunID == o.RunID) {
			if m.Failure.Continued {
				d.Continued++
			}
			d.Timeline = append(d.Timeline, TimelineEntry{
				At: wire.At(cmp.Or(m.Failure.DecidedAt.Time, entryOf(m).at())), ID: m.Issue, Attempt: m.Attempt,
				Stage: m.Stage, Reason: m.Failure.Reason, Cause: m.Failure.Cause,
				Signature: m.Failure.Signature, Action: m.Failure.Action,
			})
		}
	}
	// a delivery can fail long after its attempt
	slices.SortStableFunc(d.Timeline, func(a, b TimelineEntry) int { return a.At.Compare(b.At.Time) })
	d.Incidents = incidents(d.Timeline)
	s.addSpent(&d)
	return d
}

func (s *Store) failed(t TaskRecord) FailedTask {
	f := FailedTask{
		ID: t.Issue, Title: t.Title, URL: t.URL, Phase: t.State, Milestone: t.Stage,
		ErrorType: string(recovery.Unknown), Attempts: t.Attempt,
		Timestamp: t.UpdatedAt, BudgetUsedUp: t.PaidCallBudget > 0 && t.PaidCallsUsed >= t.PaidCallBudget,
	}
	if l := t.Last; l != nil {
		f.ErrorType, f.Message, f.Timestamp, f.Milestone = l.ErrorType, l.Message, l.Timestamp,
			cmp.Or(l.Milestone, t.Stage)
		f.Ask, f.Tail, f.Files = l.Ask, lastLines(l.Stack, 10), s.files(l.AttemptID)
		f.Action, f.Why, f.Signature, f.BlockedDependencies = l.Action, l.Why, l.Signature, l.BlockedDependencies
	}
	return f
}

// files returns the most useful files of an attempt.
func (s *Store) files(attempt string) (paths []string) {
	dir, err := attemptFolder(s.Dir, attempt)
	if err != nil {
		return nil
	}
	for _, name := range []string{summaryFile, patchFile} {
		path := filepath.Join(dir, name)
		if size, err := sizeOf(path); err == nil && size > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// together is the longest gap between failures of one incident.
const together = time.Hour

// outage reports whether a cause can affect several tasks at once, because it does not come from a task's own work.
func outage(c recovery.Cause) bool { return c == recovery.Infrastructure || c == recovery.RateLimit }

// incidents groups failures into outages. In an outage, several tasks fail at about the same time, and their failures
// share a rate-limit or infrastructure reason, or a signature.
func incidents(timeline []TimelineEntry) []Incident {
	open := map[string]*Incident{}
	var out []Incident
	end := func(key string) {
		if i := open[key]; i != nil && len(i.Tasks) > 1 {
			out = append(out, *i)
		}
		delete(open, key)
	}
	for _, e := range timeline {
		key := e.Reason
		if !outage(about(e.Reason).Cause) {
			if key = e.Signature; key == "" {
				continue
			}
		}
		if i := open[key]; i != nil && e.At.Sub(i.To.Time) > together {
			end(key)
		}
		i := open[key]
		if i == nil {
			i = &Incident{Reason: e.Reason, Cause: e.Cause, From: e.At}
			open[key] = i
		}
		if i.To = e.At; !slices.Contains(i.Tasks, e.ID) {
			i.Tasks = append(i.Tasks, e.ID)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(open)) {
		end(key)
	}
	slices.SortStableFunc(out, func(a, b Incident) int { return a.From.Compare(b.From.Time) })
	return out
}
