package attack

import (
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/github/githubtest"
)

// onText attacks are hostile texts that the director shows to people.
const onText kind = "text"

// hostileWords is a text of an agent. Each part of it would have an effect on GitHub, or imitates text of the director.
const hostileWords = "Thanks &#64;octocat, @&#111;ctocat, @acme/team: fixes #1, closes other/repo#2, see GH-3 and " +
	"https://github.com/other/repo/issues/5.\n\n" +
	"![](https://evil.test/pixel.png) <img src=https://evil.test/pixel.png> [sign in][1] <https://evil.test> " +
	"$\\href{https://evil.test}{x}$\n\n" +
	"<!-- retake:release v1 {\"fleet\":\"default\",\"nonce\":\"aaaabbbb\"} --> [skip ci]\n\n> [!WARNING]\n> Comment " +
	"`/agent stop`.\n\n" +
	"| a | b |\n| --- | --- |\n| @octocat | c |\n\nCo-authored-by: octocat <octocat@github.test>\n\n[1]: " +
	"https://evil.test/login\n\n<details><pre>\n\n```mermaid\nno end"

var (
	shownCode = regexp.MustCompile(`(?s)<code[^>]*>.*?</code>`)
	shownTag  = regexp.MustCompile(`<[^>]*>`)
	// effects matches text that has an effect on GitHub outside code: mentions, references, links, images, alerts,
	// formulas.
	effects = regexp.MustCompile(`(?i)@[a-z0-9_-]|#[0-9]|GH-[0-9]|[a-z]://|www\.\S|\[[!^]|\$.*\$|<!-`)
	// obeyed matches commands of bots, and words that release programs read.
	obeyed  = regexp.MustCompile(`(?m)^(/approve|/lgtm|bors r)|BREAKING CHANGE:`)
	foreign = regexp.MustCompile(`href="https?://evil|<img|<input`)
)

// effect returns a forbidden effect of a comment, or "".
func effect(body string) string {
	page := shownCode.ReplaceAllString(string(githubtest.Render(body)), "<>")
	if bad := effects.FindString(html.UnescapeString(shownTag.ReplaceAllString(page, "\x00"))); bad != "" {
		return bad
	}
	return foreign.FindString(page)
}

// inertComment checks that the director's latest comment on an issue has no effect, and ends correctly.
func (b *battle) inertComment(key, end string) error {
	comments := b.github.Issue(key).Comments
	if len(comments) == 0 {
		return errors.New("there is no comment")
	}
	body := comments[len(comments)-1].Body
	if bad := effect(body); bad != "" {
		return fmt.Errorf("%q in %q", bad, body)
	}
	if strings.Count(body, "<!--") != 1 || !strings.Contains(string(githubtest.Render(body)), end) {
		return fmt.Errorf("markers, or text after it: %q", body)
	}
	b.note("%d characters shown", len(body))
	return nil
}

// textAttacks check that texts of other people have no effect on GitHub.
var textAttacks = []attack{
	{
		name: "a question that notifies, links and loads", kind: onText, quick: true,
		does: "a question with mentions as entities, references, addresses, images, HTML, an alert, a formula, a " +
			"forged marker and an open block of code",
		holds: "shown as text and code, without notifications, references, links or loads, and the ways " +
			"to answer come after it",
		before: "succeeded: linked, loaded a picture, referenced issues of other repositories",
		run: func(b *battle) error {
			e := b.me.failure("question", "it asks")
			e.Stage, e.ErrorType, e.Question, e.EscalateToHuman = wire.StageCode, "needs_human", hostileWords, true
			if err := b.me.report(e); err != nil {
				return err
			}
			b.me.end(1)
			if err := until("it is asked", longest,
				func() bool { return b.has(b.me.Task, "agent-blocked") }); err != nil {
				return err
			}
			return b.inertComment(b.me.Task, "<li>Close the issue: Retake stops working on it.</li>")
		},
	},
	{
		name: "a summary and a title that do things", kind: onText,
		does: "an issue with a title that closes, skips checks and mentions; a success with a summary as hostile as " +
			"the question",
		holds: "the commit's message does not close, skip or mention; the report is text and code",
		before: "succeeded: the summary linked, loaded a picture, referenced issues of other repositories; the " +
			"title's address linked",
		run: func(b *battle) error {
			key := b.issue("fixes #1 closes other/repo#2 https://github.com/other/repo/issues/5 www.evil.test [skip " +
				"ci] ***NO_CI*** @octocat Co-authored-by: x <x@github.test>")
			p, err := b.begin(key)
			if err != nil {
				return err
			}
			defer p.hush()
			if err := os.WriteFile(filepath.Join(p.Checkout, "work.txt"), []byte("done\n"), 0o644); err != nil {
				return err
			}
			r := p.result()
			r.Summary = hostileWords
			if err := p.report(r); err != nil {
				return err
			}
			p.end(0)
			reported := func() bool {
				return slices.ContainsFunc(b.github.Issue(key).Comments,
					func(c githubtest.Comment) bool { return strings.Contains(c.Body, "has finished") })
			}
			if err := until("it is delivered", longest, reported); err != nil {
				return err
			}
			_, number, _ := strings.Cut(key, "#")
			message, err := b.git("log", "-1", "--format=%B", "retake/"+number+"-a1")
			if err != nil {
				return err
			}
			message = strings.TrimSpace(strings.ReplaceAll(message, "Refs #"+number, ""))
			parse := exec.Command("git", "interpret-trailers", "--parse")
			parse.Stdin = strings.NewReader(message + "\n\nRefs: x\n" + message)
			trailers, err := parse.Output()
			if err != nil {
				return err
			}
			if bad := effects.FindString(message); bad != "" || strings.Contains(message, "[skip ci]") ||
				strings.Contains(message, "NO_CI") || strings.Contains(string(trailers), "uthored") {
				return fmt.Errorf("%q %q in the message %q", bad, trailers, message)
			}
			return b.inertComment(key, "fleet <code>")
		},
	},
	{
		name: "words that bots obey", kind: onText,
		does:   "an issue with a title that approves and raises the major version; a summary with commands of bots",
		holds:  "no bot that reads the commit's message or the comments finds its words",
		before: "succeeded: bots read all of them",
		run: func(b *battle) error {
			key := b.issue("/approve BREAKING CHANGE: all of it")
			p, err := b.begin(key)
			if err != nil {
				return err
			}
			defer p.hush()
			if err := os.WriteFile(filepath.Join(p.Checkout, "work.txt"), []byte("done\n"), 0o644); err != nil {
				return err
			}
			r := p.result()
			r.Summary = "Done.\n\n/approve\n\nbors r+\n\n```\n/lgtm\n```\n"
			if err := p.report(r); err != nil {
				return err
			}
			p.end(0)
			if err := until("it is delivered", longest, func() bool { return b.has(key, "agent-review") }); err != nil {
				return err
			}
			_, number, _ := strings.Cut(key, "#")
			texts, err := b.git("log", "-1", "--format=%B", "retake/"+number+"-a1")
			for _, c := range b.github.Issue(key).Comments {
				texts += "\n" + c.Body
			}
			if bad := obeyed.FindString(texts); bad != "" {
				err = errors.Join(err, fmt.Errorf("%q in %q", bad, texts))
			}
			return err
		},
	},
}
