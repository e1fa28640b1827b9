// Package tomlfile reads TOML files written by people: the configuration, policies, rules and agents. It reports all
// errors in a file together, each with its line and column.
//
// Parse returns a File with the values and the position of each key. Decode fills structs from it and records unknown
// keys and values of the wrong type. Callers record errors from further checks with Fault. Missing keys leave the
// struct unchanged, so callers set defaults first.
//
// The package is pure. MaxBytes limits the size of the text, and the library limits its nesting. The package imports
// the standard library, the pelletier/go-toml parser and spelling. It does not use the library's decoder, because the
// decoder does not report the positions of values. It would also add half a megabyte to the worker, which reads rules.
// Tests check that the package and the library's decoder return equal values.
package tomlfile
