package fsm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// lacksContract makes the next start of a task fail because of its repository's contract.
func (f *fleet) lacksContract(k IssueKey, problem string) {
	f.t.Helper()
	f.ends(k, DoStart, EffectEnded{Failure: &EffectError{
		Reason: recovery.InvalidConfig, Text: problem, Resource: ContractResource,
	}})
	f.carryOut(k)
}

// ends carries out the effects of a task. The first effect of the given kind ends with the given outcome.
func (f *fleet) ends(k IssueKey, kind EffectKind, end EffectEnded) {
	f.t.Helper()
	for range 5 {
		t := f.m.Task(k)
		if t == nil || len(t.Outbox) == 0 {
			f.t.Fatalf("%s is %s without a planned %s", k, f.state(k), kind)
		}
		e := t.Outbox[0].Effect
		if e.Kind == kind {
			end.Task, end.Effect = k, e.ID
			f.step(end)
			return
		}
		f.step(EffectEnded{Task: k, Effect: e.ID, Claim: &ClaimResult{Ours: true}, Stop: &StopResult{}})
	}
}

// held lists the causes of the held incidents by key.
func (f *fleet) held() string {
	text := ""
	for _, i := range f.m.Incidents() {
		if i.Breaker.Held {
			text += fmt.Sprintf("%s: %s. ", i.Key, i.Cause)
		}
	}
	return text
}

const (
	brokenA = "contract/a/a: .github/retake.toml:1:1: bad. "
	newA    = "contract/a/a: .github/retake.toml:2:1: worse. "
	brokenB = "contract/b/b: .github/retake.toml:1:1: bad. "
	badText = ".github/retake.toml:1:1: bad"
	newText = ".github/retake.toml:2:1: worse"
)

func (f *fleet) startFails() {
	f.t.Helper()
	f.seen("a/a#1")
	f.lacksContract("a/a#1", badText)
}

func checks(repo, problem string) func(*fleet) {
	return func(f *fleet) { f.step(ContractChecked{Repo: repo, Problem: problem}) }
}

func (f *fleet) reloads() {
	f.t.Helper()
	cfg := f.m.cfg
	cfg.Projects = map[string]*Config{"a/a": {Policy: cfg.Policy, CleanValidation: true}}
	f.step(SettingsRead{SettingsChanged: SettingsChanged{By: "file", Digest: "d"}, Config: &cfg})
}

func (f *fleet) restarts() {
	f.t.Helper()
	data, err := f.m.Snapshot()
	if err != nil {
		f.t.Fatal(err)
	}
	m := New(f.m.cfg)
	if err := m.Restore(data); err != nil {
		f.t.Fatal(err)
	}
	f.m = m
	f.step(Booted{RunID: "r2"})
}

// TestContractsHoldTheirRepository checks when a contract with problems holds up tasks. At the end, issues of both
// repositories are offered.
func TestContractsHoldTheirRepository(t *testing.T) {
	type steps = []func(*fleet)
	fails := (*fleet).startFails
	for name, c := range map[string]struct {
		steps steps
		held  string
		a, b  State // of a/a#1 and b/b#1
	}{
		"a start fails":              {steps{fails}, brokenA, Backoff, Claiming},
		"it is read before a start":  {steps{checks("a/a", badText)}, brokenA, Queued, Claiming},
		"a valid one is read":        {steps{checks("a/a", "")}, "", Claiming, Claiming},
		"it is mended":               {steps{fails, checks("a/a", "")}, "", Backoff, Claiming},
		"it is mended twice":         {steps{fails, checks("a/a", ""), checks("a/a", "")}, "", Backoff, Claiming},
		"it has another problem":     {steps{fails, checks("a/a", newText)}, newA, Backoff, Claiming},
		"its problem is read again":  {steps{fails, checks("a/a", badText)}, brokenA, Backoff, Claiming},
		"it is spelled differently":  {steps{checks("A/a", badText)}, brokenA, Queued, Claiming},
		"it is mended under another": {steps{fails, checks("a/A", "")}, "", Backoff, Claiming},
		"another one is mended":      {steps{fails, checks("b/b", "")}, brokenA, Backoff, Claiming},
		"both are broken":            {steps{fails, checks("b/b", badText)}, brokenA + brokenB, Backoff, Queued},
		"one of both is mended": {
			steps{fails, checks("b/b", badText), checks("a/a", "")}, brokenB, Backoff, Queued,
		},
		"the configuration is reloaded": {steps{fails, (*fleet).reloads}, brokenA, Backoff, Claiming},
		"the director restarts":         {steps{fails, (*fleet).restarts}, brokenA, Backoff, Claiming},
		"it is mended after a restart":  {steps{fails, (*fleet).restarts, checks("a/a", "")}, "", Backoff, Claiming},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			for _, step := range c.steps {
				step(f)
			}
			if f.m.Task("a/a#1") == nil {
				f.seen("a/a#1")
			}
			f.seen("b/b#1")
			if f.held() != c.held || f.state("a/a#1") != c.a || f.state("b/b#1") != c.b {
				t.Errorf("held: %q, a/a#1 is %s, b/b#1 is %s; want %q, %s and %s", f.held(), f.state("a/a#1"),
					f.state("b/b#1"), c.held, c.a, c.b)
			}
			if c.a != Backoff {
				return
			}
			if planned := f.m.Task("a/a#1").plans(DoRecheck); planned != (f.held() == "" || f.held() == brokenB) {
				t.Errorf("held: %q, the next attempt is planned: %v", f.held(), planned)
			}
		})
	}
}

// TestBrokenContractsAreFree starts more attempts than any budget allows. The task's tally and its earlier failures
// stay.
func TestBrokenContractsAreFree(t *testing.T) {
	f := newFleet(t, "a/a#1")
	f.fails("a/a#1", "CODE", crashing, nil)
	was := *f.m.Task("a/a#1")
	f.now = f.now.Add(time.Hour)
	f.step(Tick{})
	const times = 3 * maxIncidentWaits
	for range times {
		f.lacksContract("a/a#1", badText)
		if f.state("a/a#1") != Backoff || f.held() != brokenA {
			t.Fatalf("a/a#1 is %s, held: %q", f.state("a/a#1"), f.held())
		}
		f.step(ContractChecked{Repo: "a/a"})
	}
	is := f.m.Task("a/a#1")
	if is.Attempt != 1+times || is.IncidentWaits != 0 || !reflect.DeepEqual(is.Tally, was.Tally) {
		t.Errorf("attempt %d, waits %d, tally %+v; want %+v", is.Attempt, is.IncidentWaits, is.Tally, was.Tally)
	}
	if len(is.History) != maxHistory || !reflect.DeepEqual(is.History[0], was.History[0]) {
		t.Errorf("the history is %+v", is.History)
	}
	if n := len(f.m.AllIncidents()); n != 1 { // the crash
		t.Errorf("incidents: %+v", f.m.AllIncidents())
	}
}

// TestValidationWaitsForTheContract checks that a validation that could not begin does not become an agent's attempt.
func TestValidationWaitsForTheContract(t *testing.T) {
	f := newFleet(t)
	f.m.cfg.CleanValidation = true
	f.seen("a/a#1")
	f.carryOut("a/a#1")
	f.step(ReportReceived{Worker: f.m.Task("a/a#1").AttemptID(), Report: Report{
		Ref: ReportRef{ID: "e"}, Final: true, OK: true,
	}})
	f.ends("a/a#1", DoStop, EffectEnded{Stop: &StopResult{}})
	for n := range 3 {
		if task := f.m.Task("a/a#1"); task.Attempt != 1+n || !task.Next.Validate {
			t.Fatalf("attempt %d is followed by %+v", task.Attempt, task.Next)
		}
		f.lacksContract("a/a#1", badText)
		f.step(ContractChecked{Repo: "a/a"})
	}
}

// TestOneContractPerAttempt checks that an attempt's effects carry the contract that it began with, and that a failed
// delivery is not blamed on a contract.
func TestOneContractPerAttempt(t *testing.T) {
	first := Contract{Path: "p", Commit: "c", Digest: "d", Staged: true, Callers: []StageCaller{{"CODE", "x"}}}
	for name, failure := range map[string]*EffectError{
		"started": nil,
		"perhaps started": {
			Reason: recovery.DockerDaemon, Text: "docker", Transient: true, Resource: recovery.Host,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a/a#1")
			task := f.m.Task("a/a#1")
			for n, k := range []*Contract{&first, nil} {
				f.ends("a/a#1", DoStart, EffectEnded{Contract: k, Failure: failure})
				caller := []string{"x", ""}[n]
				if failure != nil { // the work of the first attempt may still be pushed
					k, caller = &first, "x"
				}
				if !reflect.DeepEqual(task.Contract, k) || f.m.cfg.of(task).Callers["CODE"] != caller {
					t.Fatalf("attempt %d has the contract %+v", n+1, task.Contract)
				}
				if failure == nil {
					f.step(Hello{Worker: task.AttemptID(), Token: 1})
					f.step(ReportReceived{Worker: task.AttemptID(), Report: Report{
						Ref: ReportRef{ID: "e"}, Final: true, Stage: "CODE", Evidence: crashing,
					}})
				}
				if len(task.Outbox) == 0 || !reflect.DeepEqual(task.Outbox[0].Effect.Contract, k) {
					t.Fatalf("the outbox of attempt %d is %+v", n+1, task.Outbox)
				}
				f.carryOut("a/a#1")
				f.now = f.now.Add(time.Hour)
				f.step(Tick{})
			}
		})
	}
}

// TestLostWorkIsNotTheContracts loses the work of an attempt that succeeded although its contract had made its start
// fail. The policy decides about this failure.
func TestLostWorkIsNotTheContracts(t *testing.T) {
	f := newFleet(t, "a/a#1")
	f.ends("a/a#1", DoStart, EffectEnded{Failure: &EffectError{
		Reason: recovery.InvalidConfig, Text: badText, Resource: ContractResource,
	}})
	f.ends("a/a#1", DoStop, EffectEnded{Stop: &StopResult{Reports: []Report{{
		Ref: ReportRef{ID: "e"}, Final: true, OK: true,
	}}}})
	f.ends("a/a#1", DoDeliver, EffectEnded{Failure: &EffectError{Reason: recovery.WorkLost, Text: "gone"}})
	if task := f.m.Task("a/a#1"); task.Incident != "" || task.Tally.Redispatches == 0 {
		t.Errorf("incident %q, tally %+v", task.Incident, task.Tally)
	}
}

// TestContractsAreJournaled checks that a journal keeps the contracts of attempts, of their effects and of incidents.
func TestContractsAreJournaled(t *testing.T) {
	bare := Contract{Path: "p", Commit: "c", Digest: "d"}
	full := bare
	full.Staged, full.Alternative, full.Callers = true, true, []StageCaller{{"CODE", "x"}}
	task := OfTask{"a/a#1"}
	for text, f := range map[string]Fact{
		`{"kind":"attempt_contract","body":{"task":"a/a#1","contract":{"path":"p","commit":"c","digest":"d",` +
			`"staged":true,"callers":[{"stage":"CODE","caller":"x"}],"alternative":true}}}`: AttemptContract{
			task, full,
		},
		`"body":{"task":"a/a#1","contract":{"path":"p","commit":"c","digest":"d"}}`: AttemptContract{task, bare},
		`"contract":{"path":"p","commit":"c","digest":"d"}`: EffectPlanned{Effect: Effect{
			ID: "stop/a/a#1-1", Kind: DoStop, Task: "a/a#1", At: epoch, Stop: &StopOrder{}, Contract: &bare,
		}},
		`"key":"contract/a/a"`: IncidentChanged{Incident: Incident{
			Key: contractKey("A/a"), Repo: "A/a", Reason: recovery.InvalidConfig, Cause: badText,
			Breaker: recovery.Breaker{}.Hold(epoch),
		}},
	} {
		line, err := Record{At: epoch, Cause: Cause{Kind: "tick", Body: []byte("{}")}, Facts: FactList{f}}.line()
		if err != nil || !strings.Contains(string(line), text) {
			t.Errorf("wrote %s, %v; want %s", line, err, text)
		}
		records, err := ReadBatch(line)
		if err != nil || len(records) != 1 || !reflect.DeepEqual(records[0].Facts, FactList{f}) {
			t.Errorf("read %+v, %v; want %+v", records, err, f)
		}
	}
}
