package githubtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

func (c *call) sendLabels() {
	writeJSON(c.w, http.StatusOK, c.to.labels(c.repo, c.on.Labels))
}

func (c *call) listIssueLabels() { c.sendLabels() }

// labelNames reads the labels that a request names.
func (c *call) labelNames() (names []string, ok bool) {
	names = c.list
	raw, named := c.body["labels"]
	bad := named && json.Unmarshal(raw, &names) != nil
	if bad || slices.ContainsFunc(names, func(n string) bool { return strings.TrimSpace(n) == "" }) {
		c.invalid("Label", "name", "invalid")
		return nil, false
	}
	return names, true
}

func (c *call) addLabels() {
	names, ok := c.labelNames()
	if !ok {
		return
	}
	for _, n := range names {
		c.addLabel(c.repo, c.on, c.user, n)
	}
	c.sendLabels()
}

// setLabels replaces all labels of an issue.
func (c *call) setLabels() {
	names, ok := c.labelNames()
	if !ok {
		return
	}
	for _, n := range slices.Clone(c.on.Labels) {
		if !slices.ContainsFunc(names, func(kept string) bool { return strings.EqualFold(kept, n) }) {
			c.dropLabel(c.repo, c.on, c.user, n)
		}
	}
	for _, n := range names {
		c.addLabel(c.repo, c.on, c.user, n)
	}
	c.sendLabels()
}

func (c *call) removeLabel() {
	if !c.dropLabel(c.repo, c.on, c.user, c.r.PathValue("name")) {
		c.fail(http.StatusNotFound, "Label does not exist")
		return
	}
	c.sendLabels()
}

func (c *call) listLabels() {
	writeJSON(c.w, http.StatusOK,
		objects(page(c, c.repo.Labels), func(l *label) object { return c.to.label(c.repo, l) }))
}

func (c *call) getLabel() {
	if l := c.repo.label(c.r.PathValue("name")); l != nil {
		writeJSON(c.w, http.StatusOK, c.to.label(c.repo, l))
		return
	}
	c.fail(http.StatusNotFound, "Not Found")
}

var colorText = regexp.MustCompile(`^[0-9a-fA-F]{6}$`)

func (c *call) createLabel() {
	name, _ := c.text("name")
	color, hasColor := c.text("color")
	about, _ := c.text("description")
	switch {
	case strings.TrimSpace(name) == "":
		c.invalid("Label", "name", "missing_field")
	case hasColor && !colorText.MatchString(color):
		c.invalid("Label", "color", "invalid")
	case len(about) > 100:
		c.invalid("Label", "description", "too_long")
	case c.repo.label(name) != nil:
		c.invalid("Label", "name", "already_exists")
	default:
		if color == "" {
			color = "ededed"
		}
		l := &label{ID: c.id(), Name: name, Color: color, Description: about}
		c.repo.Labels = append(c.repo.Labels, l)
		writeJSON(c.w, http.StatusCreated, c.to.label(c.repo, l))
	}
}
