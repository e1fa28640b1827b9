// Package config reads the director's configuration: defaults, then one TOML file, then environment, then flags.
//
// One table (table.go, keys_fleet.go, keys_work.go) has a row for each key. A row holds the key's default, unit, range
// and meaning, and points to the field that the key sets. The field's type is the key's type. Defaults, variable names,
// checks, String and docs/specs/configuration.md all come from these rows. The map unsupported lists keys of the
// original design that Retake does not support. Load reports an error if such a key is set.
//
// # Invariants
//
// Load returns all problems at once, each on one line with file, line and column. The same input produces the same
// problems in the same order. Load replaces invalid values with their defaults, so the Config is always complete, but
// callers must use it only if there are no problems. The built-in defaults are valid.
//
// The file must not contain secrets. Load rejects a value that looks like a secret, and messages never quote it. The
// only secret in a Config is a password in agent_bus.url that came from the environment, and String masks it. Token
// reads the GitHub token when it is needed.
//
// # Clock
//
// The package does not use a clock.
//
// # Failure policy
//
// The package never retries, because only a person can correct a configuration. Messages therefore list the allowed
// values.
//
// # Imports
//
// internal/tomlfile reads the files. agent, recovery, classify and policy parse the files of [recovery]. It also
// imports budget, redact and spelling. It does not import adapters.
package config
