package intake

import (
	"maps"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/github/tracker"
)

// Postponed holds back issues until they change or a fixed time has passed. The director postpones an issue after a
// failed claim, and after checking an orphan claim.
type Postponed struct {
	keep  time.Duration            // the duration of a postponement
	fresh func(tracker.Issue) bool // reports whether an issue asks for new work; nil means always
	mu    sync.Mutex
	last  map[string]postponement
	full  map[string]time.Time // by repository: time until which fresh issues wait, because last was full
}

type postponement struct {
	until   time.Time
	updated time.Time // the issue's update time at the first poll after Note
}

// Limits on the duration and the number of postponements.
const (
	PostponedFor = 10 * time.Minute
	maxPostponed = 1000
)

// NewPostponed returns a Postponed that holds each issue back for keep. Once it is full, noting another issue holds
// back every issue of that issue's repository for which fresh returns true.
func NewPostponed(keep time.Duration, fresh func(tracker.Issue) bool) *Postponed {
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

// evict removes the oldest postponement if it has expired, and returns true in that case. It records the repository in
// p.full, so that Lapsed still reports the expiry. The caller must hold mu.
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

// Lapsed removes a repository's expired postponements, and reports whether there were any. The poll's cursor may have
// passed these issues, so the caller must then list all issues again.
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

// Hold reports whether an issue must be held back now.
func (p *Postponed) Hold(i tracker.Issue) bool {
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
