// Package scope decides whether a patch may leave the machine. It checks paths (scope.deny, scope.allow), file sizes,
// symbolic link targets, files that a push leaves out or stores raw, and secrets that were not on the base branch.
//
// The gitleaks rules find secrets. Two gitleaks features are restricted, because the author of the text is untrusted. A
// comment "gitleaks:allow" has no effect. The paths that gitleaks excludes (lock files, images) are skipped only by the
// rule that guesses from the name in front of a value. That rule is ignored in binary files. Archives (zip, tar, gzip,
// bzip2, zstd) are unpacked in memory, up to a limit.
//
// # Invariants
//
// Findings never contain a secret, even if a file name does. Content that could not be searched is rejected. The memory
// needed for a search does not grow with the file.
//
// The package has no I/O and no clock. The caller's context bounds the duration of a search. The only state is the
// gitleaks rules, which are loaded once and safe for concurrent use.
package scope
