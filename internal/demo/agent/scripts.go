package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"retake/internal/agenttest"
	"retake/internal/agenttest/loop"
	"retake/internal/demo/discount"
)

// scripts are the agent's scripts, by the path of the issue's acceptance test.
var scripts = map[string]func(round) error{
	"price/discount_test.go":  works,
	"price/euro_test.go":      wrong("euro"),
	"price/round_test.go":     wrong("round"),
	"shipping/days_test.go":   shipping,
	"price/table_test.go":     table,
	"stock/level_test.go":     halves("stock", "stock/limits.go"),
	"quantity/parse_test.go":  halves("quantity", "quantity/units.go"),
	"cmd/prices/main_test.go": rename,
	"weight/weight_test.go":   asks("weight", unitQuestion, "short", "long"),
	"price/tax_test.go":       right("tax"),
	"shelf/shelf_test.go":     shelf,
	"publish/publish_test.go": publish,
	"export/export_test.go":   asks("export", formatQuestion, "format A", "format B"),
}

// providerVariable holds the address of the fake provider.
const providerVariable = "DEMO_PROVIDER"

// works runs a real loop instead of a script: it asks the model for actions and carries them out. Without a provider's
// address, as with docker-compose.yml, it starts the fake provider itself.
func works(r round) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	address := os.Getenv(providerVariable)
	if address == "" {
		sim, err := agenttest.Start(ctx, "127.0.0.1:0", discount.Task("go vet ./..."))
		if err != nil {
			return err
		}
		defer func() { _ = sim.Close() }()
		address = sim.Base(agenttest.Find("three-failures"), "")
	}
	prompt := r.attempt.Issue.Title
	if len(os.Args) > 1 {
		prompt = os.Args[1]
	}
	return loop.Run(ctx, loop.Options{
		BaseURL: address, Key: "demo", Model: "standin", Prompt: prompt, Dir: ".",
		Out: os.Stdout,
	})
}

// right returns a script that succeeds at once.
func right(script string) func(round) error {
	return func(r round) error { return put(r, script, 1) }
}

// wrong returns a script that never succeeds. The first three rounds fail for different reasons, and later rounds
// repeat the third.
func wrong(script string) func(round) error {
	return func(r round) error { return put(r, script, min(r.fix, 3)) }
}

// thinks is the thinking time of an agent that the demo kills. It exceeds the length of any demo.
const thinks = time.Hour

// halves returns a script that does half of the work, and then thinks until it is killed. The next attempt continues
// from that half.
func halves(script, half string) func(round) error {
	return func(r round) error {
		if r.attempt.Attempt > 1 {
			if _, err := os.Stat(filepath.FromSlash(half)); err != nil {
				return fmt.Errorf("the first half of the work is missing: %w", err)
			}
			fmt.Println("continuing with", half)
			return put(r, script, 2)
		}
		if err := put(r, script, 1); err != nil {
			return err
		}
		fmt.Println("half of it is done; thinking about the other half")
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(thinks):
		}
		return errors.New("ended while thinking")
	}
}

// modelVariable holds the address of the simulated model.
const modelVariable = "DEMO_MODEL"

// shipping asks a model before it writes files. Like many agents, it does not retry a failed request.
func shipping(r round) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv(modelVariable)+"/v1/messages",
		strings.NewReader(r.attempt.Summary))
	if err != nil {
		return fmt.Errorf("%s: %w", modelVariable, err)
	}
	fmt.Println("asking the model")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // ignore the environment's proxy
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the model answered %s: %q", resp.Status, said)
	}
	fmt.Printf("the model says: %s\n", said)
	return put(r, "shipping", 1)
}

// enough is the memory at which the agent gives up. Every memory limit of the demo is lower.
const enough = 4 << 30

// table computes the totals of all possible orders, and keeps them in memory.
func table(round) error {
	fmt.Println("computing the totals of all orders")
	if kept := eat(enough); len(kept) > 0 {
		return fmt.Errorf("the table has %d parts and is not finished: this agent has no memory limit", len(kept))
	}
	return nil
}

// eat fills memory and writes to every page, because the kernel allocates a page only when it is written to.
func eat(bytes int) (kept [][]byte) {
	const part = 32 << 20
	for ; bytes > 0; bytes -= part {
		p := make([]byte, part)
		for i := 0; i < len(p); i += os.Getpagesize() {
			p[i] = 1
		}
		kept = append(kept, p)
	}
	return kept
}

// rename does the task, but does not know that a stage runs the program under its old name.
func rename(r round) error {
	fmt.Println("removing cmd/pricelist")
	if err := os.RemoveAll(filepath.Join("cmd", "pricelist")); err != nil {
		return err
	}
	return put(r, "rename", 1)
}

// Questions that the agent asks on two issues.
const (
	unitQuestion   = `The issue does not say how the unit is written: in the short form ("3 kg") or in the long form ("3 kilograms")?`
	formatQuestion = `Which format does the warehouse read: format A ("3,150") or format B ("3;150")?`
)

// asks returns a script that asks about an unclear point of the issue and follows the answer. If the answer
// contains words[i], the script writes its version i+1.
func asks(script, question string, words ...string) func(round) error {
	return func(r round) error {
		if len(r.attempt.Hints) == 0 {
			fmt.Println("the meaning is unclear; asking a question")
			return write(filepath.Join(".retake", "question.md"), question+"\n")
		}
		answer := r.attempt.Hints[len(r.attempt.Hints)-1]
		fmt.Printf("%s answered: %s\n", answer.From, answer.Text)
		for i, word := range words {
			if strings.Contains(answer.Text, word) {
				return put(r, script, i+1)
			}
		}
		return fmt.Errorf("the answer contains none of %q", words)
	}
}

// shelf breaks a rule that only the pull request's check enforces, and follows the rule after the hint.
func shelf(r round) error {
	if r.attempt.Attempt == 1 {
		return put(r, "shelf", 1)
	}
	for _, h := range r.attempt.Hints {
		if strings.Contains(h.Text, "func Number has no comment") {
			fmt.Printf("%s said: %s\n", h.From, h.Text)
			return put(r, "shelf", 2)
		}
	}
	return errors.New("the input does not mention the fault in the first attempt's work")
}

// plantedKey looks like an AWS key, but is invalid. It is assembled from parts, so that the source does not contain the
// whole key.
const plantedKey = "AKIA" + "Q3ZXRT7YHWJ2LMNB"

// publish does the task correctly, but leaves a key in the source.
func publish(r round) error {
	if err := put(r, "publish", 1); err != nil {
		return err
	}
	name := filepath.Join("publish", "publish.go")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return write(name, strings.ReplaceAll(string(text), "PLANTED", plantedKey))
}
