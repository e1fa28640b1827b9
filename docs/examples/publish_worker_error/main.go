// Command publish_worker_error reports a failure for a running worker: it publishes a bare worker_error object on the
// agent bus with the operator's credential.
//
//	go run ./docs/examples/publish_worker_error -creds .retake/bus/operator.json -worker k3v9qx2m-1
//	go run ./docs/examples/publish_worker_error -creds … -worker k3v9qx2m-1 -stdin < error.json
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// example is a complete object; WORKER is a placeholder for the worker's id.
const example = `{
  "error_id": "20260212-004102Z-worker-3-attempt-2", "worker_id": "WORKER", "issue_number": 21, "stage": "VALIDATE",
  "attempt": 2, "error_type": "tests_failed", "is_transient": false, "should_retry": false, "escalate_to_human": true,
  "message": "Unit tests failed deterministically", "exit_code": 1, "container_id": "<docker-id>",
  "worktree_path": "../Review-Cat-agent-21-1707600000", "last_stdout_tail": "...", "last_stderr_tail": "..."
}`

func main() {
	creds := flag.String("creds", ".retake/bus/operator.json",
		"the operator's credential file, written by the director")
	url := flag.String("url", "", "NATS URL (default: the credential file's)")
	prefix := flag.String("prefix", "", "subject prefix (default: the credential file's)")
	worker := flag.String("worker", "", "worker id, which is also the attempt id and the container's name")
	stdin := flag.Bool("stdin", false, "read the object from standard input instead of using the built-in example")
	flag.Parse()
	if err := publish(*creds, *url, *prefix, *worker, *stdin); err != nil {
		fmt.Fprintln(os.Stderr, "publish_worker_error:", err)
		os.Exit(1)
	}
}

func publish(creds, url, prefix, worker string, stdin bool) error {
	if worker == "" {
		return fmt.Errorf("-worker is missing: specify a running worker (docker ps lists them)")
	}
	var operator struct{ URL, JWT, Seed, CA, Prefix string }
	data, err := os.ReadFile(creds)
	if err == nil {
		err = json.Unmarshal(data, &operator)
	}
	if err != nil {
		return fmt.Errorf("-creds: %w", err)
	}
	body := []byte(strings.ReplaceAll(example, "WORKER", worker))
	if stdin {
		if body, err = io.ReadAll(os.Stdin); err != nil {
			return err
		}
	}
	options := []nats.Option{nats.UserJWTAndSeed(operator.JWT, operator.Seed)}
	if operator.CA != "" { // the bus speaks TLS from the first byte, with a certificate issued by this authority
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(operator.CA))
		options = append(options, nats.Secure(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}),
			nats.TLSHandshakeFirst())
	}
	nc, err := nats.Connect(or(url, operator.URL), options...)
	if err != nil {
		return err
	}
	defer nc.Close()
	// The stream that stores the report acknowledges it: {"stream":"RETAKE_REPORTS","seq":7}.
	ack, err := nc.Request(or(prefix, operator.Prefix)+".worker."+worker+".error", body, 5*time.Second)
	if err != nil {
		return err
	}
	fmt.Println(string(ack.Data))
	return nil
}

func or(chosen, otherwise string) string {
	if chosen != "" {
		return chosen
	}
	return otherwise
}
