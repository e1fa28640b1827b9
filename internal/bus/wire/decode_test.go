package wire

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// changed returns the example heartbeat with one text replaced.
func changed(old, new string) string {
	hb := wrap("heartbeat.v1", examples["heartbeat.v1"])
	if !strings.Contains(hb, old) {
		panic("no " + old)
	}
	return strings.Replace(hb, old, new, 1)
}

var goodBeat = wrap("heartbeat.v1", examples["heartbeat.v1"])

// unreadable lists messages that cannot be read, with the cause.
var unreadable = []struct {
	name, data string
	cause      Cause
	detail     string
}{
	{"empty", "", CauseNotJSON, "the message is empty"},
	{"cut off", goodBeat[:len(goodBeat)-3], CauseNotJSON, "unexpected EOF"},
	{"two values", goodBeat + goodBeat, CauseNotJSON, "more than one JSON value"},
	{"an array", "[" + goodBeat + "]", CauseNotAnEnvelope, "want an object, got an array"},
	{"null", "null", CauseNotAnEnvelope, "got null"},
	{"something else", `{"hello":"world"}`, CauseNotAnEnvelope, "schema_version is missing"},
	{"wrapped something", `{"error":{"hello":"world"}}`, CauseNotAnEnvelope, "schema_version is missing"},
	{
		"another protocol", changed("agentbus-envelope/v1", "cloudevents/1.0"), CauseNotAnEnvelope,
		`want agentbus-envelope/v1, got "cloudevents/1.0"`,
	},
	{
		"newer envelope", changed("agentbus-envelope/v1", "agentbus-envelope/v2"), CauseUnknownVersion,
		`got "agentbus-envelope/v2"`,
	},
	{
		"version of another type", changed(`"agentbus-envelope/v1"`, "1"), CauseWrongType,
		"schema_version: want a string, got a number",
	},
	{
		"no version", changed(`"schema_version":"agentbus-envelope/v1",`, ""), CauseMissingField,
		"schema_version is missing",
	},
	{"no type", changed(`"message_type":"heartbeat.v1",`, ""), CauseMissingField, "message_type is missing"},
	{
		"newer message", changed("heartbeat.v1", "heartbeat.v2"), CauseUnknownVersion,
		`message_type: want heartbeat.v1, got "heartbeat.v2"`,
	},
	{"unknown message", changed("heartbeat.v1", "gossip.v1"), CauseUnknownType, `"gossip.v1"`},
	{"no sender id", changed(`"id":"k3v9qx2m-1"`, `"id":""`), CauseBadValue, "sender.id is empty"},
	{
		"odd role", changed(`"role":"worker"`, `"role":"spy"`), CauseBadValue,
		`sender.role: want one of director, worker, operator, got "spy"`,
	},
	{"no seq", changed(`"seq":42,`, ""), CauseMissingField, "seq is missing"},
	{"negative seq", changed(`"seq":42`, `"seq":-1`), CauseBadValue, "seq: want at least 0"},
	{
		"bad time", changed(`"sent_at":"2026-11-21T10:00:00.000Z"`, `"sent_at":"yesterday"`), CauseBadValue,
		`sent_at: want an RFC 3339 time, got "yesterday"`,
	},
	{"payload of another type", wrap("probe.v1", `"x"`), CauseWrongType, "payload: want an object, got a string"},
	{"payload null", wrap("pause.v1", `null`), CauseMissingField, "payload is missing"},
	{"missing deep", changed(`"stage":"CODE",`, ""), CauseMissingField, "payload.state.stage is missing"},
	{
		"null is missing", changed(`"stage":"CODE"`, `"stage":null`), CauseMissingField,
		"payload.state.stage is missing",
	},
	{
		"wrong deep", changed(`"attempt":1`, `"attempt":"one"`), CauseWrongType,
		"payload.state.attempt: want an integer, got string",
	},
	{"a fraction", changed(`"attempt":1`, `"attempt":1.5`), CauseWrongType, "payload.state.attempt: want an integer"},
	{
		"out of range", changed(`"percent":40`, `"percent":140`), CauseBadValue,
		"payload.state.progress.percent: want at most 100, got 140",
	},
	{
		"huge number", changed(`"percent":40`, `"percent":1e999`), CauseBadValue,
		"payload.state.progress.percent: number out of range",
	},
	{"list element", wrap("worker_result.v1", strings.Replace(examples["worker_result.v1"], `{"stage":"VALIDATE"`,
		`{"stage":""`, 1)), CauseBadValue, "payload.stages[1].stage is empty"},
	{"list of texts", wrap("worker_result.v1", strings.Replace(examples["worker_result.v1"], `"stages":[`,
		`"stages":["CODE",`, 1)), CauseWrongType, "payload.stages: want an object, got a string"},
	{
		"bare without id", strings.Replace(seedObject, `"error_id"`, `"id"`, 1), CauseMissingField,
		"error_id is missing",
	},
	{
		"bare, wrong type", strings.Replace(seedObject, `"is_transient":false`, `"is_transient":"no"`, 1),
		CauseWrongType, "is_transient: want a boolean, got string",
	},
	{
		"a name in another case slips past no rule", changed(`"attempt":1`, `"attempt":1,"ATTEMPT":0`), CauseBadValue,
		"payload.state.attempt: want at least 1, got 0",
	},
}

func TestDecodeMalformed(t *testing.T) {
	for _, c := range unreadable {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode([]byte(c.data))
			var m *Malformed
			if !errors.As(err, &m) || m.Cause != c.cause || !strings.Contains(m.Detail, c.detail) {
				t.Errorf("got %v, want %s: …%s…", err, c.cause, c.detail)
			}
		})
	}
}

func TestDecodeLeniently(t *testing.T) {
	cases := map[string]struct {
		data string
		bare bool
	}{
		"bare":               {seedObject, true},
		"wrapped":            {`{"error":` + seedObject + `}`, true},
		"enveloped":          {wrap("worker_error.v1", seedObject), false},
		"payload wrapped":    {wrap("worker_error.v1", `{"error":`+seedObject+`}`), false},
		"envelope wrapped":   {`{"error":` + wrap("worker_error.v1", seedObject) + `}`, false},
		"unknown fields":     {wrap("worker_error.v1", strings.Replace(seedObject, "{", `{"shoe_size":43,`, 1)), false},
		"unknown in a frame": {strings.Replace(wrap("worker_error.v1", seedObject), "{", `{"trace":"x",`, 1), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := Decode([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			p, ok := e.Payload.(*WorkerError)
			if !ok || e.Bare != c.bare || p.ErrorID != "20260212-004102Z-worker-3-attempt-2" || p.Attempt != 2 ||
				!p.EscalateToHuman || *p.ExitCode != 1 || !p.IsFinal() {
				t.Errorf("%+v, %+v", e, p)
			}
			if strings.Contains(c.data, "shoe_size") && !strings.Contains(string(e.Raw), `"shoe_size":43`) {
				t.Errorf("unknown field lost: %s", e.Raw)
			}
		})
	}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 21, 11, 0, 0, 123_999_999, time.FixedZone("CET", 3600))
	from := Sender{Role: RoleDirector, ID: "default", RunID: "run_1"}
	data, err := Encode(from, 7, at, &Stop{Reason: StopFenced, GraceSeconds: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema_version":"agentbus-envelope/v1","message_type":"stop.v1","sent_at":"2026-11-21T10:00:00.123Z",` +
		`"sender":{"role":"director","id":"default","run_id":"run_1"},"seq":7,` +
		`"payload":{"reason":"fenced","grace_seconds":10}}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
	e, err := Decode(data)
	if err != nil || !reflect.DeepEqual(e.Sender, from) || e.Seq != 7 ||
		!e.SentAt.Equal(at.Truncate(time.Millisecond)) || *e.Payload.(*Stop) != (Stop{StopFenced, 10}) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	worker := Sender{Role: RoleWorker, ID: "w"}
	cases := map[string]struct {
		from Sender
		p    Payload
		want string
	}{
		"missing id": {
			worker,
			WorkerError{WorkerID: "w", IssueNumber: 1, Attempt: 1, Stage: "CODE", ErrorType: "x"},
			"payload.error_id is empty",
		},
		"attempt zero": {worker, TaskProgress{IssueNumber: 1, Stage: "CODE"}, "payload.attempt: want at least 1"},
		"no sender":    {Sender{Role: RoleWorker}, Pause{}, "sender.id is empty"},
		"odd reason":   {worker, Stop{Reason: "because"}, "payload.reason: want one of fenced"},
	}
	for name, c := range cases {
		if _, err := Encode(c.from, 1, time.Time{}, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := Encode(worker, 1, time.Time{}, Stop{Reason: StopFenced, GraceSeconds: math.NaN()}); err == nil {
		t.Error("NaN was sent")
	}
	if data, err := Encode(worker, 1, time.Time{},
		Snapshot{Director: SnapshotDirector{RunID: "r", Phase: "BOOT"}}); err != nil ||
		strings.Contains(string(data), "null,") && strings.Contains(string(data), `"workers":null`) {
		t.Errorf("an empty snapshot: %s, %v", data, err)
	}
}

func TestCheckSender(t *testing.T) {
	const id = "k3v9qx2m-1"
	decode := func(data string) Envelope {
		t.Helper()
		e, err := Decode([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	seed := strings.ReplaceAll(seedObject, "worker-3-1707600000", id)
	asRole := func(data, role, sender string) string {
		return strings.Replace(data, `"role":"worker","id":"k3v9qx2m-1"`, `"role":"`+role+`","id":"`+sender+`"`, 1)
	}
	hb := wrap("heartbeat.v1", examples["heartbeat.v1"])
	cases := []struct {
		name    string
		data    string
		channel Channel
		want    Cause
	}{
		{"own heartbeat", hb, ChannelHeartbeat, ""},
		{"another's heartbeat", asRole(hb, "worker", "other-1"), ChannelHeartbeat, CauseForeignSender},
		{"heartbeat as a result", hb, ChannelResult, CauseWrongSubject},
		{"bare, own", seed, ChannelError, ""},
		{"bare, another's", seedObject, ChannelError, CauseForeignSender},
		{"operator for the worker", asRole(wrap("worker_error.v1", seed), "operator", "alice"), ChannelError, ""},
		{
			"operator for another", asRole(wrap("worker_error.v1", seedObject), "operator", "alice"), ChannelError,
			CauseForeignSender,
		},
		{"director reports an exit", asRole(wrap("worker_error.v1", seed), "director", "d"), ChannelError, ""},
		{
			"director reports another worker's exit",
			asRole(wrap("worker_error.v1", seedObject), "director", "d"), ChannelError,
			CauseForeignSender,
		},
		{"director's heartbeat", asRole(hb, "director", "d"), ChannelHeartbeat, CauseForeignSender},
		{
			"another attempt", wrap("worker_error.v1", strings.Replace(seed, "{", `{"attempt_id":"k3v9qx2m-2",`, 1)),
			ChannelError, CauseForeignSender,
		},
		{"another's result", wrap("worker_result.v1", strings.Replace(examples["worker_result.v1"],
			`"attempt_id":"k3v9qx2m-1"`, `"attempt_id":"x-1"`, 1)), ChannelResult, CauseForeignSender},
		{"hello", wrap("protocol_hello.v1", examples["protocol_hello.v1"]), ChannelHello, ""},
		{"command on a worker's subject", wrap("stop.v1", examples["stop.v1"]), ChannelError, CauseWrongSubject},
	}
	for _, c := range cases {
		err := CheckSender(decode(c.data), id, c.channel)
		var m *Malformed
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &m) || m.Cause != c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestEveryMessageHasItsRow(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range messages {
		if got := row.New().MessageType(); got != row.Type || seen[got] {
			t.Errorf("row %s makes %s", row.Type, got)
		}
		seen[row.Type] = true
	}
}

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"1.0": true, "1.7": true, "1": true, "2.0": false, "0.9": false, "": false,
		"one": false, "1.x": false, "-1.0": false, "99999999999.0": false,
	} {
		refusal := CheckVersion(version)
		if (refusal == nil) != ok {
			t.Errorf("%q: %+v", version, refusal)
		}
		if refusal != nil && (refusal.SenderProtocolVersion != version || refusal.ExpectedProtocolVersion != "1.0" ||
			refusal.RequiredAction != "sync_main_and_restart") {
			t.Errorf("%q: %+v", version, refusal)
		}
	}
}

func TestSubjects(t *testing.T) {
	s := Subjects{Prefix: "retake.v1"}
	for _, c := range []Channel{ChannelHello, ChannelHeartbeat, ChannelProgress, ChannelError, ChannelResult} {
		worker, channel, ok := s.ParseWorker(s.Worker("k3v9qx2m-1", c))
		if worker != "k3v9qx2m-1" || channel != c || !ok {
			t.Errorf("%s: %s %s %v", c, worker, channel, ok)
		}
	}
	for _, foreign := range []string{
		"", "retake.v1", "retake.v1.worker", "retake.v1.worker.", "retake.v1.worker.x", "retake.v1.worker.x.",
		"retake.v1.worker.x.gossip",
		"retake.v1.worker.x.error.y", "retake.v1.worker..error", "retake.v2.worker.x.error", "retake.v1.worker.*.error",
		"retake.v1.control.x", s.Journal(), s.Dead(CauseNotJSON),
	} {
		if _, _, ok := s.ParseWorker(foreign); ok {
			t.Errorf("%q taken for a worker's subject", foreign)
		}
	}
	for id, ok := range map[string]bool{
		"a": true, "A-b_9": true, "": false, "a.b": false, "a*": false, ">": false,
		"a b": false, "é": false, strings.Repeat("x", 129): false,
	} {
		if (CheckID(id) == nil) != ok {
			t.Errorf("id %q: %v", id, CheckID(id))
		}
	}
	for prefix, ok := range map[string]bool{
		"retake.v1": true, "x": true, "": false, ".x": false, "x.": false,
		"a.*": false, "a.>": false,
	} {
		if (CheckPrefix(prefix) == nil) != ok {
			t.Errorf("prefix %q: %v", prefix, CheckPrefix(prefix))
		}
	}
}

func TestAttemptFileIsWhatAgentsExpect(t *testing.T) {
	data, err := json.Marshal(AttemptFile{
		AttemptID: "x-2", Attempt: 2, Action: "retry",
		Issue: IssueRef{Key: "acme/widgets#21"},
	})
	want := `{"attempt_id":"x-2","attempt":2,"action":"retry",` +
		`"issue":{"key":"acme/widgets#21","title":"","body":"","labels":[],"url":""},` +
		`"model":null,"hints":[],"earlier_failures":[],"summary":""}`
	if err != nil || string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
}

// FuzzDecode checks that any bytes are either refused with a listed cause, or decoded such that they can be encoded
// again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(seedObject))
	f.Add([]byte(`{"error":` + seedObject + `}`))
	for _, row := range messages {
		f.Add([]byte(wrap(row.Type, examples[row.Type])))
	}
	f.Add([]byte(`{"error":{"error":{}}}`))
	f.Add([]byte("\xff{\"error_id\":null}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		agree(t, data)
		e, err := Decode(data)
		if err != nil {
			var m *Malformed
			if !errors.As(err, &m) || !listed(m.Cause) || m.Detail == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		_ = CheckSender(e, "w", ChannelError) // must also not panic
		if e.Bare {
			e.Sender = Sender{Role: RoleOperator, ID: "o"}
		}
		again, err := Encode(e.Sender, e.Seq, e.SentAt, e.Payload)
		if err != nil {
			t.Fatalf("decoded, but cannot be sent: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("sent again, but cannot be read: %v", err)
		}
	})
}

func listed(c Cause) bool {
	for _, row := range Causes() {
		if row.Cause == c {
			return true
		}
	}
	return false
}
