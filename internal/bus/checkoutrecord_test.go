package bus

import (
	"encoding/json"
	"errors"
	"testing"

	"retake/internal/bus/checkouts"
	"retake/internal/checkpoint"
)

// TestRecordsOfADirectorThatComesLate checks that a late director does not overwrite the record of another director,
// and that the files of an attempt with write access are not replaced.
func TestRecordsOfADirectorThatComesLate(t *testing.T) {
	t.Parallel()
	leads := true
	b := openBus(t, Options{Leads: func() bool { return leads }})
	ctx, task := ctxFor(t), checkoutRules().Task(worker)
	always := func(json.RawMessage) bool { return true }
	if err := b.Checkouts().KeepRecord(ctx, task, json.RawMessage(`{}`), always); err != nil {
		t.Errorf("of a task without stored data: %v", err)
	}
	root := publish(t, b, worker, base(t), true)
	state := func() CheckoutState {
		t.Helper()
		s, _, err := b.Checkouts().State(ctx, task)
		mustDo(t, err)
		return s
	}
	if err := b.Checkouts().KeepRecord(ctx, task, json.RawMessage("{\n \"base\": \"def\"\n}"), always); err != nil ||
		string(state().Record) != `{"base":"def"}` {
		t.Errorf("%s, %v", state().Record, err)
	}
	was := func(want string) func(json.RawMessage) bool {
		return func(there json.RawMessage) bool { return string(there) == want }
	}
	err := b.Checkouts().KeepRecord(ctx, task, json.RawMessage(`{"base":"late"}`), was(`{"base":"abc"}`))
	if !errors.Is(err, checkouts.ErrOlder) {
		t.Errorf("over a newer record: %v", err)
	}
	store, err := b.Checkouts().Open(ctx, task)
	mustDo(t, err)
	if err := store.Replace(ctx, root, json.RawMessage(`{"base":"late"}`), always); err == nil {
		t.Error("files of an attempt that writes were replaced")
	}
	_, err = b.Checkouts().Close(ctx, task, worker)
	mustDo(t, err)
	leads = false
	for what, err := range map[string]error{
		"record": b.Checkouts().KeepRecord(ctx, task, json.RawMessage(`{"base":"late"}`), always),
		"files":  store.Replace(ctx, root, json.RawMessage(`{"base":"late"}`), always),
	} {
		if !errors.Is(err, ErrNotLeading) {
			t.Errorf("%s, without the lease: %v", what, err)
		}
	}
	if s := state(); string(s.Record) != `{"base":"def"}` || s.Manifest != root {
		t.Errorf("%+v", s)
	}
	leads = true
	other := checkpoint.Digest{1}
	if err := store.Replace(ctx, other, json.RawMessage(`{"base":"ghi"}`), was(`{"base":"def"}`)); err != nil {
		t.Fatal(err)
	}
	if s := state(); string(s.Record) != `{"base":"ghi"}` || s.Manifest != other || s.Before != root {
		t.Errorf("%+v", s)
	}
}
