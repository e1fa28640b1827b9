package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// TestOldJournalsAreRead replays journals that an earlier version wrote, and compares the resulting state with that
// version's state. The journals are from the golden transcripts, three simulated worlds with incidents, budgets, pauses
// and stale claims, and a rebuild.
//
// A line {"journal": name} begins a journal, and {"state": snapshot} is the result of its records so far. The files are
// a record of the past, so never rewrite them.
func TestOldJournalsAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var m *Machine
		var name string
		for line := range bytes.Lines(data) {
			var mark struct {
				Journal string          `json:"journal"`
				State   json.RawMessage `json:"state"`
			}
			if err := json.Unmarshal(line, &mark); err != nil {
				t.Fatal(name, err)
			}
			switch {
			case mark.Journal != "":
				m, name = New(testConfig()), mark.Journal
			case mark.State != nil:
				compareWithRecorded(t, name, m, mark.State)
			default:
				records, err := ReadBatch(line)
				if err != nil {
					t.Fatal(name, err)
				}
				m.Replay(records)
			}
		}
	}
}

// recordJournal names the variable that makes TestTranscripts and TestARebuiltJournalIsRecorded record their journals
// for a version.
const recordJournal = "RETAKE_RECORD_JOURNAL"

// record adds the journal of a transcript, if the variable is set.
func (s *stage) record(name string) {
	s.t.Helper()
	version := os.Getenv(recordJournal)
	if version == "" {
		return
	}
	state, err := s.m.Snapshot()
	if err != nil {
		s.t.Fatal(err)
	}
	lines := fmt.Appendf(nil, "{\"journal\":%q}\n", version+"-"+name)
	for _, batch := range s.journal.batches {
		lines = append(append(lines, bytes.TrimSpace(batch)...), '\n')
	}
	lines = fmt.Appendf(lines, "{\"state\":%s}\n", bytes.TrimSpace(state))
	f, err := os.OpenFile(filepath.Join("testdata/journals", version+"-transcripts.jsonl"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(lines)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Replaying a rebuilt journal gives the state of the machine that wrote it, and the queue continues. The test also
// records this journal (see recordJournal).
func TestARebuiltJournalIsRecorded(t *testing.T) {
	known := New(testConfig())
	known.Apply(epoch, TaskQueued{Task: "acme/widgets#8", Nonce: "k8", Title: "Waits"})
	known.Apply(epoch, CursorAdvanced{Repo: "acme/widgets", Cursor: "c1"})
	s := &stage{t: t, m: New(testConfig()), now: epoch, ended: map[IssueKey]State{}}
	s.d = NewDriver(s.m, 0, "p0")
	for _, e := range Rebuild("r1", known, []FoundTask{
		{Key: rebuiltKey, Nonce: "k7", Attempt: 1, Live: 1, Labels: []Label{LabelClaimed}, Checkout: true},
		{Key: "acme/widgets#8", Labels: []Label{LabelTask}},
	}, nil, "the journal is gone") {
		if err := s.d.Offer(Event{At: epoch, Body: e}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for r := s.d.Ready(); r.Batch != nil; r = s.d.Ready() { // no attempt may begin before the run
		s.d.Appended(s.journal.append(r.Batch))
	}
	s.offer(Booted{RunID: "run-2"})
	for n, priority := range []int{0, 2} {
		s.now = s.now.Add(time.Minute)
		s.offer(IssuesSeen{Repo: "acme/widgets", Cursor: fmt.Sprint("c", n+2), AskedAt: s.now, Issues: []IssueView{
			{
				Key: "acme/widgets#9", Open: true, Labels: []Label{LabelTask}, UpdatedAt: s.now, Nonce: "k9",
				Standing: Standing{Priority: priority, After: []IssueKey{rebuiltKey}},
			},
		}})
	}
	read := New(testConfig())
	if err := s.journal.replay(read, 0); err != nil {
		t.Fatal(err)
	}
	if err := sameState(read, s.m); err != nil {
		t.Error(err)
	}
	s.record("rebuilt-queue")
}

// compareWithRecorded compares the encoded state of a replayed machine, and of a restored one, with a recorded
// snapshot.
func compareWithRecorded(t *testing.T, name string, m *Machine, recorded []byte) {
	t.Helper()
	got, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var is, was any
	for to, data := range map[*any][]byte{&is: got, &was: recorded} {
		if err := json.Unmarshal(data, to); err != nil {
			t.Fatal(err)
		}
	}
	if renameStops(was); !reflect.DeepEqual(is, was) {
		t.Errorf("%s: the state is\n%s\nand was\n%s", name, got, recorded)
	}
	restored := New(testConfig())
	if err := restored.Restore(recorded); err != nil {
		t.Fatal(err)
	}
	if err := sameState(m, restored); err != nil {
		t.Errorf("%s: the old snapshot is read differently: %v", name, err)
	}
}

// TestOldJournalsHaveEverything checks that the recorded journals contain each kind of fact and each trigger that
// existed when they were recorded.
func TestOldJournalsHaveEverything(t *testing.T) {
	files, err := filepath.Glob("testdata/journals/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	for _, kind := range []string{
		"attempt_began", "attempt_used", "claim_went_stale", "container_started", "cooldown_set", "cursor_advanced",
		"effect_deferred",
		"effect_done", "effect_planned", "ending_set", "hints_given", "incident_changed", "incident_over",
		"labels_confirmed", "moved",
		"paid_calls_set", "phase_changed", "report_accepted", "run_began", "stranger_met", "tally_reset", "task_queued",
		"task_renamed",
		"usage_seen", "verdict_made", "watchdog_moved", "work_delivered", "worker_greeted",
		"command_taken", "cooldown_lifted", "limit_stated", "rebuild_written", "review_noted", "standing_changed",
		"state_kept", "task_rebuilt", "usage_counted",
		"validation_due", "work_pushed", "worker_answered", // v1
	} {
		if !bytes.Contains(all, []byte(`{"kind":"`+kind+`"`)) {
			t.Errorf("the kind %s has no fact", kind)
		}
	}
	for _, x := range Transitions {
		if x.old != "" && !bytes.Contains(all, []byte(`"on":"`+x.old+`"`)) {
			t.Errorf("no transition on %q", x.old)
		}
	}
}

// TestReadEffectsHaveTheirAnswers checks that reading restores the number of earlier answers from an effect's id.
func TestReadEffectsHaveTheirAnswers(t *testing.T) {
	old := `{"id":"k7-1/claim.2","kind":"claim","task":"acme/widgets#7","nonce":"k7","attempt":1,"worker":"k7-1"}`
	for _, data := range []string{
		`{"at":"2026-01-02T03:04:05Z","cause":{"kind":"tick","body":{}},"facts":[` +
			`{"kind":"effect_planned","body":{"effect":` + old + `}}]}`,
		`{"at":"2026-01-02T03:04:05Z", "cause":{"kind":"tick","body":{}},"facts":[` +
			`{"kind":"task_rebuilt","body":{"row":"r","rebuilt":{"outbox":[{"effect":` + old + `}]}}}]}`,
	} {
		records, err := ReadBatch([]byte(data + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		var e Effect
		switch f := records[0].Facts[0].(type) {
		case EffectPlanned:
			e = f.Effect
		case TaskRebuilt:
			e = f.Rebuilt.Outbox[0].Effect
		}
		if e.Answers != 2 || e.About() != "k7-1.2" {
			t.Errorf("%s: %d answers, about %s", KindOf(records[0].Facts[0]), e.Answers, e.About())
		}
	}
	m := New(testConfig())
	if err := m.Restore(fmt.Appendf(nil, `{"version":%d,"tasks":[{"key":"acme/widgets#7","nonce":"k7","seq":1,`+
		`"state":"Blocked","outbox":[{"effect":%s}]}]}`, SnapshotVersion, old)); err != nil {
		t.Fatal(err)
	}
	if e := m.Task("acme/widgets#7").Outbox[0].Effect; e.Answers != 2 {
		t.Errorf("the snapshot's effect has %d answers", e.Answers)
	}
}

// renameStops replaces the reasons of recorded stops by their current words.
func renameStops(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			renameStops(one)
		}
	case map[string]any:
		for key, one := range v {
			stop, ok := one.(map[string]any)
			if ok && key == "stop" {
				if now, old := map[any]string{
					"closed, unlabelled or taken": "withdrawn", "watchdog": "watchdog",
					"a budget is overspent": "over_budget",
					"start failed":          "not_started", "no hello in time": "not_started",
					"another protocol": "not_started",
					"second deadline":  "silent", "final report": "ended", "container gone": "ended",
				}[stop["why"]]; old {
					stop["why"] = now
				}
			}
			renameStops(one)
		}
	}
}

// TestTriggers checks that each trigger of the table has one sentence, and a reason if it stops an attempt.
func TestTriggers(t *testing.T) {
	rows := map[Trigger]int{}
	for _, x := range Transitions {
		if x.Means == "" {
			continue
		}
		rows[x.On]++
		if !reflect.DeepEqual(x.On.Info(), x) || x.old != "" && !reflect.DeepEqual(Trigger(x.old).Info(), x) {
			t.Errorf("the row of %s is %+v", x.On, x)
		}
	}
	for _, x := range Transitions {
		if rows[x.On] != 1 {
			t.Errorf("%s has %d sentences", x.On, rows[x.On])
		}
		if x.To == Stopping && (x.Stop == "" || x.On.Info().Stop != x.Stop) {
			t.Errorf("%s stops an attempt without giving a reason", x.On)
		}
	}
	var unknown Trigger
	if err := json.Unmarshal([]byte(`"no such trigger"`), &unknown); err == nil {
		t.Error("an unknown trigger is read")
	}
}

// If an earlier version planned a question without a topic, the topic comes from the verdict, not from the question's
// text.
func TestAnOldQuestionHasItsTopic(t *testing.T) {
	topics := map[recovery.Topic]int{}
	eachBatch(t, func(before [][]byte) {
		m := New(testConfig())
		var last VerdictMade
		var planned *Effect
		for _, line := range before {
			records, err := ReadBatch(line)
			if err != nil {
				t.Fatal(err)
			}
			planned = nil
			for _, r := range records {
				for _, f := range r.Facts {
					switch f := f.(type) {
					case VerdictMade:
						last = f
					case EffectPlanned:
						if f.Effect.Escalation != nil {
							planned = &f.Effect
						}
					}
				}
			}
			m.Replay(records)
		}
		if planned == nil || planned.Escalation.Topic != "" || planned.Task != last.Task {
			return
		}
		got := m.Task(planned.Task).withTopic(*planned).Escalation.Topic
		want := recovery.Topic("")
		if strings.HasSuffix(last.Verdict.Veto, "budget") {
			want = recovery.Topic(last.Verdict.Veto)
		}
		if got != want {
			t.Errorf("%s: the topic is %q, want %q", planned.ID, got, want)
		}
		topics[got]++
	})
	if topics[""] == 0 || topics["budget"] == 0 || topics["paid_call_budget"] == 0 {
		t.Errorf("topics of old questions: %v", topics)
	}
}

// eachBatch calls each once for every batch of the recorded journals, with the batches up to and including that one.
func eachBatch(t *testing.T, each func(before [][]byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/journals/*transcripts.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no journals", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var before [][]byte
		for line := range bytes.Lines(data) {
			switch {
			case bytes.HasPrefix(line, []byte(`{"journal":`)):
				before = nil
			case !bytes.HasPrefix(line, []byte(`{"state":`)):
				before = append(before, line)
				each(before)
			}
		}
	}
}
