package attack

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var (
	all  = flag.Bool("attacks", false, "run all attacks, not only the quick ones")
	only = flag.String("only", "", "run the attacks whose kind and name (bus: half-open handshakes) contain this text")
	// An attack of a new row must succeed against a commit without the defence.
	baseline = flag.String("baseline", "", "attack director, worker and attack.test in this directory, built from "+
		"another commit")
)

func TestMain(m *testing.M) {
	if path := os.Getenv(shellVariable); path != "" {
		if err := runShell(path); err != nil {
			fmt.Fprintln(os.Stderr, "director:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path := os.Getenv(furyVariable); path != "" {
		if err := runFury(path); err != nil {
			fmt.Fprintln(os.Stderr, "hostile worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	code := m.Run()
	if shown > 0 {
		fmt.Printf("| %d attacks: %d held, %d succeeded\n", shown, shown-through, through)
	}
	for _, dir := range built {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}
