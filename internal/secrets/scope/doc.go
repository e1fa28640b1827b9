// Package scope decides whether a patch may leave the machine. It checks paths (scope.deny, scope.allow), file sizes,
// targets of symbolic links, files that a push leaves out or stores raw, and secrets that were not on the base branch.
//
// The rules of gitleaks find secrets. Two of its conveniences are off, because the author of the text is untrusted. A
// comment "gitleaks:allow" has no effect. Only the rule that guesses from a name in front of a value honours the
// excluded paths of gitleaks (lock files, images).
//
// # Invariants
//
// Findings never contain a secret, even if a file name does. The package rejects content that it could not search. The
// memory of a search does not depend on the size of a file.
//
// The package has no I/O and no clock; the caller's context bounds the time. The rules are its only state. They are
// read once and are safe for concurrent use.
package scope
