package gate

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/testfiles"
)

// TestClaimsLeaveWhatIsOwed checks that the gate refuses claims before the hour's budget is used up, and still admits
// completions.
func TestClaimsLeaveWhatIsOwed(t *testing.T) {
	owed := 100
	inBubble(t, Options{Owed: func() int { return owed }}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		start, claim := time.Now(), Request{Lane: Claim, Write: true, Changes: 2, Content: 1}
		n, err := passAll(t, g, claim, 1000)
		wantRefused(t, err, start.Add(time.Hour))
		if want := contentPerHour - contentReserve - owed; n != want {
			t.Fatalf("%d claims passed, want %d", n, want)
		}
		if len(*told) != 1 || (*told)[0].Resource != Claims {
			t.Errorf("reported %+v", *told)
		}
		claim.Content = 0
		if err := pass(t.Context(), g, claim); err != nil {
			t.Errorf("a claim that is under way: %v", err)
		}
		n, _ = passAll(t, g, Request{Lane: Completion, Write: true, Changes: 2, Content: 1}, 1000)
		if n != owed {
			t.Errorf("%d completions passed, want %d", n, owed)
		}
	})
}

// TestOldClaimsPassNewCompletions checks that the gate admits an old claim before a new completion.
func TestOldClaimsPassNewCompletions(t *testing.T) {
	inBubble(t, Options{Between: time.Minute}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
		if err := pass(t.Context(), g, Request{Write: true}); err != nil {
			t.Fatal(err)
		}
		left := make(chan Lane, 2)
		enter := func(l Lane) {
			_ = pass(t.Context(), g, Request{Lane: l, Write: true})
			left <- l
		}
		go enter(Claim)
		synctest.Wait()
		time.Sleep(delays[Claim] + time.Second)
		go enter(Completion)
		if first := <-left; first != Claim {
			t.Errorf("lane %d went first, although the claim was older than its delay", first)
		}
		<-left
	})
}

// TestSecondaryLimitCountsEveryChange checks that the gate counts edits and labels as content for an hour after GitHub
// refused a write that the gate had admitted.
func TestSecondaryLimitCountsEveryChange(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, g *Gate, told *[]Cooldown) {
		edit := Request{Lane: Completion, Write: true, Changes: 1}
		if n, err := passAll(t, g, edit, contentPerHour); n != contentPerHour {
			t.Fatalf("%d edits passed: %v", n, err)
		}
		limit := Limit{Stated: true, Wait: time.Second, Why: "secondary limit", Secondary: true}
		if err := end(t.Context(), g, edit, Result{Limit: &limit}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := pass(t.Context(), g, edit); err == nil {
			t.Error("another edit passed, although more changes than the limit are counted")
		}
		if len(*told) == 0 || (*told)[0].Why == limit.Why {
			t.Errorf("the cooldown does not say that every change counts: %+v", *told)
		}
		time.Sleep(strictFor)
		if err := pass(t.Context(), g, edit); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// TestPaceNamesTheLimit checks that Pace names a limit only after the limit has delayed work for heldAfter.
func TestPaceNamesTheLimit(t *testing.T) {
	for _, c := range []struct {
		request Request
		want    string
	}{
		{Request{Lane: Claim, Write: true}, "the required pause between writes to GitHub"},
		{
			Request{Lane: Completion, Write: true, Content: 1},
			"GitHub's limit of 80 new comments and pull requests a minute",
		},
		{Request{Lane: Completion}, "GitHub's limit on requests per minute"},
		{Request{Lane: Progress, Write: true}, ""},
	} {
		pause := 2 * time.Second
		if c.request.Content > 0 {
			pause = time.Millisecond
		}
		inBubble(t, Options{Between: pause}, func(t *testing.T, g *Gate, _ *[]Cooldown) {
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() { _ = pass(t.Context(), g, c.request) })
			}
			time.Sleep(heldAfter / 2)
			if got := g.Pace().Held; got != "" {
				t.Errorf("at first held by %q", got)
			}
			time.Sleep(heldAfter)
			if got := g.Pace().Held; got != c.want {
				t.Errorf("held by %q, want %q", got, c.want)
			}
			all.Wait()
		})
	}
}

// TestTableIsGitHubsDescription compares the list creating with the warnings in GitHub's description of its REST API.
func TestTableIsGitHubsDescription(t *testing.T) {
	name, err := testfiles.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]struct{ Description string }
	}
	if err := json.Unmarshal(data, &api); err != nil {
		t.Fatal(err)
	}
	warned := 0
	for path, methods := range api.Paths {
		url := "/api/v3" + strings.NewReplacer("{", "", "}", "").Replace(path)
		for method, o := range methods {
			want := strings.Contains(o.Description, "content too quickly")
			if got := Creates(strings.ToUpper(method), url); got != want {
				t.Errorf("%s %s creates content: %t, and GitHub's description says %t", method, path, got, want)
			}
			if want {
				warned++
			}
		}
	}
	if warned < len(creating) {
		t.Errorf("%d descriptions warn, and the table has %d rows", warned, len(creating))
	}
}
