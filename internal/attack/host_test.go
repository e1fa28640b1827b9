package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"retake/internal/container"
	"retake/internal/director/operator"
	"retake/internal/testbed"
)

// onHost attacks come from a plain process on the director's machine.
const onHost kind = "host"

var rootAttacks = []inside{
	{
		attack: attack{
			name: "the image's programs", does: "writes to the root file system: /usr, /etc, its own program, the " +
				"worker's, and world-writable files and folders of the image",
			holds:  "refused by the kernel; the next stage runs the image's programs",
			before: "succeeded: world-writable files and the worker's program stayed changed",
		},
		code:     [][]string{append([]string{"root"}, everybodys...)},
		validate: [][]string{append([]string{"root"}, everybodys...)}, label: "agent-review",
		check: func(_ *siege, _, said string) error {
			if strings.Count(said, "refused as read-only") != 2 {
				return errors.New("the attack did not take place in both stages: " + said)
			}
			return nil
		},
	},
}

// hostAttacks check that an agent cannot reach the director if it is a plain process of another user.
func hostAttacks(s *siege) []inside {
	data := s.data()
	return []inside{
		{
			attack: attack{
				name: "the director and a plain process", does: "reads environ, mem, fd, … of the director, " +
					"sends signals and traces it, and searches all environments and arguments for the token",
				holds:  "it sees only its own process",
				before: "succeeded: GITHUB_TOKEN from /proc/<director>/environ",
			},
			code: [][]string{{"beside", s.pid(), reversed(token)}}, label: "agent-review",
			check: func(_ *siege, _, said string) error {
				if !strings.Contains(said, "environments and arguments read") ||
					strings.Contains(said, " 0 environments") {
					return errors.New("the attack did not take place: " + said)
				}
				return nil
			},
		},
		{
			attack: attack{
				name: "the director's files and a plain process",
				does: "reads, writes and connects to all below data_dir, and to each path by its name: the " +
					"operator's socket, operator.json, keys of the bus, the journal, the configuration, the log",
				holds: "its files are hidden", before: "succeeded: paused the director through its socket, read " +
					"operator.json",
			},
			code: [][]string{append([]string{"files", data}, s.private()...)}, label: "agent-review",
		},
	}
}

func (s *siege) pid() string { return strconv.Itoa(s.director.PID()) }

// private returns the names of the director's files. The agent may see the names, but must not access the files.
func (s *siege) private() []string {
	data := s.data()
	return []string{
		filepath.Join(data, operator.SocketName), filepath.Join(data, "bus", "operator.json"),
		filepath.Join(data, "bus", "workers.json"), filepath.Join(data, "bus", "keys"),
		filepath.Join(data, "bus", "jetstream"), filepath.Join(data, "journal.head"), s.settings.Config,
		filepath.Join(s.dir, "agents.toml"), filepath.Join(s.dir, "director.log"),
	}
}

// TestHost runs the attacks on a worker's environment, in containers, and as plain processes if the test runs
// as root. A successful attack fails the test.
func TestHost(t *testing.T) {
	newSiege(t, needEngine(t), siegeOptions{}).each(t, onHost, rootAttacks)
}

// TestPlainProcesses runs the attacks of agents that are plain processes of another user.
func TestPlainProcesses(t *testing.T) {
	if !*all {
		t.Skip("make attacks runs the attacks from plain processes")
	}
	if err := container.CanKeepApart(); err != nil {
		fmt.Printf("| %-9s | skipped: %v\n", onHost, err)
		t.Skip(err)
	}
	program, err := build(testbed.DirectorProgram)
	must(t, err)
	agent, err := agentBinary()
	must(t, err)
	s, dir := emptySiege(t)
	at := s.listen(t, "127.0.0.1")
	s.begin(t, dir, agent, fmt.Sprintf("[containers]\nruntime = \"process\"\nuser = \"%d:%d\"\nenv = { "+
		"ATTACK_AT = %q }\n", agentUID, agentUID, at), siegeOptions{program: program})
	for _, path := range s.private() {
		_, err := os.Stat(path)
		must(t, err)
	}
	s.each(t, onHost, hostAttacks(s))
}
