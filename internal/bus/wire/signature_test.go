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

// A signature counts for one payload of one type of one attempt, under its key.
func TestForgedReportsDoNotCount(t *testing.T) {
	key, other := AttemptKey(secret, signer), AttemptKey(secret, "other-1")
	good := encoded(t, Sender{Role: RoleWorker, ID: signer, Key: key}, someResult())
	var members map[string]json.RawMessage
	if err := json.Unmarshal(good, &members); err != nil {
		t.Fatal(err)
	}
	with := func(member, value string) []byte {
		changed := map[string]json.RawMessage{}
		for k, v := range members {
			changed[k] = v
		}
		changed[member] = json.RawMessage(value)
		data, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	signature := string(members["signature"])
	asOperator := func(p Payload) []byte { return encoded(t, Sender{Role: RoleOperator, ID: "anna"}, p) }
	cases := []struct {
		name   string
		data   []byte
		key    []byte
		worker string
		signed bool
		detail string // empty: no error
	}{
		{"the worker's own", good, key, signer, true, ""},
		{"an older secret's key", good, AttemptKey([]byte("another"), signer), signer, false, "not that of"},
		{"of another attempt, under its key", good, other, "other-1", false, "not that of"},
		{"for another worker, under this key", good, key, "other-1", false, "not that of"},
		{
			"no key at all", encoded(t, Sender{Role: RoleWorker, ID: signer, Key: []byte{}}, someResult()), nil, signer,
			false, "is missing",
		},
		{
			"signed with no key", with("signature", `"`+signatureText.EncodeToString(signatureOf(t, nil, good))+`"`), nil,
			signer, false, "not that of",
		},
		{
			"another number of files", bytes.Replace(good, []byte(`"changed_files":0`), []byte(`"changed_files":1`), 1),
			key, signer, false, "not that of",
		},
		{"an unknown field more", bytes.Replace(good, []byte(`"changed_files":0`), []byte(`"changed_files":0,"x":1`),
			1), key, signer, false, "not that of"},
		{"a second payload", append(bytes.TrimSuffix(good, []byte("}")), `,"payload":`+
			string(mustJSON(t, &WorkerResult{
				ResultID: "r", AttemptID: signer, IssueNumber: 21, Attempt: 1,
				Outcome: OutcomeOK,
			}))+"}"...), key, signer, false, "not that of"},
		{
			"a payload in other capitals", append(bytes.TrimSuffix(good, []byte("}")), `,"Payload":{"result_id":"x"}}`...),
			key, signer, true, "",
		},
		{"an empty signature", with("signature", `""`), key, signer, false, "is missing"},
		{
			"signed twice", with("signature", signature[:len(signature)-1]+signature[1:]), key, signer, false,
			"not that of",
		},
		{"padded", with("signature", signature[:len(signature)-1]+`="`), key, signer, false, "not that of"},
		{
			"an error of the worker, unsigned", encoded(t, Sender{Role: RoleWorker, ID: signer}, someError()), key, signer,
			false, "is missing: a worker_error.v1 from a sender of role worker needs one",
		},
		{
			"an exit of the director, unsigned", encoded(t, Sender{Role: RoleDirector, ID: "default"}, someError()), key,
			signer, false, "of role director",
		},
		{"a person's word", asOperator(someError()), key, signer, false, ""},
		{"a person's word, bare", mustJSON(t, someError()), key, signer, false, ""},
		{
			"a person's success", asOperator(someResult()), key, signer, false,
			"is missing: a worker_result.v1 from a sender of role operator needs one",
		},
		{"a person's word with a signature", bytes.Replace(asOperator(someError()), []byte(`"seq":1`),
			[]byte(`"seq":1,"signature":`+signature), 1), key, signer, false, "not that of"},
	}
	for _, c := range cases {
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

// Every single bit of payload and signature is under the signature.
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

// What is cut to fit is signed as it is sent.
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
