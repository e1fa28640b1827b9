package container

import (
	"reflect"
	"testing"
)

func TestExitDecoding(t *testing.T) {
	ended := func(code int) ending { return ending{state: StateExited, exitCode: code} }
	for _, c := range []struct {
		name string
		in   ending
		sent sentSignals
		want Exit
	}{
		{"success", ended(0), sentSignals{}, Exit{Known: true}},
		{"ordinary exit code", ended(3), sentSignals{}, Exit{Known: true, ExitCode: 3}},
		{"killed from outside", ended(137), sentSignals{}, Exit{Known: true, ExitCode: 137, Signal: "SIGKILL"}},
		{
			"killed by us", ended(137),
			sentSignals{term: true, kill: true},
			Exit{Known: true, ExitCode: 137, Signal: "SIGKILL", Killed: true},
		},
		{
			"our SIGTERM, another SIGKILL", ended(137),
			sentSignals{term: true},
			Exit{Known: true, ExitCode: 137, Signal: "SIGKILL"},
		},
		{"our SIGTERM", ended(143), sentSignals{term: true}, Exit{
			Known: true, ExitCode: 143, Signal: "SIGTERM",
			Killed: true,
		}},
		{"SIGTERM from outside", ended(143), sentSignals{}, Exit{Known: true, ExitCode: 143, Signal: "SIGTERM"}},
		{"obeyed our SIGTERM", ended(0), sentSignals{term: true}, Exit{Known: true, Killed: true}},
		{"crash", ended(139), sentSignals{}, Exit{Known: true, ExitCode: 139, Signal: "SIGSEGV"}},
		{"no such signal", ended(255), sentSignals{}, Exit{Known: true, ExitCode: 255}},
		{"128 does not mean a signal", ended(128), sentSignals{}, Exit{Known: true, ExitCode: 128}},
		{
			"out of memory",
			ending{state: StateExited, exitCode: 137, oom: true},
			sentSignals{},
			Exit{Known: true, ExitCode: 137, OOM: true, Signal: "SIGKILL"},
		},
		{
			"bad entrypoint",
			ending{state: StateCreated, exitCode: 127, startError: "no such file"},
			sentSignals{},
			Exit{Known: true, ExitCode: 127, StartError: "no such file"},
		},
		{"never started, so 0 is not a success", ending{state: StateCreated}, sentSignals{}, Exit{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.in.exit(c.sent); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
