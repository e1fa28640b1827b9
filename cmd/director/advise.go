package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/advise"
)

const readsLines = "\nReads the given files, or standard input by default. The file name - also means standard input."

func adviceCommands(o *options) []*cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Show or check the failure policy"}
	c.AddCommand(policyShowCommand(o), policyCheckCommand(o))
	return []*cobra.Command{classifyCommand(o), decideCommand(o), c}
}

const handbookNote = "\n\ndocs/specs/commands-recovery.md lists all input and output fields."

func classifyCommand(o *options) *cobra.Command {
	a := advise.Classifying{Now: time.Now}
	var rules []string
	var plain plainText
	c := &cobra.Command{
		Use: "classify [FILE...]", Short: "Classify failures given as JSON Lines; exit 1 if a line cannot be parsed",
		Long: "For every line of evidence, print its classification: reason, wait, cause and the rule that matched." +
			readsLines +
			"\nWith --text, each input is the complete output of one program." + handbookNote,
		Example: `  echo '{"text":"API Error: 529 Overloaded","exit_code":1}' | director classify
  director classify --text --exit-code 1 --tool go build.log`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			text, err := plain.of(cmd)
			if err != nil {
				return err
			}
			if a.Classifier, err = o.classifier(cmd, rules); err != nil {
				return err
			}
			return eachLine(cmd, args, func(in []advise.Source, out io.Writer) (int, error) {
				if text != nil {
					return 0, advise.ClassifyText(cmd.Context(), a, *text, in, out)
				}
				return advise.Classify(cmd.Context(), a, in, out)
			})
		},
	}
	c.Flags().StringSliceVar(&a.As, "as", nil, "also print the reason's name in each of these presets, e.g. gdd,cortex")
	c.Flags().BoolVar(&a.Explain, "explain", false, "also print the other rules that matched, and why each lost")
	c.Flags().StringArrayVar(&rules, "rules", nil, "a TOML file of rules that override the built-in rules; may be "+
		"repeated")
	plain.flags(c)
	return c
}

// plainText holds the flags for plain program output as input, instead of JSON Lines.
type plainText struct {
	on          bool
	exit        int
	stage, tool string
}

func (p *plainText) flags(c *cobra.Command) {
	c.Flags().BoolVar(&p.on, "text", false, "read plain text instead of JSON; each file is the output of one failure")
	c.Flags().IntVar(&p.exit, "exit-code", 0, "with --text: the program's exit code (default: unknown)")
	c.Flags().StringVar(&p.stage, "stage", "", "with --text: the stage that ran the program, e.g. VALIDATE")
	c.Flags().StringVar(&p.tool, "tool", "", "with --text: the program, e.g. go or claude-code")
}

// of returns the flags' values, or nil if the input is JSON Lines.
func (p *plainText) of(cmd *cobra.Command) (*advise.Text, error) {
	if !p.on {
		for _, name := range []string{"exit-code", "stage", "tool"} {
			if cmd.Flags().Changed(name) {
				return nil, fmt.Errorf("--%s works only with --text; JSON input has a field for this value", name)
			}
		}
		return nil, nil
	}
	t := &advise.Text{Stage: p.stage, Tool: p.tool}
	if cmd.Flags().Changed("exit-code") {
		t.ExitCode = &p.exit
	}
	return t, nil
}

func decideCommand(o *options) *cobra.Command {
	var chosen chosenPolicy
	var explain bool
	c := &cobra.Command{
		Use: "decide [FILE...]", Short: "Decide the next action for failure histories, given as JSON Lines; exit 1 " +
			"if a line cannot be parsed",
		Long: "Print the verdict on the last failure in every history: action, delay, meter and explanation." +
			readsLines + limitsNote + handbookNote,
		Example: `  echo '{"failures":[{"reason":"network_transient"}]}' | director decide
  echo '{"failures":[{"class":"TRANSIENT"},{"class":"TRANSIENT"}],"facts":{"has_alternative":true}}' | director decide --preset cortex`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := o.basis(cmd, chosen)
			if err != nil {
				return err
			}
			p, _, err := b.policy()
			if err != nil {
				return err
			}
			return eachLine(cmd, args, func(in []advise.Source, out io.Writer) (int, error) {
				return advise.Decide(cmd.Context(), advise.Deciding{Policy: p, Vocabulary: b.preset, Explain: explain},
					in, out)
			})
		},
	}
	chosen.flags(c)
	c.Flags().BoolVar(&explain, "explain", false, "also print the question that Retake would ask a person")
	return c
}

// eachLine passes the named files, or standard input, to run. It returns errNo if run found an invalid line.
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
