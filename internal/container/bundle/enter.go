package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// EnterCommand is the first argument that makes the worker's program set up an attempt and then execute it. The
// remaining arguments are DIR PROGRAM ARGUMENT…, where DIR is the unpacked directory.
const EnterCommand = "enter"

// EnterMain implements EnterCommand. It returns only after a failure, with the exit code that a shell would use.
func EnterMain(args []string, stdout, stderr io.Writer) int {
	if len(args) < 2 {
		fmt.Fprintln(stderr, "usage: worker", EnterCommand, "DIR PROGRAM ARGUMENT…")
		return 2
	}
	fmt.Fprintln(stdout, FirstLine)
	err := enter(args[0], args[1:])
	fmt.Fprintln(stderr, NotStarted+err.Error())
	_ = lastWords(NotStarted + err.Error())
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

func enter(dir string, argv []string) error {
	variables, err := takeAway(filepath.Join(dir, environ))
	if err != nil {
		return err
	}
	data, err := io.ReadAll(variables)
	_ = variables.Close()
	var env []string
	if err == nil {
		err = json.Unmarshal(data, &env)
	}
	if err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	input, err := takeAway(filepath.Join(dir, inputFile))
	if err != nil {
		return err
	}
	if err := unix.Dup3(int(input.Fd()), 0, 0); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if err := input.Close(); err != nil {
		return err
	}
	if err := syscall.Exec(argv[0], argv, merged(os.Environ(), env)); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

// takeAway opens a file and then removes it from its directory. The returned file remains usable.
func takeAway(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return f, os.Remove(path)
}

// merged returns the variables of both lists. If both set a variable, the value from ours wins.
func merged(own, ours []string) []string {
	set := map[string]bool{}
	for _, v := range ours {
		name, _, _ := strings.Cut(v, "=")
		set[name] = true
	}
	var all []string
	for _, v := range own {
		if name, _, _ := strings.Cut(v, "="); !set[name] {
			all = append(all, v)
		}
	}
	return append(all, ours...)
}
