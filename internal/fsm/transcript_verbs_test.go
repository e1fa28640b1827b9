package fsm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// arguments separates words from name=value pairs. An underscore in a value stands for a space.
func arguments(words []string) (args []string, named map[string]string) {
	named = map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			named[k] = strings.ReplaceAll(v, "_", " ")
		} else {
			args = append(args, w)
		}
	}
	return args, named
}

func issueKey(n string) IssueKey { return IssueKey("acme/widgets#" + n) }

// verbs maps the verbs of the transcripts to their events.
var verbs = map[string]func(s *stage, args []string, named map[string]string) EventBody{
	"boot": func(s *stage, a []string, n map[string]string) EventBody {
		b := Booted{RunID: a[0]}
		if n["task"] != "" { // the label that offers work, and its repository
			b.Settings = &Settings{
				Labels:       LabelNames{Task: n["task"], Claimed: n["task"] + "-claimed"},
				Repositories: strings.Split(n["in"], ","),
			}
			s.cfg.Repositories, s.m.cfg.Repositories = b.Settings.Repositories, b.Settings.Repositories
		}
		return b
	},
	"settings": func(s *stage, a []string, n map[string]string) EventBody { // only named settings change
		if n["workers"] != "" {
			s.cfg.MaxWorkers = int(s.number(n["workers"]))
		}
		if n["watchdog"] != "" {
			s.cfg.Watchdog = s.duration(n["watchdog"])
		}
		if n["paid"] != "" {
			s.cfg.Policy = s.cfg.Policy.With(policy.Limits{
				MaxRetries: 3, PaidCallBudget: int(s.number(n["paid"])),
				Backoff: testBackoff(),
			})
		}
		cfg := s.cfg
		return SettingsRead{SettingsChanged: SettingsChanged{
			By: "SIGHUP", Digest: "0123456789abcdef",
			Keys: strings.Split(a[0], ","),
		}, Config: &cfg}
	},
	"tick": func(*stage, []string, map[string]string) EventBody { return Tick{} },
	"resumed": func(s *stage, a []string, _ map[string]string) EventBody {
		return DirectorResumed{Gap: s.duration(a[0])}
	},
	"signal": func(_ *stage, a []string, _ map[string]string) EventBody { return SignalReceived{Signal: a[0]} },
	"issues": (*stage).issues,
	"hello": func(_ *stage, a []string, n map[string]string) EventBody {
		return Hello{Worker: a[0], Token: 1, Incompatible: n["speaks"]}
	},
	"heard": (*stage).heard,
	"budget": func(s *stage, a []string, _ map[string]string) EventBody {
		return BudgetEdited{Task: issueKey(a[0]), PaidCalls: s.number(a[1])}
	},
	"operator": func(_ *stage, a []string, _ map[string]string) EventBody {
		return OperatorCommanded{Command: OperatorCommand(a[0])}
	},
	"answered": func(_ *stage, a []string, n map[string]string) EventBody {
		e := QuestionAnswered{Task: issueKey(a[0]), By: n["by"], Command: a[1], Comment: 77}
		if text, ok := n["hint"]; ok {
			e.Hints = []Hint{{From: "octocat", At: epoch, Text: text}}
		}
		return e
	},
	"said":   (*stage).said,
	"review": (*stage).review,
	"shown": func(_ *stage, a []string, n map[string]string) EventBody {
		return IncidentShown{Key: n["key"], Issue: issueKey(a[0])}
	},
	"report": (*stage).report,
	"listed": (*stage).listed,
	// unanswered k21-1 sent=5s
	"unanswered": func(s *stage, a []string, n map[string]string) EventBody {
		return ProbeUnanswered{Worker: a[0], SentAt: epoch.Add(s.duration(n["sent"]))}
	},
	"cooldown": func(s *stage, a []string, n map[string]string) EventBody {
		return CooldownReported{Resource: a[0], Until: s.now.Add(s.duration(a[1])), Why: n["why"]}
	},
	"limit": func(s *stage, a []string, n map[string]string) EventBody {
		return LimitReported{Worker: a[0], Resource: a[1], Until: s.now.Add(s.duration(a[2])), Text: n["text"]}
	},
	"lift":   func(_ *stage, a []string, _ map[string]string) EventBody { return LiftCommanded{Resource: a[0]} },
	"done":   (*stage).done,
	"lost":   (*stage).lost,
	"failed": (*stage).failed,
	"gone":   (*stage).gone,
	"edited": func(s *stage, a []string, _ map[string]string) EventBody {
		t := s.m.Task(issueKey(a[0]))
		return EffectEnded{Task: t.Key, Effect: t.soft.kept.edit}
	},
}

func (s *stage) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// heard k21-1 [paused] [paid=3] [cost=0.5]
func (s *stage) heard(args []string, named map[string]string) EventBody {
	h := WorkerSeen{Worker: args[0], Activity: Activity{Paused: slices.Contains(args, "paused")}}
	if paid, ok := named["paid"]; ok {
		h.Activity.Usage = &recovery.Usage{PaidCalls: s.number(paid)}
	}
	return h
}

func (s *stage) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// said 21 retry [by=octocat] [id=77|request=r1] [at=10s] [text=…] [for=2h] [amount=2] [cursor=…]
func (s *stage) said(args []string, named map[string]string) EventBody {
	said := CommentView{Task: issueKey(args[0]), By: cmp.Or(named["by"], "octocat"), Text: named["text"]}
	said.Comment, said.At = s.number(cmp.Or(named["id"], "77")), s.now
	if len(args) > 1 {
		said.Command = Command(args[1])
	}
	if a, ok := named["at"]; ok {
		said.At = epoch.Add(s.duration(a))
	}
	if d, ok := named["for"]; ok {
		said.For = s.duration(d)
	}
	if r, ok := named["request"]; ok {
		said.Comment, said.Request = 0, r
	}
	said.Amount = int(s.number(cmp.Or(named["amount"], "0")))
	return CommentsSeen{Repo: "acme/widgets", Cursor: named["cursor"], Comments: []CommentView{said}}
}

// review 21 merged|closed|open [by=…] head=… [pr=7] [conflict] [pending] [failing=lint] [text=…] [changes=91]
// [asked=10s] [issue_closed]
func (s *stage) review(args []string, named map[string]string) EventBody {
	e := ReviewSeen{
		Task: issueKey(args[0]), AskedAt: s.now, Number: int(s.number(cmp.Or(named["pr"], "7"))), State: args[1],
		By: named["by"], Head: named["head"],
		Conflict: slices.Contains(args, "conflict"), Settled: !slices.Contains(args, "pending"),
		IssueClosed: slices.Contains(args, "issue_closed"),
	}
	if a, ok := named["asked"]; ok {
		e.AskedAt = epoch.Add(s.duration(a))
	}
	if name, ok := named["failing"]; ok {
		e.Failing = []FailedCheck{{Name: name, URL: "https://ci.example/1", Text: named["text"]}}
	}
	if id, ok := named["changes"]; ok {
		e.Changes = []Change{{ID: s.number(id), Hint: Hint{From: "hubot", At: s.now, Text: named["text"]}}}
	}
	return e
}

// issues 21:task 22:claimed 23:closed asked=10s cursor=…
func (s *stage) issues(args []string, named map[string]string) EventBody {
	e := IssuesSeen{Repo: "acme/widgets", AskedAt: s.now, Cursor: named["cursor"]}
	if a, ok := named["asked"]; ok {
		e.AskedAt = epoch.Add(s.duration(a))
	}
	for _, a := range args {
		n, labels, _ := strings.Cut(a, ":")
		v := IssueView{Key: issueKey(n), Title: "Issue " + n, Open: true, Nonce: cmp.Or(named["nonce"], "k"+n)}
		if u, ok := named["updated"]; ok {
			v.UpdatedAt = epoch.Add(s.duration(u))
		}
		for _, l := range strings.FieldsFunc(labels, func(r rune) bool { return r == ',' }) {
			switch l {
			case "closed":
				v.Open = false
			case "none":
			default:
				v.Labels = append(v.Labels, Label(l))
			}
		}
		e.Issues = append(e.Issues, v)
	}
	return e
}

// report k21-1 e1 build_failed cause=… [stage=VALIDATE] [provider=anthropic] [signature=…] [wait=5h] | report
// k21-1 r1 ok | … notice | … paid=3
func (s *stage) report(args []string, named map[string]string) EventBody {
	r := newReport(args[1], args[2], named, slices.Contains(args, "notice"))
	if paid, ok := named["paid"]; ok {
		r.Usage = &recovery.Usage{PaidCalls: s.number(paid)}
	}
	return ReportReceived{Worker: args[0], Report: r}
}

func newReport(id, means string, named map[string]string, notice bool) Report {
	r := Report{Ref: ReportRef{ID: id, Seq: 7, SHA256: "5f0c"}, Final: !notice, Stage: named["stage"]}
	wait, _ := time.ParseDuration(named["wait"])
	switch means {
	case "ok":
		r.OK = true
	case "exit":
		r.Exit = true
	default:
		r.Evidence = recovery.Evidence{
			Message: named["cause"], Provider: named["provider"], Stdout: named["signature"],
			RetryAfter: wait, Assertion: recovery.Assertion{ErrorType: means},
		}
	}
	return r
}

// listed k21-1 k22-1:exited k23-1:pending:no_room taken=5s
func (s *stage) listed(args []string, named map[string]string) EventBody {
	l := ContainersListed{TakenAt: s.now}
	if a, ok := named["taken"]; ok {
		l.TakenAt = epoch.Add(s.duration(a))
	}
	for _, a := range args {
		id, state, _ := strings.Cut(a, ":")
		state, words, _ := strings.Cut(state, ":")
		l.Containers = append(l.Containers, Container{
			Attempt: id, Running: state == "", Pending: state == "pending",
			Waiting: strings.ReplaceAll(words, "_", " "),
		})
	}
	return l
}

func (s *stage) ending(effect string) EffectEnded {
	nonce, _, _ := strings.Cut(effect, "-")
	t := s.m.nonces[nonce]
	if t == nil {
		return EffectEnded{Task: issueKey("0"), Effect: effect}
	}
	return EffectEnded{Task: t.Key, Effect: effect}
}

// done k21-0/claim
func (s *stage) done(args []string, _ map[string]string) EventBody {
	e := s.ending(args[0])
	_, kind, _ := strings.Cut(args[0], "/")
	kind, _, _ = strings.Cut(kind, ".")
	switch EffectKind(kind) {
	case DoClaim, DoRecheck:
		e.Claim = &ClaimResult{Ours: true}
	case DoDeliver:
		e.Delivery = &DeliverResult{
			Branch: "retake/" + strconv.Itoa(e.Task.Number()), SHA: "4b825dc", Nothing: slices.Contains(args,
				"nothing"), Merged: slices.Contains(args, "merged"), Changed: slices.Contains(args, "changed"),
		}
		if slices.Contains(args, "pr") {
			e.Delivery.PullRequest = 7
		}
	case DoEscalate:
		if slices.Contains(args, "pushed") {
			e.Delivery = &DeliverResult{Branch: "retake/" + strconv.Itoa(e.Task.Number()), SHA: "4b825dc"}
		}
	}
	return e
}

// lost k21-0/claim why=…
func (s *stage) lost(args []string, named map[string]string) EventBody {
	e := s.ending(args[0])
	e.Claim = &ClaimResult{Why: named["why"]}
	return e
}

// failed k21-1/start docker_daemon [permanent] [until=30s] [resource=github.git] text=…; by default, the resource is
// the usual one for such a failure
func (s *stage) failed(args []string, named map[string]string) EventBody {
	e := s.ending(args[0])
	_, kind, _ := strings.Cut(args[0], "/")
	kind, _, _ = strings.Cut(kind, ".")
	e.Failure = &EffectError{
		Reason: recovery.Reason(args[1]), Text: named["text"], Transient: !slices.Contains(args, "permanent"),
		Resource: named["resource"],
		Doubtful: slices.Contains(args, "doubtful"),
	}
	switch about, _ := recovery.Describe(e.Failure.Reason); {
	case e.Failure.Resource != "":
	case about.Scope == recovery.OneHost:
		e.Failure.Resource = recovery.Host
	case slices.Contains(githubEffects, EffectKind(kind)):
		e.Failure.Resource = recovery.GitHubAPI
	}
	if u, ok := named["until"]; ok {
		e.Failure.Until = s.now.Add(s.duration(u))
	}
	return e
}

// gone k21-1/stop exit=137 signal=SIGKILL [oom] limit=2GiB report=e1:build_failed [fenced] cause=evicted words=…
func (s *stage) gone(args []string, named map[string]string) EventBody {
	e := s.ending(args[0])
	e.Stop = &StopResult{
		Signal: named["signal"], OOM: slices.Contains(args, "oom"), Limit: named["limit"],
		Fenced: slices.Contains(args, "fenced"),
	}
	e.Stop.Cause, e.Stop.Words = EndCause(strings.ReplaceAll(named["cause"], " ", "_")), named["words"]
	if x, ok := named["exit"]; ok {
		code, err := strconv.Atoi(x)
		if err != nil {
			s.t.Fatal(err)
		}
		e.Stop.ExitCode = &code
	}
	if r, ok := named["report"]; ok {
		id, means, _ := strings.Cut(r, ":")
		e.Stop.Reports = []Report{newReport(id, strings.ReplaceAll(means, " ", "_"), named, false)}
	}
	return e
}
