package command

import (
	"time"
)

// Answer is a comment by a person. Comments by bots and by directors, which begin with a marker, are not answers. The
// owner of our token counts as a person.
type Answer struct {
	// CommentID and At together identify one version of a comment: an edit keeps the id and changes At.
	CommentID int64
	By        string
	At        time.Time // time of the last edit by GitHub's clock, in whole seconds, UTC
	Text      string    // the whole comment, without control characters; at most answerLimit characters
	Command   Name
	// Rest is the text after a command and its argument. It is empty if the command is not carried out.
	Rest    string
	Word    string        // for an unknown command: the misspelt name, at most WordLimit characters
	Meant   Name          // for an unknown command: the most similar command, or None
	For     time.Duration // for snooze: 1 minute to 30 days
	Amount  int           // for budget: 1 to 20
	Problem string        // a sentence about an invalid argument; if set, the command is not carried out
	// MayWrite means that the author has write access to the repository. Retake ignores other comments.
	MayWrite bool
	// Acknowledged means that our thumbs-up is at least as new as this version of the comment, so the director has
	// already acted on it. An edit creates a new version.
	Acknowledged bool

	Thumbs int // thumbs-up reactions of all accounts
}
