// Package tomlfile reads the TOML files that people write: the configuration, policies, rules and agents. It
// finds all that is wrong with one at once, each with its line and column.
//
// Parse gives a File: the values, and where each key stands. Decode fills structs from it and notes keys that
// do not exist and values of the wrong type; whoever checks more notes that at the same places with Fault. What
// is not in the file leaves the struct as it was, so that defaults are set before.
//
// The package is pure. Bounds: MaxBytes of text, and the library's on nesting. It imports the standard library,
// the parser of pelletier/go-toml and spelling. The library's decoder would make the worker, which reads rules,
// half a megabyte larger, and does not tell where values stand; tests compare with it.
package tomlfile
