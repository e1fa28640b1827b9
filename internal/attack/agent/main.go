// Command agent is a hostile coding agent. As a stage, it fetches its orders from the suite at ATTACK_AT, reports its
// findings there, and exits with the code given in the orders. With arguments, it carries out one action in the current
// directory, as user -uid.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// actions maps names to the agent's actions. The agent reports their results and errors.
var actions = map[string]func(args []string) (string, error){}

func init() {
	for _, more := range []map[string]func(args []string) (string, error){onCheckout, onMachine, onHost, onNetwork} {
		for name, do := range more {
			actions[name] = do
		}
	}
}

func main() {
	uid := flag.Int("uid", 0, "UID to switch to first")
	flag.Parse()
	if *uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(*uid), syscall.Setuid(*uid)); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(2)
		}
	}
	if actions[flag.Arg(0)] != nil { // any other argument is a prompt, which the agent ignores
		said, err := act(flag.Args())
		fmt.Println(said)
		if err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(obey())
}

func act(args []string) (string, error) {
	do, ok := actions[args[0]]
	if !ok {
		return "", fmt.Errorf("unknown action %q", args[0])
	}
	return do(args[1:])
}

// order is a command from the attack suite.
type order struct {
	Do   [][]string
	Exit int
}

// obey fetches the orders, carries them out and reports the results.
func obey() int {
	at := os.Getenv("ATTACK_AT")
	var attempt struct {
		Issue struct{ Key string } `json:"issue"`
	}
	data, err := os.ReadFile(filepath.Join(".retake", "attempt.json"))
	if err == nil {
		err = json.Unmarshal(data, &attempt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 2
	}
	var o order
	query := "?issue=" + strings.ReplaceAll(attempt.Issue.Key, "#", "%23") + "&stage=" + os.Getenv("RETAKE_STAGE")
	for range 50 {
		var answer *http.Response
		if answer, err = http.Get(at + "/order" + query); err == nil {
			err = json.NewDecoder(answer.Body).Decode(&o)
			_ = answer.Body.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent: cannot fetch orders:", err)
		return 2
	}
	for _, args := range o.Do {
		said, err := act(args)
		if err != nil {
			said += "\nerror: " + err.Error()
		}
		answer, err := http.Post(at+"/said"+query, "text/plain", bytes.NewReader([]byte(said+"\n")))
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
	return o.Exit
}
