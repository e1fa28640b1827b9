package agent

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"retake/internal/budget"
	"retake/internal/secrets/redact"
	"retake/internal/tomlfile"
	"retake/internal/worktree"
)

// Limits on the sizes of prompts and files, in bytes. Linux does not accept arguments longer than 128 KiB.
const (
	DefaultPrompt = 32 << 10
	MinPrompt     = 2 << 10
	MaxPrompt     = 120 << 10
	maxFile       = 64 << 10
)

// Default and maximum of exit_seconds, the time an agent may take to exit after the last event in its stream. The agent
// may have to flush its telemetry or run its hooks.
const (
	defaultExit = 5
	maxExit     = 3600
)

var (
	nameForm     = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	// fileForm matches a relative path without "." or ".." elements.
	fileForm = regexp.MustCompile(
		`^\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}(?:/\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}){0,7}$`)
	placeholder = regexp.MustCompile(`\{[a-z_]+\}`)
)

// wrongIf records a fault in a row's key if bad is true.
type wrongIf func(bad bool, key, format string, args ...any)

// check records every fault of a row.
func (p *Profile) check(file *tomlfile.File, at string) {
	wrong := wrongIf(func(bad bool, key, format string, args ...any) {
		if bad {
			file.Fault(at+"."+key, format, args...)
		}
	})
	p.checkCommand(wrong)
	p.checkEnv(wrong)
	p.checkFiles(wrong)
	for _, x := range p.Exits {
		wrong(x.Code < 0 || x.Code > 255, "exits", "code %d: want 0 to 255", x.Code)
		wrong(x.Status != 0 && (x.Status < 400 || x.Status > 599), "exits",
			"status %d: want the HTTP status of an error, 400 to 599", x.Status)
	}
	wrong(p.PromptBytes < MinPrompt || p.PromptBytes > MaxPrompt, "prompt_bytes", "%d: want %d to %d", p.PromptBytes,
		MinPrompt, MaxPrompt)
	p.traces.check(file, at)
	for _, text := range append(append(append([]string{p.Program}, p.Args...), p.ModelArgs...), p.Env...) {
		wrong(strings.Contains(text, "\x00"), "args", "%.60q contains a NUL character", text)
	}
}

// checkCommand checks the keys that start the agent and interpret its output.
func (p *Profile) checkCommand(wrong wrongIf) {
	wrong(!nameForm.MatchString(p.Name), "name", "%.60q: want a-z, 0-9, - and _, at most 64 characters", p.Name)
	wrong(p.Program == "", "program", "missing, want the program's name or path")
	prompts := slices.Index(p.Args, "{prompt}")
	wrong(prompts < 0, "args", "{prompt} is missing, want it as a separate argument")
	for _, a := range p.Args {
		for _, h := range placeholder.FindAllString(a, -1) {
			alone := h == "{prompt}" || h == "{model}"
			wrong(!alone && h != "{timeout}" && h != "{files}", "args",
				"%s: unknown placeholder, want {prompt}, {model}, {timeout} or {files}", h)
			wrong(alone && a != h, "args", "%s in %.60q: want it as a separate argument", h, a)
		}
	}
	wrong(len(p.ModelArgs) > 0 &&
		!slices.ContainsFunc(p.ModelArgs, func(a string) bool { return strings.Contains(a, "{model}") }),
		"model_args", "{model} is missing, want the flag and {model}")
	wrong(slices.Contains(p.Args, "{model}") && len(p.ModelArgs) == 0, "model_args",
		"missing, but args contains {model}")
	wrong(!slices.Contains(Formats(), p.Format), "format", "unknown format %.60q: want one of %s", p.Format,
		strings.Join(Formats(), ", "))
	if i := slices.IndexFunc(formats, func(f format) bool { return f.name == p.Format }); i >= 0 && p.EndsWith != "" {
		wrong(!slices.Contains(formats[i].ends, p.EndsWith), "ends_with", "unknown event %.60q: format %s ends with "+
			"%s", p.EndsWith,
			p.Format, cmp.Or(strings.Join(formats[i].ends, " or "), "no event"))
	}
	wrong(p.ExitSeconds < 0 || p.ExitSeconds > maxExit, "exit_seconds", "%v: want 0 to %d", p.ExitSeconds, maxExit)
	wrong(len(p.Streams) == 0, "streams", "empty, want stdout, stderr or both")
	for _, s := range p.Streams {
		wrong(s != "stdout" && s != "stderr", "streams", "%.60q: want stdout or stderr", s)
	}
	if p.Provider != "" {
		wrong(budget.CheckResource("model."+p.Provider) != nil, "provider",
			"%.60q: want letters, digits, -, _ and dots", p.Provider)
	}
}

// checkEnv checks environment variables.
func (p *Profile) checkEnv(wrong wrongIf) {
	for _, k := range p.Keys {
		wrong(!variableForm.MatchString(k), "keys", "%.60q: want a variable name", k)
	}
	for _, e := range p.Env {
		name, value, ok := strings.Cut(e, "=")
		wrong(!ok || !variableForm.MatchString(name), "env", "%.60q: want NAME=value", e)
		wrong(strings.HasPrefix(name, "RETAKE_"), "env", "%.60s: RETAKE_ variables are reserved for the worker", name)
		wrong(redact.HasCredential(value), "env", "%.60q looks like a secret: list it in containers.env_passthrough "+
			"instead",
			name)
		wrong(strings.Contains(value, "{prompt}"), "env", "%.60s: {prompt} is allowed only in args", name)
	}
}

// checkFiles checks the agent's files, and the settings for the command director agents try.
func (p *Profile) checkFiles(wrong wrongIf) {
	for i, f := range p.Files {
		wrong(!fileForm.MatchString(f.Name), "files",
			"%.60q: want a file name, or a path such as \"dir/name.json\", without . or ..", f.Name)
		for _, g := range p.Files[:i] {
			wrong(f.Name == g.Name || strings.HasPrefix(f.Name, g.Name+"/") || strings.HasPrefix(g.Name, f.Name+"/"),
				"files",
				"%.60q and %.60q conflict: want paths that do not contain each other", g.Name,
				f.Name)
		}
		wrong(len(f.Content) > maxFile, "files", "%.60s: %d bytes, want at most %d", f.Name, len(f.Content), maxFile)
	}
	for _, f := range p.Try.Files {
		wrong(!fileForm.MatchString(f.Name), "try", "files: %.60q: want a path below HOME", f.Name)
	}
	for _, e := range p.Try.Env {
		name, _, ok := strings.Cut(e, "=")
		wrong(!ok || !variableForm.MatchString(name), "try", "env: %.60q: want NAME=value", e)
	}
}

// check records every invalid glob.
func (t *traces) check(file *tomlfile.File, at string) {
	for _, g := range t.StatePaths {
		if err := worktree.Check(g); err != nil {
			file.Fault(at+".state_paths", "%.80q: %v, want a glob such as \".mine/\"", g, err)
		}
	}
	for _, g := range t.LogPaths {
		rest := strings.TrimPrefix(g, "~/")
		if worktree.Check(rest) != nil || strings.HasPrefix(rest, "!") {
			file.Fault(at+".log_paths", "%.80q: want a glob below ~/ or relative to the work tree, such as "+
				"\"~/.mine/logs/*.log\"", g)
		}
	}
}
