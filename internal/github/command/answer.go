package command

import (
	"time"
)

// Answer is a comment by a person, never by a bot or a director. Comments of directors begin with a marker. The owner
// of our token counts as a person like any other.
type Answer struct {
	// CommentID and At together identify one text, because an edit keeps the id and changes At.
	CommentID int64
	By        string
	At        time.Time // when this text was written: the comment, or its last edit; whole seconds, UTC, GitHub's clock
	Text      string    // the whole comment, without control characters; at most answerLimit characters
	Command   Name
	// for a command: the text after it and its argument, or empty if the command is not carried out
	Rest    string
	Word    string        // for an unknown command: the word in place of its name, at most WordLimit characters
	Meant   Name          // for an unknown command: the most similar command, or None
	For     time.Duration // for snooze: 1 minute to 30 days
	Amount  int           // for budget: 1 to 20
	Problem string        // a sentence about an invalid argument; if set, the command is not carried out
	// MayWrite means that the author has write access to the repository. Otherwise the comment has no effect.
	MayWrite bool
	// Acknowledged means that our thumbs-up is on the comment and not older than this text, so the text was carried
	// out. A later edit is a new text.
	Acknowledged bool

	Thumbs int // thumbs-up reactions of all accounts
}
