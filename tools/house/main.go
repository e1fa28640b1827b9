// Command house measures the tree and keeps it in shape: sizes by package, limits that no linter checks, idioms, and
// the form of commit subjects.
//
//	house size              lines of code, files, exported names, widest line and idioms of every package
//	house check             check the limits, print one line for each violation, exit 1 if there are any
//	house check -update     record smaller numbers, refuse larger ones
//	house check -update -harder KINDS   record larger numbers for kinds with a stricter rule
//	house idioms [PREFIX…]  sentences to rewrite, in files whose names begin with a prefix
//	house errors [PREFIX…]  error texts to rewrite
//	house subject FILE      check the subject in a commit message
//	house subjects RANGE    check the subjects of the commits in a range
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("house", flag.ContinueOnError)
	root := flags.String("root", ".", "root of the checkout")
	update := flags.Bool("update", false, "lower the recorded numbers to the current ones")
	harder := flags.String("harder", "", "kinds of debt that -update may raise, such as idioms,errors")
	if len(args) == 0 {
		return fmt.Errorf("want size, check, idioms, errors, subject FILE or subjects RANGE")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "size":
		tree, err := measure(*root)
		if err == nil {
			tree.print(out)
		}
		return err
	case "check":
		if *harder != "" && !*update {
			return fmt.Errorf("-harder needs -update")
		}
		return check(*root, *update, strings.Split(*harder, ","), out)
	case "idioms", "errors":
		tree, err := measure(*root)
		if err == nil {
			tree.printText(args[0], flags.Args(), out)
		}
		return err
	case "subject":
		data, err := os.ReadFile(flags.Arg(0))
		if err != nil {
			return err
		}
		return subjectError(firstLine(string(data)))
	case "subjects":
		return checkSubjects(*root, flags.Arg(0), out)
	}
	return fmt.Errorf("unknown command %q: want size, check, idioms, errors, subject or subjects", args[0])
}

// checkSubjects reports each commit of a range with a malformed subject. It returns an error if git does not know the
// range, as in a shallow clone that must fetch more history.
func checkSubjects(root, commits string, out io.Writer) error {
	git := exec.Command("git", "-C", root, "log", "--no-merges", "--format=%H %s", commits)
	git.Stderr = os.Stderr
	data, err := git.Output()
	if err != nil {
		return fmt.Errorf("git log %s: %w (in a shallow clone: git fetch --unshallow)", commits, err)
	}
	bad, all := 0, 0
	for line := range strings.Lines(string(data)) {
		id, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		all++
		if slices.ContainsFunc(severalPackages, func(old string) bool { return strings.HasPrefix(id, old) }) {
			continue
		}
		if err := subjectError(subject); err != nil {
			bad++
			fmt.Fprintf(out, "%.9s %q: %v\n", id, subject, err)
		}
	}
	fmt.Fprintf(out, "%d commit subjects checked\n", all)
	if bad > 0 {
		return fmt.Errorf("%d subjects do not have the form \"package: verb what\"", bad)
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}
