package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// replaying holds the flags of `director replay`.
type replaying struct {
	policy, preset, rules, other string // the alternative rules
	since, journal               string
	json                         bool
}

func replayCommand(o *options) *cobra.Command {
	var r replaying
	c := &cobra.Command{
		Use: "replay [ISSUE]", Args: needs(cobra.MaximumNArgs(1), "want at most one issue"),
		Short: "Compare past decisions with another policy, other rules or other limits",
		Long: "Replay the journal, including archived batches, and decide all its failures again under another " +
			"policy, other rules or other limits. The output counts\nthe differences and lists them. Without " +
			"alternatives, the current configuration is used. The command makes no changes, and works while a " +
			"director is running.\nAfter a claim's first different verdict, its later verdicts are counted but not " +
			"compared, because its history would have been different.\nISSUE: " + issueWanted + ".\n" +
			exits("no differences", "there are differences, there is no journal, or it has no record of the issue",
				"the comparison failed"),
		Example: "  director replay --policy new.toml --since 30d\n  director replay --set director.max_retries=1 " +
			"acme/widgets#21\n" +
			"  director replay --journal journal.jsonl.zst --preset gdd --json",
	}
	f := c.Flags()
	f.StringVar(&r.policy, "policy", "", "a TOML file with rows that override the preset's rows, instead of the "+
		"configured file")
	f.StringVar(&r.preset, "preset", "", "a built-in policy to use instead of the configured preset and file: "+
		"director, reviewcat, gdd, cortex, prp, dispatch")
	f.StringVar(&r.rules, "rules", "", "a TOML file of rules that override the built-in rules; stored reports are "+
		"classified again")
	f.StringVar(&r.other, "config-to", "", "a complete alternative configuration; --config selects the journal")
	f.StringVar(&r.since, "since", "", "compare only verdicts since a time (2006-01-02T15:04:05Z), a day "+
		"(2006-01-02), or an age (12h, 30d); default: the whole journal")
	f.StringVar(&r.journal, "journal", "", "read this `FILE` from \"director journal export\"; without a "+
		"configuration file or --set, the built-in configuration applies")
	f.BoolVar(&r.json, "json", false, "print the result as one JSON object")
	c.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd, o, args) }
	return c
}

func (r *replaying) run(cmd *cobra.Command, o *options, args []string) error {
	q, err := r.question(cmd, o)
	if err != nil {
		return err
	}
	var asked fsm.IssueKey
	if len(args) == 1 {
		key, err := issueKey(args[0], q.Config.GitHub.Repositories)
		if err != nil {
			return err
		}
		asked = key
		q.Only = func(k fsm.IssueKey) bool { return k.Same(key) }
	}
	some, known := false, false
	q.Seen = func(f fsm.Fact) {
		some = true
		known = known || fsm.About(f).Same(asked)
	}
	found, err := q.Ask(cmd.Context())
	switch {
	case err != nil:
		return err
	case !some:
		return noBecause{noJournal(q.Config)}
	case len(args) == 1 && !known:
		return noBecause{errors.New(operator.NoTask(asked))}
	}
	if r.json {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(found)
	} else {
		err = showReplay(cmd.OutOrStdout(), found, q.Reread)
	}
	return answer(found.Counts.Differ == 0, err)
}

// question returns the journal to replay and the alternative configuration.
func (r *replaying) question(cmd *cobra.Command, o *options) (q offline.WhatIf, err error) {
	q.Export, q.Reread = r.journal, r.rules != ""
	load := o.load
	if r.journal != "" { // for an exported journal, the built-in configuration is enough
		load = func() (config.Config, error) { return o.loadIf(cmd) }
	}
	if q.Config, err = load(); err != nil {
		return q, err
	}
	to := *o
	switch {
	case r.other != "":
		to = o.on(r.other)
	case r.journal != "":
		to = o.asked(cmd)
	}
	to.set = maps.Clone(o.set)
	if to.set == nil {
		to.set = map[string]string{}
	}
	if r.preset != "" || r.policy != "" {
		to.set["recovery.policy_file"] = r.policy
	}
	if r.preset != "" {
		to.set["recovery.preset"] = r.preset
	}
	if r.rules != "" {
		to.set["recovery.rules_file"] = r.rules
	}
	if q.Other, err = to.load(); err != nil {
		return q, err
	}
	if q.Since, err = timeOf(r.since, time.Now()); err != nil {
		return q, fmt.Errorf("--since: %w", err)
	}
	if len(to.set) == 0 && r.other == "" || r.journal != "" && !fileNamed(cmd) {
		return q, nil // nothing to compare: an alternative or a current configuration is missing
	}
	today := *o
	today.set = nil
	c, err := today.load()
	if err == nil { // a configuration that needs --set to be valid cannot be compared
		q.Today = &c
	}
	return q, nil
}
