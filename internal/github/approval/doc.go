// Package approval tells which text of an issue agents may read: the text as it was when somebody with rights put the
// task label on, or as somebody with write access has left it since.
package approval
