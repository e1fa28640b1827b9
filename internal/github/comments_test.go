package github

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/command"
	"retake/internal/github/githubtest"
	"retake/internal/github/tracker"
)

// listen returns a client with the cursor of its first poll.
func (w *world) listen() (*Client, string) {
	w.Helper()
	c := w.client("retake-bot")
	first, err := c.Inbox.Comments(w.Context(), testRepo, "")
	if w.must(err); len(first.Said) != 0 || first.Cursor != api.Format(time.Now()) {
		w.Fatalf("first poll = %+v", first)
	}
	return c, first.Cursor
}

// hears polls once, compares the comments in order, and returns the cursor.
func (w *world) hears(c *Client, cursor string, want ...string) string {
	w.Helper()
	got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
	w.must(err)
	var said []string
	for _, s := range got.Said {
		said = append(said, s.By+": "+s.Text)
	}
	if !slices.Equal(said, want) {
		w.Errorf("heard %q, want %q", said, want)
	}
	return got.Cursor
}

func TestAnIdleLookAtCommentsIsOneConditionalRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.sim.AddComment(w.key, "acme", "/agent retry before the start")
		time.Sleep(time.Minute)
		c, cursor := w.listen()
		for _, write := range []func(){func() {}, func() { w.sim.AddComment(w.key, "acme", "hello") }} {
			write()
			for range 2 { // the second poll uses the new cursor
				got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
				w.must(err)
				cursor = got.Cursor
			}
			before := len(w.sim.Requests())
			for range 5 {
				time.Sleep(30 * time.Second)
				cursor = w.hears(c, cursor)
			}
			for _, r := range w.sim.Requests()[before:] {
				if r.Status != http.StatusNotModified {
					w.Errorf("idle request = %+v, want 304", r)
				}
			}
			if n := len(w.sim.Requests()) - before; n != 5 {
				w.Errorf("%d requests for 5 looks", n)
			}
		}
	})
}

// TestWhoIsHeard checks that only comments by people are returned, and which of their commands count.
func TestWhoIsHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		for login, permission := range map[string]string{
			"writer": "write", "maintainer": "maintain",
			"triager": "triage", "reader": "read", "helper[bot]": "write",
		} {
			w.sim.SetPermission(testRepo, login, permission)
		}
		c, cursor := w.listen()
		w.claimed(c)
		w.must(operations["deliver"].run(w.Context(), w, c))
		marked := w.marked(tracker.MarkClaim)[0].Body
		time.Sleep(time.Second)
		pull := testRepo + "#2"
		w.sim.AddComment(w.key, "helper[bot]", "/agent stop")
		w.sim.AddComment(w.key, "reader", marked+"\n/agent stop")
		w.sim.AddComment(w.key, "retake-bot", marked+"\n/agent stop")
		w.sim.AddComment(w.key, "reader", "I agree")
		want := map[string]bool{
			"retake-bot": true, "acme": true, "writer": true, "maintainer": true, "triager": false,
			"reader": false, "outsider": false,
		}
		for login := range want {
			w.sim.AddComment(pull, login, "@retake-bot fix it for "+login)
		}
		got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
		w.must(err)
		if len(got.Said) != len(want)+1 {
			w.Fatalf("%d comments reached the director, want %d: %+v", len(got.Said), len(want)+1, got.Said)
		}
		if s := got.Said[0]; s.Issue != w.key || s.PullRequest || s.Command != command.None || s.By != "reader" {
			w.Errorf("a plain comment = %+v", s)
		}
		for _, s := range got.Said[1:] {
			if s.Issue != pull || !s.PullRequest || s.Command != command.Fix || s.Rest != "it for "+s.By ||
				s.MayWrite != want[s.By] || s.Acknowledged {
				w.Errorf("a command = %+v, want may write %v", s, want[s.By])
			}
		}
		// The permission for a plain comment is read on demand.
		w.sim.AddComment(w.key, "writer", "use B")
		got, err = c.Inbox.Comments(w.Context(), testRepo, got.Cursor)
		if w.must(err); len(got.Said) != 1 || got.Said[0].MayWrite {
			w.Fatalf("heard %+v", got.Said)
		}
		if w.must(c.Inbox.Vet(w.Context(), w.key, &got.Said[0].Answer)); !got.Said[0].MayWrite {
			w.Errorf("vetted: %+v", got.Said[0])
		}
	})
}

// TestADeletedAccountIsNotHeard checks comments by deleted accounts. GitHub returns them without an author or with a
// shared placeholder.
func TestADeletedAccountIsNotHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		_, cursor := w.listen()
		// Do not validate the answers below, because they are incomplete.
		c := w.client("retake-bot", func(o *Options) { o.Transport = w.sim.Transport() })
		for author, want := range map[string][]string{
			`null`: nil, `{"login":"","id":1,"type":"User"}`: nil, `{"login":"acme","id":1,"type":"Bot"}`: nil,
			`{"login":"acme","id":1,"type":"User"}`: {"acme: /agent stop"},
		} {
			at := time.Now().UTC().Format(time.RFC3339)
			w.inject(githubtest.Fault{
				Path: "/issues/comments?", Status: 200,
				Body: `[{"id":5,"body":"/agent stop","user":` + author +
					`,"issue_url":"https://github.test/api/v3/repos/acme/widgets/issues/1","created_at":"` + at +
					`","updated_at":"` + at + `"}]`,
			})
			w.hears(c, cursor, want...)
		}
	})
}

// TestEachTextIsHeardOnce covers texts in the second of the cursor, after it, edited, edited within one second, and
// acknowledged.
func TestEachTextIsHeardOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		c, cursor := w.listen()
		first := w.sim.AddComment(w.key, "acme", "one")
		cursor = w.hears(c, cursor, "acme: one")
		cursor = w.hears(c, cursor)
		w.sim.AddComment(w.key, "acme", "two, in the same second")
		cursor = w.hears(c, cursor, "acme: two, in the same second")
		w.sim.EditComment(w.key, "acme", first, "/agent why")
		cursor = w.hears(c, cursor, "acme: /agent why")
		cursor = w.hears(c, cursor)
		time.Sleep(time.Minute)
		cursor = w.hears(c, cursor)
		w.must(c.People.React(w.Context(), w.key, first, tracker.ReactionUnderstood)) // no edit
		cursor = w.hears(c, cursor)
		time.Sleep(time.Minute)
		w.sim.EditComment(w.key, "acme", first, "/agent stop")
		w.sim.AddComment(w.key, "acme", "three")
		got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
		w.must(err)
		if len(got.Said) != 2 || got.Said[0].Command != command.Stop || got.Said[0].Acknowledged ||
			!got.Said[0].At.Equal(time.Now().Truncate(time.Second)) {
			w.Errorf("after an edit of a carried-out command: %+v", got.Said)
		}
		if _, err := c.Inbox.Comments(w.Context(), testRepo, "yesterday"); api.KindOf(err) != api.KindPermanent {
			w.Errorf("error = %v, want permanent", err)
		}
		if _, err := c.Inbox.Comments(w.Context(), testRepo, " "); api.KindOf(err) != api.KindPermanent {
			w.Errorf("error = %v, want permanent", err)
		}
	})
}

// TestAcknowledgedCommandsAreHeardAsSuch covers a crash after the reaction and before the cursor was stored.
func TestAcknowledgedCommandsAreHeardAsSuch(t *testing.T) {
	inWorld(t, func(w *world) {
		c, cursor := w.listen()
		id := w.sim.AddComment(w.key, "acme", "/agent stop")
		w.must(c.People.React(w.Context(), w.key, id, tracker.ReactionUnderstood))
		got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
		if w.must(err); len(got.Said) != 1 || !got.Said[0].Acknowledged {
			w.Errorf("heard %+v", got.Said)
		}
	})
}

// TestManyCommentsAreHeardOnceEach covers a second with more comments than a page holds, some of them edited between
// two pages.
func TestManyCommentsAreHeardOnceEach(t *testing.T) {
	inWorld(t, func(w *world) {
		quiet, cursor := w.listen()
		ids := map[string]int64{}
		for i := range 250 {
			text := fmt.Sprint("of one second ", i)
			ids[text] = w.sim.AddComment(w.key, "acme", text)
		}
		for i := range 1200 {
			if i%3 == 0 {
				time.Sleep(time.Second)
			}
			text := fmt.Sprint("later ", i)
			ids[text] = w.sim.AddComment(w.key, "acme", text)
		}
		lists := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if strings.HasSuffix(r.URL.Path, "/issues/comments") {
					if lists++; lists <= 8 {
						time.Sleep(time.Second)
						for _, text := range []string{
							fmt.Sprint("of one second ", 7+lists),
							fmt.Sprint("later ", 3*lists),
						} {
							// The comment moves to the end of the list, and all comments behind it move forward.
							w.sim.EditComment(w.key, "acme", ids[text], text)
						}
					}
				}
				return resp, err
			})
		}))
		heard, looks := map[string]int{}, 0
		for ; looks < 20; looks++ {
			got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
			w.must(err)
			if len(got.Said) == 0 {
				break
			}
			for _, s := range got.Said {
				heard[fmt.Sprint(s.CommentID, s.At)]++
				delete(ids, s.Text)
			}
			cursor = got.Cursor
		}
		for text, n := range heard {
			if n != 1 {
				w.Errorf("the director got %s %d times", text, n)
			}
		}
		if len(ids) > 0 || looks < 2 || looks == 20 {
			w.Errorf("%d of 1450 comments are missing after %d polls", len(ids), looks)
		}
		w.hears(quiet, cursor)
	})
}

// TestAFloodOfCommands checks that many commands do not use up the hourly requests, and that every command is returned.
func TestAFloodOfCommands(t *testing.T) {
	inWorld(t, func(w *world) {
		c, cursor := w.listen()
		const people = 90
		for i := range people {
			if i%10 == 0 {
				time.Sleep(time.Second)
			}
			w.sim.AddComment(w.key, fmt.Sprint("untrusted", i), "/agent stop")
		}
		w.sim.AddComment(w.key, "acme", "/agent why")
		heard := map[string]int{}
		for looks := 0; heard["acme"] == 0; looks++ {
			before := len(w.sim.Requests())
			got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
			w.must(err)
			if n := len(w.sim.Requests()) - before; n > 20+2 || looks > people/20 {
				w.Fatalf("look %d took %d requests", looks, n)
			}
			for _, s := range got.Said {
				if heard[s.By]++; s.MayWrite != (s.By == "acme") {
					w.Errorf("%s may write: %v", s.By, s.MayWrite)
				}
			}
			cursor = got.Cursor
			time.Sleep(30 * time.Second)
		}
		if len(heard) != people+1 {
			w.Errorf("%d people reached the director, want %d", len(heard), people+1)
		}
		for login, n := range heard {
			if n != 1 {
				w.Errorf("the director got %s %d times", login, n)
			}
		}
	})
}

// TestRepliesAreNotHeard checks that our own replies do not count as commands, although they name commands.
func TestRepliesAreNotHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		c, cursor := w.listen()
		for i, kind := range []ask.ReplyKind{ask.ReplyHelp, ask.ReplyWhy, ask.ReplyRefused, ask.ReplyMisspelt} {
			w.must(c.People.Reply(w.Context(), ask.ReplyRequest{
				Key: w.key, Comment: int64(i + 1), Edit: time.Now(), Kind: kind,
				Why: "/agent stop",
			}))
		}
		if next := w.hears(c, cursor); next <= cursor {
			w.Errorf("the cursor stays at %s, so irrelevant comments are read repeatedly", next)
		}
	})
}

// TestHostileCommentsAreHarmless checks that every comment is parsed in limited time, and with the lines that GitHub
// shows.
func TestHostileCommentsAreHarmless(t *testing.T) {
	inWorld(t, func(w *world) {
		c, cursor := w.listen()
		for _, body := range []string{
			strings.Repeat("`", 60_000) + "\n/agent stop", strings.Repeat("> ", 30_000) + "\n/agent stop",
			strings.Repeat("<!--", 15_000) + "\n/agent stop",
			"\u202e/agent\u202c stop it not", "/agent stop\u200b", "\ufeff/agent stop", strings.Repeat("\n", 60_000) +
				"x",
			strings.Repeat("\u202e", 60_000), "<!-- retake:claim v1 " + strings.Repeat("{", 60_000),
		} {
			w.sim.AddComment(w.key, "acme", body)
		}
		got, err := c.Inbox.Comments(w.Context(), testRepo, cursor)
		w.must(err)
		for _, s := range got.Said {
			// Agents get the text without the characters that change its direction.
			if s.Command == command.Stop && s.Text != "/agent stop it not" {
				w.Errorf("%.40q is a command", s.Text)
			}
		}
		if len(got.Said) != 8 {
			w.Errorf("%d comments reached the director, want all except the forged marker", len(got.Said))
		}
	})
}
