package github

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Kinds of markers. A marker is the first line of a comment of ours, invisible to people:
//
//	<!-- retake:claim v1 {"fleet":"default","nonce":"k3v9qx2m","run":"run_20261121-095900Z"} -->
const (
	markClaim   = "claim"
	markRelease = "release"
	markBlocked = "blocked"
	// markDelivery stands in the body of a pull request.
	markDelivery = "delivery"
	// markReply answers one text of one comment. It belongs to no claim.
	markReply = "reply"
	// markReminder is a question that is asked again.
	markReminder = "reminder"
	// markIncident stands in the body of an issue of ours that shows an outage.
	markIncident = "incident"
	// markUnapproved says why an issue, or what was edited in it, is left alone. It belongs to no claim; its
	// nonce is made of what it is about.
	markUnapproved = "unapproved"
)

// What ended a claim, in its marker: the task is done, the claim competes no more.
const (
	endedDelivered = "delivered"
	endedMerged    = "merged"
)

// marker is the content of such a line. Every field has a narrow alphabet, so that nothing in it can end the
// HTML comment.
type marker struct {
	kind    string
	Fleet   string `json:"fleet"`
	Nonce   string `json:"nonce,omitempty"`   // of the claim that the comment belongs to
	Run     string `json:"run,omitempty"`     // claim: the director's run
	Attempt string `json:"attempt,omitempty"` // blocked, reminder: the question's block
	Ended   string `json:"ended,omitempty"`   // claim: what ended it, or nothing
	Since   int64  `json:"since,omitempty"`   // incident: when it began, Unix seconds
	Comment int64  `json:"comment,omitempty"` // reply: the comment that is answered
	Edit    int64  `json:"edit,omitempty"`    // reply: when that was written or edited, Unix seconds
}

var (
	markerLine = regexp.MustCompile(`^<!-- retake:([a-z]{1,16}) v1 (\{[ -~]{2,400}\}) -->$`)
	nonceText  = regexp.MustCompile(`^[a-z0-9]{8}$`)
	idText     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,80}$`)
)

// markerRules check what each kind must and may contain beside fleet and nonce.
var markerRules = map[string]func(marker) bool{
	markClaim: func(m marker) bool {
		ended := m.Ended == "" || m.Ended == endedDelivered || m.Ended == endedMerged
		return m.Attempt == "" && m.Since == 0 && ended && (m.Run == "" || idText.MatchString(m.Run))
	},
	markRelease:    func(m marker) bool { return m.isBare() },
	markDelivery:   func(m marker) bool { return m.isBare() },
	markUnapproved: func(m marker) bool { return m.isBare() },
	markBlocked:    func(m marker) bool { return m.isAboutBlock() },
	markReminder:   func(m marker) bool { return m.isAboutBlock() },
	markIncident:   func(m marker) bool { m.Since = 0; return m.isBare() },
}

// isBare reports a marker with fleet and nonce alone.
func (m marker) isBare() bool { return m == marker{kind: m.kind, Fleet: m.Fleet, Nonce: m.Nonce} }

func (m marker) isAboutBlock() bool {
	return m == marker{kind: m.kind, Fleet: m.Fleet, Nonce: m.Nonce, Attempt: m.Attempt} &&
		idText.MatchString(m.Attempt)
}

func (m marker) valid() bool {
	if m.kind == markReply {
		return fleetName.MatchString(m.Fleet) && m.Comment > 0 && m.Edit > 0 &&
			m == marker{kind: m.kind, Fleet: m.Fleet, Comment: m.Comment, Edit: m.Edit}
	}
	ok, known := markerRules[m.kind]
	return known && fleetName.MatchString(m.Fleet) && nonceText.MatchString(m.Nonce) && m.Comment == 0 && m.Edit == 0 &&
		ok(m)
}

// line renders the marker; an invalid one is a permanent error, for example of a nonce that is none.
func (m marker) line() (string, error) {
	if !m.valid() {
		return "", permanent("marker %s of fleet %q, nonce %q, run %q, attempt %q: characters that are not allowed",
			m.kind, m.Fleet, m.Nonce, m.Run, m.Attempt)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return "", permanent("marker: %v", err)
	}
	return fmt.Sprintf("<!-- retake:%s v1 %s -->", m.kind, data), nil
}

// markerStart begins every comment that a director writes, of any version.
const markerStart = "<!-- retake:"

func beginsLikeMarker(body string) bool { return strings.HasPrefix(body, markerStart) }

// readMarker reads the marker of a comment. Only the very first line counts, and only the exact form that line writes.
func readMarker(body string) (marker, bool) {
	first, _, _ := strings.Cut(body, "\n")
	parts := markerLine.FindStringSubmatch(strings.TrimSuffix(first, "\r"))
	if parts == nil {
		return marker{}, false
	}
	m := marker{kind: parts[1]}
	d := json.NewDecoder(strings.NewReader(parts[2]))
	d.DisallowUnknownFields()
	if d.Decode(&m) != nil || d.InputOffset() != int64(len(parts[2])) {
		return marker{}, false
	}
	if _, err := d.Token(); err != io.EOF {
		return marker{}, false
	}
	return m, m.valid()
}

// trusts reports whether a comment's marker may count: our own does, and others' if they have write access, too.
func (c *Client) trusts(self, author, association string) bool {
	return self != "" && strings.EqualFold(author, self) ||
		slices.ContainsFunc(c.opts.TrustedAuthors, func(a string) bool { return strings.EqualFold(a, association) })
}
