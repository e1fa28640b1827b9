package doctor

import (
	"context"
	"errors"
	"slices"
	"time"
)

// exam is the state of one examination. Later rows use the results of earlier rows.
type exam struct {
	World
	row      string // name of the running check
	findings []Finding

	github  GitHub
	account Account
	reached []string // repositories that can be read
	engine  Engine
	gateway string // gateway of the containers' network; empty if unknown
	image   bool   // the image is on the engine's host
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

// limit is the default timeout of a check.
const limit = time.Minute

// Examine runs the checks that require one of needs, or all checks if needs is empty. It returns an error only if ctx
// ends before the last check.
func Examine(ctx context.Context, w World, needs ...Needs) (Report, error) {
	e := &exam{World: w}
	for _, c := range checks {
		if len(needs) > 0 && !slices.Contains(needs, c.needs) {
			continue
		}
		if len(w.Problems) > 0 && c.name != checks[0].name {
			e.row = "the rest"
			e.notTried("fix the configuration first")
			break
		}
		e.examine(ctx, c)
		if ctx.Err() != nil {
			break
		}
	}
	if e.engine != nil {
		if err := e.engine.Close(); err != nil {
			e.row = "engine"
			e.warn("cannot clean up: "+err.Error(), "")
		}
	}
	return reportOf(e.findings), context.Cause(ctx)
}

func (e *exam) examine(ctx context.Context, c check) {
	e.row = c.name
	if why := needed[c.needs](e, c); why != "" {
		e.notTried(why)
		return
	}
	most := limit
	if c.limit != 0 {
		most = c.limit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, errors.New("timed out after "+most.String()))
	defer cancel()
	c.look(ctx, e)
}

// needed maps each requirement to a function that returns why a check cannot run, or "".
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
	return "GitHub is not available: see the github check"
}

func (e *exam) withoutEngine(c check) string {
	switch {
	case c.opens:
		return ""
	case e.engine == nil:
		return "no container engine: see the engine check"
	}
	return ""
}
