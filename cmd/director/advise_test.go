package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the answers in the handbooks")

// asDirector makes the test binary the program itself, so that tests can run whole command lines.
const asDirector = "RETAKE_TEST_AS_DIRECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asDirector) != "" {
		os.Exit(run())
	}
	_ = flag.Set("test.parallel", "8") // parallel tests mostly wait for the programs that they start
	code := m.Run()
	removePrograms()
	os.Exit(code)
}

// shell runs a command line in a temporary directory, with director as the program under test.
func shell(t *testing.T, dir, command string) (output string, exit int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, ".bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "director")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{asDirector + "=1", "PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// handbooks maps documents to the minimum number of command lines to run.
var handbooks = map[string]int{
	"../../docs/specs/commands-recovery.md": 11, "../../docs/specs/operating.md": 1, "testdata/explained.md": 13,
}

// TestHandbookPrintsWhatTheCommandsPrint runs every command line of the handbook and compares the output. go test
// ./cmd/director -run Handbook -update rewrites the answers.
func TestHandbookPrintsWhatTheCommandsPrint(t *testing.T) {
	for handbook, least := range handbooks {
		t.Run(filepath.Base(handbook), func(t *testing.T) { printsWhatCommandsPrint(t, handbook, least) })
	}
}

func printsWhatCommandsPrint(t *testing.T, handbook string, least int) {
	data, err := os.ReadFile(handbook)
	if err != nil {
		t.Fatal(err)
	}
	var anew bytes.Buffer
	dir, commands, inBlock, skip := demoJournal(t), 0, false, false
	lines := strings.SplitAfter(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock, skip = strings.HasPrefix(line, "```console"), false
		case inBlock && strings.HasPrefix(line, "$ "):
			command := strings.TrimPrefix(line, "$ ")
			anew.WriteString(line)
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "> ") {
				i++
				anew.WriteString(lines[i])
				command += strings.TrimPrefix(lines[i], "> ")
			}
			out, _ := shell(t, dir, command)
			anew.WriteString(out)
			commands, skip = commands+1, true
			continue
		case inBlock && skip:
			continue // the old answer
		}
		anew.WriteString(line)
	}
	if commands < least {
		t.Errorf("%d command lines, want at least %d", commands, least)
	}
	if bytes.Equal(anew.Bytes(), data) {
		return
	}
	if *update {
		if err := os.WriteFile(handbook, anew.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs from the output of the commands; run this test with -update and read the "+
		"difference. Now:\n%s", handbook, anew.String())
}

// timeoutPolicy writes the policy p.toml.
const timeoutPolicy = `printf '[[row]]\non = "timeout"\nladder = [{action="retry",times=2}]\n' >p.toml; `

// adviceExits lists commands with their exit codes and a part of their output.
var adviceExits = []struct {
	command string
	exit    int
	says    string
}{
	{`echo '{}' | director classify`, 0, `"reason":"unknown"`},
	{`echo '{}' | director classify -`, 0, `"reason":"unknown"`},
	{
		`echo '{"exit_code":"one"}' | director classify`, 1,
		`{"error":"line 1: exit_code: want an integer, got \"one\""}`,
	},
	{`echo '{}' >a; printf '{}\n7' >b; director classify a b`, 1, `"b line 2: want a JSON object, got a number"`},
	{`printf '' | director classify`, 0, ``},
	{`director classify none.jsonl`, 2, `open none.jsonl: no such file or directory`},
	{`director classify .`, 2, `is a directory`},
	{`echo '{}' | director classify --as ggd`, 2, `--as ggd: want one or more of director,`},
	{`echo '{}' | director classify --rules none.toml`, 2, `open none.toml: no such file or directory`},
	{`echo '{}' | director classify --rules /dev/null`, 0, `"reason":"unknown"`},
	{`printf 'a = ' >r.toml; echo '{}' | director classify --rules r.toml`, 2, `recovery:`},
	{`echo '{}' | director classify --nonsense`, 2, `unknown flag: --nonsense`},
	{`echo '{}' | director classify --config none.toml`, 2, `none.toml: no such file`},
	{`echo '{"failures":[{"reason":"timeout"}]}' | director decide`, 0, `"row":"director.timeout"`},
	{
		`echo '{"failures":[{"reason":"timeout"}]}' | director decide --set director.max_retries=0`, 0,
		`"veto":"max_retries"`,
	},
	{
		timeoutPolicy + `echo '{"failures":[{"reason":"timeout"}]}' | director decide --policy p.toml`, 0,
		`"row":"p.timeout"`,
	},
	{`echo '{}' | director decide`, 1, `failures: want at least one`},
	{`echo '{}' | director decide --preset ggd`, 2, `--preset ggd: want one of director, reviewcat,`},
	{`echo '{}' | director decide --set director.max_retries=many`, 2, `director.max_retries`},
	{`director policy show --preset gdd`, 0, "policy   gdd\n"},
	{`director policy show --json`, 0, `"policy": "director"`},
	{`director policy show --set director.max_retries=7`, 0, "max_retries             7 "},
	{`director policy show extra`, 2, `unknown command "extra"`},
	{`director policy check`, 0, "director: ok"},
	{timeoutPolicy + `director policy check p.toml`, 0, "p.toml: ok"},
	{`printf '[[row]]\non = "luck"\n' >bad.toml; director policy check bad.toml`, 1, "bad.toml: line 2: "},
	{`printf '[[row\n' >bad.toml; director policy check bad.toml`, 2, "bad.toml: "},
	{`director policy frob`, 2, `unknown command "frob"`},
	{`printf 'panic: boom\nAPI Error: 529 Overloaded\n' | director classify --text`, 0, `"reason":"overloaded"`},
	{
		`echo FAIL >a; echo FAIL >b; director classify --text --exit-code 127 a b`, 0,
		`{"id":"b","reason":"tool_not_found"`,
	},
	{`printf '' | director classify --text --stage VALIDATE --exit-code 1`, 0, `"reason":"tests_failed"`},
	{`echo '{}' | director classify --exit-code 1`, 2, `--exit-code works only with --text`},
	{`director classify --text none.log`, 2, `open none.log: no such file or directory`},
	{`director classify --text .`, 2, `is a directory`},
	{`director classify --help`, 0, `docs/specs/commands-recovery.md`},
	{`director decide --help`, 0, `| director decide --preset cortex`},
	{`director policy check none.toml`, 2, `open none.toml: no such file or directory`},
}

func TestExitCodesOfAdvice(t *testing.T) {
	for _, c := range adviceExits {
		out, exit := shell(t, t.TempDir(), c.command)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}
