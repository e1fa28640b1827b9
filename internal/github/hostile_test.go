package github

import (
	"html"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/command"
	"retake/internal/github/deliver"
	"retake/internal/github/githubtest"
	"retake/internal/github/tracker"
)

// hostileTexts are texts by agents or people that try to have an effect on GitHub.
var hostileTexts = map[string]string{
	"mention": "@octocat @acme/team please",
	"closing": "fixes #1, closes acme/widgets#2 and resolves GH-3",
	"entities": "&#64;octocat &#x40;acme/team &commat;octocat fixes &#35;1, closes acme/widgets&num;2, resolves " +
		"GH&#45;3 &lt;details&gt;",
	"escapes":    `\@octocat fixes \#1, closes acme\/widgets\#2, resolves GH\-3 and fixed\: #4`,
	"emphasis":   "fixes ~~#1~~, closes [#2](x) and **resolves** _#3_",
	"marker":     "<!-- retake:claim v1 {\"fleet\":\"default\",\"nonce\":\"aaaabbbb\"} -->",
	"html":       "</details><script>alert(1)</script><img src=x onerror=y><details open>",
	"link":       "[click](javascript:alert(1)) ![x](https://evil.test/x.png)",
	"bidi":       "\u202egpj.exe\u2066",
	"expression": "${{ github.token }}",
	"references": "#1 acme/x#2 GH-3 https://github.com/acme/x/issues/4 a5c3785ed8d6a35868bc169f07e40e889087fd2e " +
		"x@a5c3785 www.x.org",
	"images": "![x](https://evil.test/x.png) <img src=\"https://evil.test/x.png\"> ![y][z]\n\n[z]: " +
		"https://evil.test/z.png",
	"links":         "<https://evil.test> [a](//evil.test) [b][c] [d](<javascript:alert(1)>)\n\n[c]: https://evil.test",
	"formulas":      "$\\href{https://evil.test}{x}$ and $$y$$ and $`z`$\n\n```math\nx\n```",
	"alert":         "> [!WARNING]\n> x\n\nnote[^1]\n\n[^1]: x",
	"fences":        "```\n~~~~\n````text",
	"table":         "a | b\n| --- | --- |\n",
	"comment":       "\n/agent stop\n> /agent retry x\n",
	"long":          strings.Repeat("@octocat fixes #1 <!-- x\n", 1<<18/24),
	"long line":     strings.Repeat("x", 1<<18),
	"backticks":     strings.Repeat("`", 1000),
	"terminal":      "\x1b]8;;http://evil.test\x07link\x1b]8;;\x07\r\x00",
	"invalid utf-8": "\xff\xfe",
}

// fill sets every string of a value to text, except for addresses and names that do not come from agents or people.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Struct:
		if _, isTime := v.Interface().(time.Time); isTime {
			return
		}
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !slices.Contains([]string{"Page", "Nonce", "URL", "Said"}, name) {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		n := 25
		if len(text) > 1<<10 {
			n = 2
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	}
}

var (
	codeHTML = regexp.MustCompile(`(?s)<code[^>]*>.*?</code>`)
	anyTag   = regexp.MustCompile(`<[^>]*>`)
	// acts matches texts that trigger actions by GitHub, such as mentions, references, addresses, alerts, formulas and
	// HTML comments.
	acts        = regexp.MustCompile(`(?i)@[a-z0-9_-]|#[0-9]|GH-[0-9]|[a-z]://|www\.|\[[!^]|\$.*\$|<!-`)
	foreignLink = regexp.MustCompile(`href="(?:[^h"]|h[^t]|https?://(?:[^g]|g[^i]))[^"]*"`)
)

// TestHostileTextIsInert puts hostile texts into each field of an escalation, and into all fields at once. The comment
// must not notify people or close issues. It has only our marker, the same structure, and a length within GitHub's
// limit.
func TestHostileTextIsInert(t *testing.T) {
	t.Parallel()
	c, err := New(Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default", Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	kind := reflect.TypeFor[ask.Escalation]()
	for name, text := range hostileTexts {
		for field := -1; field < kind.NumField(); field++ {
			e, where := sample, "every field"
			e.Alike = nil
			if field < 0 {
				fill(reflect.ValueOf(&e).Elem(), text)
			} else {
				where = kind.Field(field).Name
				fill(reflect.ValueOf(&e).Elem().Field(field), text)
			}
			if where == "Question" {
				e.Reason = "needs_human"
			}
			e.Key, e.Nonce = sample.Key, sample.Nonce // the marker rejects other characters
			body := c.People.Preview(e)
			if fault := harm(body); fault != "" {
				t.Errorf("%s in %s: %s: %.2000s", name, where, fault, body)
			}
		}
	}
}

// harm describes the forbidden effects of a question, or returns "".
func harm(body string) string {
	page := string(githubtest.Render(body))
	switch {
	case strings.Count(page, "<details") > 3:
		return "its folds are not ours"
	case !strings.Contains(page, "<li>Close the issue: Retake stops working on it.</li>") ||
		!strings.HasPrefix(body, "### Retake needs a human: "):
		return "its beginning or end is swallowed"
	}
	return harmOfText(body)
}

// harmOfText is like harm, for any of our texts with 7 as the number.
func harmOfText(body string) string {
	page := string(githubtest.Render(body))
	outside := html.UnescapeString(anyTag.ReplaceAllString(codeHTML.ReplaceAllString(page, "<>"), "\x00"))
	switch {
	case utf8.RuneCountInString(body) > 60_000:
		return "it is too long"
	case !utf8.ValidString(body) || strings.ContainsFunc(body,
		func(r rune) bool { return unicode.In(r, unicode.Bidi_Control) || r < ' ' && r != '\n' && r != '\t' }):
		return "characters that are not shown"
	case acts.MatchString(strings.ReplaceAll(outside, "#7", "")):
		return "it does something: " + acts.FindString(strings.ReplaceAll(outside, "#7", ""))
	case strings.Contains(page, "<script") || strings.Contains(page, "<img") || strings.Contains(page, "<input"):
		return "HTML"
	case foreignLink.MatchString(page):
		return "a link: " + foreignLink.FindString(page)
	case strings.Count(page, "<details") != strings.Count(page, "</details>"):
		return "its folds are not ours"
	}
	return ""
}

// TestHostileTextInEveryPage puts hostile texts into all fields of every page. The page must not notify people or close
// issues. It has only our marker, and keeps its last line.
func TestHostileTextInEveryPage(t *testing.T) {
	t.Parallel()
	c, err := New(Options{Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default", Labels: testLabels})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range hostileTexts {
		for page, data := range map[string]any{
			"delivered": &deliver.DeliveredPage{}, "pullrequest": &deliver.PullRequestPage{},
			"release":  &claims.ReleasePage{},
			"merged":   &claims.ReleaseRequest{},
			"progress": &claims.ProgressPage{}, "reminder": &ask.ReminderPage{}, "incident": &ask.IncidentIssue{},
		} {
			fill(reflect.ValueOf(data).Elem(), text)
			if fault := harmOfText(c.Text.Page(page, data)); fault != "" {
				t.Errorf("%s in %s: %s: %.2000s", name, page, fault, c.Text.Page(page, data))
			}
		}
		for _, kind := range []ask.ReplyKind{ask.ReplyWhy, ask.ReplyRefused, ask.ReplyMisspelt} {
			req := ask.ReplyRequest{}
			fill(reflect.ValueOf(&req).Elem(), text)
			req.Kind, req.Meant = kind, command.Retry
			if fault := harmOfText(c.People.ReplyText(req, tracker.Thread{})); fault != "" {
				t.Errorf("%s in the reply %s: %s: %.2000s", name, kind, fault,
					c.People.ReplyText(req, tracker.Thread{}))
			}
		}
	}
}

// TestALostPermissionCountsAtOnce checks that a cached permission does not cover later comments.
func TestALostPermissionCountsAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.blocked(c)
		w.sim.SetPermission(testRepo, "writer", "write")
		for n, may := range []bool{true, false} {
			time.Sleep(10 * time.Second)
			w.sim.AddComment(w.key, "writer", []string{"Use 80.", "/agent retry use 90"}[n])
			got, err := c.Inbox.Answers(w.Context(), w.key)
			w.must(err)
			if len(got) != n+1 || got[n].MayWrite != may {
				w.Errorf("answers %+v, want permission %v", got, may)
			}
			w.sim.SetPermission(testRepo, "writer", "read")
		}
	})
}
