package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// figureAttacks are signed reports of a hostile worker. Their figures, names and texts reach meters, metrics and
// people.
var figureAttacks = []attack{
	{
		name: "usage that overflows", kind: onResults, quick: true,
		does: "two attempts report 1e308 dollars, 9e18 tokens and 2e9 cache hits, in heartbeats and failures; " +
			"the first also sends negative figures, NaN and 1e999",
		holds:  "the director decides on both, and ignores the dollars",
		before: "succeeded: the sum was infinite, so no decision could be written, and every session ended",
		run:    overflow,
	},
	{
		name: "names for metrics", kind: onResults, quick: true,
		does: "12 reports with error types, stages, tools, providers, signals and models that are random, or hold " +
			"quotes, line feeds and a forged sample",
		holds: "/metrics can be parsed, without the names, and gains fewer than 20 series", before: "held",
		run: nameMetrics,
	},
	{
		name: "a secret in every field of a report", kind: onResults, quick: true,
		does:  "notices and a signed failure with a token in each text field",
		holds: "comments, the log, the page's data, metrics, journal and stored files mask it", before: "held",
		run: tellEverywhere,
	},
	{
		name: "a report that names another attempt", kind: onResults, quick: true,
		does: "sends a success and failures, signed with its own key, that name the neighbour's attempt, worker, " +
			"issue and number",
		holds: "none of them affects the neighbour", before: "held",
		run: nameAnother,
	},
}

func overflow(b *battle) error {
	huge := &wire.Usage{Tokens: 9e18, CostUSD: 1e308, CacheHits: 2e9} // no calls: they have a budget
	for _, figures := range []string{
		`{"tokens":-1,"cost_usd":-1e300,"paid_calls":-1,"cache_hits":-1}`, `{"tokens":0,"cost_usd":NaN}`,
		`{"tokens":0,"cost_usd":1e999}`, `{"tokens":1e30}`, `{"tokens":"1"}`,
	} {
		state := fmt.Sprintf(`{"state":{"stage":"CODE","issue_number":%d,"attempt":1,"last_update_at":%q},"usage":%s}`,
			b.me.Plan.Issue.Number, time.Now().UTC().Format(time.RFC3339), figures)
		t, err := b.me.steal()
		if err != nil {
			return err
		}
		err = t.Publish(b.me.subject(wire.ChannelHeartbeat), b.me.envelope("heartbeat.v1", state))
		err = errors.Join(err, t.FlushTimeout(5*time.Second))
		t.Close()
		if err != nil {
			return err
		}
	}
	at := b.me
	for n := range 2 {
		beat := at.heartbeat()
		beat.Usage = huge
		if err := at.client.Heartbeat(beat); err != nil {
			return err
		}
		e := at.failure("spent", "HTTP 500")
		e.IsTransient, e.ShouldRetry, e.Usage = true, true, huge
		if err := at.report(e); err != nil {
			return err
		}
		at.end(1)
		if err := until("attempt's end", 20*time.Second, at.stopped); err != nil {
			return err
		}
		if n == 0 {
			second, err := b.attempt(at.Task, at.id)
			if err != nil {
				return err
			}
			defer second.hush()
			if at = second; at.work() != nil {
				return errors.New("the second attempt was not welcomed")
			}
		}
	}
	return b.plausible(b.me.Task)
}

// plausible checks the costs in the director's timeline and metrics.
func (b *battle) plausible(key string) error {
	time.Sleep(2 * time.Second)
	if err := b.well(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	told, err := operator.AskTask(ctx, b.data(), fsm.IssueKey(key), time.Time{})
	if err != nil {
		return err
	}
	for _, usd := range []float64{told.Spent.CostUSD, told.Meters.CostUSD} {
		if usd >= recovery.MaxCost {
			return fmt.Errorf("a view shows %g USD", usd)
		}
	}
	samples, err := b.metrics()
	if err != nil {
		return err
	}
	for _, s := range samples {
		if v := s.value; strings.HasPrefix(s.series, "retake_cost") && v >= recovery.MaxCost {
			return fmt.Errorf("%s is %g", s.series, v)
		}
	}
	b.note("counted: %g USD", told.Spent.CostUSD)
	return nil
}

// sample is one line of /metrics.
type sample struct {
	series string
	value  float64
}

var sampleForm = regexp.MustCompile(`^([a-zA-Z_:][\w:]*(?:\{(?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*\})?) (\S+)$`)

// metrics reads and parses /metrics at the operator's socket.
func (w *world) metrics() (all []sample, err error) {
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(w.data(), operator.SocketName))
		},
	}}
	resp, err := c.Get("http://director" + operator.MetricsPath)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "# ") {
			continue
		}
		found := sampleForm.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("not a sample: %q", line)
		}
		v, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return nil, err
		}
		all = append(all, sample{found[1], v})
	}
	return all, nil
}

func nameMetrics(b *battle) error {
	before, err := b.metrics()
	if err != nil {
		return err
	}
	const forged = "x\"} 1\nretake_leader 7\n# HELP retake_evil\\\x00\u2028"
	for n := range 12 {
		name := fmt.Sprintf("evil%d", n)
		if n%3 == 0 {
			name += forged
		}
		e := b.me.notice(fmt.Sprintf("name%d", n))
		e.ErrorType, e.Tool, e.Provider, e.Signal, e.Message = name, name, name, name, name
		e.Headers = map[string]string{name: name}
		if err := b.me.report(e); err != nil {
			return err
		}
		if g, err := b.me.lease("model." + name); err == nil && g.GrantID != "" {
			_ = b.me.askBudget(wire.BudgetReport{
				GrantID: g.GrantID, Status: "rate_limited", RetryAfterSeconds: number(1),
			})
		}
	}
	last := b.me.failure("named", "evil"+forged)
	last.ErrorType, last.Stage, last.Provider, last.EscalateToHuman = "evil"+forged, "evil", "evil"+forged, true
	if err := b.me.report(last); err != nil {
		return err
	}
	b.me.end(1)
	if err := until("it is blocked", longest, func() bool { return b.has(b.me.Task, "agent-blocked") }); err != nil {
		return err
	}
	after, err := b.metrics()
	if err != nil {
		return err
	}
	for _, s := range after {
		if strings.Contains(s.series, "evil") || s.series == "retake_leader" && s.value != 1 {
			return fmt.Errorf("%s %g", s.series, s.value)
		}
	}
	b.note("%d series, then %d", len(before), len(after))
	if len(after)-len(before) > 20 {
		return fmt.Errorf("%d new series", len(after)-len(before))
	}
	return nil
}

func tellEverywhere(b *battle) error {
	secret := "gh" + "p_" + strings.Repeat("aB3dE5fG7", 4)
	said := "token " + secret + " is used"
	fill := func(e *wire.WorkerError) *wire.WorkerError {
		e.ErrorType, e.Message, e.LastStdoutTail, e.LastStderrTail = said, said, said, said
		e.Tool, e.Provider, e.Signal, e.ContainerID, e.WorktreePath = said, said, said, said, said
		e.Headers = map[string]string{"x-" + secret: said}
		e.Stages = []wire.StageResult{{Stage: said, Command: []string{said}}}
		return e
	}
	beat := b.me.heartbeat()
	beat.State.Progress = &wire.Progress{Step: said}
	if err := b.me.client.Heartbeat(beat); err != nil {
		return err
	}
	for n := range 3 {
		if err := b.me.report(fill(b.me.notice(fmt.Sprintf("told%d", n)))); err != nil {
			return err
		}
	}
	e := fill(b.me.failure("told", said))
	e.Question, e.EscalateToHuman, e.Stage = said, true, said
	if err := b.me.report(e); err != nil {
		return err
	}
	b.me.end(1)
	if err := until("it is asked", longest, func() bool { return b.has(b.me.Task, "agent-blocked") }); err != nil {
		return err
	}
	time.Sleep(time.Second)
	texts, err := b.texts(b.me.Task)
	if err != nil {
		return err
	}
	var leaks []string
	for name, text := range texts {
		if at := strings.Index(text, secret); at >= 0 {
			leaks = append(leaks, fmt.Sprintf("%s: %q", name, text[max(0, at-80):at+len(secret)]))
		}
	}
	b.note("%d texts searched", len(texts))
	if len(leaks) > 0 {
		return errors.New(strings.Join(leaks, "; "))
	}
	return nil
}

// texts returns all texts about a task that people or services can read.
func (b *battle) texts(key string) (map[string]string, error) {
	texts := map[string]string{}
	for _, c := range b.github.Issue(key).Comments {
		texts["comments"] += c.Body
	}
	log, err := os.ReadFile(filepath.Join(b.dir, "director.log"))
	texts["log"] = string(log)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	told, err2 := operator.AskTask(ctx, b.data(), fsm.IssueKey(key), time.Time{})
	texts["page"] = fmt.Sprintf("%+v %+v", told, told.Asked)
	texts["snapshot"] = fmt.Sprintf("%+v", b.snapshot())
	err3 := operator.AskJournal(ctx, b.data(), func(data []byte) error { texts["journal"] += string(data); return nil })
	samples, err4 := b.metrics()
	texts["metrics"] = fmt.Sprint(samples)
	s := &siege{world: b.world}
	err5 := s.stored(func(path, text string) { texts[path] = text })
	return texts, errors.Join(err, err2, err3, err4, err5)
}

func nameAnother(b *battle) error {
	t, err := b.me.steal()
	if err != nil {
		return err
	}
	defer t.Close()
	theirs := b.neighbour.failure("named", "needs a person")
	theirs.EscalateToHuman = true
	mixed := b.me.failure("mixed", "needs a person")
	mixed.AttemptID, mixed.EscalateToHuman = b.neighbour.id, true
	stranger := b.me.failure("stranger", "needs a person")
	stranger.AttemptID, stranger.WorkerID, stranger.Attempt = "zzzzzzzz-9", "zzzzzzzz-9", 9
	for _, body := range []wire.Payload{b.neighbour.result(), theirs, mixed, stranger} {
		data, err := signedWith(b.me.Plan, b.me.id, body)
		if err != nil {
			return err
		}
		c, _ := wire.ReportID(body)
		answer, err := t.ask(b.me.subject(c), data)
		if err != nil {
			b.note("no answer")
			continue
		}
		b.note("%.60s", answer.Data)
	}
	time.Sleep(2 * time.Second)
	if b.neighbour.stopped() || b.has(b.neighbour.Task, "agent-blocked") || b.has(b.neighbour.Task, "agent-review") {
		return errors.New("it decided about the neighbour")
	}
	return b.undelivered()
}
