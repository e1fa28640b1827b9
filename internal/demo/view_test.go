package demo

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
)

func TestScreenDrawsTheTableBelow(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out, size: func() (int, int) { return 12, 10 }}
	step := func(want string, do func()) {
		t.Helper()
		out.Reset()
		if do(); out.String() != want {
			t.Errorf("wrote %q, want %q", out.String(), want)
		}
	}
	step("a line\n", func() { fmt.Fprintln(s, "a line") })
	step("one\ntwo is too \n", func() { s.show([]string{"one", "two is too long"}) })
	step("", func() { s.show([]string{"one", "two is too long"}) })
	step("\x1b[2A\r\x1b[Jnews\none\ntwo is too \n", func() { fmt.Fprintln(s, "news") })
	step("\x1b[2A\r\x1b[Jthree\n", func() { s.show([]string{"three"}) })
	step("\x1b[1A\r\x1b[J", func() { s.show(nil) })
	step("the end\n", func() { fmt.Fprintln(s, "the end") })
	step("", func() { s.show(make([]string, 7)) }) // without room for the table
}

func TestNoScreenWithoutATerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, ok := openScreen(file); ok {
		t.Error("a file counts as a terminal")
	}
	if _, ok := openScreen(null); ok {
		t.Error("/dev/null counts as a terminal")
	}
	if _, ok := openScreen(&strings.Builder{}); ok {
		t.Error("a buffer counts as a terminal")
	}
}

func TestView(t *testing.T) {
	began := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	p := &run{
		progressLog: &progressLog{began: began}, limit: rateLimit{until: at(35)},
		state: wire.Snapshot{Director: wire.SnapshotDirector{Phase: "COOLDOWN"}},
		scenarios: []*activeScenario{
			{scenario: scenarios[0], state: "Done", attempt: 1, done: true, began: at(3), ended: at(20)},
			{scenario: scenarios[6], state: running, stage: "CODE", attempt: 2, began: at(4)},
			{scenario: scenarios[9]},
		},
	}
	const want = `
    30s  director: COOLDOWN for 5 s
    #    WHAT HAPPENS                        STATE             ATTEMPT   SECONDS
*   1    a model that makes the tests pass   Done              1         17
    7    worker killed mid-stage             Running: CODE     2         26
    10   GitHub asks for a pause (429)       not offered yet             `
	if got := strings.Join(p.view(at(30)), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
