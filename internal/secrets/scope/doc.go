// Package scope decides whether a patch may leave the machine. It checks paths (scope.deny, scope.allow), file sizes,
// targets of symbolic links, files that a push leaves out or stores raw, and secrets that were not on the base branch.
//
// The rules of gitleaks find secrets. Two features of gitleaks are restricted, because the author of the text is
// untrusted. A comment "gitleaks:allow" has no effect. The excluded paths of gitleaks (lock files, images) apply only
// to the rule that guesses from the name in front of a value. That rule is ignored in binary files. Archives (zip, tar,
// gzip, bzip2, zstd) are unpacked in memory, up to a limit.
//
// # Invariants
//
// Findings never contain a secret, even if a file name does. Content that could not be searched is rejected. The
// memory that a search needs does not grow with the file.
//
// The package has no I/O and no clock. The caller's context bounds the time of a search. The only state is the rules
// of gitleaks, which are loaded once and safe for concurrent use.
package scope
