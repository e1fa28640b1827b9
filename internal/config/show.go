package config

import (
	"fmt"
	"strings"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
	"retake/internal/secrets/redact"
	"retake/internal/tomlfile"
)

// Setting is one key with its value and origin.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as TOML, without secrets
	From  Origin `json:"from"`
	Where string `json:"where,omitempty"` // file:line, or the name of the variable, preset or policy file
}

// Origin is the source of a value.
type Origin string

// The origins of values. Each takes precedence over the preceding ones, except FromPreset, which applies only to bounds
// that are not configured.
const (
	FromDefault     Origin = "default"
	FromFile        Origin = "file"
	FromEnvironment Origin = "environment"
	FromFlag        Origin = "flag"
	FromPreset      Origin = "preset"   // from recovery.preset or recovery.policy_file
	FromProject     Origin = "project"  // from [[project]]; only in ProjectSettings
	FromContract    Origin = "contract" // from the repository's contract; only in ProjectSettings
)

// Settings returns every key of a configuration as Load reads it, with the origin of its value.
func Settings(path string, env []string, overrides map[string]string) ([]Setting, Problems) {
	l, problems := loadFile(path, env, overrides)
	if len(problems) > 0 {
		return nil, problems
	}
	var out []Setting
	add := func(path string, r row) {
		s := Setting{Key: path, Value: shownValue(r.key, r.literal()), From: FromDefault}
		if at, set := l.set[path]; set {
			s.From, s.Where = originOf(at)
		}
		out = append(out, s)
	}
	for _, r := range keys(l.c) {
		add(r.key, r)
	}
	for i := range l.c.Stages {
		for _, r := range stageKeys(&l.c.Stages[i]) {
			_, name := cutLast(r.key)
			add(tomlfile.Join(tomlfile.Element("stage", i), name), r)
		}
	}
	for i := range l.c.Routes {
		for _, r := range routeKeys(&l.c.Routes[i]) {
			_, name := cutLast(r.key)
			add(tomlfile.Join(tomlfile.Element("route", i), name), r)
		}
	}
	return l.c.asBounded(out)
}

// shownValue returns a value without secrets. It redacts the value together with its key, because the name of the key
// may mark the value as a secret.
func shownValue(key, literal string) string {
	_, name := cutLast(key)
	text := redact.New().JSON(name + " = " + literal)
	return strings.TrimPrefix(text, name+" = ")
}

func originOf(at Problem) (Origin, string) {
	switch at.rank {
	case rankEnvironment:
		return FromEnvironment, strings.TrimPrefix(at.Where, "environment ")
	case rankFlag:
		return FromFlag, ""
	}
	file, _, _ := strings.Cut(at.Where, fmt.Sprintf(":%d:%d", at.line, at.col))
	return FromFile, fmt.Sprintf("%s:%d", file, at.line)
}

// boundKeys lists the keys that a policy can also set, each with a function that returns the policy's value.
var boundKeys = map[string]func(policy.Guards, recovery.Backoff) any{
	"director.max_retries":            func(g policy.Guards, _ recovery.Backoff) any { return g.MaxRetries },
	"recovery.max_consecutive_errors": func(g policy.Guards, _ recovery.Backoff) any { return g.MaxConsecutiveErrors },
	"recovery.iteration_budget":       func(g policy.Guards, _ recovery.Backoff) any { return g.IterationBudget },
	"recovery.paid_call_budget":       func(g policy.Guards, _ recovery.Backoff) any { return g.PaidCallBudget },
	"recovery.cost_budget_usd":        func(g policy.Guards, _ recovery.Backoff) any { return g.CostBudgetUSD },
	"retry.backoff_mode": func(_ policy.Guards, b recovery.Backoff) any {
		if b.Linear {
			return `"linear"`
		}
		return `"exponential"`
	},
	"retry.backoff_initial_seconds": func(_ policy.Guards, b recovery.Backoff) any { return b.Initial.Seconds() },
	"retry.backoff_max_seconds":     func(_ policy.Guards, b recovery.Backoff) any { return b.Max.Seconds() },
	"retry.backoff_factor":          func(_ policy.Guards, b recovery.Backoff) any { return b.Factor },
	"retry.jitter": func(_ policy.Guards, b recovery.Backoff) any {
		return fmt.Sprintf("%q",
			b.Jitter)
	},
}

// asBounded replaces the values of all settings that the policy overrides.
func (c Config) asBounded(settings []Setting) ([]Setting, Problems) {
	tables, problems := c.Tables()
	if len(problems) > 0 {
		return nil, problems
	}
	name := c.Recovery.Preset
	if c.Recovery.PolicyFile != "" {
		name = c.Recovery.PolicyFile
	}
	p := tables.Policy.With(c.Limits())
	for i, s := range settings {
		of, bounded := boundKeys[s.Key]
		if !bounded {
			continue
		}
		value := fmt.Sprint(of(p.Guards(), p.Backoff()))
		if f, ok := of(p.Guards(), p.Backoff()).(float64); ok {
			value = decimal(f)
		}
		if value != s.Value {
			settings[i].Value, settings[i].From, settings[i].Where = value, FromPreset, name
		}
	}
	return settings, nil
}

// Key describes one key.
type Key struct {
	Name   string // section.key; stage.key in every [[stage]]
	Doc    string
	Values []string // allowed values of the key or its elements; nil if there is no fixed list
}

// Keys lists all keys in documentation order.
func Keys() (out []Key) {
	for _, r := range allRows {
		k := Key{Name: r.key, Doc: r.doc, Values: r.allowed}
		if _, isBool := r.to.(*bool); isBool {
			k.Values = []string{"true", "false"}
		}
		out = append(out, k)
	}
	return out
}
