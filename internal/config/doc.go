// Package config reads the director's configuration: defaults, then one TOML file, then environment, then flags.
//
// One table (table.go) has a row per key: type, default, unit, range, meaning, and the field that it fills. Defaults,
// environment names, checks, String and docs/specs/configuration.md all come from those rows. A key that the design
// names but nothing uses yet stands in a second table, and using it is reported: nothing is accepted silently.
//
// # Invariants
//
// Load returns every problem at once, each on one line, with file, line and column, and the same problems in the same
// order for the same input. The Config that it returns is complete (defaults where a value was bad), but to be used only
// when there are no problems. The built-in defaults have none.
//
// Secrets never stand in the file: values that look like one are refused, and never repeated in a message. A Config holds
// none but for a password in agent_bus.url given through the environment, which String masks. Token reads the GitHub
// token when it is needed.
//
// # Clock
//
// None.
//
// # Failure policy
//
// Nothing here is retried: all problems are for a person, and say what is allowed. Two parsers read the file:
// pelletier/go-toml gives positions and bounds the nesting, BurntSushi/toml gives the values; what one of them refuses
// is refused.
package config
