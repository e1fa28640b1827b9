// Package tomlfile reads the TOML files that people write: the configuration, policies, rules and agents. It reports
// all errors in a file together, each with its line and column.
//
// Parse returns a File with the values and the position of each key. Decode fills structs from it and records unknown
// keys and values of the wrong type. Callers record errors from further checks with Fault. Missing keys leave the
// struct unchanged, so callers set defaults first.
//
// The package is pure. MaxBytes bounds the text, and the library bounds its nesting. It imports the standard library,
// the parser of pelletier/go-toml and spelling. It does not use the library's decoder, which does not report the
// positions of values, and would make the worker, which reads rules, half a megabyte larger. Tests check that the
// package and the library's decoder return equal values.
package tomlfile
