package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/project"
	"retake/internal/safefile"
	"retake/internal/terminal"
	"retake/internal/tomlfile/spelling"
)

// proposing holds the flags of `project init`.
type proposing struct {
	agent, run, from, schema string
	force, dryRun, noRun     bool
	limit                    time.Duration
}

// schemaName is the name of the JSON Schema next to the contract.
const schemaName = "retake.schema.json"

func projectInitCommand() *cobra.Command {
	var s proposing
	c := &cobra.Command{
		Use: "init [DIR]", Args: cobra.MaximumNArgs(1), Short: "Propose a contract for a repository",
		Long: "Propose a contract for the repository in DIR, and write it to .github/retake.toml. The command finds " +
			"checks in go.mod, package.json, pyproject.toml,\nsetup.cfg, tox.ini, Cargo.toml, pom.xml, build.gradle, " +
			"a Makefile and .github/workflows. It runs each check once in DIR, with your environment and rights;\n" +
			"a check that fails becomes a comment. With --from, it converts a WORKFLOW.md of Symphony or Sortie, or " +
			"a detent.yaml, and lists on stderr\nall keys without a counterpart.\n" +
			exits("written", "the file already exists", "a value is invalid, or the file cannot be written"),
		Example: "  director project init\n  director project init --agent codex --no-run --dry-run\n" +
			"  director project init --from WORKFLOW.md",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return s.propose(cmd, dir)
		},
	}
	f := c.Flags()
	f.StringVar(&s.agent, "agent", "", "agent for the CODE stage (default: claude-code): "+
		strings.Join(config.Default().Agents.Names(), ", "))
	f.StringVar(&s.run, "run", "", "custom program for the CODE stage, instead of a known agent")
	f.StringVar(&s.from, "from", "", "file to convert: a WORKFLOW.md with YAML front matter, or a detent.yaml")
	f.StringVar(&s.schema, "schema", "", "location of the JSON Schema for editors (default: write "+schemaName+
		" next to the contract)")
	f.BoolVar(&s.force, "force", false, "replace an existing file")
	f.BoolVar(&s.dryRun, "dry-run", false, "print the contract, but do not write it")
	f.BoolVar(&s.noRun, "no-run", false, "do not run the checks")
	f.DurationVar(&s.limit, "timeout", 10*time.Minute, "time limit for each check")
	c.MarkFlagsMutuallyExclusive("agent", "run")
	return c
}

func (s *proposing) propose(cmd *cobra.Command, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory, want a checkout", dir)
	}
	file := filepath.Join(dir, filepath.FromSlash(config.ContractFiles[0]))
	exists := noBecause{fmt.Errorf("%s already exists: use --force to replace it", file)}
	if _, err := os.Lstat(file); err == nil && !s.force && !s.dryRun {
		return exists
	}
	d, prompt, err := s.draft(cmd.ErrOrStderr(), dir)
	if err != nil {
		return err
	}
	if !s.noRun {
		if err := s.try(cmd.Context(), cmd.ErrOrStderr(), dir, d.Checks); err != nil {
			return err
		}
	}
	text := d.String()
	if _, problems := config.ReadContract(config.Default(), file, []byte(text), config.AnyTerms()); len(problems) > 0 {
		return problems.Err()
	}
	if s.dryRun {
		_, err := fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	}
	if err := s.write(file, text, prompt); errors.Is(err, fs.ErrExist) {
		return exists
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "written: %s\n\nnext: read it, and commit it to the base branch. The "+
		"director uses its keys if projects.allow lists them:\n  [projects]\n  allow = [\"%s\"]\n",
		file, strings.Join(keysOf(text, prompt), `", "`))
	return err
}

// keysOf returns the elements of projects.allow that a valid contract and a prompt require.
func keysOf(text, prompt string) []string {
	read, _ := config.ReadContract(config.Default(), "", []byte(text), config.AnyTerms())
	if prompt != "" {
		return append(read.Keys, project.PromptKey)
	}
	return read.Keys
}

// draft returns the proposed contract and the converted prompt, which may be empty.
func (s *proposing) draft(stderr io.Writer, dir string) (d project.Draft, prompt string, err error) {
	agents := config.Default().Agents
	if _, err := agents.Lookup(s.agent); err != nil && s.agent != "" {
		return d, "", fmt.Errorf("--agent %s: unknown profile%s", s.agent, spelling.Hint(s.agent, agents.Names()))
	}
	d = project.Detect(dir)
	if s.from != "" {
		converted, err := project.Convert(s.from)
		if err != nil {
			return d, "", err
		}
		for _, line := range converted.Left {
			fmt.Fprintln(stderr, terminal.Escaped(line))
		}
		if prompt = converted.Prompt; len(converted.Checks) == 0 {
			converted.Checks = d.Checks
		}
		converted.ImageHint = d.ImageHint
		d = converted.Draft
	}
	switch {
	case s.run != "":
		d.Code = project.Code{Run: config.Words(s.run), Seconds: d.Code.Seconds}
	case s.agent != "" && s.agent != d.Code.Agent:
		d.Code.Agent, d.Code.Model = s.agent, ""
	case d.Code.Agent == "":
		d.Code.Agent, d.Code.Model = "claude-code", ""
	}
	if d.Schema = s.schema; d.Schema == "" {
		d.Schema = "./" + schemaName
	}
	return d, prompt, nil
}

// try runs each check once, and prints the output of failed checks.
func (s *proposing) try(ctx context.Context, stderr io.Writer, dir string, checks []project.Command) error {
	for i := range checks {
		c := &checks[i]
		fmt.Fprintln(stderr, terminal.Escaped("running: "+c.String()))
		if err := project.Try(ctx, dir, c, s.limit); err != nil {
			return err
		}
		if c.Failed != "" {
			fmt.Fprintf(stderr, "%sfailed: %s; the check becomes a comment\n", withNewline(c.Output), c.Failed)
		}
	}
	return nil
}

func withNewline(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return terminal.Escaped(text)
}

func (s *proposing) write(file, text, prompt string) error {
	folder := filepath.Dir(file)
	err := safefile.MkdirAll(folder, 0o755)
	if err != nil {
		return err
	}
	write := safefile.WriteNew
	if s.force {
		write = safefile.Write
	}
	if err := write(file, 0o644, []byte(text)); err != nil {
		return err
	}
	if prompt != "" {
		if err := write(filepath.Join(folder, filepath.Base(project.PromptFile)), 0o644, []byte(prompt)); err != nil {
			return err
		}
	}
	if s.schema != "" {
		return nil
	}
	return safefile.Write(filepath.Join(folder, schemaName), 0o644, config.ContractSchema())
}
