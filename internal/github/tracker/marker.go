package tracker

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"retake/internal/github/api"
)

// Kinds of markers. A marker is the first line of a comment by the director, and is invisible on GitHub's pages:
//
//	<!-- retake:claim v1 {"fleet":"default","nonce":"k3v9qx2m","run":"run_20261121-095900Z"} -->
const (
	MarkClaim   = "claim"
	MarkRelease = "release"
	MarkBlocked = "blocked"
	// MarkDelivery marks the body of a pull request.
	MarkDelivery = "delivery"
	// MarkReply marks the answer to one version of a comment. It does not belong to a claim.
	MarkReply = "reply"
	// MarkReminder marks a repeated question.
	MarkReminder = "reminder"
	// MarkIncident marks the body of an issue that we opened for an outage.
	MarkIncident = "incident"
	// MarkUnapproved marks a comment that explains why an issue or an edit is ignored. It does not belong to a claim.
	// Its nonce is derived from its subject.
	MarkUnapproved = "unapproved"
)

// Values of Marker.Ended. The task of such a claim is done, so the claim no longer holds the issue.
const (
	EndedDelivered = "delivered"
	EndedMerged    = "merged"
)

// Marker is the content of a marker line. Its fields accept only a restricted set of characters, so a value cannot end
// the HTML comment.
type Marker struct {
	Kind    string `json:"-"`
	Fleet   string `json:"fleet"`
	Nonce   string `json:"nonce,omitempty"`   // nonce of the claim that the comment belongs to
	Run     string `json:"run,omitempty"`     // claim: the director's run
	Attempt string `json:"attempt,omitempty"` // blocked, reminder: the attempt that asks; after n answers with ".n"
	Ended   string `json:"ended,omitempty"`   // claim: how it ended, or empty
	Since   int64  `json:"since,omitempty"`   // incident: when it began, Unix seconds
	Comment int64  `json:"comment,omitempty"` // reply: id of the comment that it answers
	Edit    int64  `json:"edit,omitempty"`    // reply: time of that comment's last edit, Unix seconds
}

var (
	markerLine = regexp.MustCompile(`^<!-- retake:([a-z]{1,16}) v1 (\{[ -~]{2,400}\}) -->$`)
	nonceText  = regexp.MustCompile(`^[a-z0-9]{8}$`)
	idText     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,80}$`)
)

// markerRules has a check for each kind of marker except replies. valid checks replies, and the fleet and nonce of the
// other kinds.
var markerRules = map[string]func(Marker) bool{
	MarkClaim: func(m Marker) bool {
		ended := m.Ended == "" || m.Ended == EndedDelivered || m.Ended == EndedMerged
		return m.Attempt == "" && m.Since == 0 && ended && (m.Run == "" || idText.MatchString(m.Run))
	},
	MarkRelease:    func(m Marker) bool { return m.isBare() },
	MarkDelivery:   func(m Marker) bool { return m.isBare() },
	MarkUnapproved: func(m Marker) bool { return m.isBare() },
	MarkBlocked:    func(m Marker) bool { return m.isAboutBlock() },
	MarkReminder:   func(m Marker) bool { return m.isAboutBlock() },
	MarkIncident:   func(m Marker) bool { m.Since = 0; return m.isBare() },
}

// isBare reports whether a marker has only fleet and nonce.
func (m Marker) isBare() bool { return m == Marker{Kind: m.Kind, Fleet: m.Fleet, Nonce: m.Nonce} }

func (m Marker) isAboutBlock() bool {
	return m == Marker{Kind: m.Kind, Fleet: m.Fleet, Nonce: m.Nonce, Attempt: m.Attempt} &&
		idText.MatchString(m.Attempt)
}

func (m Marker) valid() bool {
	if m.Kind == MarkReply {
		return api.FleetName.MatchString(m.Fleet) && m.Comment > 0 && m.Edit > 0 &&
			m == Marker{Kind: m.Kind, Fleet: m.Fleet, Comment: m.Comment, Edit: m.Edit}
	}
	ok, known := markerRules[m.Kind]
	return known && api.FleetName.MatchString(m.Fleet) && nonceText.MatchString(m.Nonce) && m.Comment == 0 &&
		m.Edit == 0 &&
		ok(m)
}

// Line formats the marker as an HTML comment. It returns a permanent error for an invalid marker, for example with a
// malformed nonce.
func (m Marker) Line() (string, error) {
	if !m.valid() {
		return "", api.Permanent("invalid marker %s of fleet %q: nonce %q, run %q, attempt %q",
			m.Kind, m.Fleet, m.Nonce, m.Run, m.Attempt)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return "", api.Permanent("marker: %v", err)
	}
	return fmt.Sprintf("<!-- retake:%s v1 %s -->", m.Kind, data), nil
}

// markerStart is the beginning of every comment that a director writes, in all versions of Retake.
const markerStart = "<!-- retake:"

func beginsLikeMarker(body string) bool { return strings.HasPrefix(body, markerStart) }

// ReadMarker reads the marker of a comment. It accepts only the first line, and only the exact form that Line returns.
func ReadMarker(body string) (Marker, bool) {
	first, _, _ := strings.Cut(body, "\n")
	parts := markerLine.FindStringSubmatch(strings.TrimSuffix(first, "\r"))
	if parts == nil {
		return Marker{}, false
	}
	m := Marker{Kind: parts[1]}
	d := json.NewDecoder(strings.NewReader(parts[2]))
	d.DisallowUnknownFields()
	if d.Decode(&m) != nil || d.InputOffset() != int64(len(parts[2])) {
		return Marker{}, false
	}
	if _, err := d.Token(); err != io.EOF {
		return Marker{}, false
	}
	return m, m.valid()
}

// trusts reports whether a marker by this author counts. The author must be our account, or have a trusted association.
func (c *Reader) trusts(self, author, association string) bool {
	return self != "" && strings.EqualFold(author, self) ||
		slices.ContainsFunc(c.trusted, func(a string) bool { return strings.EqualFold(a, association) })
}

// NonceOf derives a marker's nonce from text that identifies the comment's subject.
func NonceOf(about string) string {
	sum := sha256.Sum256([]byte(about))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
