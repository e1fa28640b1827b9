package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"retake/internal/config"
	"retake/internal/safefile"
	"retake/internal/tomlfile/spelling"
)

// starting holds the flags of `config init`, and asks the user for missing ones.
type starting struct {
	repositories, checks          []string
	image, agent, run, branch, rt string
	output                        string
	writes, force                 bool
}

func configInitCommand(_ *options) *cobra.Command {
	var s starting
	d := config.Default()
	c := &cobra.Command{
		Use: "init", Args: cobra.NoArgs, Short: "Write a short commented configuration",
		Long: "Write a short commented configuration for your repository. On a terminal, the command asks for " +
			"missing values; otherwise it requires --repository and\n--agent (or --run). It overwrites an existing " +
			"file only with --force.\n" + exits("written", "the file already exists",
			"a value is invalid, or the file cannot be written"),
		Example: "  director config init\n  director config init --repository acme/widgets --image acme/dev:1 " +
			"--agent claude-code --check \"go test ./...\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Lstat(s.output); err == nil && !s.force {
				return noBecause{fmt.Errorf("%s already exists: use --force to replace it, or --output to choose "+
					"another file",
					s.output)}
			}
			if err := s.complete(cmd, isTerminal(cmd.InOrStdin())); err != nil {
				return err
			}
			return s.write(cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringSliceVar(&s.repositories, "repository", nil, "owner/name; may be repeated")
	f.StringVar(&s.image, "image", d.Containers.Image, "worker image; must contain the programs that the stages run")
	f.StringVar(&s.agent, "agent", "", "agent for the CODE stage: "+strings.Join(d.Agents.Names(), ", "))
	f.StringVar(&s.run, "run", "", "custom program for the CODE stage, instead of a known agent")
	f.StringArrayVar(&s.checks, "check", nil, `a check that the work must pass, e.g. "go test ./..."; may be repeated`)
	f.StringVar(&s.branch, "base-branch", d.GitHub.BaseBranch, "branch to start work from")
	f.StringVar(&s.rt, "runtime", "", "docker or process (default: docker)")
	f.BoolVar(&s.writes, "writes", false, "set github.writes = true, so that the director claims issues as soon as "+
		"it starts")
	f.StringVar(&s.output, "output", config.LocalFile, "file to write")
	f.BoolVar(&s.force, "force", false, "replace an existing file")
	c.MarkFlagsMutuallyExclusive("agent", "run")
	return c
}

// question asks for one missing flag.
type question struct {
	flag, text string
	needed     bool
	put        func(string)
}

func (s *starting) questions() []question {
	return []question{
		{"repository", "GitHub repository (owner/name)", true, func(t string) { s.repositories = words(t) }},
		{"base-branch", "Branch to start work from", false, func(t string) { s.branch = t }},
		{
			"image", "Worker image, with all tools that your checks need",
			false, func(t string) { s.image = t },
		},
		{
			"agent", "Agent (" + strings.Join(config.Default().Agents.Names(), ", ") + ")", true,
			func(t string) { s.agent = t },
		},
		{
			"check", `Command that checks the work, such as "go test ./..." (empty: none)`, false,
			func(t string) { s.checks = append(s.checks, t) },
		},
	}
}

func words(t string) []string {
	return strings.FieldsFunc(t, func(r rune) bool { return r == ',' || r == ' ' })
}

// complete asks for missing flags if ask is set. Otherwise it returns an error that lists the required ones.
func (s *starting) complete(cmd *cobra.Command, ask bool) error {
	in, out := bufio.NewReader(cmd.InOrStdin()), cmd.OutOrStdout()
	var missing []string
	for _, q := range s.questions() {
		switch {
		case cmd.Flags().Changed(q.flag), q.flag == "agent" && s.run != "":
		case ask:
			if err := q.ask(in, out, cmd.Flags().Lookup(q.flag).DefValue); err != nil {
				return err
			}
		case q.needed:
			missing = append(missing, "--"+q.flag)
		}
	}
	if missing != nil {
		return fmt.Errorf("cannot ask for missing values without a terminal: add %s, e.g. director config init "+
			"--repository acme/widgets --agent claude-code", strings.Join(missing, " and "))
	}
	return nil
}

func (q question) ask(in *bufio.Reader, out io.Writer, def string) error {
	if def == "[]" {
		def = ""
	}
	for {
		text := q.text
		if def != "" {
			text += " [" + def + "]"
		}
		fmt.Fprint(out, text+": ")
		said, err := in.ReadString('\n')
		said = strings.TrimSpace(said)
		switch {
		case said != "":
			q.put(said)
			return nil
		case err != nil:
			return errors.New("the input ended before all questions were answered, so no file was written")
		case !q.needed:
			return nil
		}
	}
}

// write validates and creates the file, and prints the next steps.
func (s *starting) write(out io.Writer) error {
	d := config.Default()
	if _, err := d.Agents.Lookup(s.agent); err != nil && s.agent != "" {
		return fmt.Errorf("--agent %s: unknown profile%s", s.agent, spelling.Hint(s.agent, d.Agents.Names()))
	}
	start := config.Starter{
		Repositories: s.repositories, BaseBranch: s.branch, Image: s.image, Runtime: s.rt, Agent: s.agent,
		Run:  config.Words(s.run),
		Pass: d.KeysOfAgent(s.agent, os.LookupEnv), Writes: s.writes,
	}
	for _, check := range s.checks {
		start.Checks = append(start.Checks, config.Words(check))
	}
	text := start.String()
	c, problems := config.Parse(s.output, []byte(text), nil, nil)
	if err := problems.Err(); err != nil {
		return err
	}
	err := safefile.MkdirAll(filepath.Dir(s.output), 0o755)
	if err == nil {
		write := safefile.WriteNew
		if s.force {
			write = safefile.Write
		}
		err = write(s.output, 0o644, []byte(text))
	}
	if errors.Is(err, fs.ErrExist) {
		return noBecause{fmt.Errorf("%s already exists: use --force to replace it, or --output to choose another "+
			"file", s.output)}
	}
	if err != nil {
		return err
	}
	named := ""
	if s.output != config.LocalFile {
		named = " -c " + s.output
	}
	fmt.Fprintf(out, "written: %s\n\nnext:\n", s.output)
	for _, name := range append([]string{c.GitHub.TokenEnv}, start.Pass...) {
		if os.Getenv(name) == "" {
			fmt.Fprintf(out, "  export %s=…\n", name)
		}
	}
	_, err = fmt.Fprintf(out, "  director doctor%s\n  director run%s\n", named, named)
	return err
}

// isTerminal reports whether in is a terminal, where a person can answer.
func isTerminal(in any) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS) //nolint:gosec // a descriptor
	return err == nil
}
