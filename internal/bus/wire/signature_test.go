package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

const signer = "k3v9qx2m-1"

var (
	secret = []byte("the director's secret")
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func someResult() *WorkerResult {
	return &WorkerResult{
		ResultID: signer + "/result", AttemptID: signer, IssueNumber: 21, Attempt: 1,
		Outcome: OutcomeOK, Summary: "<done> & well",
	}
}

func someError() *WorkerError {
	return &WorkerError{
		ErrorID: "e1", WorkerID: signer, IssueNumber: 21, Stage: StageCode, Attempt: 1,
		ErrorType: "tests_failed",
	}
}

func encoded(t *testing.T, from Sender, p Payload) []byte {
	t.Helper()
	data, err := Encode(from, 1, noon, p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decoded(t *testing.T, data []byte) Envelope {
	t.Helper()
	e, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestReportsAreSignedAndNothingElse(t *testing.T) {
	key := AttemptKey(secret, signer)
	from := Sender{Role: RoleWorker, ID: signer, Key: key}
	for _, p := range []Payload{someResult(), someError(), *someResult(), *someError()} {
		data := encoded(t, from, p)
		e := decoded(t, data)
		if signed, err := CheckSignature(e, key, signer); !signed || err != nil {
			t.Errorf("%s: %v, %v", p.MessageType(), signed, err)
		}
		if bytes.Contains(data, key) || e.Sender.Key != nil {
			t.Errorf("the key is sent: %s", data)
		}
	}
	director := Sender{Role: RoleDirector, ID: "default", Key: key}
	if e := decoded(t, encoded(t, director, someError())); !e.SignedBy(key, signer) {
		t.Error("a director's report of an exit is not signed")
	}
	heartbeat := Heartbeat{State: HeartbeatState{Stage: StageCode, IssueNumber: 1, Attempt: 1, LastUpdateAt: At(noon)}}
	if e := decoded(t, encoded(t, from, heartbeat)); e.Signature != "" {
		t.Errorf("a heartbeat is signed: %s", e.Signature)
	}
}

// checked is a message, and the result of checking its signature.
type checked struct {
	name   string
	data   []byte
	key    []byte
	worker string
	signed bool
	detail string // empty without an error
}

// withMember returns a message with one member replaced.
func withMember(t *testing.T, message []byte, member, value string) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(message, &members); err != nil {
		t.Fatal(err)
	}
	members[member] = json.RawMessage(value)
	return mustJSON(t, members)
}

func asOperator(t *testing.T, p Payload) []byte {
	t.Helper()
	return encoded(t, Sender{Role: RoleOperator, ID: "anna"}, p)
}

func signedResult(t *testing.T) []byte {
	t.Helper()
	return encoded(t, Sender{Role: RoleWorker, ID: signer, Key: AttemptKey(secret, signer)}, someResult())
}

func signatureIn(t *testing.T, message []byte) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(message, &members); err != nil {
		t.Fatal(err)
	}
	return string(members["signature"])
}

func signatures(t *testing.T) []checked {
	t.Helper()
	key, other, good := AttemptKey(secret, signer), AttemptKey(secret, "other-1"), signedResult(t)
	signature := signatureIn(t, good)
	return append(signaturesOfPersons(t), []checked{
		{"the worker's own", good, key, signer, true, ""},
		{"an older secret's key", good, AttemptKey([]byte("another"), signer), signer, false, "does not match"},
		{"of another attempt, under its key", good, other, "other-1", false, "does not match"},
		{"for another worker, under this key", good, key, "other-1", false, "does not match"},
		{
			"no key at all", encoded(t, Sender{Role: RoleWorker, ID: signer, Key: []byte{}}, someResult()), nil, signer,
			false, "missing signature",
		},
		{
			"signed with no key",
			withMember(t, good, "signature", `"`+signatureText.EncodeToString(signatureOf(t, nil, good))+`"`),
			nil, signer, false, "does not match",
		},
		{
			"another number of files", bytes.Replace(good, []byte(`"changed_files":0`), []byte(`"changed_files":1`), 1),
			key, signer, false, "does not match",
		},
		{"an unknown field more", bytes.Replace(good, []byte(`"changed_files":0`), []byte(`"changed_files":0,"x":1`),
			1), key, signer, false, "does not match"},
		{"a second payload", append(bytes.TrimSuffix(good, []byte("}")), `,"payload":`+
			string(mustJSON(t, &WorkerResult{
				ResultID: "r", AttemptID: signer, IssueNumber: 21, Attempt: 1,
				Outcome: OutcomeOK,
			}))+"}"...), key, signer, false, "does not match"},
		{
			"a payload in other capitals",
			append(bytes.TrimSuffix(good, []byte("}")), `,"Payload":{"result_id":"x"}}`...),
			key, signer, true, "",
		},
		{"an empty signature", withMember(t, good, "signature", `""`), key, signer, false, "missing signature"},
		{
			"signed twice", withMember(t, good, "signature", signature[:len(signature)-1]+signature[1:]), key, signer,
			false,
			"does not match",
		},
		{
			"padded", withMember(t, good, "signature", signature[:len(signature)-1]+`="`), key, signer, false,
			"does not match",
		},
		{
			"an error of the worker, unsigned", encoded(t, Sender{Role: RoleWorker, ID: signer}, someError()), key,
			signer, false, "missing signature: a sender with role worker must sign a worker_error.v1",
		},
		{
			"an exit of the director, unsigned", encoded(t, Sender{Role: RoleDirector, ID: "default"}, someError()),
			key, signer, false, "with role director",
		},
	}...)
}

func signaturesOfPersons(t *testing.T) []checked {
	t.Helper()
	key, signature := AttemptKey(secret, signer), signatureIn(t, signedResult(t))
	return []checked{
		{"a person's report", asOperator(t, someError()), key, signer, false, ""},
		{"a person's report, bare", mustJSON(t, someError()), key, signer, false, ""},
		{
			"a person's success", asOperator(t, someResult()), key, signer, false,
			"missing signature: a sender with role operator must sign a worker_result.v1",
		},
		{"a person's report with a signature", bytes.Replace(asOperator(t, someError()), []byte(`"seq":1`),
			[]byte(`"seq":1,"signature":`+signature), 1), key, signer, false, "does not match"},
	}
}

// A signature is valid only for one payload of one type of one attempt, with the attempt's key.
func TestForgedReportsDoNotCount(t *testing.T) {
	for _, c := range signatures(t) {
		signed, err := CheckSignature(decoded(t, c.data), c.key, c.worker)
		detail := ""
		if err != nil {
			var m *Malformed
			if !errors.As(err, &m) || m.Cause != CauseUnsigned {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			detail = m.Detail
		}
		if signed != c.signed || (detail == "") != (c.detail == "") || !strings.Contains(detail, c.detail) {
			t.Errorf("%s: signed %v, %q; want %v, %q", c.name, signed, detail, c.signed, c.detail)
		}
	}
}

// The signature covers every bit of the payload, and every bit of the signature counts.
func TestNoBitMayFlip(t *testing.T) {
	key := AttemptKey(secret, signer)
	e := decoded(t, encoded(t, Sender{Role: RoleWorker, ID: signer, Key: key}, someResult()))
	flipped := func(s []byte, bit int) []byte {
		s = bytes.Clone(s)
		s[bit/8] ^= 1 << (bit % 8)
		return s
	}
	for bit := range 8 * len(e.Raw) {
		f := e
		if f.Raw = flipped(e.Raw, bit); f.SignedBy(key, signer) {
			t.Fatalf("payload, bit %d: counts", bit)
		}
	}
	for bit := range 8 * len(e.Signature) {
		f := e
		if f.Signature = string(flipped([]byte(e.Signature), bit)); f.SignedBy(key, signer) {
			t.Fatalf("signature, bit %d: counts", bit)
		}
	}
	for bit := range 8 * len(key) {
		if e.SignedBy(flipped(key, bit), signer) {
			t.Fatalf("key, bit %d: counts", bit)
		}
	}
}

func TestMessageIDsAreTheAttemptsOwn(t *testing.T) {
	key := AttemptKey(secret, signer)
	id := ReportMessageID(key, signer, "e1")
	if rest, found := strings.CutPrefix(id, signer+"/"); !found || len(rest) != 22 || strings.Contains(id, "e1") {
		t.Errorf("got %q", id)
	}
	for _, other := range []string{
		ReportMessageID(key, signer, "e2"), ReportMessageID(key, "other-1", "e1"),
		ReportMessageID(AttemptKey(secret, "other-1"), signer, "e1"),
	} {
		if other == id {
			t.Errorf("%q stands for two reports", id)
		}
	}
	if again := ReportMessageID(key, signer, "e1"); again != id {
		t.Errorf("%q, then %q", id, again)
	}
}

// A report that was cut to fit is signed after the cut.
func TestWhatWasCutIsSigned(t *testing.T) {
	key := AttemptKey(secret, signer)
	e := someError()
	e.LastStdoutTail = strings.Repeat("line\n", 4000)
	data, err := EncodeWithin(Sender{Role: RoleWorker, ID: signer, Key: key}, 1, noon, e, 4096)
	if err != nil || len(data) > 4096 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if !decoded(t, data).SignedBy(key, signer) {
		t.Error("not signed")
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func signatureOf(t *testing.T, key, data []byte) []byte {
	t.Helper()
	e := decoded(t, data)
	return signature(key, e.Payload.MessageType(), signer, e.Raw)
}
