package intake

import (
	"maps"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/github"
)

// Postponed leaves issues alone until something changed on them, or some time has passed: those that could not be
// claimed although they look eligible, and claims that no task knows.
type Postponed struct {
	keep  time.Duration           // for how long
	fresh func(github.Issue) bool // asks to be begun; nil: every issue does
	mu    sync.Mutex
	last  map[string]postponement
	full  map[string]time.Time // by repository: until when nothing fresh is begun there, for lack of room in last
}

type postponement struct {
	until   time.Time
	updated time.Time // the issue's, at the first poll after it was postponed
}

// The bounds: how long one is good, and how many there are.
const (
	PostponedFor = 10 * time.Minute
	maxPostponed = 1000
)

// NewPostponed returns a Postponed that leaves each issue alone for a time. When it is full, it leaves alone all fresh
// issues of a repository instead of the one.
func NewPostponed(keep time.Duration, fresh func(github.Issue) bool) *Postponed {
	return &Postponed{keep: keep, fresh: fresh, last: map[string]postponement{}, full: map[string]time.Time{}}
}

// Note postpones an issue.
func (p *Postponed) Note(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := time.Now().Add(p.keep)
	if _, known := p.last[key]; !known && len(p.last) >= maxPostponed && !p.evict() {
		p.full[fsm.IssueKey(key).Repo()] = until
		return
	}
	p.last[key] = postponement{until: until}
}

// evict forgets the issue that was postponed first, if its time is over, and reports whether it was. Its repository is
// remembered for Lapsed. The lock is held.
func (p *Postponed) evict() bool {
	oldest, found := "", false
	for key, x := range p.last {
		if !found || x.until.Before(p.last[oldest].until) {
			oldest, found = key, true
		}
	}
	x := p.last[oldest]
	if !time.Now().After(x.until) {
		return false
	}
	delete(p.last, oldest)
	if repo := fsm.IssueKey(oldest).Repo(); p.full[repo].Before(x.until) {
		p.full[repo] = x.until
	}
	return true
}

// Lapsed forgets the issues of a repository that were postponed long enough, and reports whether there were any: they
// may be behind the poll's cursor by now.
func (p *Postponed) Lapsed(repo string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := len(p.last), time.Now()
	until, full := p.full[repo]
	if full = full && now.After(until); full {
		delete(p.full, repo)
	}
	maps.DeleteFunc(p.last, func(key string, x postponement) bool {
		return fsm.IssueKey(key).Repo() == repo && now.After(x.until)
	})
	return full || len(p.last) < before
}

// Hold reports whether an issue must be left alone now.
func (p *Postponed) Hold(i github.Issue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	x, ok := p.last[i.Key]
	if !ok {
		until, full := p.full[fsm.IssueKey(i.Key).Repo()]
		return full && !now.After(until) && (p.fresh == nil || p.fresh(i))
	}
	if x.updated.IsZero() {
		x.updated = i.UpdatedAt
		p.last[i.Key] = x
	}
	if now.After(x.until) || !i.UpdatedAt.Equal(x.updated) {
		delete(p.last, i.Key)
		return false
	}
	return true
}
