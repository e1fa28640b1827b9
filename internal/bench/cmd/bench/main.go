// Command bench runs the measurements listed in internal/bench, prints a table, and writes the figures as JSON. Exit
// code 0 means that every goal was met, or that the reason for missing it is known and printed. Exit code 1 means that
// a goal was missed for an unknown reason, and 2 that a measurement failed.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"retake/internal/bench"
)

func main() {
	only := flag.String("only", "", "comma-separated section names (default: all)")
	quick := flag.Bool("quick", false, "run only the sections that CI compares, each as briefly as possible")
	out := flag.String("json", "bin/bench.json", "write the figures to this file")
	verbose := flag.Bool("v", false, "print the test output")
	flag.Parse()
	missed, err := run(*only, *quick, *verbose, *out)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case missed:
		os.Exit(1)
	}
}

func run(only string, quick, verbose bool, out string) (missed bool, err error) {
	dir, err := os.MkdirTemp("", "retake-bench-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sections, err := choose(only, quick)
	if err != nil {
		return false, err
	}
	began := time.Now()
	var all []bench.Figure
	for _, s := range sections {
		fmt.Printf("\n%s\n", s.Title)
		figures, err := measure(s, filepath.Join(dir, s.Name), quick, verbose)
		for _, f := range figures {
			fmt.Println(f)
			if !f.Met() {
				missed = missed || f.Goal.Limit == ""
				fmt.Printf("    %s\n", orUnknown(f.Goal.Limit))
			}
		}
		all = append(all, figures...)
		if err != nil {
			return missed, errors.Join(err, write(out, all))
		}
	}
	fmt.Printf("\nmeasured in %s; the figures are in %s\n", time.Since(began).Round(time.Second), out)
	return missed, write(out, all)
}

// choose returns the sections given by -only in table order, or all sections by default. With -quick, the default is
// the sections that CI compares.
func choose(only string, quick bool) (chosen []bench.Section, err error) {
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(bench.Sections, func(s bench.Section) bool { return s.Name == name })
		switch {
		case only == "":
		case i < 0:
			return nil, fmt.Errorf("-only %s: unknown section", name)
		case quick && !bench.Sections[i].Quick:
			return nil, fmt.Errorf("-only %s: -quick does not include this section", name)
		}
	}
	for _, s := range bench.Sections {
		if (only == "" || slices.Contains(strings.Split(only, ","), s.Name)) && (!quick || s.Quick) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

func write(file string, all []bench.Figure) error {
	data, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	return err
}

func orUnknown(limit string) string {
	if limit == "" {
		return "goal missed for an unknown reason"
	}
	return limit
}

// measure runs one section. On error, it also returns the figures recorded so far.
func measure(s bench.Section, file string, quick, verbose bool) ([]bench.Figure, error) {
	cmd := exec.Command("go", "test", "-count=1", "-timeout", "15m", "-run", "^"+s.Test+"$", "-v", s.Package)
	cmd.Env = append(os.Environ(), bench.FileEnv+"="+file)
	if quick {
		cmd.Env = append(cmd.Env, bench.QuickEnv+"=1")
	}
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if verbose {
		both := io.MultiWriter(os.Stderr, &printed)
		cmd.Stdout, cmd.Stderr = both, both
	}
	failed := cmd.Run()
	if failed != nil {
		failed = fmt.Errorf("%s in %s: %w\n%s", s.Test, s.Package, failed, printed.Bytes())
	}
	f, err := os.Open(file)
	if why, skipped := skipped(printed.String()); err != nil && failed == nil && skipped {
		fmt.Println("  skipped:", why)
		return nil, nil
	}
	if err != nil {
		return nil, errors.Join(failed, fmt.Errorf("%s recorded no figures", s.Test), err)
	}
	defer func() { _ = f.Close() }()
	var all []bench.Figure
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var one bench.Figure
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return all, errors.Join(failed, err)
		}
		all = append(all, one)
	}
	return all, failed
}

// skipped reports whether a test was skipped, and why, given the output of go test -v.
func skipped(printed string) (why string, is bool) {
	before, _, is := strings.Cut(printed, "\n--- SKIP:")
	if !is {
		return "", false
	}
	lines := strings.Split(strings.TrimSpace(before), "\n")
	return strings.TrimSpace(lines[len(lines)-1]), true
}
