package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	maxFunction = 60  // lines
	maxFile     = 400 // lines
	maxMethods  = 40  // of one type
	maxFiles    = 30  // files per package, without tests
)

// debtFile records the current violations. Their numbers may only fall.
const debtFile = "tools/house/debt.txt"

// check compares the tree with its limits and its recorded debt. The kinds in harder have a stricter rule, so their
// numbers may rise this once.
func check(root string, update bool, harder []string, out io.Writer) error {
	t, err := measure(root)
	if err != nil {
		return err
	}
	now := t.violations()
	name := filepath.Join(root, debtFile)
	debt, err := readDebt(name)
	if err != nil && (!update || !errors.Is(err, os.ErrNotExist)) {
		return err
	}
	first := errors.Is(err, os.ErrNotExist)
	bad := 0
	for _, key := range sortedKeys(now) {
		if kind, _, _ := strings.Cut(key, " "); slices.Contains(harder, kind) {
			continue
		}
		was, known := debt[key]
		if !first && (!known && !strings.HasPrefix(key, "idioms ") || known && now[key] > was) {
			bad++
			fmt.Fprintf(out, "%s: %d, %s\n", key, now[key], allowed(key, was, known))
		}
	}
	if was, is := total(debt), total(now); !first && is > was && !slices.Contains(harder, "idioms") {
		bad++
		fmt.Fprintf(out, "idioms in all packages: %d, was %d\n", is, was)
	}
	if bad > 0 {
		return fmt.Errorf("%d limits exceeded", bad)
	}
	if update {
		return writeDebt(name, now)
	}
	paid := 0
	for key, was := range debt {
		if now[key] < was {
			paid++
		}
	}
	fmt.Fprintf(out, "%d violations, %d smaller than recorded\n", len(now), paid)
	return nil
}

func allowed(key string, was int, known bool) string {
	if known {
		return fmt.Sprintf("was %d", was)
	}
	kind, _, _ := strings.Cut(key, " ")
	limit := map[string]int{"function": maxFunction, "file": maxFile, "methods": maxMethods, "files": maxFiles}[kind]
	return fmt.Sprintf("want at most %d", limit)
}

func total(debt map[string]int) (n int) {
	for key, value := range debt {
		if strings.HasPrefix(key, "idioms ") {
			n += value
		}
	}
	return n
}

// violations returns the sizes that exceed their limits, and the numbers of idioms and malformed errors by package or
// document.
func (t *tree) violations() map[string]int {
	v, files, methods := map[string]int{}, map[string]int{}, map[string]int{}
	words, faults := map[string]int{}, map[string]int{}
	for _, f := range t.files {
		if f.lines > maxFile {
			v["file "+f.name] = f.lines
		}
		if len(f.wide) > 0 {
			v["wide "+f.name] = len(f.wide)
		}
		for _, fn := range f.funcs {
			if fn.lines > maxFunction {
				v["function "+f.pkg+" "+strings.TrimPrefix(fn.receiver+"."+fn.name, ".")] = fn.lines
			}
			if fn.receiver != "" && f.kind != tests {
				methods[f.pkg+" "+fn.receiver]++
			}
		}
		if f.kind != tests && f.kind != document {
			files[f.pkg]++
		}
		words[f.pkg] += len(f.text.idioms)
		faults[f.pkg] += len(f.errors)
	}
	for key, n := range methods {
		if n > maxMethods {
			v["methods "+key] = n
		}
	}
	for key, n := range files {
		if n > maxFiles {
			v["files "+key] = n
		}
	}
	for key, n := range words {
		if n > 0 {
			v["idioms "+key] = n
		}
	}
	for key, n := range faults {
		if n > 0 {
			v["errors "+key] = n
		}
	}
	return v
}

func readDebt(name string) (map[string]int, error) {
	debt := map[string]int{}
	f, err := os.Open(name)
	if err != nil {
		return debt, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(line[i+1:])
		if i < 0 || err != nil {
			return nil, fmt.Errorf("%s: %q: want a name and a number", debtFile, line)
		}
		debt[line[:i]] = n
	}
	return debt, nil
}

func writeDebt(name string, debt map[string]int) error {
	var b strings.Builder
	b.WriteString("# Recorded violations of limits. The numbers may only fall; make house lowers them.\n")
	for _, key := range sortedKeys(debt) {
		fmt.Fprintf(&b, "%s %d\n", key, debt[key])
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
