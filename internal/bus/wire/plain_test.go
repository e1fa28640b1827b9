package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// agree compares Decode with the slow reader.
func agree(t interface{ Fatalf(string, ...any) }, data []byte) (plainly bool) {
	kept := bytes.Clone(data)
	quick, plainly := decodePlain(data)
	slow, err := decodeAny(kept)
	if !bytes.Equal(kept, data) {
		t.Fatalf("%s became %s", kept, data)
	}
	if plainly && (err != nil || !reflect.DeepEqual(quick, slow)) {
		t.Fatalf("%s\nin one pass %+v\n%+v\nelse        %+v\n%+v, %v", data, quick, quick.Payload, slow, slow.Payload,
			err)
	}
	return plainly
}

// The messages of all senders of this project are read in one pass.
func TestOrdinaryMessagesArePlain(t *testing.T) {
	for _, row := range messages {
		spaced := wrap(row.Type, examples[row.Type])
		if !agree(t, []byte(spaced)) {
			t.Errorf("%s is not", row.Type)
		}
		e, err := Decode([]byte(spaced))
		if err != nil {
			t.Fatal(err)
		}
		data, err := Encode(Sender{Role: RoleWorker, ID: "w-1", Key: []byte("key")}, 1, time.Now(), e.Payload)
		if err != nil || !agree(t, data) {
			t.Errorf("%s as we send it is not: %v", row.Type, err)
		}
	}
	for name, message := range map[string]string{
		"a text with everything in it": strings.Repeat("tab\t quote\" \\ line\n <&> \u2028 é 日本 🎬 \x7f /", 20),
		"an unknown field":             `","x":{"a":[1,-2.5e+3,"\u00e9\"",true,false,null,{}],"b":[]},"y":"`,
	} {
		text, _ := json.Marshal(message)
		if strings.HasPrefix(name, "an unknown") {
			text = []byte(`"` + message + `"`)
		}
		if !agree(t, []byte(wrap("worker_error.v1", strings.Replace(examples["worker_error.v1"], `"out"`, string(text),
			1)))) {
			t.Errorf("%s is not", name)
		}
	}
}

// The fast reader leaves all other messages to the slow one, or reads them with the same result.
func TestPlainIsStrict(t *testing.T) {
	hb, e := wrap("heartbeat.v1", examples["heartbeat.v1"]), wrap("worker_error.v1", examples["worker_error.v1"])
	for name, c := range map[string]struct{ of, old, new string }{
		"another envelope":            {hb, "envelope/v1", "envelope/v2"},
		"a name twice":                {hb, `"attempt":1`, `"attempt":1,"attempt":2`},
		"a name in another case":      {hb, `"attempt":1`, `"attempt":1,"ATTEMPT":0`},
		"a name that folds to ASCII":  {hb, `"attempt":1`, `"attempt":1,"ſtage":""`},
		"an escaped name":             {hb, `"attempt":1`, `"\u0061ttempt":1`},
		"the payload before its type": {hb, `"message_type":"heartbeat.v1",`, ``},
		"a required field is null":    {hb, `"stage":"CODE"`, `"stage":null`},
		"a field outside its range":   {hb, `"percent":40`, `"percent":140`},
		"an integer with a fraction":  {hb, `"attempt":1`, `"attempt":1.0`},
		"an integer of many digits":   {hb, `"attempt":1`, `"attempt":9223372036854775808`},
		"a leading zero":              {hb, `"attempt":1`, `"attempt":01`},
		"an invalid number":           {hb, `"percent":40`, `"percent":4.`},
		"half a number":               {hb, `"percent":40`, `"percent":-`},
		"a time in another zone": {
			hb, `"last_update_at":"2026-11-21T10:00:00.000Z"`,
			`"last_update_at":"9999-12-31T23:00:00-02:00"`,
		},
		"no time":                      {hb, `"last_update_at":"2026-11-21T10:00:00.000Z"`, `"last_update_at":"Z"`},
		"a lone surrogate":             {e, `"out"`, `"\ud83c"`},
		"half of another":              {e, `"out"`, `"\ud83c\u0041"`},
		"an unknown escape":            {e, `"out"`, `"\x"`},
		"no UTF-8":                     {e, `"out"`, "\"\xff\""},
		"a line in a text":             {e, `"out"`, "\"a\nb\""},
		"a comma at the end":           {e, `"headers":{"retry-after":"30"}`, `"headers":{"retry-after":"30",}`},
		"a comma at the end of a list": {e, `"./..."]`, `"./...",]`},
		"null in a list":               {e, `"./..."]`, `null]`},
		"null in a map":                {e, `"retry-after":"30"`, `"retry-after":null`},
		"an invalid unknown field":     {e, `"final":true`, `"final":true,"x":{"a":"\u12"}`},
		"nested for ever": {e, `"final":true`, `"final":true,"x":` + strings.Repeat("[", 200) +
			strings.Repeat("]", 200)},
		"something after it": {e, "}]}}", "}]}}{}"},
		"the end is missing": {e, "}]}}", "}]}"},
	} {
		data := strings.Replace(c.of, c.old, c.new, 1)
		if name == "the payload before its type" {
			data = strings.TrimSuffix(data, "}") + `,"message_type":"heartbeat.v1"}`
			if !agree(t, []byte(data)) { // this message is also plain
				t.Errorf("%s is not read in one pass", name)
			}
			continue
		}
		if data == c.of || agree(t, []byte(data)) {
			t.Errorf("%s is read in one pass: %s", name, data)
		}
	}
}

// Every message type has a layout. A rule for a field that the type lacks must be an error, because the rule would
// never apply.
func TestEveryMessageHasItsLayout(t *testing.T) {
	for _, row := range messages {
		if _, ok := payloadLayouts[row.Type]; !ok {
			t.Errorf("%s has none", row.Type)
		}
		if _, ok := layoutOf(reflect.TypeOf(row.New()).Elem(),
			append(slices.Clone(row.Fields), may("no.such.field", filled))); ok {
			t.Errorf("%s has a rule for a field that it does not have", row.Type)
		}
	}
	if len(frameLayout.members) == 0 {
		t.Error("the envelope has no members")
	}
}

// Both readers agree on randomly changed messages.
func TestDecodeInOnePassAgrees(t *testing.T) {
	var plainly, all int
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SampledFrom(messages).Draw(t, "type")
		var tree map[string]any
		d := json.NewDecoder(strings.NewReader(wrap(row.Type, examples[row.Type])))
		d.UseNumber()
		if err := d.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			change(t, tree)
		}
		data, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 4).Draw(t, "bytes") == 0 && len(data) > 0 {
			i := rapid.IntRange(0, len(data)-1).Draw(t, "where")
			data[i] = rapid.SampledFrom([]byte(`"\{}[],:0-.eEtn u`+"\x00\n\xc3")).Draw(t, "byte")
		}
		all++
		if agree(t, data) {
			plainly++
		}
	})
	if plainly < all/20 {
		t.Errorf("%d of %d were read in one pass", plainly, all)
	}
}

// odd are values that some fields accept and others reject.
var odd = []json.RawMessage{
	[]byte(`null`), []byte(`true`), []byte(`""`), []byte(`"x"`), []byte(`"ok"`), []byte(`"2026-11-21T10:00:00Z"`),
	[]byte(`"2026-11-21T10:00:00+01:00"`), []byte(`"\u2028<\u0000\ud83c\udfac"`),
	[]byte(`0`), []byte(`-1`), []byte(`-0`), []byte(`1e2`), []byte(`1.5`), []byte(`100`), []byte(`1e999`),
	[]byte(`123456789012345678901`), []byte(`[]`), []byte(`[null]`), []byte(`["x"]`),
	[]byte(`[{}]`), []byte(`{}`), []byte(`{"a":"b"}`), []byte(`{"stage":"CODE","exit_code":1}`),
}

// change changes one random member of an object.
func change(t *rapid.T, tree map[string]any) {
	names := make([]string, 0, len(tree))
	for name := range tree {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return
	}
	name := rapid.SampledFrom(names).Draw(t, "name")
	switch v := tree[name].(type) {
	case map[string]any:
		if rapid.IntRange(0, 5).Draw(t, "down") > 0 {
			change(t, v)
			return
		}
	case []any:
		if len(v) > 0 {
			if below, ok := v[0].(map[string]any); ok && rapid.Bool().Draw(t, "into the list") {
				change(t, below)
				return
			}
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0:
		delete(tree, name)
	case 1:
		tree[strings.ToUpper(name)] = rapid.SampledFrom(odd).Draw(t, "value")
	case 2:
		tree[rapid.SampledFrom([]string{"unknown", "error", "ſtage", "_"}).Draw(t, "new name")] = rapid.SampledFrom(
			odd).Draw(t, "value")
	default:
		tree[name] = rapid.SampledFrom(odd).Draw(t, "value")
	}
}

func BenchmarkDecode(b *testing.B) {
	long := strings.Replace(examples["worker_error.v1"], `"out"`, `"`+strings.Repeat(`=== RUN TestWidth\n`, 20)+`"`, 1)
	for name, data := range map[string]string{
		"heartbeat":    wrap("heartbeat.v1", examples["heartbeat.v1"]),
		"worker_error": wrap("worker_error.v1", long),
	} {
		for way, decode := range map[string]func([]byte) (Envelope, error){"": Decode, "slowly": decodeAny} {
			b.Run(fmt.Sprintf("%s,%d bytes,%s", name, len(data), way), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decode([]byte(data)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
