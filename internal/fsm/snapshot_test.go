package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// The snapshot contains every field of the hard state. A missing field would cause errors only after a restart.
func TestSnapshotKeepsEveryField(t *testing.T) {
	var hard, back hardState
	fill(reflect.ValueOf(&hard).Elem())
	data, err := json.Marshal(hard)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	back.readEffects()
	if !reflect.DeepEqual(hard, back) {
		t.Fatalf("kept as %s\nwas  %+v\nis   %+v", data, hard, back)
	}
	if read, err := readState(data); err != nil || !reflect.DeepEqual(hard, read) || len(howState.Slow()) > 0 {
		t.Fatalf("kept as %s\nread as %+v, %v; encoding/json reads %q", data, read, err, howState.Slow())
	}
	damaged := bytes.Replace(data, []byte(`"seq":`), []byte(`"seq":"`), 1)
	if _, err := readState(damaged); err == nil || err.Error() != json.Unmarshal(damaged, &back).Error() {
		t.Errorf("a damaged one: %v", err)
	}
}

// The journal keeps every field of every fact.
func TestJournalKeepsEveryField(t *testing.T) {
	var b BatchReader
	for _, row := range facts {
		kind := row.kind
		zero, err := row.read([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(v)
		f := v.Interface().(Fact)
		data, err := json.Marshal(FactList{f})
		if err != nil {
			t.Fatal(kind, err)
		}
		var back FactList
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(kind, err)
		}
		if !reflect.DeepEqual(back[0], f) {
			t.Errorf("%s is kept as %s", kind, data)
		}
		line, err := json.Marshal(Record{Cause: Cause{Kind: "tick", Body: []byte("{}")}, Facts: FactList{f}})
		if err != nil {
			t.Fatal(kind, err)
		}
		if read, err := b.Read(line); err != nil || b.slow > 0 || !reflect.DeepEqual(read[0].Facts[0], f) {
			t.Errorf("%s is read as %+v, %v; %d needed encoding/json", line, read, err, b.slow)
		}
	}
}

// fill gives every stored field a value.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case State:
		v.Set(reflect.ValueOf(Running))
		return
	case Trigger:
		v.SetString(string(OnHello))
		return
	case time.Time:
		v.Set(reflect.ValueOf(epoch))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			soft := []string{"Token", "Unheard", "Progress", "Reply"}
			if softly := f.Tag.Get("json") == "-" && slices.Contains(soft, f.Name); f.IsExported() && !softly {
				fill(v.Field(i))
			}
		}
		if e, ok := v.Addr().Interface().(*Effect); ok {
			e.ID = effectID(e.Kind, e.Worker, e.Answers)
		}
	default:
		panic("fill: " + v.Kind().String())
	}
}

// Finished tasks leave only a limited amount of data in the state, so the snapshot stays small over the years.
func TestTasksThatAreOverLeaveNothing(t *testing.T) {
	m := New(testConfig())
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	step := func(body EventBody) []Effect {
		at = at.Add(time.Second)
		_, effects := m.Step(Event{At: at, Body: body})
		return effects
	}
	step(Booted{RunID: "run-1"})
	size := map[int]int{}
	for n := 1; n <= 4000; n++ {
		key, nonce := IssueKey(fmt.Sprintf("acme/widgets#%d", n)), fmt.Sprint("n", n)
		effects := step(IssuesSeen{
			Repo: "acme/widgets", Cursor: fmt.Sprint(n), AskedAt: at,
			Issues: []IssueView{{Key: key, Open: true, Labels: []Label{LabelTask}, UpdatedAt: at, Nonce: nonce}},
		})
		if len(m.Tasks()) == 0 {
			t.Fatalf("issue %d has no task", n)
		}
		effects = append(effects, step(IssuesSeen{
			Repo: "acme/widgets", Cursor: fmt.Sprint(n), AskedAt: at,
			Issues: []IssueView{{Key: key, UpdatedAt: at.Add(time.Second), Nonce: nonce}},
		})...)
		for len(effects) > 0 { // let every requested effect succeed, and end the claim by closing the issue
			var next []Effect
			for _, e := range effects {
				if e.ID == "" {
					continue
				}
				ended := EffectEnded{Task: e.Task, Effect: e.ID}
				if e.Kind == DoClaim {
					ended.Claim = &ClaimResult{Why: "the issue is closed"}
				}
				next = append(next, step(ended)...)
			}
			effects = next
		}
		if n%1000 == 0 {
			data, err := m.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			size[n] = len(data)
		}
	}
	t.Logf("%d tasks are left; bytes of a snapshot after so many tasks: %v", len(m.Tasks()), size)
	if len(m.Tasks()) > 3 || size[4000] > size[1000]+100 {
		t.Errorf("%d tasks are left; bytes of a snapshot: %v", len(m.Tasks()), size)
	}
}
