package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"retake/internal/agenttest"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// completer proposes completions of a word, each as "word\tdescription". It returns nil on failure.
type completer func(ctx context.Context, o *options, begun string) []string

// ofArguments maps argument names, as they appear in a command's Use, to completers. ofFlags does the same for flags.
var (
	ofArguments = map[string]completer{
		"ISSUE": completeIssues, "RESOURCE": completeResources, "NAME": completeAgents, "CASE": completeCases,
		"AGENT": completeAgents, "REASON": completeReasons,
	}
	ofFlags = map[string]completer{
		"set": completeSettings, "preset": oneOf(policy.Presets), "as": oneOf(policy.Presets),
		"log-level":  oneOf([]string{"debug", "info", "warn", "error"}),
		"log-format": oneOf([]string{logAuto, logJSON, logLines}),
		"agent":      completeAgents, "reason": completeReasons, "issue": completeIssues,
		"repository": completeRepositories,
		"stage":      valuesOf("stage.name"),
		"runtime":    valuesOf("containers.runtime"), "state": completeStates,
	}
)

// complete sets up completion for the arguments and flags of c and all commands below it.
func complete(c *cobra.Command, o *options) {
	for _, each := range c.Commands() {
		if each.Name() != "completion" {
			complete(each, o)
		}
	}
	if !c.HasSubCommands() && c.ValidArgsFunction == nil && c.ValidArgs == nil {
		c.ValidArgsFunction = arguments(c.Use, o)
	}
	register := func(f *pflag.Flag) {
		if propose, ok := ofFlags[f.Name]; ok {
			_ = c.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, begun string) ([]string,
				cobra.ShellCompDirective,
			) {
				return begunWith(begun, propose(cmd.Context(), o, begun)), spacing(f.Name, begun)
			})
		}
	}
	c.LocalNonPersistentFlags().VisitAll(register)
	c.PersistentFlags().VisitAll(register)
}

// spacing returns cobra's directive for a flag's proposals. After a key for --set, the shell must not add a space,
// because "=" and a value follow.
func spacing(flag, begun string) cobra.ShellCompDirective {
	if flag == "set" && !strings.Contains(begun, "=") {
		return cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	return cobra.ShellCompDirectiveNoFileComp
}

// begunWith filters proposals by their prefix, and shortens each description to its first sentence.
func begunWith(begun string, proposals []string) (out []string) {
	for _, p := range proposals {
		word, about, _ := strings.Cut(p, "\t")
		if !strings.HasPrefix(word, begun) {
			continue
		}
		if about, _, _ = strings.Cut(about, ". "); about != "" {
			word += "\t" + about
		}
		out = append(out, word)
	}
	return out
}

// placeForm matches an argument in a usage line: ISSUE, [CASE...], RESOURCE...|--all.
var placeForm = regexp.MustCompile(`^\[?([A-Z]+)`)

// arguments completes the arguments of a usage line such as "try NAME [CASE...]".
func arguments(use string, o *options) cobra.CompletionFunc {
	places := strings.Fields(use)[1:]
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(places) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		i := len(args)
		if i >= len(places) {
			if i = len(places) - 1; !strings.Contains(places[i], "...") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
		}
		place := placeForm.FindStringSubmatch(places[i])
		if place == nil || ofArguments[place[1]] == nil {
			return nil, cobra.ShellCompDirectiveDefault // the shell itself completes FILE and DIR
		}
		given := map[string]bool{}
		for _, a := range args {
			given[a] = true
		}
		return slices.DeleteFunc(begunWith(begun, ofArguments[place[1]](cmd.Context(), o, begun)), func(w string) bool {
			word, _, _ := strings.Cut(w, "\t")
			return given[word]
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completionPatience is the timeout of a request to a running director. It is short, because a person waits at the
// prompt.
const completionPatience = 300 * time.Millisecond

// snapshot returns the running director's snapshot, or an empty one if no director answers in time.
func (o *options) snapshot(ctx context.Context) (s wire.Snapshot) {
	c, err := o.load()
	if err != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	s, _ = operator.AskSnapshot(ctx, c.Director.DataDir)
	return s
}

func completeIssues(ctx context.Context, o *options, _ string) (out []string) {
	for _, t := range o.snapshot(ctx).Tasks {
		out = append(out, t.Issue+"\t"+t.State)
	}
	return out
}

func completeResources(ctx context.Context, o *options, _ string) (out []string) {
	for _, c := range o.snapshot(ctx).Cooldowns {
		if !isIncident(c) {
			out = append(out, c.Resource+"\t"+c.Why)
		}
	}
	return out
}

// completeAgents proposes the names of agents. It ignores errors from load, because load still returns the built-in
// agents.
func completeAgents(_ context.Context, o *options, _ string) []string {
	c, _ := o.load()
	return c.Agents.Names()
}

func completeRepositories(_ context.Context, o *options, _ string) []string {
	c, _ := o.load()
	return c.GitHub.Repositories
}

func completeCases(context.Context, *options, string) (out []string) {
	for _, c := range agenttest.Cases {
		out = append(out, c.Name+"\t"+c.About)
	}
	return out
}

func completeReasons(context.Context, *options, string) (out []string) {
	for _, r := range recovery.Reasons {
		out = append(out, string(r.Reason))
	}
	return out
}

func completeStates(context.Context, *options, string) (out []string) {
	for _, s := range fsm.States {
		out = append(out, s.Name)
	}
	return out
}

// completeSettings proposes keys and, after "=", the values of a key.
func completeSettings(_ context.Context, _ *options, begun string) (out []string) {
	name, _, valued := strings.Cut(begun, "=")
	for _, k := range config.Keys() {
		switch {
		case strings.HasPrefix(k.Name, "stage."): // --set cannot change stages
		case valued && k.Name == name:
			for _, v := range k.Values {
				out = append(out, name+"="+v)
			}
		case !valued:
			out = append(out, k.Name+"=\t"+k.Doc)
		}
	}
	return out
}

func oneOf(words []string) completer {
	return func(context.Context, *options, string) []string { return slices.Clone(words) }
}

func valuesOf(key string) completer {
	values := map[string][]string{}
	for _, k := range config.Keys() {
		values[k.Name] = k.Values
	}
	return oneOf(values[key])
}
