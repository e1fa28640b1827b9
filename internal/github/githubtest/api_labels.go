package githubtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// labelNames reads the labels in a request.
func (c *call) labelNames() ([]string, reply) {
	names := c.list
	raw, named := c.body["labels"]
	bad := named && json.Unmarshal(raw, &names) != nil
	if bad || slices.ContainsFunc(names, func(n string) bool { return strings.TrimSpace(n) == "" }) {
		return nil, invalid("Label", "name", "invalid")
	}
	return names, reply{}
}

func addLabels(c *call) reply {
	names, no := c.labelNames()
	if no.status != 0 {
		return no
	}
	for _, n := range names {
		c.addLabel(c.repo, c.on, c.user, n)
	}
	return sendLabels(c)
}

// setLabels replaces all labels of an issue.
func setLabels(c *call) reply {
	names, no := c.labelNames()
	if no.status != 0 {
		return no
	}
	for _, n := range slices.Clone(c.on.Labels) {
		if !slices.ContainsFunc(names, func(kept string) bool { return strings.EqualFold(kept, n) }) {
			c.dropLabel(c.repo, c.on, c.user, n)
		}
	}
	return addLabels(c)
}

func removeLabel(c *call) reply {
	if !c.dropLabel(c.repo, c.on, c.user, c.r.PathValue("name")) {
		return failed(http.StatusNotFound, "Label does not exist")
	}
	return sendLabels(c)
}

func listLabels(c *call) reply {
	return list(c, c.repo.Labels, func(l *label) object { return c.to.label(c.repo, l) })
}

func getLabel(c *call) reply {
	if l := c.repo.label(c.r.PathValue("name")); l != nil {
		return ok(c.to.label(c.repo, l))
	}
	return notFound
}

var colorText = regexp.MustCompile(`^[0-9a-fA-F]{6}$`)

func createLabel(c *call) reply {
	name, about := c.field("name"), c.field("description")
	color, hasColor := c.text("color")
	switch {
	case strings.TrimSpace(name) == "":
		return invalid("Label", "name", "missing_field")
	case hasColor && !colorText.MatchString(color):
		return invalid("Label", "color", "invalid")
	case len(about) > 100:
		return invalid("Label", "description", "too_long")
	case c.repo.label(name) != nil:
		return invalid("Label", "name", "already_exists")
	}
	l := &label{ID: c.id(), Name: name, Color: cmp.Or(color, "ededed"), Description: about}
	c.repo.Labels = append(c.repo.Labels, l)
	return created(c.to.label(c.repo, l))
}
