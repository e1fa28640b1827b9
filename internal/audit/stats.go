package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"retake/internal/bus/wire"
)

var (
	// ErrNoStats: nothing was written about the task yet. That is not the same as zero.
	ErrNoStats = errors.New("audit: no stats")
	// ErrCorrupt: a counter that cannot be read. It was kept aside; the error says where.
	ErrCorrupt = errors.New("audit: stats cannot be read")
)

// Stats is stats.json: what a task has used up. A person may edit paid_calls_used; see Edit.
type Stats struct {
	SchemaVersion   string          `json:"schema_version"`
	Issue           string          `json:"issue"`
	Title           string          `json:"title"`
	URL             string          `json:"url,omitempty"`
	RunID           string          `json:"run_id,omitempty"`
	State           string          `json:"state"`
	Stage           string          `json:"stage,omitempty"`
	Attempt         int             `json:"attempt"`
	UpdatedAt       wire.Time       `json:"updated_at,omitzero"`
	PaidCallsUsed   int             `json:"paid_calls_used"`
	PaidCallBudget  int             `json:"paid_call_budget"` // 0: unlimited
	StagesCompleted []string        `json:"stages_completed"`
	Iterations      Iterations      `json:"iterations"`
	Tokens          int64           `json:"tokens"`
	CostUSD         float64         `json:"cost_usd"`
	CostBudgetUSD   float64         `json:"cost_budget_usd"` // 0: unlimited
	Signatures      map[string]Seen `json:"signatures"`
	DependsOn       []string        `json:"depends_on"`
	Written         *Written        `json:"written,omitempty"`
}

// Seen is how often a signature was seen since the task last succeeded.
type Seen struct {
	Count     int    `json:"count"`
	Class     string `json:"class"`
	FirstSeen Second `json:"first_seen"`
	LastSeen  Second `json:"last_seen"`
}

// Written is the director's seal: what it wrote itself. It stays what it is when a person edits the file.
type Written struct {
	PaidCallsUsed int    `json:"paid_calls_used"`
	SHA256        string `json:"sha256"` // of the document without the seal
}

// Second is a time as the founding document has it: UTC, to the second.
type Second struct{ time.Time }

// MarshalJSON writes the time to the second, in UTC.
func (s Second) MarshalJSON() ([]byte, error) {
	return []byte(s.UTC().Format(`"2006-01-02T15:04:05Z"`)), nil
}

// Edit is what a person wrote into paid_calls_used and nobody has taken yet.
type Edit struct {
	Issue         string
	PaidCallsUsed int // what it is to be
	Was           int // the director's own count, as it last wrote it
	Path          string
	At            time.Time // when the file was saved
}

// mostCalls is above any number of paid calls that one task can make; a number beyond is a slip.
const mostCalls = 1_000_000_000

// mostSignatures is how many a task keeps, the latest seen.
const mostSignatures = 100

// Edit returns what a person wrote, if it differs from what the director wrote. A file without a seal is a person's.
func (s Stats) Edit() (Edit, bool) {
	e := Edit{Issue: s.Issue, PaidCallsUsed: s.PaidCallsUsed}
	if s.Written == nil {
		return e, true
	}
	e.Was = s.Written.PaidCallsUsed
	return e, e.Was != s.PaidCallsUsed
}

// Touched says whether a person changed anything at all since the director wrote the file; its layout does not count.
func (s Stats) Touched() bool { return s.Written == nil || s.Written.SHA256 != s.sum() }

func (s Stats) sum() string {
	s.Written = nil
	text, _ := json.Marshal(s) // finite numbers and strings
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// seal puts the director's seal on. Written says what the director's own count is: the same as the document's, unless
// there is an edit that nobody has taken.
func (s Stats) seal(own int) Stats {
	s.StagesCompleted, s.DependsOn = notNil(s.StagesCompleted), notNil(s.DependsOn)
	if s.Signatures == nil {
		s.Signatures = map[string]Seen{}
	}
	s.SchemaVersion, s.Written = StatsSchema, nil
	s.Written = &Written{PaidCallsUsed: own, SHA256: s.sum()}
	return s
}

func notNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// ReadStats reads a stats.json. One that cannot be read is never taken for zero: it is renamed to
// stats.json.corrupt-<time>, and the error (ErrCorrupt) says why and where. ErrNoStats: there is none.
func ReadStats(path string) (Stats, error) {
	s, err := peekStats(path)
	if errors.Is(err, ErrCorrupt) {
		return Stats{}, keepAside(path, err)
	}
	return s, err
}

// peekStats is ReadStats that leaves the file alone.
func peekStats(path string) (Stats, error) {
	data, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Stats{}, fmt.Errorf("%w: %s", ErrNoStats, path)
	case errors.Is(err, errTooLarge):
		return Stats{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case err != nil:
		return Stats{}, err // permission, a failing disk: nothing is wrong with the file
	}
	return parseStats(data)
}

func parseStats(data []byte) (Stats, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors add it
	var s Stats
	if err := json.Unmarshal(data, &s); err != nil {
		return Stats{}, fmt.Errorf("%w: %s", ErrCorrupt, where(data, err))
	}
	var has struct {
		Used *json.Number `json:"paid_calls_used"`
	}
	_ = json.Unmarshal(data, &has)
	switch {
	case has.Used == nil:
		return Stats{}, fmt.Errorf("%w: paid_calls_used is missing", ErrCorrupt)
	case s.PaidCallsUsed < 0 || s.PaidCallsUsed > mostCalls:
		return Stats{}, fmt.Errorf("%w: paid_calls_used is %d, want 0 to %d", ErrCorrupt, s.PaidCallsUsed, mostCalls)
	}
	return s, nil
}

// where says what is wrong with a document and in which line.
func where(data []byte, err error) string {
	var at int64 = -1
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at = kind.Offset
	}
	if at < 0 || at > int64(len(data)) {
		return err.Error()
	}
	return fmt.Sprintf("line %d: %v", 1+bytes.Count(data[:at], []byte("\n")), err)
}

// mostAside is how many files that could not be read a task keeps.
const mostAside = 3

func keepAside(path string, why error) error {
	to := path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(path, to); err != nil {
		return errors.Join(why, err)
	}
	if old, err := filepath.Glob(path + ".corrupt-*"); err == nil && len(old) > mostAside {
		slices.Sort(old)
		for _, o := range old[:len(old)-mostAside] {
			_ = os.Remove(o)
		}
	}
	return fmt.Errorf("%w; it was kept aside as %s", why, to)
}

// with returns the stats after t; found says whether s was in a file. A number that a person wrote there, and nobody has
// taken yet, stays.
func (s Stats) with(t Task, found bool) Stats {
	out := Stats{
		Issue: t.Issue, Title: cmp.Or(t.Title, s.Title), URL: cmp.Or(t.URL, s.URL), RunID: cmp.Or(t.RunID, s.RunID),
		State: t.State, Stage: cmp.Or(t.Stage, s.Stage), Attempt: t.Attempt,
		UpdatedAt: wire.At(t.At), PaidCallsUsed: t.PaidCallsUsed, PaidCallBudget: t.PaidCallBudget, Iterations: t.Iterations,
		Tokens: t.Tokens, CostUSD: finite(t.CostUSD), CostBudgetUSD: finite(t.CostBudgetUSD),
		StagesCompleted: t.StagesCompleted, DependsOn: t.DependsOn, Signatures: map[string]Seen{},
	}
	if out.StagesCompleted == nil {
		out.StagesCompleted = s.StagesCompleted
	}
	if out.DependsOn == nil {
		out.DependsOn = s.DependsOn
	}
	if !t.Succeeded {
		for name, seen := range s.Signatures {
			out.Signatures[name] = seen
		}
	}
	out.see(t.Seen, t.At)
	if e, edited := s.Edit(); edited && found {
		out.PaidCallsUsed = e.PaidCallsUsed
	}
	return out.seal(t.PaidCallsUsed)
}

func (s *Stats) see(x *Sighting, at time.Time) {
	if x == nil || x.Signature == "" {
		return
	}
	seen, again := s.Signatures[x.Signature]
	if !again {
		seen.FirstSeen = Second{at}
	}
	seen.Count, seen.Class, seen.LastSeen = seen.Count+1, x.Class, Second{at}
	if x.Count > 0 {
		seen.Count = x.Count
	}
	s.Signatures[x.Signature] = seen
	for len(s.Signatures) > mostSignatures {
		oldest := ""
		for name, seen := range s.Signatures {
			if before := s.Signatures[oldest]; oldest == "" || seen.LastSeen.Before(before.LastSeen.Time) ||
				seen.LastSeen.Equal(before.LastSeen.Time) && strings.Compare(name, oldest) < 0 {
				oldest = name
			}
		}
		delete(s.Signatures, oldest)
	}
}

func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}
