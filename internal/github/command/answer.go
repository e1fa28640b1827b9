package command

import (
	"time"
)

// Answer is a comment by a person, never by a bot or a director. Comments of directors begin with a marker. The owner
// of our token counts as a person like any other.
type Answer struct {
	// CommentID and At together name one text: an edit keeps the id and has a later At.
	CommentID int64
	By        string
	At        time.Time // when this text was written: the comment, or its last edit; whole seconds, UTC, GitHub's clock
	Text      string    // the whole comment, without control characters; at most answerLimit characters
	Command   Name
	// of a command: the text that follows it and its argument; empty if the command is not carried out
	Rest    string
	Word    string        // of an unknown command: the word in place of its name, at most wordLimit characters
	Meant   Name          // of an unknown command: the nearest one, CommandNone if none is near
	For     time.Duration // of snooze: 1 minute to 30 days
	Amount  int           // of budget: 1 to 20
	Problem string        // a sentence about an invalid argument; if set, the command is not carried out
	// MayWrite: the author has write access to the repository. Without it the comment has no effect.
	MayWrite bool
	// Acknowledged: our own thumbs-up is on the comment and not older than this text, so it was carried out. An
	// edit after it is a new text.
	Acknowledged bool

	Thumbs int // thumbs-up reactions of all accounts
}
