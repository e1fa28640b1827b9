package page

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"retake/internal/fsm"
)

var pathStep = regexp.MustCompile(`([MVH])(\d+)(?: (\d+))?`)

// Every transition has an arrow that begins and ends at its boxes and does not cross a box.
func TestArrowsCrossNoBox(t *testing.T) {
	drawn := drawnMachine(nil)
	has := map[string]bool{}
	for _, e := range drawn.Edges {
		has[e.From+" "+e.To] = true
		var x, y int
		for _, step := range pathStep.FindAllStringSubmatch(e.Path, -1) {
			to, _ := strconv.Atoi(step[2])
			nextX, nextY := x, y
			switch step[1] {
			case "M":
				x = to
				y, _ = strconv.Atoi(step[3])
				continue
			case "H":
				nextX = to
			case "V":
				nextY = to
			}
			for _, n := range drawn.Nodes {
				if max(x, nextX) > n.X && min(x, nextX) < n.X+boxWidth && max(y, nextY) > n.Y && min(y, nextY) < n.Y+
					boxHeight {
					t.Errorf("%s → %s (%s) crosses %s", e.From, e.To, e.Path, n.Name)
				}
			}
			if x, y = nextX, nextY; x < 0 || x > drawn.Width || y < 0 || y > drawn.Height {
				t.Errorf("%s → %s (%s) leaves the drawing", e.From, e.To, e.Path)
			}
		}
		goal := drawn.Nodes[0]
		for _, n := range drawn.Nodes {
			if n.Name == e.To {
				goal = n
			}
		}
		if x < goal.X-4 || x > goal.X+boxWidth || y < goal.Y-4 || y > goal.Y+boxHeight+4 {
			t.Errorf("%s → %s (%s) ends at %d, %d", e.From, e.To, e.Path, x, y)
		}
	}
	for _, tr := range fsm.Transitions {
		for _, from := range tr.From {
			if key := fmt.Sprintf("%s %s", from, tr.To); from != tr.To && !has[key] {
				t.Errorf("%s is not drawn", key)
			}
		}
	}
}

// TestEveryStateIsShown checks that every state is in the drawing, and every state except Forgotten on the board.
func TestEveryStateIsShown(t *testing.T) {
	for _, i := range fsm.States {
		n := 0
		for _, c := range columns {
			for _, s := range c.states {
				if s.String() == i.Name {
					n++
				}
			}
		}
		if want := map[bool]int{true: 0, false: 1}[i.Name == fsm.Forgotten.String()]; n != want {
			t.Errorf("%s is in %d columns, want %d", i.Name, n, want)
		}
		found := false
		for _, p := range places {
			found = found || p.state.String() == i.Name
		}
		if !found {
			t.Errorf("%s has no place", i.Name)
		}
	}
}

// Signing in redirects to a task. It never redirects outside the page.
func TestSigningInLeadsToThePageOnly(t *testing.T) {
	for to, want := range map[string]string{
		"/tasks/acme/widgets/21": "/tasks/acme/widgets/21", "": "/", "https://evil.example/tasks/": "/",
		"//evil.example/tasks/": "/",
		"/tasks/\\evil.example": "/", "/tasks/../../x": "/", "javascript:alert(1)": "/", "/signout": "/",
	} {
		if got := ownPath(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}
