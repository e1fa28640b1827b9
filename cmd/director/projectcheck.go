package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/project"
	"retake/internal/tomlfile/spelling"
)

// checking holds the flags of `project check`.
type checking struct {
	allow      []string
	repository string
	asJSON     bool
}

func projectCheckCommand(o *options) *cobra.Command {
	var s checking
	c := &cobra.Command{
		Use: "check [FILE|DIR]", Args: cobra.MaximumNArgs(1), Short: "Report every problem in a repository's contract",
		Long: "Report every problem in a repository's contract (.github/retake.toml or else retake.toml), with its " +
			"line. The command does not need a director, a token or a\nnetwork, so the repository's CI can run " +
			"it. Without -c, it accepts every key that a contract can have, and only knows the built-in agents and\n" +
			"policies. With -c, it applies projects.allow and the limits of that director's configuration.\n" +
			exits("no problems found", "", "the contract is invalid or missing"),
		Example: "  director project check\n  director project check -c retake.toml --repository acme/widgets " +
			"checkout/.github/retake.toml",
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "."
			if len(args) > 0 {
				path = args[0]
			}
			return s.run(cmd, o, path)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&s.allow, "allow", nil, "keys that the contract may set, instead of projects.allow")
	f.StringVar(&s.repository, "repository", "", "owner/name, to apply its [[project]] of the file given with -c")
	f.BoolVar(&s.asJSON, "json", false, "machine-readable")
	return c
}

func (s *checking) run(cmd *cobra.Command, o *options, path string) error {
	c, terms, err := s.terms(cmd, o)
	if err != nil {
		return err
	}
	file, err := project.Find(path)
	if err != nil {
		return err
	}
	data, err := project.Read(file)
	if err != nil {
		return err
	}
	report, problems := project.Check(c, file, data, terms)
	switch {
	case s.asJSON:
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	case report.OK:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), report)
	}
	if err == nil {
		err = problems.Err()
	}
	return err
}

// terms returns the repository's configuration, and the operator's rules for its contract. It reads a configuration
// only if it was given, because retake.toml in the working directory may be the contract.
func (s *checking) terms(cmd *cobra.Command, o *options) (config.Config, config.Terms, error) {
	for _, key := range s.allow {
		if known := project.Allowed(); !slices.Contains(known, key) {
			return config.Config{}, config.Terms{}, fmt.Errorf("--allow %s: unknown key%s", key,
				spelling.Hint(key, known))
		}
	}
	terms := config.AnyTerms()
	c := config.Default()
	if cmd.Flags().Changed("config") || cmd.Flags().Changed("set") {
		asked := o.on(o.file)
		var err error
		if c, err = asked.load(); err != nil {
			return c, terms, err
		}
		terms = config.Terms{Allow: c.ProjectsAllow, Limited: true}
	} else if s.repository != "" {
		return c, terms, fmt.Errorf("--repository selects a [[project]], so it requires -c")
	}
	if len(s.allow) > 0 {
		terms.Allow = s.allow
	}
	return c.For(s.repository), terms, nil
}

func projectShowCommand(o *options) *cobra.Command {
	var contract string
	var asJSON bool
	c := &cobra.Command{
		Use: "show OWNER/NAME", Args: needs(cobra.ExactArgs(1), "want one repository, e.g. acme/widgets"),
		Short: "Print a repository's settings, and where they came from",
		Long: "Print each key that can differ between repositories, with its effective value and origin: default, " +
			"file:line, variable, flag, policy, [[project]] or contract.\nThe contract is the file given with " +
			"--contract or, in a checkout of the repository, the checkout's contract. The command does not ask a " +
			"running director.",
		RunE: func(cmd *cobra.Command, args []string) error {
			repo := args[0]
			if !config.IsRepository(repo) {
				return fmt.Errorf("%q is not a repository, want owner/name", repo)
			}
			cfg, err := o.load()
			if err != nil {
				return err
			}
			text, err := contractOf(cmd, cfg, repo, contract)
			if err != nil {
				return err
			}
			settings, problems := config.ProjectSettings(o.file, os.Environ(), o.set, repo, text)
			if err := problems.Err(); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(settings)
			}
			return showSettings(cmd.OutOrStdout(), settings)
		},
	}
	c.Flags().StringVar(&contract, "contract", "", "the repository's contract")
	c.Flags().BoolVar(&asJSON, "json", false, "machine-readable")
	return c
}

// contractOf returns the contract to show, or nil. It warns if the director would not use it, or does not know the
// repository.
func contractOf(cmd *cobra.Command, c config.Config, repo, file string) (*config.NamedText, error) {
	if !slices.ContainsFunc(c.GitHub.Repositories, func(r string) bool { return strings.EqualFold(r, repo) }) {
		cmd.PrintErrln("warning: github.repositories does not contain " + repo)
	}
	if file == "" {
		if file = contractHere(cmd, repo); file == "" {
			return nil, nil
		}
	}
	data, err := project.Read(file)
	if err != nil {
		return nil, err
	}
	if len(c.ProjectsAllow) == 0 {
		cmd.PrintErrln("warning: " + file + " is not used, because projects.allow is empty")
		return nil, nil
	}
	return &config.NamedText{Name: file, Data: data}, nil
}

// contractHere returns the contract in the working directory, if that is the root of a checkout of the repository.
func contractHere(cmd *cobra.Command, repo string) string {
	if _, err := os.Lstat(".git"); err != nil {
		return ""
	}
	urls, err := exec.CommandContext(cmd.Context(), "git", "config", "--get-regexp", `^remote\..*\.url$`).Output()
	of := regexp.MustCompile(`(?mi)[/:]` + regexp.QuoteMeta(repo) + `(\.git)?/?$`)
	if err != nil || !of.Match(urls) {
		return ""
	}
	file, err := project.Find(".")
	if err != nil {
		return ""
	}
	if _, err := project.Read(file); err != nil && filepath.Base(file) == file {
		return "" // a director's configuration
	}
	return file
}
