package project

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"retake/internal/config"
	"retake/internal/recovery/plaintext"
)

// Report is the result of a check.
type Report struct {
	OK       bool      `json:"ok"`
	File     string    `json:"file"`
	Problems []Problem `json:"problems"`
	Stages   []string  `json:"stages"`          // as NAME (PROGRAM); empty if the contract does not define stages
	Image    string    `json:"image,omitempty"` // empty if the contract does not set it
	Keys     []string  `json:"keys"`
}

// Problem is one mistake in a contract.
type Problem struct {
	Line int    `json:"line"`
	Col  int    `json:"col"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

// ErrNone means that a directory does not contain a contract.
var ErrNone = errors.New("project: no contract found")

// Find returns the path of the contract. path names the contract or a checkout.
func Find(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", unnamed(err, path)
	case !info.IsDir():
		return path, nil
	}
	for _, name := range config.ContractFiles {
		file := filepath.Join(path, filepath.FromSlash(name))
		if _, err := os.Lstat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w in %s: neither %s exists; run `director project init` to propose one", ErrNone, path,
		strings.Join(config.ContractFiles, " nor "))
}

// unnamed returns an error that names the path only once.
func unnamed(err error, path string) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Read returns the content of a contract, like the director reads it from git.
func Read(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	switch {
	case err != nil:
		return nil, unnamed(err, file)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s:1:1: not a regular file, want one, because the director does not follow links", file)
	}
	data, err := read(file, config.MaxContract)
	if err != nil {
		return nil, err
	}
	if key, is := config.IsOperators(data); is {
		return nil, fmt.Errorf("%s is a director's configuration, because it has %s, not a contract: check it with "+
			"`director config check -c %s`, and put the contract into %s", file, key, file, config.ContractFiles[0])
	}
	return data, nil
}

// read reads a file up to most+1 bytes, so that the caller can detect a longer file.
func read(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, unnamed(err, file)
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// Check checks a contract. c is the configuration of its repository.
func Check(c config.Config, file string, data []byte, terms config.Terms) (Report, config.Problems) {
	read, problems := config.ReadContract(c, file, data, terms)
	r := Report{
		OK: len(problems) == 0, File: file, Problems: []Problem{}, Stages: []string{},
		Keys: append([]string{}, read.Keys...),
	}
	for _, p := range problems {
		line, col := p.Position()
		r.Problems = append(r.Problems, Problem{line, col, p.Key, p.Text})
	}
	if slices.Contains(read.Keys, "stage") {
		for _, s := range read.Config.Stages {
			program := s.Agent
			if program == "" {
				program = plaintext.CommandLine(s.Run)
			}
			r.Stages = append(r.Stages, s.Name+" ("+program+")")
		}
	}
	if slices.Contains(read.Keys, "containers.image") {
		r.Image = read.Config.Containers.Image
	}
	return r, problems
}

// String summarizes the contract, if it is valid.
func (r Report) String() string {
	or := func(text, instead string) string {
		if text == "" {
			return instead
		}
		return text
	}
	return fmt.Sprintf("%s: ok\nstages: %s\nimage: %s\nkeys: %s", r.File,
		or(strings.Join(r.Stages, ", "), "from the director's configuration"),
		or(r.Image, "from the director's configuration"), or(strings.Join(r.Keys, ", "), "none"))
}
