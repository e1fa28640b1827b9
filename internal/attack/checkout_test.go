package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// checkoutAttacks check that files in a checkout affect only their own task, and cannot make the director read, run or
// write files outside.
var checkoutAttacks = []attack{
	{
		name: "a sparse file of 8 TB", kind: onCheckout,
		does:   "ftruncate of one file to 8 TB",
		holds:  "a person gets a question within 30 s; the folder is removed",
		before: "succeeded: git add without a deadline, a busy core, and closing the issue had no effect",
		run:    func(b *battle) error { return b.leave("agent-blocked", []string{"sparse", "8796093022208"}) },
	},
	{
		name: "150,000 files at paths of 3.8 KB", kind: onCheckout, most: 5 * time.Minute,
		does:  "150,000 empty files below 15 folders with names of 250 letters",
		holds: "decided, and the director stays small", before: "succeeded: director 2.77 GB, git 1.1 GB",
		run: func(b *battle) error { return b.leave("", []string{"many", "150000", "15"}) },
	},
	{
		name: "60,000 nested folders", kind: onCheckout, most: 5 * time.Minute,
		does:   "mkdir d; cd d, 60,000 times",
		holds:  "a person gets a question; the folder is removed within the limit of descriptors",
		before: "succeeded: EMFILE at 20,000, the folder was never removed",
		run:    func(b *battle) error { return b.leave("agent-blocked", []string{"nested", "60000"}) },
	},
	{
		name: "2,500 nested folders", kind: onCheckout,
		does:  "mkdir d; cd d, 2,500 times: a path longer than PATH_MAX",
		holds: "decided; the folder goes away", before: "held",
		run: func(b *battle) error { return b.leave("", []string{"nested", "2500"}) },
	},
	{
		name: "a million files in one folder", kind: onCheckout, most: 8 * time.Minute,
		does:   "a million empty files in one folder",
		holds:  "a person gets a question, the director stays small, the folder is removed",
		before: "not seen: first tried with this suite",
		run:    func(b *battle) error { return b.leave("agent-blocked", []string{"many", "1000000", "0"}) },
	},
	{
		name: "patterns that take very long to match", kind: onCheckout,
		does:  ".gitignore and .gitattributes with 120 stars in a line, 600 lines, over 200 names of 240 letters",
		holds: "decided within 60 s without slowing others", before: "held",
		run: func(b *battle) error { return b.leave("", []string{"globs"}) },
	},
	{
		name: "links out of the tree", kind: onCheckout,
		does: "symbolic links to a secret, /etc, /, /proc/self/environ, ../../.., itself; .retake and .gitignore as " +
			"links; a hard link",
		holds: "their targets are neither pushed nor changed", before: "held",
		run: func(b *battle) error {
			secret, err := b.secret()
			if err != nil {
				return err
			}
			return errors.Join(b.leave("", []string{"links", secret}), b.unspoilt(secret))
		},
	},
	{
		name: "folders that turn into links", kind: onCheckout,
		does:  "swaps .retake, a file and a folder with links to a secret as fast as it can, during the delivery",
		holds: "the director does not push or change the secret", before: "held",
		run: func(b *battle) error {
			secret, err := b.secret()
			if err != nil {
				return err
			}
			end := b.meanwhile("real", "swap", "8", secret)
			return errors.Join(b.leave(""), end(), b.unspoilt(secret))
		},
	},
	{
		name: "fifos and sockets", kind: onCheckout,
		does:  "fifos as .gitattributes, in the tree, and as every file in .retake; a socket",
		holds: "a missing writer blocks no other task", before: "held",
		run: func(b *battle) error { return b.leave("", []string{"special"}) },
	},
	{
		name: "names that mean something", kind: onCheckout,
		does: "leading dash, newline, ESC, invalid UTF-8, quotes, pathspecs, bidi marks, case twins, .GIT, " +
			"git~1, .g\u200cit",
		holds: "decided; no foreign .git is pushed", before: "held",
		run: func(b *battle) error {
			err := b.leave("", []string{"names"})
			for _, f := range b.delivered(b.me.Task) {
				_, name, _ := strings.Cut(f, " ")
				for part := range strings.SplitSeq(strings.ToLower(name), "/") {
					if part == ".git" {
						return fmt.Errorf("pushed %q", f)
					}
				}
			}
			return err
		},
	},
	{
		name: "a path that the gate refuses, with control characters", kind: onCheckout,
		does: "a workflow with ESC sequences, a mention and an HTML comment in its name, which the gate quotes " +
			"on the issue",
		holds: "refused; the comment is clean", before: "held",
		run: func(b *battle) error {
			err := b.leave("agent-blocked",
				[]string{"write", ".github/workflows/\x1b]52;c;x\x07@octocat --><img src=x>\r\u202e.yml", "on: push\n"})
			for _, c := range b.github.Issue(b.me.Task).Comments {
				if strings.ContainsAny(c.Body, "\x1b\x07\r\u202e") || effect(c.Body) != "" {
					return fmt.Errorf("comment: %.200q", c.Body)
				}
			}
			return err
		},
	},
	{
		name: "a name that shows as another one", kind: onCheckout,
		does:   "a file whose name turns the reading direction, so that a program shows as a picture",
		holds:  "a person gets a question",
		before: "succeeded: it was pushed",
		run: func(b *battle) error {
			return b.leave("agent-blocked", []string{"write", "photo\u202egnp.sh", "true\n"})
		},
	},
	{
		name: "files that other systems run with secrets", kind: onCheckout,
		does:   "a workflow in another case, another spelling of a CI file, and a build of a hosting service",
		holds:  "a person gets a question that names all three",
		before: "succeeded: all three were pushed",
		run: func(b *battle) error {
			names := []string{".GitHub/Workflows/x.yml", ".woodpecker.yaml", "site/netlify.toml"}
			var actions [][]string
			for _, name := range names {
				actions = append(actions, []string{"write", name, "x: y\n"})
			}
			err := b.leave("agent-blocked", actions...)
			comments := b.github.Issue(b.me.Task).Comments
			for _, name := range names {
				if !slices.ContainsFunc(comments,
					func(c githubtest.Comment) bool { return strings.Contains(c.Body, name) }) {
					err = errors.Join(err, fmt.Errorf("no comment names %s", name))
				}
			}
			return err
		},
	},
	{
		name: "instructions for the next agent", kind: onCheckout,
		does:   "an AGENTS.md, tasks of an editor and a development container, delivered as a branch",
		holds:  "a person gets a question; a pull request would be a draft that names them",
		before: "succeeded: all three were pushed",
		run: func(b *battle) error {
			return b.leave("agent-blocked", []string{"write", "AGENTS.md", "x\n"},
				[]string{"write", ".vscode/tasks.json", "{}\n"}, []string{"write", ".devcontainer.json", "{}\n"})
		},
	},
	{
		name: "hostile git folders", kind: onCheckout,
		does: "hooks, fsmonitor, filters, textconv, gpg, credential helpers, ext:: submodules, .git as file to the " +
			"host's folders, nested and worktree ones",
		holds: "no foreign program runs; no foreign gitlink is pushed", before: "held",
		run: func(b *battle) error {
			mark := filepath.Join(b.dir, "mark-"+b.me.id)
			err := b.leave("", []string{"git", mark})
			if _, e := os.Stat(mark); e == nil {
				return errors.New("a program of the agent's ran as the director")
			}
			for _, f := range b.delivered(b.me.Task) {
				if strings.HasPrefix(f, "160000") || strings.Contains(f, ".git/") {
					return fmt.Errorf("pushed %q", f)
				}
			}
			return err
		},
	},
	{
		name: "pointers to large files", kind: onCheckout,
		does:  "LFS pointers of 2^63 bytes, an .lfsconfig with a transfer program",
		holds: "a question, because a delivery cannot contain such files; no program runs", before: "held",
		run: func(b *battle) error {
			mark := filepath.Join(b.dir, "mark-"+b.me.id)
			err := b.leave("agent-blocked", []string{"lfs", mark})
			if _, e := os.Stat(mark); e == nil {
				return errors.New("a program of the agent's ran as the director")
			}
			return err
		},
	},
	{
		name: "times that no calendar has", kind: onCheckout,
		does:  "files of the years 292277026596, -292277022657 and 1900",
		holds: "delivered", before: "held",
		run: func(b *battle) error { return b.leave("agent-review", []string{"times"}) },
	},
	{
		name: "modes and attributes", kind: onCheckout,
		does:  "setuid, setgid, sticky, unreadable files and folders, extended attributes, a capability, an ACL",
		holds: "decided; pushed modes are only 100644 and 100755, and the folder is removed", before: "held",
		run: func(b *battle) error {
			err := b.leave("", []string{"modes"})
			for _, f := range b.delivered(b.me.Task) {
				if !strings.HasPrefix(f, "100644 ") && !strings.HasPrefix(f, "100755 ") {
					return fmt.Errorf("pushed %q", f)
				}
			}
			return err
		},
	},
	{
		name: "growth during the collection", kind: onCheckout,
		does:  "continues to make files and folders while its work is collected",
		holds: "decided; the folder goes away once it ends", before: "held",
		run: func(b *battle) error {
			end := b.meanwhile("grown", "grow", "8")
			return errors.Join(b.leave(""), end())
		},
	},
	{
		name: "a file of 700 MB", kind: onCheckout,
		does:  "one file of real bytes",
		holds: "refused by scope.max_file_bytes; the director stays small", before: "held",
		run: func(b *battle) error { return b.leave("agent-blocked", []string{"fill", "734003200"}) },
	},
}

// agentBinary builds the hostile agent, once.
var agentBinary = sync.OnceValues(func() (string, error) {
	return build(testbed.Program{File: "agent", Source: "./internal/attack/agent"})
})

// build compiles a program of this module and returns its path. With -baseline, the director and the worker come from
// that directory instead.
func build(p testbed.Program) (string, error) {
	if *baseline != "" && (p == testbed.DirectorProgram || p == testbed.WorkerProgram) {
		return filepath.Join(*baseline, p.File), nil
	}
	dir, err := os.MkdirTemp("", "attack-bin-")
	if err != nil {
		return "", err
	}
	built = append(built, dir)
	path, err := p.Build(context.Background(), dir)
	return path, errors.Join(err, os.Chmod(dir, 0o755))
}

// built lists the temporary directories with compiled programs. TestMain removes them.
var built []string

// agent runs the hostile agent in its checkout, as the worker's user.
func (b *battle) agent(args ...string) (string, error) {
	binary, err := agentBinary()
	if err != nil {
		return "", err
	}
	if os.Getuid() == 0 {
		args = append([]string{"-uid", strconv.Itoa(agentUID)}, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = b.me.Checkout
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("the agent did not carry out the attack: %w: %s", err, out)
	}
	return string(out), err
}

// meanwhile starts an action of the agent, and waits until the action creates the file sign. end waits for the action's
// end, and returns its error.
func (b *battle) meanwhile(sign string, args ...string) (end func() error) {
	done := make(chan error, 1)
	go func() {
		said, err := b.agent(args...)
		b.note("%s", strings.TrimSpace(said))
		done <- err
	}()
	begun := until("the agent begins", longest, func() bool {
		_, err := os.Lstat(filepath.Join(b.me.Checkout, sign))
		return err == nil
	})
	return func() error { return errors.Join(begun, <-done) }
}

// leave runs the agent's actions in its checkout, reports a success, and starts another worker. It waits until the
// director has decided, and checks that the issue has the label, if label is not empty. Then it closes the issue and
// checks that the director removes the checkout.
func (b *battle) leave(label string, actions ...[]string) error {
	for _, args := range actions {
		said, err := b.agent(args...)
		if err != nil {
			return err
		}
		if said = strings.TrimSpace(said); said != "" {
			b.note("%.100s", said)
		}
	}
	b.forget()
	began := time.Now()
	if err := b.me.succeed(); err != nil {
		return err
	}
	err := b.newcomer()
	decided := func() string {
		for _, l := range []string{"agent-review", "agent-blocked"} {
			if b.has(b.me.Task, l) {
				return l
			}
		}
		return ""
	}
	most := 60 * time.Second
	if e := until("it is decided", most-time.Since(began), func() bool { return decided() != "" }); e != nil {
		err = errors.Join(err, e)
	} else {
		b.note("%s after %.1f s", decided(), time.Since(began).Seconds())
	}
	if label != "" && decided() != "" && decided() != label {
		err = errors.Join(err, fmt.Errorf("it is %s, want %s", decided(), label))
	}
	began = time.Now()
	b.github.SetState(b.me.Task, person, "closed")
	folder := filepath.Dir(b.me.Checkout)
	if e := until("the folder is removed", longest, func() bool {
		_, err := os.Lstat(folder)
		return errors.Is(err, os.ErrNotExist)
	}); e != nil {
		return errors.Join(err, e)
	}
	b.note("folder gone after %.1f s", time.Since(began).Seconds())
	if n := b.descriptors(); n > 400 {
		err = errors.Join(err, fmt.Errorf("the director has %d descriptors", n))
	}
	return err
}

const secretText = "the-secret-of-the-host-4711"

// secret creates a file on the host that the agent must not read and the director must not push.
func (b *battle) secret() (string, error) {
	path := filepath.Join(b.dir, "secret-"+b.me.id)
	return path, os.WriteFile(path, []byte(secretText), 0o600)
}

// unspoilt checks that the secret is unchanged, and that no pushed object contains it.
func (b *battle) unspoilt(secret string) error {
	if text, err := os.ReadFile(secret); err != nil || string(text) != secretText {
		return fmt.Errorf("the secret is %q (%v)", text, err) //nolint:errorlint // err may be nil
	}
	_, number, _ := strings.Cut(b.me.Task, "#")
	refs, _ := b.git("for-each-ref", "--format=%(refname)", "refs/heads/retake/"+number+"-*")
	for ref := range strings.FieldsSeq(refs) {
		if found, err := b.git("grep", "-l", secretText, ref); err == nil {
			return fmt.Errorf("the secret was pushed: %s", found)
		}
	}
	for _, f := range b.delivered(b.me.Task) {
		if strings.HasSuffix(f, "/passwd") || slices.Contains([]string{"100644 hard"}, f) {
			return fmt.Errorf("pushed %q", f)
		}
	}
	return nil
}
