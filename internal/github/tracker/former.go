package tracker

import (
	"strings"
)

// formerLabels maps formerly configured label names, in lower case, to current names.
type formerLabels map[string]string

// Same reports whether a label on GitHub is the configured label with the given name, under its current or a former
// name.
func (f formerLabels) Same(onGitHub, name string) bool {
	return strings.EqualFold(onGitHub, name) || strings.EqualFold(f[strings.ToLower(onGitHub)], name)
}

// Recognise makes the labels of earlier configurations count as the current labels. Work continues on an issue that was
// claimed, blocked or delivered under other names, and the former labels are removed together with the current labels.
// A former task label does not offer work, because a new offer needs the current label. It still approves the text that
// was offered with it. A name that is a current label counts only as that label.
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

// names reports whether name is a current label.
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

// FormerNames returns the former names of the given labels.
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
