package kubernetes

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/container/bundle"
)

// readStamped reports a missing beginning and returns an error for a removed log. It passes on all other lines of the
// output unchanged.
func TestTruncatedLogSaysSo(t *testing.T) {
	const at = "2026-11-27T02:03:04.5Z "
	long := strings.Repeat("x", 3*pieceBytes)
	for _, c := range []struct {
		name, log, want string
		err             error
	}{
		{"whole", at + bundle.FirstLine + "\n" + at + "one\n" + at + "two\n", "one\ntwo\n", nil},
		{"without its beginning", at + "one\n" + at + "two\n", truncated + "one\ntwo\n", nil},
		{
			"from the middle of a line", "rest of a line\n" + at + "two\n", truncated + "rest of a line\ntwo\n",
			nil,
		},
		{"a long line", at + bundle.FirstLine + "\n" + at + long + "\n" + at + "two\n", long + "\ntwo\n", nil},
		{"the other stream came first", at + "-\n" + at + bundle.FirstLine + "\n" + at + "two\n", "-\ntwo\n", nil},
		{"without an end", at + bundle.FirstLine + "\n" + at + "one", "one", nil},
		{"empty", "", "", nil},
		{"removed by the node", "unable to retrieve container logs for containerd://1", "", errNoLog},
	} {
		var got strings.Builder
		var last time.Time
		err := readStamped(strings.NewReader(c.log), func(p container.Printed) {
			got.Write(p.Data)
			last = p.At
		})
		if got.String() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %.80q, %v, want %.80q, %v", c.name, got.String(), err, c.want, c.err)
		}
		if strings.HasSuffix(c.want, "two\n") && last.Format(time.RFC3339Nano) != strings.TrimSpace(at) {
			t.Errorf("%s: the time of the last line is %v", c.name, last)
		}
	}
	broken := io.MultiReader(strings.NewReader(at+"one\n"), errReader{})
	if err := readStamped(broken, func(container.Printed) {}); !errors.Is(err, errBroken) {
		t.Errorf("a log that breaks off: %v", err)
	}
}

// withoutFirst removes the line that Enter prints first, if it is near the beginning of the log.
func TestOurFirstLineIsNoOutput(t *testing.T) {
	many := strings.Repeat("line\n", 2*mixed)
	for log, want := range map[string]string{
		bundle.FirstLine + "\none\n":         "one\n",
		"-\n" + bundle.FirstLine + "\none\n": "-\none\n",
		many + bundle.FirstLine + "\n":       many + bundle.FirstLine + "\n",
		"one":                                "one",
		strings.Repeat("x", 3*pieceBytes):    strings.Repeat("x", 3*pieceBytes),
		"":                                   "",
	} {
		got, err := io.ReadAll(withoutFirst(strings.NewReader(log)))
		if err != nil || string(got) != want {
			t.Errorf("%.60q: %.60q, %v", log, got, err)
		}
	}
}

var errBroken = errors.New("broken off")

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errBroken }
