package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"retake/internal/config"
	"retake/internal/safefile"
)

func lookConfiguration(_ context.Context, e *exam) {
	for _, p := range e.Problems {
		e.problem(p.String(), "")
	}
	for _, w := range e.Warnings {
		e.warn(w, "")
	}
	if e.problems() > 0 {
		return
	}
	name := e.File
	if name == "" {
		name = "no file; only defaults, variables and flags"
	}
	e.ok(fmt.Sprintf("%s (%s)", name, e.How))
}

// wanting returns the problems that `director run` would report for the given keys.
func (e *exam) wanting(keys ...string) (out config.Problems) {
	for _, p := range e.Config.CheckRun(e.Lookup) {
		if slices.Contains(keys, p.Key) {
			out = append(out, p)
		}
	}
	return out
}

// lookNeeds returns a check that reports missing values for the given keys.
func lookNeeds(keys ...string) func(context.Context, *exam) {
	return func(_ context.Context, e *exam) {
		lacks := e.wanting(keys...)
		for _, p := range lacks {
			e.problem(p.Key+": "+p.Text, "")
		}
		if len(lacks) == 0 {
			e.ok(describe[keys[0]](e.Config))
		}
	}
}

// describe maps keys to functions that describe a valid value.
var describe = map[string]func(config.Config) string{
	"github.repositories": func(c config.Config) string {
		var stages []string
		for _, s := range c.Stages {
			stages = append(stages, s.Name)
		}
		return strings.Join(c.GitHub.Repositories, ", ") + "; stages " + strings.Join(stages, ", ")
	},
	"director.data_dir": func(c config.Config) string { return c.Director.DataDir },
}

// secretKeys lists the keys that name the variable or file of a secret.
var secretKeys = []string{
	"github.token_env", "github.token_file", "github.private_key_file",
	"github.webhook_secret_env", "github.webhook_secret_file",
}

func lookDataDir(ctx context.Context, e *exam) {
	dir := e.Config.Director.DataDir
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o006 != 0 {
		e.warn(fmt.Sprintf("director.data_dir %s is accessible to other users of this machine (mode %04o)", dir,
			info.Mode().Perm()), "chmod o-rw "+dir)
	} else if open, err := safefile.Exposed(dir); err == nil && len(open) > 0 {
		e.warn(fmt.Sprintf("other users of this machine have access to %s in director.data_dir, and to %d more files",
			open[0], len(open)-1), "start the director, which removes their access")
	}
	lookNeeds("director.data_dir")(ctx, e)
}

func lookCredential(_ context.Context, e *exam) {
	lacks := e.wanting(secretKeys...)
	for _, p := range lacks {
		e.problem(p.Key+": "+p.Text, "")
	}
	get := func(name string) string { v, _ := e.Lookup(name); return v }
	read, what := e.Config.Token, "token"
	if e.Config.IsApp() {
		what = fmt.Sprintf("key of App %d", e.Config.GitHub.AppID)
		read = func(func(string) string) (string, string, error) {
			_, warning, err := e.Config.PrivateKey()
			return "", warning, err
		}
	}
	reads := []func(func(string) string) (string, string, error){read}
	if e.Config.TakesWebhooks(e.Lookup) {
		reads = append(reads, e.Config.WebhookSecret)
	}
	for _, read := range reads {
		if _, warning, err := read(get); err == nil && warning != "" {
			e.warn(warning, "")
		}
	}
	if len(lacks) == 0 {
		e.ok(what + " found")
	}
}

func lookVariables(_ context.Context, e *exam) {
	lacks := e.wanting("containers.env_passthrough")
	for _, p := range lacks {
		e.problem(p.Key+": "+p.Text, "")
	}
	for _, note := range e.Config.Notes() {
		e.warn(note, "")
	}
	if len(lacks) == 0 {
		text := "workers do not get any of the director's variables"
		if names := e.Config.Containers.EnvPassthrough; len(names) > 0 {
			text = "set: " + strings.Join(names, ", ")
		}
		e.ok(text)
	}
}
