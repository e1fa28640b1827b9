package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const maxSubject = 72

// severalPackages lists commits from before subjects were limited to one package.
var severalPackages = strings.Fields(`
b8b715a 360f9ae c8c65f5 5351e03 5bc51a9 021404d 62a0211 1e5bee5
ee257d0 33aa6ea 60ba7e4 a8a4a03 821a632 1ab06f3 899454f c575c86`)

var (
	subjectForm = regexp.MustCompile(`^[a-z0-9.][A-Za-z0-9_./-]*: (\S+)( .*)?$`)

	// Imperatives that end like other verb forms.
	imperatives = map[string]bool{
		"bring": true, "string": true, "embed": true, "feed": true, "seed": true, "need": true, "speed": true,
		"shed":    true,
		"process": true, "pass": true, "focus": true, "discuss": true, "address": true, "compress": true,
		"access":   true,
		"suppress": true, "miss": true, "bypass": true, "express": true, "guess": true, "press": true, "exceed": true,
		"proceed": true, "succeed": true, "ring": true, "ping": true, "bias": true, "alias": true,
	}
)

// subjectError returns an error if a commit subject does not have the form "package: verb what".
func subjectError(subject string) error {
	if strings.HasPrefix(subject, "Merge ") {
		return nil
	}
	if n := utf8.RuneCountInString(subject); n > maxSubject {
		return fmt.Errorf("%d characters, want at most %d", n, maxSubject)
	}
	m := subjectForm.FindStringSubmatch(subject)
	if m == nil {
		return errors.New(`want "package: verb what", such as "bus: retry a lost append"`)
	}
	verb := m[1]
	third := strings.HasSuffix(verb, "s") && !strings.HasSuffix(verb, "ss")
	if verb != strings.ToLower(verb) || !imperatives[verb] &&
		(third || strings.HasSuffix(verb, "ed") || strings.HasSuffix(verb, "ing")) {
		return fmt.Errorf("%q is not an imperative verb", verb)
	}
	if strings.HasSuffix(subject, ".") {
		return errors.New("ends with a full stop")
	}
	return nil
}
