package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"retake/internal/advise"
	"retake/internal/config"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

const limitsNote = `
By default, the preset and limits are the built-in ones.
With --config, --set, RETAKE_CONFIG or a retake.toml in the working directory, they come from the configuration.`

// classifier returns a classifier with the rules from the given files or, if there are no files, from the
// configuration.
func (o *options) classifier(cmd *cobra.Command, files []string) (*classify.Classifier, error) {
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
	return classify.New(rules...)
}

// chosenPolicy holds the flags that select a policy.
type chosenPolicy struct{ preset, file string }

func (p *chosenPolicy) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.preset, "preset", "", "a built-in policy: director, reviewcat, gdd, cortex, prp, dispatch")
	c.Flags().StringVar(&p.file, "policy", "", "a TOML file with rows that override the preset's rows")
}

// basis is the source of a policy.
type basis struct {
	preset string
	base   *policy.Policy
	file   string // file of the user's rows, or ""
	data   []byte
	limits *policy.Limits // nil means the built-in limits
	whose  string         // describes the source of the limits
}

func newBasis(preset, file string, limits *policy.Limits, whose string) (b basis, err error) {
	b = basis{preset: cmp.Or(preset, policy.Presets[0]), file: file, limits: limits, whose: whose}
	if !slices.Contains(policy.Presets, b.preset) {
		return b, fmt.Errorf("--preset %s: want one of %s", b.preset, strings.Join(policy.Presets, ", "))
	}
	if b.base, err = policy.Preset(b.preset); err == nil && b.file != "" {
		b.data, err = os.ReadFile(b.file)
	}
	return b, err
}

// basis returns the source of the selected policy. A file from the flags replaces the configured one.
func (o *options) basis(cmd *cobra.Command, chosen chosenPolicy) (b basis, err error) {
	if !configured(cmd) {
		c, problems := config.Load("", nil, nil)
		limits := c.Limits()
		b, err = newBasis(chosen.preset, chosen.file, &limits, "the built-in limits")
		return b, cmp.Or(problems.Err(), err)
	}
	asked, whose := o.asked(cmd), "the limits set with --set"
	if err := asked.find(); err != nil {
		return b, err
	}
	if asked.file != "" {
		whose = "the limits of " + asked.file
	}
	if chosen != (chosenPolicy{}) {
		asked.set = map[string]string{}
		maps.Copy(asked.set, o.set)
		asked.set["recovery.policy_file"] = ""
	}
	c, err := asked.load()
	if err != nil {
		return b, err
	}
	limits := c.Limits()
	return newBasis(cmp.Or(chosen.preset, c.Recovery.Preset), cmp.Or(chosen.file, c.Recovery.PolicyFile), &limits,
		whose)
}

// policy returns the policy with the limits applied, and the settings that the limits override.
func (b basis) policy() (p *policy.Policy, overruled []string, err error) {
	p = b.base
	if b.file != "" {
		if p, err = policy.Parse(b.file, b.base, b.data); err != nil {
			return nil, nil, err
		}
	}
	if b.limits != nil {
		overruled, p = p.Overruled(*b.limits), p.With(*b.limits)
	}
	return p, overruled, nil
}

// checked returns every finding about the policy.
func (b basis) checked() (c advise.Checked, err error) {
	c = advise.Checked{Name: cmp.Or(b.file, b.preset), Limits: b.whose}
	if b.file == "" {
		c.Policy, _, err = b.policy()
		c.Faults = c.Policy.Check()
		return c, err
	}
	if c.Policy, c.Faults, err = policy.Review(b.file, b.base, b.data, b.limits); err == nil && c.Policy != nil {
		_, c.Warnings, _ = b.policy() // c.Faults already has this policy's problems
	}
	return c, err
}

func policyShowCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print the failure policy as a table",
		Long: "Print the failure policy as a table." + limitsNote,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.basis(cmd, chosen)
			if err != nil {
				return err
			}
			p, warnings, err := b.policy()
			if err != nil {
				return err
			}
			if asJSON {
				return advise.ShowPolicyJSON(p, cmd.OutOrStdout(), warnings...)
			}
			return advise.ShowPolicy(p, cmd.OutOrStdout(), warnings...)
		},
	}
	chosen.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the table as JSON")
	return c
}

func policyCheckCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	c := &cobra.Command{
		Use: "check [FILE]", Args: cobra.MaximumNArgs(1),
		Short: "Report invalid, unreachable or endless policy rows; exit 1 if there are any",
		Long: "Report invalid, unreachable or endless policy rows; exit 1 if there are any. The argument FILE is " +
			"equivalent to --policy FILE." + limitsNote,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if chosen.file != "" {
					return fmt.Errorf("policy check %s --policy %s: specify only one file", args[0], chosen.file)
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

// policyWarnings returns the problems of the configured policy, and the settings that it ignores.
func policyWarnings(c config.Config) ([]string, error) {
	if c.Recovery.PolicyFile == "" {
		return nil, nil
	}
	limits := c.Limits()
	b, err := newBasis(c.Recovery.Preset, c.Recovery.PolicyFile, &limits, "")
	if err != nil {
		return nil, err
	}
	found, err := b.checked()
	if err != nil {
		return nil, err
	}
	for _, f := range found.Faults {
		found.Warnings = append(found.Warnings, f.String())
	}
	return found.Warnings, nil
}
