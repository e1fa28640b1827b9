package main

import (
	"strings"
	"testing"
)

func TestWrongArgumentsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--only abc":       "--only abc: want scenario numbers, e.g. 3,5\n",
		"--only 3,99":      "no scenario 99",
		"--runtime podman": "podman",
		"3":                `unexpected argument "3"`,
		"--frob":           "flag provided but not defined: -frob",
	} {
		var out, errs strings.Builder
		if code := run(strings.Fields(args), &out, &errs); code != 2 || !strings.Contains(errs.String(), want) ||
			out.Len() > 0 {
			t.Errorf("demo %s: exit %d, want 2 and %q\n%s%s", args, code, want, &out, &errs)
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	var out, errs strings.Builder
	if code := run([]string{"--help"}, &out, &errs); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, flag := range []string{"-json", "-only", "-keep", "-runtime", "-kill-director", "-http"} {
		if !strings.Contains(errs.String(), flag) {
			t.Errorf("%s is not in the help:\n%s", flag, &errs)
		}
	}
}
