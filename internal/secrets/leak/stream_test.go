package leak

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"retake/internal/secrets/redact"
)

// TestStream splits encoded values in any way. A Writer never outputs a window of a value, and passes all other text.
func TestStream(t *testing.T) {
	text := prose(t)
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := rapid.Custom(value).Filter(func(v string) bool {
					return len(reduce(v)) >= surely &&
						4*len(reduce(v)) >= 3*len(v)
				}).Draw(t, "secret")
				r := Redactor(v)
				written := encode(t, v)
				if rapid.Bool().Draw(t, "split") {
					written = split(t, written)
				}
				before, behind := text[:rapid.IntRange(0, 3000).Draw(t, "before")]+"\n", "\n"+text[:500]
				var out bytes.Buffer
				w := r.NewWriter(&out)
				for rest := before + written + behind; rest != ""; {
					n := min(len(rest), rapid.IntRange(1, 400).Draw(t, "piece"))
					_, _ = w.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
				w.Flush()
				got := out.String()
				if len(New(Value{"KEY", v}).Find(got)) > 0 || !strings.Contains(got, redact.Marker) {
					t.Fatalf("%q: %q", written, got[max(0, len(before)-200):])
				}
				if !strings.HasPrefix(got, redact.Text(before)) || !strings.HasSuffix(got, redact.Text(behind)) {
					t.Fatalf("the stream removed more: %q", got)
				}
			})
		})
	}
}

// TestStreamInSmallLines: if each line has a few letters of a value, the first letters may pass, but fewer than a
// window.
func TestStreamInSmallLines(t *testing.T) {
	const v = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1"
	for width := 1; width <= len(v); width++ {
		var out bytes.Buffer
		w := Redactor(v).NewWriter(&out)
		for at := 0; at < len(v); at += width {
			_, _ = w.Write([]byte("# " + v[at:min(len(v), at+width)] + "\n"))
		}
		w.Flush()
		if left := strings.NewReplacer("#", "", "\n", "", " ", "", redact.Marker, "").Replace(out.String()); len(
			left) >= window {
			t.Errorf("in lines of %d: %q", width, out.String())
		}
	}
}

// TestHeldIsReleased holds a line with the possible start of a value until the next line decides.
func TestHeldIsReleased(t *testing.T) {
	const v = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1"
	var out bytes.Buffer
	w := Redactor(v).NewWriter(&out)
	_, _ = w.Write([]byte("one\n" + v[:12] + "\n"))
	if out.String() != "one\n" {
		t.Errorf("%q", out.String())
	}
	_, _ = w.Write([]byte("two\n"))
	if out.String() != "one\n"+v[:12]+"\ntwo\n" {
		t.Errorf("%q", out.String())
	}
	_, _ = w.Write([]byte(v[:12] + "\n" + strings.Repeat(".", heldMost) + "\n"))
	if !strings.Contains(out.String(), "....") {
		t.Error("the stream holds more than heldMost")
	}
}

// TestEdges: Cut hides half a value at an edge of a text in every encoding.
func TestEdges(t *testing.T) {
	const v = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1"
	r := Redactor(v)
	for name, written := range map[string]string{
		"plain":  v,
		"base64": base64.StdEncoding.EncodeToString([]byte("x" + v)), "dashes": strings.Join(strings.Split(v, ""),
			"-"),
	} {
		half := len(written) / 2
		front, end := r.Cut(written[half:]+" and more"), r.Cut("and "+written[:half])
		if strings.Contains(front, written[len(written)-8:]) && name != "base64" ||
			strings.Contains(end, written[8:half]) {
			t.Errorf("%s: %q, %q", name, front, end)
		}
		if !strings.HasSuffix(front, " and more") || !strings.HasPrefix(end, "and ") {
			t.Errorf("%s: %q, %q", name, front, end)
		}
	}
}

// TestNothingToFind has no values, or a value that only redact matches.
func TestNothingToFind(t *testing.T) {
	for value, want := range map[string]string{"": "amen: s3cr3t", "s3cr3t": "amen: " + redact.Marker} {
		r := Redactor(value)
		var out bytes.Buffer
		w := r.NewWriter(&out)
		_, _ = w.Write([]byte("amen: s3cr3t"))
		w.Flush()
		if out.String() != want || r.Cut("amen: s3cr3t") != want || r.Cut("") != "" {
			t.Errorf("%q: %q, %q", value, out.String(), r.Cut("amen: s3cr3t"))
		}
	}
}

// BenchmarkWriter measures ordinary output with ten values.
func BenchmarkWriter(b *testing.B) {
	var values []string
	for i := range 10 {
		values = append(values, rapid.Custom(value).Example(i))
	}
	text := []byte(strings.Repeat(prose(b), 20))
	w := Redactor(values...).NewWriter(&bytes.Buffer{})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for at := 0; at < len(text); at += 32 << 10 {
			_, _ = w.Write(text[at:min(len(text), at+32<<10)])
		}
	}
}
