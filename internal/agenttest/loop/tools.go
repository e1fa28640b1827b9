package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// declared describes the tools to the model.
var declared = []map[string]any{
	tool("read_file", "Read a file.", "path"),
	tool("write_file", "Write a file, replacing it if it exists.", "path", "content"),
	tool("edit_file", "Replace a string that occurs exactly once in the file.", "path", "old_string", "new_string"),
	tool("run_command", "Run a command in the working directory.", "command"),
}

func tool(name, about string, params ...string) map[string]any {
	properties := map[string]any{}
	for _, p := range params {
		properties[p] = map[string]any{"type": "string"}
	}
	return map[string]any{
		"name": name, "description": about,
		"input_schema": map[string]any{"type": "object", "properties": properties, "required": params},
	}
}

// input is the input of a tool.
type input struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Old     string `json:"old_string"`
	New     string `json:"new_string"`
	Command string `json:"command"`
}

// tools carries out tool calls below one directory.
type tools struct {
	dir  string
	root *os.Root
}

func openTools(dir string) (*tools, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &tools{dir, root}, err
}

func (t *tools) close() { _ = t.root.Close() }

// Limits on a tool's result, in bytes, and on a command's run time.
const (
	maxResult      = 16 << 10
	commandTimeout = 2 * time.Minute
)

// call calls a tool. The model gets the error as the result.
func (t *tools) call(ctx context.Context, name string, arguments json.RawMessage) (string, error) {
	var in input
	if err := json.Unmarshal(arguments, &in); err != nil {
		return "", fmt.Errorf("the arguments are not a JSON object: %w", err)
	}
	switch name {
	case "read_file":
		return t.read(in.Path)
	case "write_file":
		return "written", t.write(in.Path, in.Content)
	case "edit_file":
		return "edited", t.edit(in)
	case "run_command":
		return t.run(ctx, in.Command)
	}
	return "", fmt.Errorf("unknown tool %q", name)
}

// local makes an absolute path relative to the directory. The os.Root refuses paths outside it.
func (t *tools) local(path string) string {
	if rel, err := filepath.Rel(t.dir, path); filepath.IsAbs(path) && err == nil {
		return rel
	}
	return path
}

func (t *tools) read(path string) (string, error) {
	f, err := t.root.Open(t.local(path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxResult))
	return string(data), err
}

// edit replaces text anywhere in the file, even in parts that the model has not seen.
func (t *tools) edit(in input) error {
	data, err := t.root.ReadFile(t.local(in.Path))
	if err != nil {
		return err
	}
	text := string(data)
	if n := strings.Count(text, in.Old); n != 1 {
		return fmt.Errorf("%s: old_string occurs %d times, want once", in.Path, n)
	}
	return t.write(in.Path, strings.Replace(text, in.Old, in.New, 1))
}

func (t *tools) write(path, content string) error {
	path = t.local(path)
	if err := t.root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return t.root.WriteFile(path, []byte(content), 0o644)
}

// run runs a command in a shell. On a machine without a shell, it splits the command at spaces.
func (t *tools) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	argv := []string{"sh", "-c", command}
	if _, err := exec.LookPath("sh"); err != nil {
		argv = strings.Fields(command)
	}
	if len(argv) == 0 {
		return "", errors.New("the command is empty")
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = t.dir, time.Second
	out, err := cmd.CombinedOutput()
	text := string(out[max(0, len(out)-maxResult):])
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return text, nil
}
