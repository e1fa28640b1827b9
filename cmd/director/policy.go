package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"retake/internal/advise"
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

// basis is what a policy is made of.
type basis struct {
	preset string
	base   *recovery.Policy
	file   string // of one's own rows; empty: there are none
	data   []byte
	limits *recovery.Limits // nil: those that are built in
	whose  string           // whose limits they are
}

// basis reads what was chosen. A file that is named here stands for the configuration's.
func (o *options) basis(cmd *cobra.Command, chosen chosenPolicy) (b basis, err error) {
	b = basis{preset: chosen.preset, file: chosen.file, whose: "the built-in limits"}
	if configured(cmd) {
		asked := *o
		if b.whose = "the limits of " + o.file; !cmd.Flags().Changed("config") {
			asked.file, b.whose = "", "the limits of --set"
		}
		if chosen != (chosenPolicy{}) {
			asked.set = maps.Clone(o.set)
			if asked.set == nil {
				asked.set = map[string]string{}
			}
			asked.set["recovery.policy_file"] = ""
		}
		c, err := asked.load()
		if err != nil {
			return b, err
		}
		limits := c.LimitsOver(asked.file, os.Environ(), asked.set)
		b.preset, b.file, b.limits = cmp.Or(b.preset, c.Recovery.Preset), cmp.Or(b.file, c.Recovery.PolicyFile), &limits
	}
	if b.preset = cmp.Or(b.preset, recovery.Presets[0]); !slices.Contains(recovery.Presets, b.preset) {
		return b, fmt.Errorf("--preset %s: want one of %s", b.preset, strings.Join(recovery.Presets, ", "))
	}
	if b.base, err = recovery.Preset(b.preset); err == nil && b.file != "" {
		b.data, err = os.ReadFile(b.file)
	}
	return b, err
}

// policy returns it without limits.
func (b basis) policy() (*recovery.Policy, error) {
	if b.file == "" {
		return b.base, nil
	}
	return recovery.ParsePolicy(b.file, b.base, b.data)
}

// limited returns a policy under the limits, and what of it they overrule.
func (b basis) limited(p *recovery.Policy) (*recovery.Policy, []string) {
	if b.limits == nil {
		return p, nil
	}
	return p.With(*b.limits), p.Overruled(*b.limits)
}

// checked says all that is to be said of the policy.
func (b basis) checked() (advise.Checked, error) {
	c := advise.Checked{Name: cmp.Or(b.file, b.preset), Limits: b.whose}
	if b.file == "" {
		c.Policy, _ = b.limited(b.base)
		c.Faults = c.Policy.Check()
		return c, nil
	}
	var err error
	if c.Policy, c.Faults, err = recovery.ReviewPolicy(b.file, b.base, b.data, b.limits); err == nil && c.Policy != nil {
		if p, _ := b.policy(); p != nil {
			_, c.Warnings = b.limited(p)
		}
	}
	return c, err
}

// policy returns the chosen one, and the preset whose words are understood.
func (o *options) policy(cmd *cobra.Command, chosen chosenPolicy) (p *recovery.Policy, vocabulary string, err error) {
	b, err := o.basis(cmd, chosen)
	if err != nil {
		return nil, "", err
	}
	if p, err = b.policy(); err != nil {
		return nil, "", err
	}
	p, _ = b.limited(p)
	return p, b.preset, nil
}

func policyShowCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print the table that decides about failures", Long: "Print the table that decides about failures." + limitsNote,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.basis(cmd, chosen)
			if err != nil {
				return err
			}
			p, err := b.policy()
			if err != nil {
				return err
			}
			p, warnings := b.limited(p)
			if asJSON {
				return advise.ShowPolicyJSON(p, cmd.OutOrStdout(), warnings...)
			}
			return advise.ShowPolicy(p, cmd.OutOrStdout(), warnings...)
		},
	}
	chosen.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print it for machines")
	return c
}

func policyCheckCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	c := &cobra.Command{
		Use: "check [FILE]", Args: cobra.MaximumNArgs(1), Short: "Say what of a policy can never be reached, never ends or is wrong; exit 1 if anything is",
		Long: "Say what of a policy can never be reached, never ends or is wrong; exit 1 if anything is. FILE is the same as --policy FILE." + limitsNote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if chosen.file != "" {
					return fmt.Errorf("policy check %s --policy %s: name one file", args[0], chosen.file)
				}
				chosen.file = args[0]
			}
			b, err := o.basis(cmd, chosen)
			if err != nil {
				return err
			}
			found, err := b.checked()
			if err != nil {
				return err
			}
			return answer(advise.CheckPolicy(found, cmd.OutOrStdout()))
		},
	}
	chosen.flags(c)
	return c
}

// policyWarnings says what of the configuration's own policy works in vain.
func policyWarnings(c config.Config, out io.Writer) error {
	if c.Recovery.PolicyFile == "" {
		return nil
	}
	limits := c.Limits()
	b := basis{preset: c.Recovery.Preset, file: c.Recovery.PolicyFile, limits: &limits}
	var err error
	if b.base, err = recovery.Preset(b.preset); err != nil {
		return err
	}
	if b.data, err = os.ReadFile(b.file); err != nil {
		return err
	}
	found, err := b.checked()
	if err != nil {
		return err
	}
	for _, f := range found.Faults {
		found.Warnings = append(found.Warnings, f.String())
	}
	var text strings.Builder
	advise.Warn(found.Warnings, &text)
	_, err = io.WriteString(out, text.String())
	return err
}
