// Command netagent is an agent that asks a provider for text and writes it to a file. Like many agents in Go, it prints
// the errors of net/http and encoding/json.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url string) error {
	resp, err := http.Post(url, "application/json", strings.NewReader(`{"model":"m"}`)) //nolint:noctx // a short test
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct{ Text string }
	err = json.Unmarshal(body, &answer)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("error, status code: %d, status: %s, message: %w, body: %s", resp.StatusCode, resp.Status,
			err, body)
	}
	if err != nil {
		return err
	}
	return os.WriteFile("answer.txt", []byte(answer.Text+"\n"), 0o644)
}
