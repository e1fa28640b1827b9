package redact

import "regexp"

// variable is a name that, split at underscores, says that its value is a secret.
var variable = regexp.MustCompile(`(?i)(^|_)(token|secret|password|passwd|credentials?|apikey|(api|access|secret|private)_?key)(_|$)`)

// IsSecretVariable tells whether the name of a variable or a key of the configuration says that its value is a secret. It is
// strict, because what it finds is refused: MAX_TOKENS is none.
func IsSecretVariable(name string) bool { return variable.MatchString(name) }
