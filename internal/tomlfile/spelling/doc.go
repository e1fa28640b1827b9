// Package spelling suggests the word that was meant, for every message about an unknown key, word or name.
//
// It is pure: the same word and candidates give the same suggestion. It imports the standard library only.
package spelling
