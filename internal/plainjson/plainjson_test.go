package plainjson

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// all has a field of each form.
type all struct {
	Base
	Text    string          `json:"text"`
	Named   named           `json:"named,omitempty"`
	Place   place           `json:"place,omitempty"`
	Is      bool            `json:"is,omitempty"`
	Small   int8            `json:"small,omitempty"`
	Int     int             `json:"int,omitempty"`
	Wait    time.Duration   `json:"wait,omitempty"`
	Uint    uint64          `json:"uint,omitempty"`
	Byte    uint8           `json:"byte,omitempty"`
	Share   float64         `json:"share,omitempty"`
	Single  float32         `json:"single,omitempty"`
	At      time.Time       `json:"at,omitzero"`
	Raw     json.RawMessage `json:"raw,omitempty"`
	Deep    *all            `json:"deep,omitempty"`
	Percent *float64        `json:"percent,omitempty"`
	Names   []named         `json:"names"`
	Deeper  []all           `json:"deeper,omitempty"`
	Times   []*time.Time    `json:"times,omitempty"`
	Counts  map[string]int  `json:"counts,omitempty"`
	Bytes   []byte          `json:"bytes,omitempty"`
	Pair    [2]int          `json:"pair,omitempty"`
	Any     any             `json:"any,omitempty"`
	Odd     odd             `json:"odd,omitzero"`
	Plain   int
	hidden  int
	Left    int `json:"-"`
}

// Base is embedded.
type Base struct {
	Key named `json:"key"`
}

type named string

// odd has the same key twice.
type odd struct {
	A struct {
		B string `json:"b"`
	} `json:"a"`
	Base
	Key int `json:"key"`
}

// place is a number in Go, and a word in JSON.
type place int

func (p place) MarshalText() ([]byte, error) { return fmt.Append(nil, "p", int(p)), nil }

func (p *place) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "p%d", (*int)(p))
	return err
}

// read reads a text with a new reader.
func read(text string) (to all, ok bool) {
	var r Reader
	r.Reset([]byte(text))
	ok = r.Value(TypeFor[all](), &to) && r.End()
	return to, ok
}

// same fails if the Reader and encoding/json disagree about an accepted text. It reports whether the Reader accepts
// the text.
func same(t *testing.T, text string) (accepted bool) {
	t.Helper()
	got, ok := read(text)
	if !ok {
		return false
	}
	var want all
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatalf("the Reader accepts %q, but encoding/json returns: %v", text, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\nis read as %+v\nand by encoding/json as %+v", text, got, want)
	}
	return true
}

// samples returns texts with every field, and with every kind of string.
func samples() (texts []string) {
	percent, at := 12.5, time.Date(2026, 12, 1, 8, 0, 0, 123456789, time.FixedZone("", 3600))
	one := all{
		Base: Base{"k"}, Text: "a \"quoted\" \\ <b> & \u2028 日本 😀 \x00\x1f\x7f \b\f\n\r\t/", Named: "n", Place: 7,
		Is: true, Small: -128, Int: -1234567890, Wait: time.Hour,
		Uint: 999_999_999_999_999_999, Byte: 255, Share: 0.4375, Single: 1e-30, At: at,
		Raw: json.RawMessage(`{"a":[1,-2.5e+10,null,true,false,"\u00e9",{}]}`), Percent: &percent,
		Names: []named{"", "long enough that it is not kept for later, which is said of what has more than " +
			"sixty-four bytes"}, Times: []*time.Time{&at, nil},
		Counts: map[string]int{"b": 2, "a": 1}, Bytes: []byte{0, 255}, Pair: [2]int{1, 2}, Any: []any{1.0, "x", nil},
		Plain: 3, hidden: 4, Left: 5,
	}
	two := one
	two.Deep, two.Deeper = &one, []all{{}, one, {Names: []named{}}}
	for _, v := range []all{{}, one, two} {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func TestWhatEncodingJSONWritesIsRead(t *testing.T) {
	for _, text := range samples() {
		if !same(t, text) {
			t.Errorf("the Reader rejects %s", text)
		}
	}
}

func TestWhatIsWrittenOtherwise(t *testing.T) {
	for text, accepted := range map[string]bool{
		`{}`: true, `{"key":"k","text":"t"}`: true, `{"text":"t","key":"k"}`: true,
		`{"text":null,"deep":null,"names":null,"at":null,"place":null,"int":null}`: true,
		`{"names":[]}`: true, `{"text":"\ud83d\ude00\u00e9\/"}`: true, `{"int":-0}`: true, `{"share":-0.0}`: true,
		`{"share":1E5}`: true, `null`: true,
		`{"deep":{"deep":{"deep":{}}}}`: true, `{"raw":null}`: true, `{"\u0074ext":"t"}`: true, `{"any":null}`: false,

		// Only encoding/json accepts these, some with a surprising result.
		` {}`: false, `{ }`: false, `{"text": "t"}`: false, `{"TEXT":"t"}`: false, `{"unknown":1}`: false,
		`{"text":"a","text":"b"}`: false,
		`{"text":"\ud83d"}`:       false, `{"text":"\ud83d\u0041"}`: false, "{\"text\":\"\xff\"}": false,
		"{\"text\":\"\xed\xa0\x80\"}":   false,
		`{"uint":18446744073709551615}`: false, `{"deep":{"int":1},"deep":{"text":"t"}}`: false,

		// Both reject these.
		``: false, `{`: false, `{}}`: false, `{}{}`: false, `{"text"}`: false, `{"text":}`: false,
		`{"text":"t",}`: false, `{,}`: false, `[]`: false, `{"names":[,]}`: false,
		`{"names":["a",]}`: false, `{"names":["a"}`: false, `{"text":1}`: false, `{"int":"1"}`: false,
		`{"int":01}`: false, `{"int":1.0}`: false, `{"int":1e2}`: false, `{"int":+1}`: false,
		`{"int":-}`: false, `{"int":1x}`: false, `{"small":128}`: false, `{"byte":-1}`: false, `{"byte":256}`: false,
		`{"uint":-0}`: false, `{"uint":-5}`: false, `{"share":.5}`: false,
		`{"share":5.}`: false, `{"share":1e}`: false, `{"share":1e400}`: false, `{"share":Infinity}`: false,
		`{"single":1e39}`: false, `{"share":1_0}`: false, `{"share":0x1p-2}`: false,
		`{"is":True}`: false, `{"is":truefalse}`: false, `{"is":1}`: false, `{"text":"a` + "\n" + `b"}`: false,
		`{"text":"\x"}`: false, `{"text":"\u12g4"}`: false, `{"text":"\u12"}`: false,
		`{"text":"open}`: false, `{"text":"open\`: false, `{"at":"2026-12-01"}`: false, `{"at":1}`: false,
		`{"place":7}`: false, `{"place":"x7"}`: false, `{"raw":}`: false, `{"raw":[1,]}`: false,
		`{"raw":{"a":1,}}`: false, `{"raw":{"a"}}`: false, `{"raw":nul}`: false, `{"raw":-}`: false,
		`{"raw":00}`: false, `nul`: false, `{"deep":nullx}`: false,
	} {
		if got := same(t, text); got != accepted {
			t.Errorf("%q: read is %t, want %t", text, got, accepted)
		}
	}
}

// The Reader bounds its stack and leaves deeper nesting to encoding/json.
func TestDeepNesting(t *testing.T) {
	for _, n := range []int{10, 1000, 1_000_000} {
		for _, part := range []string{
			`{"raw":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}",
			strings.Repeat(`{"deep":`, n) + "{}" + strings.Repeat("}", n),
		} {
			if same(t, part) != (n == 10) {
				t.Errorf("nested %d deep", n)
			}
		}
	}
}

// Later reads do not change the values of earlier reads.
func TestValuesAreTheirOwn(t *testing.T) {
	var r Reader
	how := TypeFor[all]()
	var got []all
	for n := range 2000 {
		text := fmt.Appendf(nil, `{"text":"a\n%d","named":"n%d","at":"2026-12-01T08:00:%02dZ"}`, n, n, n%60)
		r.Reset(text)
		var one all
		if !r.Value(how, &one) {
			t.Fatalf("%s is not read", text)
		}
		clear(text)
		got = append(got, one)
	}
	for n, one := range got {
		if one.Text != fmt.Sprintf("a\n%d", n) || one.Named != named(fmt.Sprint("n", n)) || one.At.Second() != n%60 {
			t.Fatalf("%d: %+v", n, one)
		}
	}
}

func TestSlow(t *testing.T) {
	want := []string{
		".counts map[string]int", ".bytes []uint8", ".pair [2]int", ".any interface {}",
		".odd plainjson.odd",
	}
	if got := TypeFor[all]().Slow(); !slices.Equal(got, want) {
		t.Errorf("encoding/json reads %q, want %q", got, want)
	}
}

// Mutated samples resemble valid text but are mostly invalid.
func TestMutations(t *testing.T) {
	seeds, accepted := samples(), 0
	random := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		text := []byte(seeds[random.IntN(len(seeds))])
		for range 1 + random.IntN(3) {
			text = Mutate(text, random)
		}
		if same(t, string(text)) {
			accepted++
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d of the mutations are read", accepted)
	}
}

// Mutate changes a text at a random position.
func Mutate(text []byte, random *rand.Rand) []byte {
	const bits = "\"\\{}[]:,0123456789-+.eEntfalsru \n\x00\xff"
	at, n := random.IntN(len(text)), 1+random.IntN(8)
	end := min(at+n, len(text))
	switch random.IntN(4) {
	case 0:
		return slices.Delete(slices.Clone(text), at, end)
	case 1:
		return slices.Insert(slices.Clone(text), at, text[at:end]...)
	case 2:
		return slices.Insert(slices.Clone(text), at, bits[random.IntN(len(bits))])
	default:
		text = slices.Clone(text)
		text[at] = bits[random.IntN(len(bits))]
		return text
	}
}

func FuzzReader(f *testing.F) {
	for _, text := range samples() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { same(t, text) })
}
