package doctor

import (
	"context"
	"errors"
	"slices"
	"time"
)

// exam is one examination: what rows found so far, for those behind them.
type exam struct {
	World
	row      string // that looks
	findings []Finding

	github  GitHub
	account Account
	reached []string // repositories that can be read
	engine  Engine
	gateway string // of the containers' network; empty: not known
	image   bool   // it is on the engine's host
	running bool   // a director runs with this data_dir
}

func (e *exam) say(l Level, text, fix string) {
	e.findings = append(e.findings, Finding{Check: e.row, Level: l, Text: text, Fix: fix})
}

func (e *exam) ok(text string)           { e.say(OK, text, "") }
func (e *exam) warn(text, fix string)    { e.say(Warning, text, fix) }
func (e *exam) problem(text, fix string) { e.say(Problem, text, fix) }
func (e *exam) notTried(because string)  { e.say(NotTried, because, "") }
func (e *exam) problems() (n int)        { return len(reportOf(e.findings).At(Problem)) }

// limit is how long a check may take, unless its row says more.
const limit = time.Minute

// Examine makes the checks that need no more than is named; nothing named: all. It fails only if ctx ends
// before it has looked at everything.
func Examine(ctx context.Context, w World, needs ...Needs) (Report, error) {
	e := &exam{World: w}
	for _, c := range checks {
		if len(needs) > 0 && !slices.Contains(needs, c.needs) {
			continue
		}
		if len(w.Problems) > 0 && c.name != checks[0].name {
			e.row = "the rest"
			e.notTried("the configuration has to be right first")
			break
		}
		e.look(ctx, c)
		if ctx.Err() != nil {
			break
		}
	}
	if e.engine != nil {
		if err := e.engine.Close(); err != nil {
			e.row = "engine"
			e.warn("it could not be left: "+err.Error(), "")
		}
	}
	return reportOf(e.findings), context.Cause(ctx)
}

func (e *exam) look(ctx context.Context, c check) {
	e.row = c.name
	if why := needed[c.needs](e, c); why != "" {
		e.notTried(why)
		return
	}
	most := limit
	if c.limit != 0 {
		most = c.limit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, errors.New("it took longer than "+most.String()))
	defer cancel()
	c.look(ctx, e)
}

// needed says why a check cannot be made yet; empty: it can.
var needed = map[Needs]func(*exam, check) string{
	Offline:     func(*exam, check) string { return "" },
	OnMachine:   func(*exam, check) string { return "" },
	NeedsGitHub: (*exam).withoutGitHub,
	NeedsEngine: (*exam).withoutEngine,
}

func (e *exam) withoutGitHub(c check) string {
	if c.opens || e.github != nil {
		return ""
	}
	return "GitHub cannot be asked: see github"
}

func (e *exam) withoutEngine(c check) string {
	switch {
	case c.opens:
		return ""
	case e.engine == nil:
		return "there is no container engine: see engine"
	}
	return ""
}
