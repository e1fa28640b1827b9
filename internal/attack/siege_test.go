package attack

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/testbed"
)

// siege is a world whose workers run in real containers, or as plain processes.
type siege struct {
	*world
	docker *testbed.Docker // nil for plain processes
	worker string
	name   string // name of the fleet, network and image

	mu     sync.Mutex
	orders map[string]order // by issue and stage
	begun  map[string]bool  // issues with an agent that has asked for its orders
	said   map[string]string
}

type order struct {
	Do   [][]string
	Exit int
}

const profileText = `[[agent]]
name = "hostile"
program = %q
args = ["{prompt}"]
format = "retake"
provider = "standin"
log_paths = ["logs/*.log"]
`

const wallsText = `[containers]
%smemory = "256MiB"
cpus = 1.0
pids = 64
mounts = [%q]
reachable = [%q]
`

const siegeText = `
%s
[worker]
fix_attempts = 1
[recovery]
agents_file = %q
max_consecutive_errors = 1
[[stage]]
name = "CODE"
agent = "hostile"
timeout_seconds = 60
[[stage]]
name = "VALIDATE"
run = [%q]
timeout_seconds = 30
`

// siegeOptions configure a siege.
type siegeOptions struct {
	containers string            // more keys of [containers]
	program    string            // see world
	delivery   string            // github.delivery, branch by default
	names      map[string]string // see settings
	ca         string
	environ    []string // more environment variables of the director
	sections   string   // more sections of the configuration
}

// newSiege creates image and network, and starts the director. The test's cleanup removes all of them.
func newSiege(t *testing.T, docker *testbed.Docker, o siegeOptions) *siege {
	t.Helper()
	s, dir := emptySiege(t)
	agent, err := agentBinary()
	must(t, err)
	s.docker = docker
	docker.Fleet, docker.Image, docker.Worker = s.name, s.name+":agent", s.worker
	must(t, s.image(t, agent))
	gateway, err := docker.Gateway(t.Context())
	must(t, err)
	at, readonly := s.listen(t, gateway), filepath.Join(dir, "readonly")
	must(t, os.Mkdir(readonly, 0o777), os.Chmod(readonly, 0o777))
	o.containers += fmt.Sprintf("\nenv = { ATTACK_AT = %q, HOME = \"/tmp\" }", at)
	s.begin(t, dir, testbed.AgentPath, fmt.Sprintf(wallsText, docker.Settings(), readonly+":/readonly",
		strings.TrimPrefix(at, "http://")), o)
	return s
}

// emptySiege returns a siege without a director. It builds the worker's program and creates the directory.
func emptySiege(t *testing.T) (s *siege, dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Chmod(dir, 0o711), os.Chmod(filepath.Dir(dir), 0o711))
	s = &siege{
		name: "attack-" + strings.ToLower(fleetOf(dir)[len("attack-"):]), orders: map[string]order{},
		begun: map[string]bool{}, said: map[string]string{},
	}
	var err error
	s.worker, err = build(testbed.WorkerProgram)
	must(t, err)
	t.Cleanup(func() { s.clear(t) })
	return s, dir
}

// begin starts a director whose workers run the agent.
func (s *siege) begin(t *testing.T, dir, agent, walls string, o siegeOptions) {
	t.Helper()
	profile := filepath.Join(dir, "agents.toml")
	must(t, os.WriteFile(profile, fmt.Appendf(nil, profileText, agent), 0o600))
	s.world = newWorld(t, worldOptions{
		dir: dir, fleet: s.name, worker: s.worker, names: o.names, ca: o.ca, environ: o.environ, program: o.program,
		delivery: o.delivery,
		sections: walls + fmt.Sprintf(siegeText, o.containers, profile, agent) + o.sections,
	})
}

// everybodys are world-writable files in world-writable directories of the image.
var everybodys = []string{"/opt/tools/tool", "/etc/tools/tool.conf"}

// image creates an image with the agent and the files in everybodys.
func (s *siege) image(t *testing.T, agent string) error {
	data, err := os.ReadFile(agent)
	must(t, err)
	var more []*tar.Header
	for _, path := range everybodys {
		name := strings.TrimPrefix(path, "/")
		more = append(more, &tar.Header{Name: filepath.Dir(name) + "/", Typeflag: tar.TypeDir, Mode: 0o777},
			&tar.Header{Name: name, Mode: 0o777})
	}
	return s.docker.Import(t.Context(), &tar.Header{Name: "agent", Mode: 0o755}, data, more...)
}

// listen starts the server from which agents get their orders, and returns its URL.
func (s *siege) listen(t *testing.T, gateway string) (url string) {
	l, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	must(t, err)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Query().Get("issue") + " " + r.URL.Query().Get("stage")
		s.mu.Lock()
		o := s.orders[key]
		s.begun[r.URL.Query().Get("issue")] = true
		s.mu.Unlock()
		if r.URL.Path == "/order" {
			_ = json.NewEncoder(w).Encode(o)
			return
		}
		text, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		s.mu.Lock()
		s.said[r.URL.Query().Get("issue")] += string(text)
		s.mu.Unlock()
	}), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { _ = web.Close() })
	return "http://" + l.Addr().String()
}

// clear removes all objects of the fleet.
func (s *siege) clear(t *testing.T) {
	if s.world != nil {
		s.stop()
	}
	if s.docker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(s.docker.Clear(ctx), s.docker.Close()); err != nil {
		t.Log("left behind:", err)
	}
}

// TestContainers runs the attacks from inside containers. A successful attack fails the test.
func TestContainers(t *testing.T) {
	newSiege(t, needEngine(t), siegeOptions{}).each(t, onContainer, containerAttacks)
}

// needEngine returns Docker, or skips the test unless these attacks were requested.
func needEngine(t *testing.T) *testbed.Docker {
	if testing.Short() || !*all {
		t.Skip("make attacks runs the attacks from within containers")
	}
	docker, err := testbed.OpenDocker(t.Context(), "attack")
	if err != nil {
		if os.Getenv("RETAKE_REQUIRE_DOCKER") == "1" {
			t.Fatal(err)
		}
		fmt.Printf("| container | skipped: no engine answers: %v\n", err)
		t.Skip("no container engine answers:", err)
	}
	return docker
}

// each runs the attacks of a table.
func (s *siege) each(t *testing.T, k kind, table []inside) {
	for _, a := range table {
		a.kind = k
		if !chosen(a.attack) {
			continue
		}
		judge(t, a.attack, func(attack) ([]string, error) { return s.fight(a) })
	}
}

// fight runs the attack in one container and an honest agent in another.
func (s *siege) fight(a inside) (evidence []string, err error) {
	s.forget()
	mine := s.github.CreateIssue(repository, person, "attack: "+a.name, "please")
	theirs := s.github.CreateIssue(repository, person, "neighbour of "+a.name, "please")
	s.mu.Lock()
	s.orders[mine+" CODE"] = order{Do: append([][]string{{"write", "work.txt", "attack"}}, a.code...), Exit: a.exit}
	s.orders[mine+" VALIDATE"] = order{Do: a.validate}
	s.orders[theirs+" CODE"] = order{Do: [][]string{{"write", "work.txt", "honest"}}}
	s.orders[theirs+" VALIDATE"] = order{Do: a.beside}
	s.mu.Unlock()
	for _, key := range []string{mine, theirs} {
		s.github.AddLabel(key, person, "agent-task")
		defer s.github.SetState(key, person, "closed")
	}
	// The director's limit of new comments may delay the claims, because rows follow each other quickly. So the
	// neighbour's time is measured from the start of its agent.
	begun := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.begun[theirs]
	}
	if err := until("the neighbour's agent begins", longest, begun); err != nil {
		return nil, err
	}
	if err := s.pushed(theirs, 60*time.Second); err != nil {
		return nil, err
	}
	if err := until("the neighbour's work is delivered", longest,
		func() bool { return s.has(theirs, "agent-review") }); err != nil {
		return nil, err
	}
	decided := func() string {
		for _, l := range []string{"agent-review", "agent-blocked"} {
			if s.has(mine, l) {
				return l
			}
		}
		return ""
	}
	err = until("it is decided", cmp.Or(a.most, longest), func() bool { return decided() != "" })
	s.mu.Lock()
	said := s.said[mine]
	s.mu.Unlock()
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "through: ") || strings.HasPrefix(line, "error: ") {
			err = errors.Join(err, errors.New(strings.TrimSpace(line)))
		} else if line = strings.TrimSpace(line); line != "" {
			evidence = append(evidence, fmt.Sprintf("%.80s", line))
		}
	}
	if a.check != nil {
		err = errors.Join(err, a.check(s, mine, said))
	}
	evidence, judged := s.judged(a, decided(), evidence)
	return evidence, errors.Join(err, judged)
}

// judged checks the decision about the attacker's issue, and the director's health and memory.
func (s *siege) judged(a inside, decided string, evidence []string) (_ []string, err error) {
	if a.label != "" && decided != a.label {
		err = fmt.Errorf("it is %q, want %s", decided, a.label)
	}
	_, peak := s.memory()
	if peak > maxMemory {
		err = errors.Join(err, fmt.Errorf("the director used %d MB", peak))
	}
	return append(evidence, decided, fmt.Sprintf("director %d MB", peak)), errors.Join(err, s.well())
}
