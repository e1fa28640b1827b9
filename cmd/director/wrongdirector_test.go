package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// inFolderOf returns a working directory in which a director answers at .retake, and counts the pauses that this
// director gets. The director runs with the given configuration file, where %s stands for the working directory.
func inFolderOf(t *testing.T, file string) (dir string, paused *atomic.Int32) {
	t.Helper()
	paused, dir = new(atomic.Int32), t.TempDir()
	s := wire.Snapshot{}
	if file != "" {
		s.Director.Config = &wire.SnapshotConfig{File: strings.ReplaceAll(file, "%s", dir)}
	}
	data := answering(t, operator.Health{OK: true, RunID: "run_1"}, s, func(mux *http.ServeMux) {
		mux.HandleFunc("POST /pause", func(w http.ResponseWriter, _ *http.Request) {
			paused.Add(1)
			_, _ = w.Write([]byte(`{"run_id": "run_1"}`))
		})
	})
	if err := os.Symlink(data, filepath.Join(dir, ".retake")); err != nil {
		t.Fatal(err)
	}
	return dir, paused
}

// everyCommand returns the lines of all commands that run, without arguments.
func everyCommand(c *cobra.Command, line string) (all []string) {
	for _, each := range c.Commands() {
		if each.Name() == "help" || each.Name() == "completion" {
			continue
		}
		of := line + " " + each.Name()
		if each.HasSubCommands() {
			all = append(all, everyCommand(each, of)...)
			continue
		}
		var args []string
		for place := range strings.FieldsSeq(each.Use[len(each.Name()):]) {
			word := map[string]string{"ISSUE": "a/b#1", "TIME": "2h", "+N": "+1", "TEXT...": "text"}[place]
			if word == "" {
				word = "x"
			}
			args = append(args, word)
		}
		all = append(all, strings.Join(append([]string{of}, args...), " "))
	}
	return all
}

// A missing file must not lead a command to the director of the working directory.
func TestRefusedWithoutTheNamedFile(t *testing.T) {
	t.Parallel()
	dir, paused := inFolderOf(t, "")
	commands := everyCommand(command(), "director")
	if len(commands) < 40 {
		t.Fatalf("only %d commands: %s", len(commands), commands)
	}
	for _, line := range commands {
		out, exit := shell(t, dir, line+" -c nope.toml")
		if exit != 2 || !strings.Contains(out, "nope.toml: no such file") && !strings.HasPrefix(line, "director bus ") {
			t.Errorf("%s -c nope.toml: exit %d: %s", line, exit, out)
		}
	}
	for _, line := range []string{
		"pause", "resume", "status", "tasks", "health", "drain", "reload", "events", "run",
		"explain a/b#1", "stop a/b#1", "logs a/b#1", "report", "budget show", "cooldown list", "doctor --offline",
		"config show", "config check", "journal verify", "policy show",
	} {
		out, exit := shell(t, dir, "RETAKE_CONFIG=nope.toml director "+line)
		if exit != 2 || !strings.Contains(out, "nope.toml: no such file") {
			t.Errorf("RETAKE_CONFIG=nope.toml director %s: exit %d: %s", line, exit, out)
		}
	}
	if n := paused.Load(); n > 0 {
		t.Errorf("%d commands reached the director", n)
	}
	if out, exit := shell(t, dir, "RETAKE_CONFIG=nope.toml director version"); exit != 0 {
		t.Errorf("a command without a configuration: exit %d: %s", exit, out)
	}
}

// If the data directory is uncertain, a command must not guess its director.
func TestRefusedWithoutADataDirectory(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]int{
		`max_workers = \n[director]\ndata_dir = "elsewhere"`:    2, // syntax error before the key
		`[director]\ndata_dir = 5`:                              2, // the value has the wrong type
		`[director]\ndata_dir = "elsewhere"\nmax_workers = `:    2, // there is no director
		`[director]\ndata_dir = ".retake"\nmax_workers = `:      0, // syntax error after the key
		`[director]\nmax_workers = `:                            0, // the default applies
		`[director]\nmax_workers = 5000`:                        0,
		`[director]\nmax_workers = "x"\ndata_dir = "elsewhere"`: 2,
	} {
		dir, paused := inFolderOf(t, "")
		out, exit := shell(t, dir, "printf '"+file+"' >c.toml; director pause -c c.toml")
		if exit != want || (paused.Load() == 1) != (want == 0) {
			t.Errorf("%s: exit %d, want %d, paused %d times: %s", file, exit, want, paused.Load(), out)
		}
	}
}

// Relative paths are relative to the directory of the configuration file. Earlier releases used the working directory,
// which still works for one release.
func TestRefusedOrFoundBesideTheFile(t *testing.T) {
	t.Parallel()
	const elsewhere = "mkdir -p conf && echo '[director]' >conf/c.toml && director pause -c conf/c.toml"
	const warned = "warning: director.data_dir: "
	for name, c := range map[string]struct {
		before, says string
		exit         int
		file         string // of the director's configuration; %s is the working directory
	}{
		"beside the file":          {"mkdir -p conf && mv .retake conf/.retake && ", "run_1, ", 0, ""},
		"in the working directory": {"", warned, 0, ""},
		"of this file":             {"", warned, 0, "%s/conf/c.toml"},
		"of another file":          {"", "uses /etc/a.toml", 2, "/etc/a.toml"},
		"beside another file":      {"touch retake.toml && ", "no answer at ", 2, ""},
		"both":                     {"mkdir -p conf/.retake && touch conf/.retake/x && ", "no answer at ", 2, ""},
	} {
		dir, paused := inFolderOf(t, c.file)
		out, exit := shell(t, dir, c.before+elsewhere)
		if exit != c.exit || !strings.Contains(out, c.says) || (paused.Load() == 1) != (c.exit == 0) ||
			(c.says != warned) == strings.Contains(out, "warning") && exit == 0 {
			t.Errorf("%s: exit %d, paused %d times: %s", name, exit, paused.Load(), out)
		}
	}
}

// A start never ignores the data directory of an earlier release. If there are two candidates, it does not guess.
func TestRefusedToBeginAnew(t *testing.T) {
	t.Parallel()
	const warned = "warning: director.data_dir: "
	const file = `mkdir -p conf && printf '[github]\nrepositories = ["a/b"]\n` +
		`[[stage]]\nname = "CODE"\nrun = ["true"]\n` +
		`[recovery]\nagents_file = "agents.toml"\n' >conf/c.toml && touch agents.toml && export GITHUB_TOKEN=x && `
	const check = file + "director config check -c conf/c.toml"
	for before, c := range map[string]struct {
		exit int
		says string
	}{
		"mkdir .retake && touch .retake/x":                                          {0, warned},
		"mkdir .retake conf conf/.retake && touch .retake/x conf/.retake/x":         {1, "both exist"},
		"mkdir .retake conf conf/.retake && touch conf/.retake/x":                   {0, "recovery.agents_file: "},
		"mkdir .retake conf conf/.retake && touch .retake/x":                        {0, warned},
		"touch retake.toml && mkdir .retake && touch .retake/x":                     {0, "recovery.agents_file: "},
		"mkdir .retake && touch .retake/x && export RETAKE_CFG_DIRECTOR_DATA_DIR=d": {0, "recovery.agents_file: "},
	} {
		out, exit := shell(t, t.TempDir(), before+" && "+check)
		if exit != c.exit || !strings.Contains(out, c.says) ||
			strings.Contains(out, "director.data_dir: ") != (strings.Contains(c.says, "data_dir") || c.exit == 1) {
			t.Errorf("%s: exit %d, want %d and %q: %s", before, exit, c.exit, c.says, out)
		}
	}
	out, exit := shell(t, t.TempDir(), "mkdir .retake conf conf/.retake && touch .retake/x conf/.retake/x && "+file+
		"director run -c conf/c.toml")
	if exit != 2 || !strings.Contains(out, "both exist") {
		t.Errorf("run: exit %d: %s", exit, out)
	}
}
