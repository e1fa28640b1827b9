package tomlfile

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	toml "github.com/pelletier/go-toml/v2"
)

// documents lists valid and invalid documents for the comparison with the library's decoder.
var documents = []string{
	"", "# nothing", "a = 1\nb = [1, 2.5, 'x', true, [], {}]\n", "a.b.c = 1\na.b.d = 2\na.e = 3",
	"[a.b]\nx = 1\n[a]\ny = 2",
	"[a]\n[a.b]\n[a.c]", "[a]\n[a]", "[a]\nb.c = 1\n[a.b]", "[a]\nb.c = 1\n[a.b.d]", "[a.b]\n[a]\nb.c = 1",
	"[a.b.c]\n[a]\nb.x = 1",
	"a = 1\na = 2", "a = 1\n[a]", "a = 1\n[a.b]", "a = {}\n[a.b]", "a = { b = 1 }\na.c = 2", "a = { b = 1, b = 2 }",
	"a = { b.c = 1, b.d = 2 }",
	"a = [{ b = 1 }]\n[[a]]", "[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 1\n[[a.e]]\n[[a.e]]\nf = 1\n[[a]]\n[a.c]",
	"[[a]]\n[a]", "[a]\n[[a]]", "[a.b]\n[[a]]",
	"[[a.b]]\n[a]\nc = 1", "a.b = 1\n[a]", "a.b = 1\n[a.c]", "a.b = 1\na = 2", "a = 1\na.b = 2",
	"'q r' = 1\n\"x.y\" = { 'z' = 2 }",
	"a = 0x1F\nb = 0o17\nc = 0b11\nd = 1_000\ne = +5\nf = -0\ng = 1_0.5_0e+1_0\nh = 5e22", "a = 012", "a = 1__0",
	"a = 9223372036854775808",
	"a = \"\\u00e9\\n\"\nb = '''\nx'''\nc = \"\"\"\\\n  y\"\"\"", "a = \"x", "a = [1,", "a = ", "= 1", "[a", "[[a]",
	"a = tru", "a = 1 b = 2", "a = 1e",
	"[fruit]\napple.color = 1\napple.taste.sweet = true\n[fruit.apple.texture]",
	"[fruit]\napple.color = 1\n[fruit.apple.taste]\n[fruit.apple]",
}

// TestSameAsTheLibrary checks that both decoders accept the same documents, with the same values.
func TestSameAsTheLibrary(t *testing.T) {
	docs := documents
	for _, pattern := range []string{
		"../../config/*.toml", "../agent/*.toml", "../recovery/classify/*.toml",
		"../recovery/policy/presets/*.toml",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, string(data))
		}
	}
	for _, doc := range docs {
		compare(t, []byte(doc))
	}
}

func compare(t *testing.T, doc []byte) {
	t.Helper()
	want := map[string]any{}
	refused := toml.Unmarshal(doc, &want)
	f := Parse(doc)
	switch err := f.Err(); {
	case (err == nil) != (refused == nil):
		t.Errorf("%q\ngot  %v\nwant %v", doc, err, refused)
	case err == nil && !reflect.DeepEqual(f.Values, want):
		t.Errorf("%q\ngot  %v\nwant %v", doc, f.Values, want)
	}
}

// FuzzSameAsTheLibrary compares both decoders for any bytes, except for dates and NaN, which does not equal itself.
func FuzzSameAsTheLibrary(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if !utf8.Valid(doc) || strings.ContainsAny(string(doc), ":\x00") || strings.Contains(string(doc), "nan") ||
			strings.Count(string(doc), "-") > 1 {
			return
		}
		compare(t, doc)
	})
}

func TestPlaces(t *testing.T) {
	f := Parse([]byte("a = 1\n\"q r\" = 'x'\n[t.u]\nv = [ { w = 1 },\n  { w = 2, x = { y = 3 } } ]\n[[row]]\non = " +
		"'a'\n[row.wait]\nk = 1\n[[row]]\n  on.x = [ 1, 'z' ]\n"))
	for path, want := range map[string]string{
		"a": "1:1", `"q r"`: "2:1", "t": "3:2", "t.u": "3:4", "t.u.v": "4:1", "t.u.v[0].w": "4:9",
		"t.u.v[1].x.y": "5:18",
		"row":          "6:3", "row[0].on": "7:1", "row[0].wait.k": "9:1", "row[1]": "10:3", "row[1].on.x[1]": "11:15",
		"row[1].on.nothing": "11:3", "none": "1:1",
	} {
		if got := f.At(path); fmt.Sprintf("%d:%d", got.Line, got.Col) != want {
			t.Errorf("%s stands at %v, want %s", path, got, want)
		}
	}
	if _, ok := f.Find("none"); ok || f.Err() != nil {
		t.Error("found", f.Err())
	}
}

func TestDecodeReportsAll(t *testing.T) {
	type row struct {
		Name string   `toml:"name"`
		Args []string `toml:"args"`
		N    int      `toml:"n"`
		On   bool     `toml:"on"`
	}
	var into struct {
		Title string `toml:"title"`
		Rows  []row  `toml:"row"`
		Sub   struct {
			X string `toml:"x"`
		} `toml:"sub"`
	}
	into.Title = "kept"
	f := Parse([]byte("sub = 1\ntitel = 'x'\n[[row]]\nname = 5\nargs = ['a', 2, 'c', 2026-01-01]\nn = 1.5\non = " +
		"'yes'\n[[row]]\nname = 'second'\nn = 3\n"))
	if f.Decode("", f.Values, &into) {
		t.Error("no wrong type was found")
	}
	want := `1:1: sub: got 1, want a table
2:1: titel: unknown key, did you mean title?
4:1: row[0].name: got 5, want a string
5:14: row[0].args[1]: got 2, want a string
5:22: row[0].args[3]: got a date, want a string
6:1: row[0].n: got 1.5, want a whole number
7:1: row[0].on: got a string, want true or false`
	if got := f.Err().Error(); got != want {
		t.Errorf("got\n%s", got)
	}
	if into.Title != "kept" || len(into.Rows) != 2 || into.Rows[1].Name != "second" || into.Rows[1].N != 3 {
		t.Errorf("%+v", into)
	}
}

func TestWhatIsNoTOML(t *testing.T) {
	for doc, want := range map[string]string{
		"a = 1\na = 2":                        "2:1: not TOML: a is already defined",
		"x = 1\n\n[[agent]\n":                 "3:8: not TOML: ",
		"a = 1\nb = \"\xff\"":                 "2:6: not UTF-8",
		"a = \"\x00\"":                        "1:6: not UTF-8",
		strings.Repeat("#", 1<<18+1):          "1:1: file exceeds the limit of 262144 bytes",
		"a = 99999999999999999999":            "1:5: not TOML: 99999999999999999999 is not a 64-bit integer",
		"a = " + strings.Repeat("[", 100_000): "not TOML: arrays and inline tables are nested",
	} {
		f := Parse([]byte(doc))
		if f.Err() == nil || !strings.Contains(f.Err().Error(), want) || f.Values != nil {
			t.Errorf("%.40q: %v, want %s", doc, f.Err(), want)
		}
	}
	if f := Parse([]byte("\xef\xbb\xbfa = 1")); f.Err() != nil || f.Values["a"] != int64(1) {
		t.Error("a byte order mark", f.Err())
	}
}

// The largest file takes 50 ms. Counting the lines for each key took 20 s.
func TestTimeGrowsWithTheLength(t *testing.T) {
	began := time.Now()
	if f := Parse([]byte(strings.Repeat("[[rule]]\nname = 1\n", MaxBytes/18))); len(f.faults) > 0 {
		t.Error(f.faults)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}
