package director

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/bustest"
	"retake/internal/director/operator"
)

// scraped returns the metrics that Prometheus reads, at an address or on the operator's socket.
func (s *harness) scraped(client *http.Client, address string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, address, nil)
	must(s.t, err)
	resp, err := client.Do(req)
	must(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s\n%s", address, resp.Status, text)
	}
	return string(text)
}

// onSocket queries the operator's socket.
func (s *harness) onSocket() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix",
				filepath.Join(s.config.Director.DataDir, operator.SocketName))
		},
	}}
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.Director.HTTPListen = "127.0.0.1:0"
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var text string
	s.until("all of it is counted", func() bool {
		text = s.scraped(plain, s.address(operator.MetricsPath))
		return strings.Contains(text, `retake_tasks_finished_total{end="delivered"} 1`)
	})
	for _, want := range []string{
		`retake_attempts_total{outcome="ok"} 1`, `retake_attempts_started_total{kind="first"} 1`,
		"retake_deliveries_total 1", "retake_time_to_running_seconds_count 1",
		`retake_transitions_total{from="Queued",to="Claiming",trigger="slot_free"} 1`, "retake_leader 1",
		"retake_bus_connected 1", "retake_disk_usable 1",
		fmt.Sprintf("retake_slots %d", s.config.Director.MaxWorkers), `retake_phase{phase="MONITOR"} 1`,
		`retake_effects_total{kind="deliver",result="done"} 1`,
		`retake_dead_letters_total{cause="not_json"} 0`, `retake_webhooks_total{result="taken"} 0`,
		"retake_outbox_oldest_age_seconds 0",
		`retake_build_info{goversion=`, "go_goroutines ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if regexp.MustCompile(`retake_journal_append_seconds_count [1-9]`).FindString(text) == "" ||
		!strings.Contains(text, `retake_github_requests_total{method="GET",result="2xx"} `) {
		t.Errorf("appends or requests are not counted:\n%s", text)
	}
	if strings.Contains(text, key) || strings.Contains(text, repo) {
		t.Errorf("an issue or a repository is in\n%s", text)
	}
	if socket := s.scraped(s.onSocket(), "http://director"+operator.MetricsPath); !strings.Contains(socket,
		`retake_attempts_total{outcome="ok"} 1`) {
		t.Errorf("the operator's socket says\n%s", socket)
	}
}

// A page token closes the metrics, too, and only the token of the metrics opens them.
func TestMetricsNeedTheirToken(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	v := s.visited()
	s.config.Director.MetricsTokenFile = filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(s.config.Director.MetricsTokenFile, []byte("the-token-of-prometheus"), 0o600))
	s.start()
	for path, want := range map[string]string{
		operator.MetricsPath: "401", operator.LivePath: "200 yes", "/numbers": "200",
	} {
		if got := s.probed(path); !strings.HasPrefix(got, want) || strings.Contains(got, "retake_") ||
			strings.Contains(got, "Failures") {
			t.Errorf("%s without a token: %s", path, got)
		}
	}
	if text := v.get(operator.MetricsPath); strings.Contains(text, "retake_leader") {
		t.Errorf("a signed-in person gets the metrics:\n%s", text)
	}
	with := &http.Client{Transport: bearer{"the-token-of-prometheus"}}
	if text := s.scraped(with, s.address(operator.MetricsPath)); !strings.Contains(text, "retake_leader") {
		t.Errorf("with the token:\n%s", text)
	}
}

// bearer sends a bearer token.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+b.token)
	r.Close = true
	return http.DefaultTransport.RoundTrip(r)
}

// A standby shows its role and its health, without tasks. Only the leader shows tasks.
func TestAStandbyHasMetrics(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.config.Director.HTTPListen = "127.0.0.1:0"
	server := bustest.New(t, t.TempDir())
	s.config.AgentBus.URL, s.config.AgentBus.Credentials = server.URL, server.Credentials()
	leader := leadInstead(t, s.config)
	s.standBy(leader)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	text := s.scraped(client, s.address(operator.MetricsPath))
	for _, want := range []string{
		"retake_leader 0", "retake_bus_connected 1", "retake_disk_usable 1",
		"retake_build_info{",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "retake_tasks{") || strings.Contains(text, "retake_slots ") {
		t.Errorf("a standby shows tasks:\n%s", text)
	}
	leader.lease.Release(t.Context())
	s.until("it leads", func() bool {
		return strings.Contains(s.scraped(client, s.address(operator.MetricsPath)), "retake_leader 1")
	})
	s.stop() // before the server
}

// prometheusServer is a real Prometheus that scrapes a director.
type prometheusServer struct {
	t       *testing.T
	address string
}

const prometheusConfig = `global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: retake
    static_configs: [{targets: [%q]}]
`

// scrapes starts Prometheus on loopback, until the test ends.
func scrapes(t *testing.T, target string) *prometheusServer {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("no prometheus: Debian's package of this name has it")
	}
	dir := t.TempDir()
	alerts, err := filepath.Abs("../../deploy/alerts.yml")
	must(t, err)
	u, err := url.Parse(target)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), fmt.Appendf(nil, prometheusConfig, alerts, u.Host),
		0o600))
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	p := &prometheusServer{t: t, address: port.Addr().String()}
	must(t, port.Close())
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+
		filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("prometheus says:\n%s", text)
		}
	})
	return p
}

// ask queries Prometheus's API. ok is false while it does not answer.
func (p *prometheusServer) ask(path string, params url.Values, into any) (ok bool) {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.address+path+"?"+params.Encode(),
		nil)
	must(p.t, err)
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	must(p.t, json.NewDecoder(resp.Body).Decode(&answer))
	if answer.Status != "success" {
		p.t.Errorf("%s: %s", params.Get("query"), answer.Error)
	}
	return true
}

// samples returns the number of samples of a query.
func (p *prometheusServer) samples(query string) int {
	var data struct{ Result []any }
	p.ask("/api/v1/query", url.Values{"query": {query}}, &data)
	return len(data.Result)
}

// grafanaBoard is the part of deploy/grafana.json that the test needs.
type grafanaBoard struct {
	SchemaVersion int
	Templating    struct{ List []struct{ Name, Type string } }
	Panels        []struct {
		Type, Title string
		Targets     []struct{ Expr string }
	}
}

// After a director has worked, every query of the board and every selector of an alert has data in a real Prometheus,
// without exception. A healthy director fires no alert.
func TestBoardHasData(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("no prometheus: Debian's package of this name has it")
	}
	s := newHarness(t, boardWorker)
	c := &s.config
	c.Director.HTTPListen, c.Director.MaxWorkers = "127.0.0.1:0", 6
	c.Retry.BackoffInitial, c.Retry.BackoffMax = 100*time.Millisecond, 200*time.Millisecond
	create := func(title string) string { return s.github.CreateIssue(repo, "octocat", title, "please", "agent-task") }
	s.start()
	p := scrapes(t, s.address(""))
	s.until("Prometheus scrapes", func() bool { return p.samples("retake_leader == 1") == 1 })
	good, retried := create("good"), create("retried")
	bare, again, rests := create("asks once"), create("asks again"), create("rests")
	s.until("they ask", func() bool {
		return s.labelled(bare, "agent-blocked")() &&
			s.labelled(again, "agent-blocked")()
	})
	s.until("they are scraped", func() bool { return p.samples(`retake_tasks{state="Blocked"} == 2`) == 1 })
	s.github.AddComment(bare, "octocat", "/agent retry")
	s.github.AddComment(again, "octocat", "/agent retry the second one")
	s.until("all is over", func() bool {
		return s.labelled(good, "agent-review")() && s.labelled(retried, "agent-review")() &&
			s.labelled(bare, "agent-review")() &&
			p.samples("sum(retake_reblocks_total) == 1") == 1 && p.samples("retake_workers == 1") == 1
	})
	s.until("Prometheus has seen that more than once", func() bool { return p.samples(seenTwice) == 1 })

	asked := p.hasBoard("../../deploy/grafana.json") + p.hasRules()
	if asked < 60 {
		t.Errorf("%d queries ran, want all queries of the board and the alerts", asked)
	}
	s.github.SetState(rests, "octocat", "closed")
}

// hasBoard checks that all queries of the board have data, and returns their number.
func (p *prometheusServer) hasBoard(file string) (asked int) {
	p.t.Helper()
	var b grafanaBoard
	text, err := os.ReadFile(file)
	must(p.t, err)
	must(p.t, json.Unmarshal(text, &b))
	if b.SchemaVersion < 39 || len(b.Templating.List) == 0 || b.Templating.List[0].Type != "datasource" {
		p.t.Errorf("the board has schema version %d and variables %v; want a datasource first", b.SchemaVersion,
			b.Templating.List)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m", "$job", ".*")
	for _, panel := range b.Panels {
		for _, target := range panel.Targets {
			asked++
			p.hasData(variables.Replace(target.Expr), panel.Title)
		}
	}
	return asked
}

// hasRules checks that all selectors of the alerts have data and that no alert fires. It returns their number.
func (p *prometheusServer) hasRules() (asked int) {
	p.t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Query, State string }
		}
	}
	p.ask("/api/v1/rules", nil, &rules)
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			asked++
			for _, selector := range selectors.FindAllString(r.Query, -1) {
				p.hasData(selector, r.Name)
			}
			if r.State == "firing" {
				p.t.Errorf("%s fires on a healthy director", r.Name)
			}
		}
	}
	return asked
}

// selectors matches the selectors of a rule.
var selectors = regexp.MustCompile(`(?:retake_[a-z_]+|\bup)(?:\{[^}]*\})?`)

// hasData fails the test if a query without data should return some.
func (p *prometheusServer) hasData(query, of string) {
	p.t.Helper()
	if p.samples(query) == 0 {
		p.t.Errorf("%s: no data for %s", of, query)
	}
}

// seenTwice is a query that has data once the last event in the run of TestBoardHasData was scraped more than once.
const seenTwice = `sum(increase(retake_reblocks_total[1m])) > 0 and sum(increase(retake_escalations_without_human_total[1m])) > 0 and sum(increase(retake_commands_total[1m])) > 0 ` +
	`and min(count_over_time(retake_retries_total{outcome="paid_off"}[1m])) > 1`

// boardWorker acts according to the title of its issue.
func boardWorker(ctx context.Context, a *fakeWorker) int {
	switch title := a.plan.Issue.Title; {
	case title == "retried" && a.plan.Attempt == 1:
		return a.failsWith(ctx, "network_transient", "connection reset by peer")
	case title == "asks once" && a.plan.Attempt == 1: // asks for a retry, which the policy refuses
		return a.failsWith(ctx, "auth_error", "401 Unauthorized: invalid API key")
	case title == "asks again":
		return a.fail(ctx)
	case title == "rests":
		return rests(ctx, a)
	}
	return a.work(ctx)
}
