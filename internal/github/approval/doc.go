// Package approval finds the text of an issue that agents may read. It is the text from the time when a person with
// triage rights added the task label, or from a later edit by a person with write access.
package approval
