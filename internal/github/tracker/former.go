package tracker

import (
	"strings"
)

// formerLabels are names of labels that were configured before, in small letters, and what they are called now.
type formerLabels map[string]string

// Same reports whether a label on GitHub is the one that is configured under a name now.
func (f formerLabels) Same(onGitHub, name string) bool {
	return strings.EqualFold(onGitHub, name) || strings.EqualFold(f[strings.ToLower(onGitHub)], name)
}

// Recognise makes the labels of earlier configurations count as those of today: on an issue that was claimed,
// blocked or handed in under other names the work goes on, and they are taken off with the others. A label that
// offers work does not count: what is offered is said anew; it approves the text of what was offered by it. A
// name that has another meaning today has only that one.
func (c *Reader) Recognise(earlier []Labels) {
	former, offers := formerLabels{}, map[string]bool{}
	for _, l := range earlier {
		if !c.Labels.names(l.Task) {
			offers[strings.ToLower(l.Task)] = true
		}
		for _, x := range [][2]string{
			{l.Claimed, c.Labels.Claimed},
			{l.Blocked, c.Labels.Blocked},
			{l.Review, c.Labels.Review},
		} {
			if before, now := strings.ToLower(x[0]), x[1]; before != "" && !c.Labels.names(before) {
				former[before] = now
			}
		}
	}
	c.former.Store(&former)
	c.offers.Store(&offers)
}

// names reports whether a label is called so today.
func (l Labels) names(name string) bool {
	for _, now := range []string{l.Task, l.Claimed, l.Blocked, l.Review} {
		if strings.EqualFold(now, name) {
			return true
		}
	}
	return false
}

func (c *Reader) formerLabels() formerLabels {
	if f := c.former.Load(); f != nil {
		return *f
	}
	return nil
}

// FormerNames are what some labels were called before.
func (c *Reader) FormerNames(labels ...string) (out []string) {
	for before, now := range c.formerLabels() {
		for _, label := range labels {
			if now == label {
				out = append(out, before)
			}
		}
	}
	return out
}
