// Package scope decides whether a patch may leave the machine. It checks paths (scope.deny, scope.allow), file sizes,
// targets of symbolic links, and secrets that were not on the base branch.
//
// Secrets are found by the rules of gitleaks. Two of its conveniences are off, because here the author of the
// text is not trusted: a comment "gitleaks:allow" has no effect, and paths that its rules leave alone (lock
// files, images) are left alone only by the rule that guesses by a name in front of a value.
//
// # Invariants
//
// Findings never contain a secret, even if a file name does. Content that could not be searched is rejected. The memory
// that a search needs does not depend on the size of a file.
//
// The package has no I/O and no clock; the caller's context bounds the time. The rules are its only state. They are
// read once, and may be used from many goroutines.
package scope
