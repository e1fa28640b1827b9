package gate

import "time"

// Limits on a request with several parts. GitHub applies its changes one after another and aborts a request after ten
// seconds, so the request must stay short.
const (
	PartsMost   = 10
	ChangesMost = 20
)

// gather admits waiting parts together with r, in the order of their turns. Each part must stay within the limits on
// content. The parts count as one write and cost the points of one write. A probe is sent alone, because the results of
// all parts would be uncertain if GitHub did not answer.
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

// nextPart returns the most urgent part, except for parts of the kinds in without.
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
