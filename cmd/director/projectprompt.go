package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"retake/internal/agent"
	"retake/internal/agent/prompts"
	"retake/internal/config"
	"retake/internal/director"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/preflight"
	"retake/internal/fsm"
	"retake/internal/safefile"
	"retake/internal/workspace"
)

func projectPromptCommand(o *options) *cobra.Command {
	var p prompting
	c := &cobra.Command{
		Use: "prompt ISSUE", Args: cobra.MaximumNArgs(1),
		Short: "Print the prompt for an issue, without starting anything",
		Long: "Print the prompt of an issue's first attempt: with the template on the base branch (" +
			config.PromptFile + "), if projects.allow contains " + config.PromptKey + ", or with --template.\n" +
			"The command only reads the issue and the base branch. It shows the issue's current text; agents get the " +
			"approved text.\n\n" +
			fmt.Sprintf("A template is a Go text/template of at most %d bytes. ", prompts.MaxTemplate) +
			"Retake's rules precede its text, and the cause of a failed check follows it.\nText from people and " +
			"programs always appears as a quotation on separate lines. Fields ([] stands for {{range}}, nested at " +
			"most twice;\nlists contain the newest 20 " +
			"elements):\n\n  " + strings.Join(prompts.Fields(), "\n  ") + "\n\nFunctions:\n\n  " +
			strings.Join(prompts.Functions, "\n  ") + "\n\n" +
			exits("printed", "the template or the contract has problems", "the command failed"),
		Example: "  director project prompt acme/widgets#21\n" +
			"  director project prompt --sample --template " + config.PromptFile,
	}
	c.Flags().StringVar(&p.template, "template", "", "read the template from this local `FILE`")
	c.Flags().BoolVar(&p.sample, "sample", false, "use a sample issue with answers and failures, without GitHub")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if p.sample == (len(args) == 1) {
			return errors.New("want either one issue (" + issueWanted + ") or --sample")
		}
		return p.run(cmd, o, args)
	}
	return c
}

// prompting holds the flags of the command, and runs it.
type prompting struct {
	template string
	sample   bool
}

func (p *prompting) run(cmd *cobra.Command, o *options, args []string) error {
	var cfg config.Config
	var key fsm.IssueKey
	var broken, err error
	if p.sample {
		cfg, err = o.loadIf(cmd)
	} else if key, cfg, broken, err = o.issue(args[0]); err == nil {
		err = broken
	}
	if err != nil {
		return err
	}
	task, in := prompts.CodeSample(true), &inforce.Setup{Config: cfg}
	if !p.sample {
		if task, in, err = p.read(cmd.Context(), cfg, key); err != nil {
			return err
		}
	}
	text, name := in.Prompt, config.PromptFile
	if p.template != "" {
		data, err := os.ReadFile(p.template)
		if err != nil {
			return err
		}
		text, name = string(data), p.template
	}
	if text != "" || p.template != "" {
		if err := config.CheckPrompt(in.Config, name, []byte(text)).Err(); err != nil {
			return noBecause{err}
		}
		task.Template, _ = prompts.ParseTemplate(text)
	}
	if task.Template == nil && !config.AllowsPrompt(in.Config) {
		fmt.Fprintf(cmd.ErrOrStderr(), "This is the default prompt, because projects.allow does not contain %s.\n",
			config.PromptKey)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), agent.Prompt(task, config.PromptBytes(in.Config)))
	return err
}

// read reads the issue from GitHub, and the repository's files from the base branch.
func (p *prompting) read(ctx context.Context, cfg config.Config, k fsm.IssueKey) (t agent.Task, in *inforce.Setup,
	err error,
) {
	with, err := credential(cfg, zap.NewNop(), director.Options{Config: cfg})
	if err != nil {
		return t, nil, err
	}
	gh, _, err := preflight.GitHub(ctx, preflight.Options{Config: cfg, Token: with.Token, Login: with.Login})
	if err != nil {
		return t, nil, err
	}
	if p.template != "" { // the template on the base branch may be the broken one
		cfg.ProjectsAllow = slices.DeleteFunc(slices.Clone(cfg.ProjectsAllow),
			func(key string) bool { return key == config.PromptKey })
	}
	setup, err := inforce.New(cfg, nil)
	if err != nil {
		return t, nil, err
	}
	dir, err := os.MkdirTemp("", "retake-prompt-")
	if err != nil {
		return t, nil, err
	}
	defer func() { err = errors.Join(err, safefile.RemoveAll(dir)) }()
	mirror, err := workspace.Open(workspace.Options{
		Dir: dir, Auth: func(ctx context.Context) (user, token string, err error) {
			token, err = with.Token(ctx)
			return "x-access-token", token, err
		},
	})
	if err != nil {
		return t, nil, err
	}
	contracts := &effects.Contracts{
		Setup: func() *inforce.Setup { return setup }, Workspace: mirror,
		Origin: effects.Origin{
			APIURL:     cfg.GitHub.APIURL,
			BaseBranch: func(repo string) string { return cfg.For(repo).GitHub.BaseBranch },
		},
	}
	t, in, err = contracts.FirstPrompt(ctx, gh, k)
	if _, broken := errors.AsType[*failure.Contract](err); broken {
		err = noBecause{err}
	}
	return t, in, err
}
