package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/secrets/leak"
	"retake/internal/sys/ring"
)

const (
	// The oldest git with GIT_CONFIG_COUNT (2.31) and GIT_CONFIG_GLOBAL (2.32).
	minGitMajor, minGitMinor = 2, 32
	// The oldest git with core.fsync. Since that version, every run warns if the older core.fsyncObjectFiles is set.
	fsyncGitMajor, fsyncGitMinor = 2, 36
	// The oldest git whose merge-tree writes trees without touching files, for Sync.
	mergeGitMajor, mergeGitMinor = 2, 38

	tailBytes   = 8 << 10 // bytes to keep from the end of git's messages
	detailBytes = 2 << 10 // maximum size of the messages in an error
	detailLines = 12
	headLines   = 4 // lines to quote from the start of the messages, where a server names its rule
	headBytes   = 512

	versionTimeout = 10 * time.Second // time limit of `git --version` at Open
	pipeGrace      = 5 * time.Second  // time for a killed git's children to close their pipes
)

// program runs git in a private environment.
type program struct {
	path   string
	env    []string
	limits Limits
	config [][2]string // configuration for every run
	merges bool        // git is new enough for Sync
	server serverLimit
	log    *zap.Logger
}

// call describes one git run.
type call struct {
	op      string      // name of the operation, for errors
	dir     string      // working directory, never in a checkout that a worker has touched
	gitDir  string      // git directory, always explicit so that git does not search for it
	env     []string    // more environment
	config  [][2]string // more configuration, through the environment
	args    []string
	stdin   io.Reader
	lock    *fileLock // git inherits it
	secrets []string  // masked in git's messages
	asks    bool      // exit code 1 is an answer; run returns the output and errNo
	most    int       // bytes of output to keep; zero keeps all, but then output above maxAnswer is an error
	remote  bool      // talks to a server, so exceeding a limit is not the fault of the agent's work
	base    bool      // reads only objects that were not created by agents
	// unbounded is set if the output has no limit, because it is processed record by record and not stored.
	unbounded bool
}

// errNo is returned if a call with asks set exits with code 1, which means no.
var errNo = errors.New("workspace: git answered no")

// passedOn lists the director's environment variables that git may see. They locate programs, temporary files, proxies
// and certificates.
var passedOn = []string{
	"PATH", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_EXEC_PATH", "LD_LIBRARY_PATH",
}

// baseConfig applies to every run. It overrides system, user and repository settings that would start programs or
// change the bytes of files.
var baseConfig = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"core.autocrlf", "false"},
	{"core.safecrlf", "false"},
	{"core.symlinks", "true"},
	{"core.fileMode", "true"},
	{"core.askPass", ""},
	{"core.pager", "cat"},
	{"credential.helper", ""},
	{"commit.gpgSign", "false"},
	{"push.gpgSign", "false"},
	{"push.followTags", "false"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"push.recurseSubmodules", "no"},
	{"diff.ignoreSubmodules", "all"},
	{"protocol.allow", "never"},
	// These settings keep git within Limits.GitMemory for any repository size and any number of processors.
	{"core.packedGitWindowSize", "32m"},
	{"core.packedGitLimit", "512m"},
	{"core.bigFileThreshold", "128m"},
	{"pack.threads", "2"},
	{"pack.windowMemory", "256m"},
	// Give up on a connection after a minute below 1 kB/s.
	{"http.lowSpeedLimit", "1000"},
	{"http.lowSpeedTime", "60"},
}

// These settings make git sync an object to disk before a ref names it, so a power cut never leaves an empty object.
var (
	fsyncConfig    = [][2]string{{"core.fsync", "all"}, {"core.fsyncMethod", "fsync"}}
	oldFsyncConfig = [][2]string{{"core.fsyncObjectFiles", "true"}}
)

var gitVersion = regexp.MustCompile(`^git version (\d+)\.(\d+)`)

func findGit(log *zap.Logger, limits Limits) (*program, error) {
	const install = "install git 2.32 or newer, on the PATH"
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, &Error{Kind: Permanent, Op: "find git", Detail: err.Error(), Next: install, Err: err}
	}
	p := &program{path: path, env: ownEnvironment(), config: baseConfig, limits: limits, log: log}
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	out, err := p.run(ctx, call{op: "git --version", dir: "/", args: []string{"--version"}})
	if err != nil {
		return nil, err
	}
	m := gitVersion.FindStringSubmatch(out)
	if m == nil {
		return nil, refuse("find git", install, "%s --version printed unexpected output: %.80q", path, out)
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	atLeast := func(wantMajor, wantMinor int) bool {
		return major > wantMajor || major == wantMajor && minor >= wantMinor
	}
	if !atLeast(minGitMajor, minGitMinor) {
		return nil, refuse("find git", install, "%s is too old: version %s.%s", path, m[1], m[2])
	}
	fsync := fsyncConfig
	if !atLeast(fsyncGitMajor, fsyncGitMinor) {
		fsync = oldFsyncConfig
	}
	p.config = slices.Concat(baseConfig, fsync)
	if p.merges = atLeast(mergeGitMajor, mergeGitMinor); !p.merges {
		log.Warn("this git cannot bring checkouts up to date with their base branch; install git 2.38 or newer",
			zap.String("reason", "git "+m[1]+"."+m[2]))
	}
	return p, nil
}

func ownEnvironment() []string {
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_PROTOCOL_FROM_USER=0",
		"LC_ALL=C", "LANGUAGE=C", "HOME=/nonexistent", "MALLOC_ARENA_MAX=2",
	}
	for _, name := range passedOn {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// environment returns a call's variables, with its configuration as GIT_CONFIG_COUNT/KEY/VALUE.
func (p *program) environment(c call) []string {
	env := append(append([]string{}, p.env...), c.env...)
	if c.gitDir != "" {
		env = append(env, "GIT_DIR="+c.gitDir)
	}
	config := slices.Concat(p.config, c.config)
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]),
			fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

// command prepares a git run. When ctx is done, git and its children are killed.
func (p *program) command(ctx context.Context, c call) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.dir, p.environment(c), c.stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeGrace
	if c.lock != nil {
		cmd.ExtraFiles = []*os.File{c.lock.file}
	}
	return cmd
}

// maxAnswer is the maximum size of git's answers and lists, in bytes.
const maxAnswer = 16 << 20

// run runs git and returns its output.
func (p *program) run(ctx context.Context, c call) (string, error) {
	stdout := &head{max: c.most, call: c}
	err := p.feed(ctx, c, stdout)
	if err != nil && !errors.Is(err, errNo) {
		return "", err
	}
	return stdout.String(), err
}

// records runs git and calls each with every record of its output. The byte end terminates a record, which is valid
// only during the call. If each returns an error, records stops reading, and git fails with a broken pipe.
func (p *program) records(ctx context.Context, c call, end byte, each func(record []byte) error) error {
	out := &splitter{end: end, each: each, call: c, bounded: !c.unbounded}
	err := p.feed(ctx, c, out)
	if err == nil {
		err = out.finish()
	}
	return err
}

// answer receives git's output.
type answer interface {
	io.Writer
	said() string  // the output, for use in an error
	failed() error // error that stopped the reader, or nil
}

// feed runs git and writes its output to out.
func (p *program) feed(ctx context.Context, c call, out answer) error {
	limited, cancel := context.WithTimeout(ctx, p.timeFor(c))
	defer cancel()
	stderr := ring.New(tailBytes)
	cmd := p.command(limited, c)
	cmd.Stdout, cmd.Stderr = out, stderr
	trace := traceAnswers(cmd, c)
	defer trace.close()
	started := time.Now()
	err := p.start(cmd, c)
	if err == nil {
		err = cmd.Wait()
	}
	p.log.Debug("git", zap.String("effect", c.op), zap.Duration("took", time.Since(started)),
		zap.Bool("ok", err == nil))
	if own := out.failed(); own != nil {
		return own
	}
	if err == nil {
		return p.server.answered(c)
	}
	if cause := context.Cause(ctx); cause != nil {
		return &Error{Kind: Transient, Op: c.op, Detail: "stopped by Retake: " + cause.Error(), Err: ctx.Err()}
	}
	if limited.Err() != nil {
		var used time.Duration
		if cmd.ProcessState != nil {
			used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		return p.tookTooLong(c, used)
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return system(c.op, err)
	}
	if c.asks && exit.ExitCode() == 1 {
		return errNo
	}
	said := essence(leak.Redactor(c.secrets...).Cut(stderr.String() + "\n" + onlyRejections(out.said())))
	if why := p.overLimit(c, exit, said); why != "" {
		return c.beyond("git was stopped: %s", why)
	}
	failed := gitFailed(c.op, said, slices.Contains(c.args, "push"), err)
	p.server.read(failed, c, trace, started)
	if !exit.Exited() { // killed by a signal that this process did not send
		failed.Kind, failed.Detail = Transient, strings.TrimSpace("git was killed: "+exit.String()+"\n"+said)
	}
	return failed
}

// head keeps the first max bytes of git's output. If max is zero, it keeps the whole output, and fails if the output
// exceeds maxAnswer.
type head struct {
	kept bytes.Buffer // not embedded, since its ReadFrom would bypass Write
	max  int
	call call
	err  error
}

func (h *head) Write(p []byte) (int, error) {
	keep := p
	if h.max > 0 {
		keep = p[:min(len(p), max(h.max-h.kept.Len(), 0))]
	} else if h.kept.Len()+len(p) > maxAnswer {
		h.err = tooMuchSaid(h.call)
		return 0, h.err
	}
	h.kept.Write(keep)
	return len(p), nil
}

func (h *head) String() string { return h.kept.String() }
func (h *head) said() string   { return h.kept.String() }
func (h *head) failed() error  { return h.err }

func tooMuchSaid(c call) error {
	return c.beyond("git's output is longer than %d bytes: the work has too many files", maxAnswer)
}

// maxRecord is the maximum size of a record in bytes. A record is a path and git's data about it.
const maxRecord = 64 << 10

// splitter splits git's output into records and passes each of them to a function.
type splitter struct {
	end     byte
	each    func([]byte) error
	call    call
	bounded bool
	taken   int
	part    []byte // start of an incomplete record
	err     error
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	if s.taken += n; s.bounded && s.taken > maxAnswer {
		s.err = tooMuchSaid(s.call)
	}
	for s.err == nil {
		i := bytes.IndexByte(p, s.end)
		if i < 0 {
			break
		}
		record := p[:i]
		if len(s.part) > 0 {
			s.part = append(s.part, record...)
			record = s.part
		}
		s.err, s.part, p = s.each(record), s.part[:0], p[i+1:]
	}
	if s.err == nil && len(s.part)+len(p) > maxRecord {
		s.err = refuse(s.call.op, "", "git printed a record longer than %d bytes: %.80q", maxRecord, s.part)
	}
	if s.err != nil {
		return 0, s.err
	}
	s.part = append(s.part, p...)
	return n, nil
}

func (s *splitter) said() string  { return "" }
func (s *splitter) failed() error { return s.err }

func (s *splitter) finish() error {
	if len(s.part) > 0 {
		return refuse(s.call.op, "", "git's output ends in the middle of a record: %.80q", s.part)
	}
	return nil
}

// onlyRejections keeps the lines of `push --porcelain` that explain why a ref was refused.
func onlyRejections(stdout string) string {
	var keep []string
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "!") {
			keep = append(keep, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(keep, "\n")
}

// essence shortens a text to its first and last lines, for an error. It drops the server's blank lines and git's
// hints for interactive users.
func essence(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r", "\n"), "?")
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line != "remote:" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	if len(lines) > detailLines {
		lines = slices.Concat(lines[:headLines], []string{"..."}, lines[len(lines)-detailLines+headLines:])
	}
	text = strings.Join(lines, "\n")
	if len(text) > detailBytes {
		text = strings.ToValidUTF8(text[:headBytes], "") + "..." +
			strings.ToValidUTF8(text[len(text)-detailBytes+headBytes:], "")
	}
	return text
}
