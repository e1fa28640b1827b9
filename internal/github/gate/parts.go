package gate

import "time"

// Bounds of one request of several parts. GitHub carries out its changes one after the other, and gives up a request
// after ten seconds.
const (
	PartsMost   = 10
	ChangesMost = 20
)

// gather lets waiting parts leave in the turn of r, in the order of their turns. Each part must stay within the limits
// on content. Together they are one write and cost the points of one. A probe leaves alone, because a lost answer would
// leave all parts in doubt.
func (g *Gate) gather(r *Request, now time.Time) {
	r.Parts = []any{r.Part}
	changes, over := r.Changes, map[kind]bool{}
	for len(r.Parts) < PartsMost && g.silence.probe == nil {
		next := g.lines.nextPart(over)
		if next == nil {
			return
		}
		if changes+next.Changes > ChangesMost || g.contentWait(next, now) > 0 {
			over[next.kind()] = true
			continue
		}
		g.lines.remove(next)
		g.takeContent(next, now)
		changes += next.Changes
		r.Parts = append(r.Parts, next.Part)
		next.decided <- nil
	}
}

// nextPart returns the part whose turn comes first, of the kinds that are not left out.
func (l lines) nextPart(without map[kind]bool) *Request {
	for _, r := range l.heads() {
		if r.Part != nil && !without[r.kind()] {
			return r
		}
	}
	return nil
}

func (g *Gate) takeContent(r *Request, now time.Time) {
	g.created.take(now, r.Content)
	g.all.take(now, r.Changes)
}
