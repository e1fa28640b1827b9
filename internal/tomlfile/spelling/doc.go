// Package spelling suggests a similar word for messages about an unknown key, word or name.
//
// It is pure: the same word and candidates produce the same suggestion. It imports the standard library only.
package spelling
