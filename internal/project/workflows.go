package project

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"retake/internal/config"
)

const workflowDir = ".github/workflows"

// workflow is the part of a GitHub workflow that shows how a repository is tested.
type workflow struct {
	Jobs map[string]struct {
		Container yaml.Node `yaml:"container"`
		Steps     []struct {
			Run string `yaml:"run"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// tests matches a command that tests or checks.
var tests = regexp.MustCompile(
	`(^|[\s/:_-])(tests?|check|lint|vet|verify|pytest|tox|ruff|mypy|clippy|ctest|rspec|golangci-lint)(\s|$)`)

// installs matches a command that prepares the machine or publishes something.
var installs = regexp.MustCompile(
	`\b(git|gh|curl|wget|docker|apt|apt-get|pip|pip3|brew|install|publish|deploy|upload)\b`)

// isCheck reports whether a line of a script is a complete command that tests or checks.
func isCheck(line string) bool {
	return tests.MatchString(line) && !installs.MatchString(line) && !strings.Contains(line, "${{") &&
		!control.MatchString(line) && !strings.HasSuffix(line, `\`) && !strings.HasPrefix(line, "#")
}

// ofWorkflows returns the commands that test, and the image of a job.
func ofWorkflows(c checkout) (commands []Command, image string) {
	entries, _ := os.ReadDir(filepath.Join(string(c), workflowDir))
	for _, e := range entries {
		name := path.Join(workflowDir, e.Name())
		var w workflow
		if ext := path.Ext(name); ext != ".yml" && ext != ".yaml" || yaml.Unmarshal([]byte(c.text(name)), &w) != nil {
			continue
		}
		for _, job := range sortedKeys(w.Jobs) {
			if image == "" {
				image = imageOfJob(w.Jobs[job].Container)
			}
			for _, step := range w.Jobs[job].Steps {
				script, _, _ := lines(step.Run)
				for _, line := range script {
					if isCheck(line) {
						commands = append(commands, Command{Run: config.Words(line), Why: name})
					}
				}
			}
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(commands, func(w Command) bool {
		again := seen[w.String()]
		seen[w.String()] = true
		return again
	}), image
}

// imageOfJob returns the image in a job's container, unless it is an expression.
func imageOfJob(n yaml.Node) string {
	var long struct {
		Image string `yaml:"image"`
	}
	image := n.Value
	if n.Kind == yaml.MappingNode && n.Decode(&long) == nil {
		image = long.Image
	}
	if strings.Contains(image, "$") {
		return ""
	}
	return image
}
