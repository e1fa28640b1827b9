// Package tomlfile reads the TOML files that people write: the configuration, policies, rules and agents. It reports
// all errors in a file together, each with its line and column. Parse returns a File: the values, and the position of
// each key.
//
// Parse gives a File: the values, and where each key stands. Decode fills structs from it and records unknown keys and
// values of the wrong type. Callers record errors of further checks with Fault. Missing keys leave the struct
// unchanged, so callers set defaults first.
//
// The package is pure. Bounds: MaxBytes of text, and the library's on nesting. It imports the standard library,
// the parser of pelletier/go-toml and spelling. The library's decoder would make the worker, which reads rules,
// half a megabyte larger, and does not tell where values stand; tests compare with it.
package tomlfile
