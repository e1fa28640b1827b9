package main

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/advise"
)

const readsLines = "\nReads the named files, or standard input; - is standard input among files."

func adviceCommands(o *options) []*cobra.Command {
	c := &cobra.Command{
		Use: "policy", Args: cobra.NoArgs, Short: "Show or check what decides about failures",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("director policy: say which: show or check; director policy --help tells more")
		},
	}
	c.AddCommand(policyShowCommand(o), policyCheckCommand(o))
	return []*cobra.Command{classifyCommand(o), decideCommand(o), c}
}

func classifyCommand(o *options) *cobra.Command {
	a := advise.Classifying{Now: time.Now}
	var rules []string
	c := &cobra.Command{
		Use: "classify [FILE...]", Short: "Say what failures mean: JSON Lines in, JSON Lines out; exit 1 if a line could not be read",
		Long: "Say of every line of evidence what it means: reason, wait, cause and the rule that decided." + readsLines,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if a.Classifier, err = o.classifier(cmd, rules); err != nil {
				return err
			}
			return eachLine(cmd, args, func(in []advise.Source, out io.Writer) (int, error) {
				return advise.Classify(cmd.Context(), a, in, out)
			})
		},
	}
	c.Flags().StringSliceVar(&a.As, "as", nil, "add the word of these presets, e.g. gdd,cortex")
	c.Flags().BoolVar(&a.Explain, "explain", false, "add the rules that matched, and why each lost")
	c.Flags().StringArrayVar(&rules, "rules", nil, "a TOML file of rules over the built-in ones; may be repeated")
	return c
}

func decideCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	c := &cobra.Command{
		Use: "decide [FILE...]", Short: "Say what histories of failures lead to: JSON Lines in, JSON Lines out; exit 1 if a line could not be read",
		Long: "Say of every history of failures what its last one leads to: action, delay, meter and why." + readsLines + limitsNote,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, vocabulary, err := o.policy(cmd, chosen)
			if err != nil {
				return err
			}
			return eachLine(cmd, args, func(in []advise.Source, out io.Writer) (int, error) {
				return advise.Decide(cmd.Context(), advise.Deciding{Policy: p, Vocabulary: vocabulary}, in, out)
			})
		},
	}
	chosen.flags(c)
	return c
}

func policyShowCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Args: cobra.NoArgs, Short: "Print the table that decides about failures", Long: "Print the table that decides about failures." + limitsNote,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, _, err := o.policy(cmd, chosen)
			if err != nil {
				return err
			}
			if asJSON {
				return advise.ShowPolicyJSON(p, cmd.OutOrStdout())
			}
			return advise.ShowPolicy(p, cmd.OutOrStdout())
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				chosen.file = args[0]
			}
			p, _, err := o.policy(cmd, chosen)
			if err != nil {
				return answer(advise.RefusedPolicy(err, cmd.OutOrStdout()))
			}
			return answer(advise.CheckPolicy(p, cmd.OutOrStdout()))
		},
	}
	chosen.flags(c)
	return c
}

// eachLine runs a stream over the named files, or standard input; the answer is no if any line was bad.
func eachLine(cmd *cobra.Command, files []string, run func([]advise.Source, io.Writer) (int, error)) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var in []advise.Source
	for _, name := range files {
		s := advise.Source{Reader: cmd.InOrStdin()}
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			s.Reader = f
		}
		if len(files) > 1 {
			s.Name = name
		}
		in = append(in, s)
	}
	bad, err := run(in, cmd.OutOrStdout())
	return answer(bad == 0, err)
}
