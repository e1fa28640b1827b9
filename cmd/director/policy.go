package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/recovery"
)

const limitsNote = `
Preset and limits are the built-in ones, unless --config names a configuration or --set sets a key; then they are its.`

// configured says whether these questions are about a configuration: they can be asked without any.
func configured(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("config") || cmd.Flags().Changed("set")
}

// loadIf loads the configuration that is asked for; without --config only what --set says differs from the defaults.
func (o *options) loadIf(cmd *cobra.Command) (config.Config, error) {
	asked := *o
	if !cmd.Flags().Changed("config") {
		asked.file = ""
	}
	return asked.load()
}

// classifier returns the one with the rules of these files, or else of the configuration.
func (o *options) classifier(cmd *cobra.Command, files []string) (*recovery.Classifier, error) {
	if len(files) == 0 && configured(cmd) {
		c, err := o.loadIf(cmd)
		if err != nil {
			return nil, err
		}
		t, problems := c.Tables()
		return t.Classifier, problems.Err()
	}
	var rules [][]byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rules = append(rules, data)
	}
	return recovery.NewClassifier(rules...)
}

// chosenPolicy are the flags that say which policy is meant.
type chosenPolicy struct{ preset, file string }

func (p *chosenPolicy) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.preset, "preset", "", "a built-in policy: director, reviewcat, gdd, cortex, prp, dispatch")
	c.Flags().StringVar(&p.file, "policy", "", "a TOML file of rows over the preset's")
}

// policy returns the chosen one, and the preset whose words are understood.
func (o *options) policy(cmd *cobra.Command, chosen chosenPolicy) (p *recovery.Policy, vocabulary string, err error) {
	var c config.Config
	if configured(cmd) {
		if c, err = o.loadIf(cmd); err != nil {
			return nil, "", err
		}
	}
	switch {
	case chosen.preset != "" && !slices.Contains(recovery.Presets, chosen.preset):
		return nil, "", fmt.Errorf("--preset %s: want one of %s", chosen.preset, strings.Join(recovery.Presets, ", "))
	case chosen.preset != "":
		vocabulary = chosen.preset
		p, err = recovery.Preset(chosen.preset)
	case configured(cmd):
		t, problems := c.Tables()
		p, vocabulary, err = t.Policy, c.Recovery.Preset, problems.Err()
	default:
		vocabulary = recovery.Presets[0]
		p, err = recovery.Preset(vocabulary)
	}
	if err != nil {
		return nil, "", err
	}
	if chosen.file != "" {
		data, err := os.ReadFile(chosen.file)
		if err != nil {
			return nil, "", err
		}
		if p, err = recovery.ParsePolicy(config.PolicyName(chosen.file), p, data); err != nil {
			return nil, "", err
		}
	}
	if configured(cmd) {
		p = p.With(c.Limits())
	}
	return p, vocabulary, nil
}
