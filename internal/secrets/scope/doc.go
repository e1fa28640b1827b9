// Package scope says what of a patch may leave the machine: which paths an agent may change (scope.deny,
// scope.allow), how large a file may be, where a symbolic link may lead, and that there is no secret in it that
// was not on the base branch before.
//
// Secrets are found by the rules of gitleaks. Two of its conveniences are off, because here the author of the
// text is not trusted: a comment "gitleaks:allow" has no effect, and paths that its rules leave alone (lock
// files, images) are left alone only by the rule that guesses by a name in front of a value.
//
// # Invariants
//
// What is said of a patch never holds a secret that was found in it, not even if a file is named so. What could
// not be looked through does not pass. The memory that a search needs does not depend on the size of a file.
//
// The package has no I/O and no clock; the caller's context bounds the time. It holds no state but the rules,
// which are read once, and may be used from many goroutines.
package scope
