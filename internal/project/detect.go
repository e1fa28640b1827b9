package project

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const mostRead = 1 << 20 // bytes of a build file that are read

// checkout is a directory to look at.
type checkout string

func (c checkout) text(name string) string {
	data, err := read(filepath.Join(string(c), name), mostRead)
	if err != nil || len(data) > mostRead {
		return ""
	}
	return string(data)
}

// has returns the first of the files that exists, or "".
func (c checkout) has(names ...string) string {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(string(c), name)); err == nil {
			return name
		}
	}
	return ""
}

// kinds lists the detectors of build systems.
var kinds = []func(checkout) []Command{goChecks, nodeChecks, pythonChecks, rustChecks, mavenChecks, gradleChecks}

// Detect proposes checks and an image from a checkout's build files. If a Makefile has the target check or
// test, Detect ignores the languages' build files. Otherwise, if they suggest no check, it uses the CI's workflows.
func Detect(dir string) Draft {
	c := checkout(dir)
	d := Draft{Checks: makeChecks(c)}
	if len(d.Checks) == 0 {
		for _, kind := range kinds {
			d.Checks = append(d.Checks, kind(c)...)
		}
	}
	commands, image := ofWorkflows(c)
	commands = slices.DeleteFunc(commands, func(w Command) bool {
		return slices.ContainsFunc(d.Checks, func(have Command) bool { return have.String() == w.String() })
	})
	if len(d.Checks) == 0 {
		most := min(len(commands), 3)
		d.Checks, commands = commands[:most], commands[most:]
	}
	for _, w := range commands[:min(len(commands), 5)] {
		d.Hints = append(d.Hints, w.String()+" ("+w.Why+")")
	}
	if d.ImageHint = image; image == "" {
		d.ImageHint = imageOf(c)
	}
	return d
}

var goVersion = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)

// imageOf proposes an image with the tools of the checkout's language.
func imageOf(c checkout) string {
	switch {
	case c.has("go.mod") != "":
		if v := goVersion.FindStringSubmatch(c.text("go.mod")); v != nil {
			return "golang:" + v[1]
		}
		return "golang:latest"
	case c.has("package.json") != "":
		return "node:lts"
	case c.has("pyproject.toml", "setup.cfg", "setup.py", "tox.ini") != "":
		return "python:3"
	case c.has("Cargo.toml") != "":
		return "rust:latest"
	case c.has("pom.xml") != "":
		return "maven:latest"
	case c.has("build.gradle", "build.gradle.kts") != "":
		return "gradle:latest"
	}
	return "acme/dev:1"
}

var makeTarget = regexp.MustCompile(`(?m)^(check|test)[ \t]*:([^=:]|$)`)

// makeChecks proposes the target check, or else test.
func makeChecks(c checkout) []Command {
	file := c.has("GNUmakefile", "makefile", "Makefile")
	if file == "" {
		return nil
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(c.text(file), -1) {
		targets = append(targets, m[1])
	}
	if len(targets) == 0 {
		return nil
	}
	return []Command{{Run: []string{"make", slices.Min(targets)}, Why: file}} // check precedes test
}

func goChecks(c checkout) []Command {
	if c.has("go.mod") == "" {
		return nil
	}
	return []Command{
		{Run: []string{"go", "vet", "./..."}, Why: "go.mod"}, {Run: []string{"go", "test", "./..."}, Why: "go.mod"},
	}
}

// managers maps a lock file to its package manager.
var managers = [][2]string{{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"}}

// nodeChecks proposes scripts of package.json.
func nodeChecks(c checkout) (all []Command) {
	var file struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal([]byte(c.text("package.json")), &file) != nil {
		return nil
	}
	manager := "npm"
	for _, m := range managers {
		if c.has(m[0]) != "" {
			manager = m[1]
			break
		}
	}
	for _, script := range []string{"lint", "typecheck", "type-check", "check", "test"} {
		text, set := file.Scripts[script]
		if !set || strings.Contains(text, "no test specified") {
			continue
		}
		all = append(all, Command{Run: []string{manager, "run", script}, Why: "package.json"})
	}
	return all
}

var pytest = regexp.MustCompile(`(?i)\bpytest\b`)

// pythonChecks proposes pytest if a file mentions it, or else tox or unittest.
func pythonChecks(c checkout) (all []Command) {
	file := c.has("pyproject.toml", "setup.cfg", "tox.ini")
	if file == "" {
		return nil
	}
	python := []string{"python3"}
	switch {
	case c.has("uv.lock") != "":
		python = []string{"uv", "run", "python"}
	case c.has("poetry.lock") != "":
		python = []string{"poetry", "run", "python"}
	}
	if strings.Contains(c.text("pyproject.toml"), "[tool.ruff") || c.has("ruff.toml", ".ruff.toml") != "" {
		all = append(all, Command{Run: []string{"ruff", "check", "."}, Why: file})
	}
	module := "unittest"
	for _, name := range []string{"pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt"} {
		if pytest.MatchString(c.text(name)) {
			module, file = "pytest", name
			break
		}
	}
	if module == "unittest" && c.has("tox.ini") != "" {
		return append(all, Command{Run: []string{"tox"}, Why: "tox.ini"})
	}
	return append(all, Command{Run: append(slices.Clone(python), "-m", module), Why: file})
}

func rustChecks(c checkout) []Command {
	if c.has("Cargo.toml") == "" {
		return nil
	}
	return []Command{{Run: []string{"cargo", "test"}, Why: "Cargo.toml"}}
}

func mavenChecks(c checkout) []Command {
	if c.has("pom.xml") == "" {
		return nil
	}
	program := "mvn"
	if c.has("mvnw") != "" {
		program = "./mvnw"
	}
	return []Command{{Run: []string{program, "-B", "verify"}, Why: "pom.xml"}}
}

func gradleChecks(c checkout) []Command {
	file := c.has("build.gradle", "build.gradle.kts")
	if file == "" {
		return nil
	}
	program := "gradle"
	if c.has("gradlew") != "" {
		program = "./gradlew"
	}
	return []Command{{Run: []string{program, "check"}, Why: file}}
}
