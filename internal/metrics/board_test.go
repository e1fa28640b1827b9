package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const boardFile = "../../deploy/grafana.json"

// panel is one panel of the board. A legend of several labels is "{{a}} {{b}}".
type panel struct {
	title, kind, unit string
	width             int // columns, of 24 in total
	queries           []query
	says              string // unit in the corner of the panel
}

type query struct{ expr, legend string }

// selected replaces the placeholder J in a query by the selector of the job.
func selected(expr string) string {
	expr = strings.ReplaceAll(expr, "{J,", `{job=~"$job",`)
	return strings.ReplaceAll(expr, "{J}", `{job=~"$job"}`)
}

func quantiles(name, by string) []query {
	legend, sum := "", "sum by (le"
	if by != "" {
		legend, sum = " {{"+by+"}}", sum+", "+by
	}
	var out []query
	for _, q := range []string{"0.5", "0.9", "0.99"} {
		out = append(out, query{fmt.Sprintf("histogram_quantile(%s, %s) (rate(%s_bucket{J}[$__rate_interval])))", q,
			sum, name), "p" + strings.TrimPrefix(q, "0.") + legend})
	}
	return out
}

// grown queries the increase of a counter, by one label.
func grown(name, by string) []query {
	if by == "" {
		return []query{{
			"sum(increase(" + name + "{J}[$__rate_interval]))",
			strings.TrimSuffix(strings.TrimPrefix(name, Prefix), "_total"),
		}}
	}
	return []query{{"sum by (" + by + ") (increase(" + name + "{J}[$__rate_interval]))", "{{" + by + "}}"}}
}

func single(expr, legend string) []query { return []query{{expr, legend}} }

// board lists the rows of the board, by their titles.
var board = []struct {
	title  string
	panels []panel
}{
	{"At a glance", []panel{
		{
			"Leader", "stat", "short", 3, single("sum(retake_leader{J})", "leading"),
			"Directors that lead. The correct value is 1, even with several directors.",
		},
		{
			"Phase", "stat", "short", 3, single("retake_phase{J} == 1", "{{phase}}"),
			"Current phase of the director.",
		},
		{"Slots", "stat", "short", 4, []query{
			{"sum(retake_slots_used{J})", "used"},
			{"sum(retake_slots{J})", "of"},
			{"sum(retake_workers{J})", "workers"},
		}, "Slots in use, and their maximum (director.max_workers)."},
		{
			"Queue", "stat", "short", 3, single("sum(retake_queue_tasks{J})", "waiting"),
			"Tasks that could begin an attempt now.",
		},
		{
			"Open questions", "stat", "short", 3, single(`sum(retake_tasks{J,state="Blocked"})`, "blocked"),
			"Issues that wait for a person's answer (label agent-blocked).",
		},
		{
			"Incidents", "stat", "short", 3, single(`sum(retake_incidents{J,state=~"open|half_open|ramp|held"})`, "incidents"),
			"Incidents that block work.",
		},
		{"Cost", "stat", "currencyUSD", 3, single("sum(increase(retake_cost_dollars_total{J}[$__range]))",
			"in this time"), "Cost of the attempts that ended in the shown period, as reported by agents."},
		{"Build", "stat", "short", 2, single("retake_build_info{J}", "{{version}}"), ""},
	}},
	{"Tasks", []panel{
		{"Tasks by state", "timeseries", "short", 12, single("sum by (state) (retake_tasks{J})", "{{state}}"), ""},
		{
			"Transitions", "timeseries", "short", 12, grown("retake_transitions_total", "trigger"),
			"Triggers of state changes.",
		},
		{
			"Time from queued to running", "timeseries", "s", 8, quantiles("retake_time_to_running_seconds", ""),
			"Waiting time of each claim until its first worker runs.",
		},
		{"Oldest in the queue", "timeseries", "s", 8, single("max(retake_queue_oldest_age_seconds{J})", "oldest"), ""},
		{"Claims that are over", "timeseries", "short", 8, grown("retake_tasks_finished_total", "end"), ""},
		{"Attempts begun", "timeseries", "short", 8, grown("retake_attempts_started_total", "kind"), ""},
		{"Attempts ended", "timeseries", "short", 8, append(grown("retake_attempts_total", "outcome"),
			grown("retake_deliveries_total", "")...), ""},
		{"Time of an attempt", "timeseries", "s", 8, quantiles("retake_attempt_seconds", "outcome"), ""},
	}},
	{"Failures and reactions", []panel{
		{
			"Decisions by reason", "timeseries", "short", 12, grown("retake_decisions_total", "reason"),
			"Reasons of failures.",
		},
		{
			"Decisions by action", "timeseries", "short", 12, grown("retake_decisions_total", "action"),
			"Actions of verdicts.",
		},
		{
			"Reports against the evidence", "timeseries", "short", 12, grown("retake_disagreements_total", "reason"),
			"Reports with explicit flags that contradict the policy's choice.",
		},
		{"Retries, by outcome", "timeseries", "short", 12, grown("retake_retries_total", "outcome"), ""},
		{
			"Share of retries that paid off", "bargauge", "percentunit", 12,
			single(
				`sum by (reason) (increase(retake_retries_total{J,outcome="paid_off"}[$__range])) / sum by (reason) (increase(retake_retries_total{J}[$__range]))`, "{{reason}}"),
			"In the shown period, by the reason of the failure. Retries with a low share cost money but rarely help.",
		},
		{"Incidents", "timeseries", "short", 8, []query{{"sum by (state) (retake_incidents{J})", "{{state}}"}}, ""},
		{"Incidents that began", "timeseries", "short", 8, grown("retake_incidents_total", "reason"), ""},
		{"Cooldowns", "timeseries", "s", 8, single("max by (resource) (retake_cooldown_remaining_seconds{J})",
			"{{resource}}"), "Remaining time of closed resources."},
		{"Cooldowns open", "timeseries", "short", 8, single("sum by (resource) (retake_cooldowns_open{J})",
			"{{resource}}"), ""},
		{"Cooldowns set", "timeseries", "short", 8, grown("retake_cooldowns_total", "resource"), ""},
	}},
	{"People", []panel{
		{"Questions by reason", "timeseries", "short", 12, grown("retake_escalations_total", "reason"), ""},
		{
			"Time to human", "timeseries", "s", 12, quantiles("retake_time_to_human_seconds", ""),
			"From the question on GitHub to its answer.",
		},
		{"Answers", "timeseries", "short", 6, grown("retake_time_to_human_seconds_count", "answer"), ""},
		{
			"Re-block rate", "stat", "percentunit", 4,
			single(
				`sum(increase(retake_reblocks_total{J}[$__range])) / sum(increase(retake_time_to_human_seconds_count{J,answer="answered"}[$__range]))`, "asked again"),
			"Share of the answers after which Retake asked another question about the same issue.",
		},
		{
			"Questions that needed no human", "stat", "percentunit", 4,
			single("sum(increase(retake_escalations_without_human_total{J}[$__range])) / "+
				"sum(increase(retake_escalations_total{J}[$__range]))", "needless"),
			"Share of the questions for which the end of an incident or a retry without advice was enough.",
		},
		{"Oldest open question", "stat", "s", 4, single("max(retake_questions_oldest_age_seconds{J})", "oldest"), ""},
		{
			"Commands", "timeseries", "short", 6,
			single("sum by (command, result) (increase(retake_commands_total{J}[$__rate_interval]))",
				"{{command}} {{result}}"), "",
		},
	}},
	{"What it costs", []panel{
		{"Tokens", "timeseries", "short", 8, grown("retake_tokens_total", ""), ""},
		{"Cost", "timeseries", "currencyUSD", 8, grown("retake_cost_dollars_total", ""), ""},
		{"Calls", "timeseries", "short", 8, append(grown("retake_paid_calls_total", ""),
			grown("retake_cache_hits_total", "")...), ""},
	}},
	{"GitHub", []panel{
		{
			"Requests", "timeseries", "reqps", 8,
			single("sum by (method, result) (rate(retake_github_requests_total{J}[$__rate_interval]))",
				"{{method}} {{result}}"), "A not_modified answer does not count against the rate limit.",
		},
		{"Time of a request", "timeseries", "s", 8, quantiles("retake_github_request_seconds", "method"), ""},
		{
			"Budget left", "timeseries", "percentunit", 8,
			single("min by (resource) (retake_github_budget_remaining{J} / retake_github_budget_limit{J})",
				"{{resource}}"), "Remaining share of each rate-limit budget, as reported by GitHub.",
		},
		{
			"Time until the budget resets", "timeseries", "s", 6,
			single("max by (resource) (retake_github_budget_reset_timestamp_seconds{J} - time())", "{{resource}}"), "",
		},
		{"Changes that GitHub's hourly limit " +
			"still allows", "timeseries", "short", 6, single("min(retake_github_changes_left{J})",
			"changes"), ""},
		{"Throttled, and waiting", "timeseries", "short", 6, append(grown("retake_github_throttled_total", "limit"),
			query{"sum(retake_github_waiting_requests{J})", "waiting"}), ""},
		{"Webhooks", "timeseries", "short", 6, grown("retake_webhooks_total", "result"), ""},
	}},
	{"Inside", []panel{
		{
			"Time of an append", "timeseries", "s", 8, quantiles("retake_journal_append_seconds", ""),
			"Every decision waits for its append.",
		},
		{"Journal", "timeseries", "short", 8, []query{
			{"sum(rate(retake_journal_records_total{J}[$__rate_interval]))", "records/s"},
			{"sum(increase(retake_journal_append_errors_total{J}[$__rate_interval]))", "errors"},
			{"max(retake_journal_append_age_seconds{J})", "age of the append in progress (s)"},
		}, ""},
		{
			"Lateness", "timeseries", "s", 8, single("max(retake_late_seconds{J})", "late by"),
			"The director waits that much longer for silent workers.",
		},
		{"Heartbeat", "timeseries", "s", 8, single("max(retake_heartbeat_age_seconds{J})", "oldest"), ""},
		{
			"Outbox", "timeseries", "short", 8, single("sum by (kind) (retake_outbox_effects{J})", "{{kind}}"),
			"Planned effects that are not done yet.",
		},
		{
			"Oldest planned effect", "timeseries", "s", 8, single("max(retake_outbox_oldest_age_seconds{J})", "oldest"),
			"",
		},
		{"Effects", "timeseries", "short", 8, []query{
			{"sum by (kind, result) (increase(retake_effects_total{J}[$__rate_interval]))", "{{kind}} {{result}}"},
			{"sum by (kind) (increase(retake_effect_retries_total{J}[$__rate_interval]))", "{{kind}} again"},
		}, ""},
		{"Bus and disk", "timeseries", "short", 6, []query{
			{"min(retake_bus_connected{J})", "bus"},
			{"min(retake_disk_usable{J})", "disk"},
		}, "1 means that the bus answers, or that the disk can be written to."},
		{"Dead letters", "timeseries", "short", 6, grown("retake_dead_letters_total", "cause"), ""},
		{"Audit", "timeseries", "short", 6, append(grown("retake_audit_dropped_total", ""),
			grown("retake_audit_write_errors_total", "")...), ""},
		{
			"Process", "timeseries", "short", 6,
			[]query{
				{"sum(rate(process_cpu_seconds_total{J}[$__rate_interval]))", "processors"},
				{"sum(go_goroutines{J})", "goroutines"},
				{"sum(process_resident_memory_bytes{J}) / 2^20", "MiB"},
			},
			"",
		},
	}},
}

type object map[string]any

// drawn returns the board in the form that Grafana imports.
func drawn() object {
	var panels []object
	id, y := 0, 0
	source := object{"type": "prometheus", "uid": "${datasource}"}
	for _, row := range board {
		id++
		panels = append(panels, object{
			"id": id, "type": "row", "title": row.title, "collapsed": false,
			"panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1},
		})
		y++
		x, height := 0, 8
		if row.title == "At a glance" {
			height = 4
		}
		for _, p := range row.panels {
			if x+p.width > 24 {
				x, y = 0, y+height
			}
			id++
			panels = append(panels, p.drawn(id, object{"x": x, "y": y, "w": p.width, "h": height}, source))
			x += p.width
		}
		y += height
	}
	variable := func(name, kind, label string, more object) object {
		v := object{"name": name, "type": kind, "label": label, "hide": 0, "skipUrlSync": false}
		for k, x := range more {
			v[k] = x
		}
		return v
	}
	return object{
		"title": "Retake", "uid": "retake", "tags": []string{"retake"}, "schemaVersion": 42, "version": 1,
		"editable": true, "graphTooltip": 1,
		"timezone": "browser", "refresh": "30s", "time": object{"from": "now-24h", "to": "now"},
		"annotations": object{"list": []object{}}, "links": []object{},
		"templating": object{"list": []object{
			variable("datasource", "datasource", "Prometheus", object{
				"query": "prometheus", "current": object{},
				"regex": "", "multi": false, "includeAll": false, "refresh": 1, "options": []object{},
			}),
			variable("job", "query", "Job", object{
				"datasource": source, "definition": "label_values(retake_leader, job)",
				"query":   object{"qryType": 1, "query": "label_values(retake_leader, job)", "refId": "job"},
				"current": object{"text": []string{"All"}, "value": []string{"$__all"}}, "multi": true,
				"includeAll": true, "allValue": ".*", "refresh": 2, "regex": "", "sort": 1, "options": []object{},
			}),
		}},
		"panels": panels,
	}
}

func (p panel) drawn(id int, at, source object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source, "editorMode": "code", "expr": selected(q.expr),
			"legendFormat": q.legend,
			"range":        p.kind == "timeseries", "instant": p.kind != "timeseries",
		})
	}
	options := object{"legend": object{
		"displayMode": "list", "placement": "bottom", "showLegend": true,
		"calcs": []string{},
	}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	if p.kind != "timeseries" {
		options = object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"orientation":   "auto", "textMode": "value_and_name",
		}
	}
	if p.kind == "bargauge" {
		options["textMode"], options["orientation"], options["displayMode"] = nil, "horizontal", "basic"
		delete(options, "textMode")
	}
	defaults := object{"unit": p.unit, "min": 0}
	if p.unit == "percentunit" {
		defaults["max"] = 1
	}
	return object{
		"id": id, "type": p.kind, "title": p.title, "description": p.says, "gridPos": at, "datasource": source,
		"targets":     targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options,
	}
}

// queries returns all queries of the board as Grafana sends them, except for its variables.
func queries() (all []string) {
	for _, row := range board {
		for _, p := range row.panels {
			for _, q := range p.queries {
				all = append(all, selected(q.expr))
			}
		}
	}
	return all
}

var metricName = regexp.MustCompile(`retake_[a-z_]+`)

// The board shows every metric, and only existing metrics.
func TestBoard(t *testing.T) {
	t.Parallel()
	want, err := json.MarshalIndent(drawn(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(boardFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(boardFile)
	if err != nil || string(have) != string(want) {
		t.Errorf("%s differs from the table of panels (%v); run this test with -update", boardFile, err)
	}
	shown := map[string]bool{}
	for _, q := range queries() {
		for _, name := range metricName.FindAllString(q, -1) {
			shown[seriesOf(name)] = true
		}
	}
	for _, r := range Table {
		if !shown[r.Name] {
			t.Errorf("no panel shows %s", r.Name)
		}
		delete(shown, r.Name)
	}
	for name := range shown {
		t.Errorf("a panel shows the unknown metric %s", name)
	}
}

// seriesOf returns the metric that a series belongs to.
func seriesOf(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base
		}
	}
	return name
}
