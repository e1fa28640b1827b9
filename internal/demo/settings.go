package demo

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// smokeTest is the command of the stage that runs the repository's program after the build.
const smokeTest = "./bin/pricelist"

// writeConfig writes the director's configuration. Its timeouts are short, so that the audience does not wait long.
func (s *world) writeConfig() error {
	env := s.goEnv()
	env["PATH"], env["DEMO_MODEL"], env["DEMO_PROVIDER"] = s.tools.root+"/bin", s.model.url, s.providerURL
	maps.Copy(env, s.host.env(s))
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, fmt.Sprintf("%s = %q", name, env[name]))
	}
	more, err := s.host.sections(s)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(configText, s.fleet, s.data(), s.httpListen, s.host.settings(s), strings.Join(list, ", "),
		repository, s.github.API(), s.profiles(), s.otlp, smokeTest) + more
	profile := fmt.Sprintf(profileText, s.agent)
	if err := errors.Join(os.WriteFile(s.config(), []byte(text), 0o600),
		os.WriteFile(s.profiles(), []byte(profile), 0o600)); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// goEnv returns variables that prevent the workers' Go from using the network.
func (s *world) goEnv() map[string]string {
	return map[string]string{
		"GOROOT": s.tools.root, "GOPROXY": "off", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local",
		"CGO_ENABLED": "0",
	}
}

// mounts lists the parts of this machine that a worker needs, and the build cache at target.
func (s *world) mounts(target string) string {
	var list []string
	for _, m := range append([]string{s.tools.root}, s.tools.mounts...) {
		list = append(list, fmt.Sprintf("%q", m+":"+m))
	}
	return strings.Join(append(list, fmt.Sprintf("%q", s.cache.dir+":"+target+":rw")), ", ")
}

// profileText is the profile of the demo's agent, in a file of custom agents.
const profileText = `[[agent]]
name = "demo"
program = %q
args = ["{prompt}"]
format = "retake"
provider = "standin"
`

const configText = `[director]
fleet = %q
data_dir = %q
http_listen = %q
max_workers = 4
interval_seconds = 5
[timeouts]
worker_heartbeat_ttl_seconds = 5
worker_start_seconds = 30
worker_watchdog_seconds = 240
stop_grace_seconds = 2
[retry]
backoff_initial_seconds = 0.5
backoff_max_seconds = 2
[containers]
%senv = { %s }
[agent_bus]
listen_port = 0
heartbeat_interval_seconds = 1
[rate_limits.model]
max_concurrent_requests = 4
min_seconds_between_requests = 0
[rate_limits.github]
min_seconds_between_writes = 1
[github]
repositories = [%q]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
poll_seconds = 1
delivery = "pull_request"
[worker]
fix_attempts = 3
[recovery]
agents_file = %q
[telemetry]
otlp_endpoint = %q
[[stage]]
name = "CODE"
agent = "demo"
timeout_seconds = 120
[[stage]]
name = "VALIDATE"
run = ["go", "build", "-o", "bin/", "./..."]
timeout_seconds = 120
[[stage]]
name = "VALIDATE"
run = ["go", "vet", "./..."]
timeout_seconds = 120
[[stage]]
name = "VALIDATE"
run = ["go", "test", "./..."]
timeout_seconds = 120
[[stage]]
name = "VALIDATE"
run = [%q]
timeout_seconds = 30
`
