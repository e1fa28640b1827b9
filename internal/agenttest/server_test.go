package agenttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
)

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), "127.0.0.1:0", DefaultTask)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// client follows redirects like an SDK, and has a short timeout for tests.
var client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// The scripted model works with the given tools, in the requested protocol and form.
func TestTheModelReadsWritesAndRuns(t *testing.T) {
	s := start(t)
	for _, p := range Protocols {
		for _, stream := range []bool{false, true} {
			var got []string
			for answered := range 4 {
				path, body := request(p, stream, answered)
				resp, answer, err := post(s.Base(Find("ok"), ""), path, body)
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("%s: %v %s", p, err, answer)
				}
				names, args := calls(t, p, stream, answer)
				got = append(got, strings.Join(names, "+"))
				if len(args) == 1 && names[0] == "write" && (args[0]["file_path"] != "/tmp/checkout/standin.txt" ||
					args[0]["overwrite"] != false) {
					t.Errorf("%s: write with %v", p, args[0])
				}
				if len(args) == 1 && names[0] == "shell" {
					if list, _ := args[0]["command"].([]any); len(list) != 3 {
						t.Errorf("%s: shell with %v", p, args[0])
					}
				}
				if answered == 3 && !strings.Contains(answer, "read it back") {
					t.Errorf("%s: the end is %q", p, answer)
				}
			}
			if want := []string{"read_file", "write", "shell", ""}; !slices.Equal(got, want) {
				t.Errorf("%s, stream %v: the model calls %q, want %q", p, stream, got, want)
			}
		}
	}
}

// Every case answers each protocol as its provider would: a documented error, a page, a stream, or the end of
// the connection.
func TestEveryCaseAnswersEveryProtocol(t *testing.T) {
	s := start(t)
	if len(Cases) < 60 {
		t.Errorf("%d cases", len(Cases))
	}
	failing := 0
	for i := range Cases {
		c := &Cases[i]
		if !c.Succeeds() {
			failing++
		}
		if c.Long || c.place != here || strings.HasPrefix(c.Name, "slow") { // TestPlaces, and the matrix
			continue
		}
		for _, p := range Protocols {
			for _, stream := range []bool{false, true} {
				label := fmt.Sprint(p, stream)
				path, body := request(p, stream, 0)
				resp, answer, err := post(s.Base(c, label), path, body)
				switch {
				case err != nil && (c.Name == "redirect-loop" || isCut(err)):
				case err != nil:
					t.Errorf("%s, %s: %v", c.Name, p, err)
				case resp.StatusCode >= 400:
					checkError(t, c, p, resp, answer)
				}
			}
		}
	}
	if failing < 50 {
		t.Errorf("%d ways to fail, want at least 50", failing)
	}
	t.Logf("%d cases, %d of them failures, in %d protocols", len(Cases), failing, len(Protocols))
}

func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		strings.Contains(err.Error(), "reset by peer")
}

// checkError checks that an error declared as JSON is JSON in the provider's form.
func checkError(t *testing.T, c *Case, p Protocol, resp *http.Response, answer string) {
	t.Helper()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return
	}
	var o object
	if err := json.Unmarshal([]byte(answer), &o); err != nil {
		t.Errorf("%s, %s: %v in %q", c.Name, p, err, answer)
		return
	}
	e := inner(o, "error")
	switch p {
	case Anthropic:
		if o["detail"] == nil && (o["type"] != "error" || text(e, "type") == "" || text(e, "message") == "") {
			t.Errorf("%s: not Anthropic's form: %s", c.Name, answer)
		}
	case Gemini:
		if o["detail"] == nil && (e["code"] != float64(resp.StatusCode) || text(e, "status") == "" ||
			text(e, "message") == "") {
			t.Errorf("%s: not Google's form: %s", c.Name, answer)
		}
	default:
		if o["detail"] == nil && text(e, "message") == "" && text(o, "message") == "" {
			t.Errorf("%s: not OpenAI's form: %s", c.Name, answer)
		}
	}
}

func TestPlaces(t *testing.T) {
	s := start(t)
	for name, want := range map[string]string{
		"refused": "connection refused", "no-such-host": "no such host",
		"tls-to-plain": "server gave HTTP response to HTTPS client",
		"self-signed":  "certificate", "reset": "reset by peer", "closed": "EOF",
	} {
		path, body := request(OpenAIChat, false, 0)
		_, _, err := post(s.Base(Find(name), ""), path, body)
		if err == nil || !strings.Contains(err.Error(), want) && name != "no-such-host" {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestRunsAreCountedApart(t *testing.T) {
	s := start(t)
	path, body := request(Anthropic, true, 0)
	for _, label := range []string{"a", "b"} {
		var got []int
		for range 4 {
			resp, _, err := post(s.Base(Find("rate-limit-twice"), label), path, body)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, resp.StatusCode)
			title := object{"model": "standin", "messages": []object{{"role": "user", "content": "a title, please"}}}
			if _, _, err := post(s.Base(Find("rate-limit-twice"), label), "/v1/messages", title); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, []int{429, 429, 200, 200}) {
			t.Errorf("%s: %v", label, got)
		}
		if requests, side := s.Count(Find("rate-limit-twice"), label); requests != 4 || side != 4 {
			t.Errorf("%s: counted %d and %d, want 4 and 4", label, requests, side)
		}
	}
}

func TestOverflowEndsWithAShorterPrompt(t *testing.T) {
	s := start(t)
	c := Find("overflow-once")
	var got []int
	for _, size := range []int{10, 10, 5000, 5000, 200} { // two steps, then two that are too long, then a shorter one
		path, body := request(OpenAIChat, false, 0)
		body["messages"] = append(body["messages"].([]object),
			object{"role": "user", "content": strings.Repeat("x", size)})
		resp, _, err := post(s.Base(c, ""), path, body)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, resp.StatusCode)
	}
	if !slices.Equal(got, []int{200, 200, 400, 400, 200}) {
		t.Errorf("got %v", got)
	}
}

func TestModelsAreListed(t *testing.T) {
	s := start(t)
	for _, path := range []string{
		"/v1/models", "/case/ok/v1/models", "/case/invalid-key@7/v1beta/models",
		"/v1/models/standin",
	} {
		resp, err := client.Get(s.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || !bytes.Contains(data, []byte("standin")) {
			t.Errorf("%s: %s %s", path, resp.Status, data)
		}
	}
}

var update = flag.Bool("update", false, "rewrite testdata/misread.txt")

// misreadBefore returns the names in a file that lists misread bodies.
func misreadBefore(file string) map[string]bool {
	known := map[string]bool{}
	if data, err := os.ReadFile(file); err == nil {
		for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
			name, _, _ := strings.Cut(scan.Text(), "\t")
			known[name] = true
		}
	}
	return known
}

// TestBodiesAreReadAsTheTableSays checks how the bodies alone are classified, as if a CLI printed them unchanged.
// misread.txt lists the remaining errors, and may only get shorter.
func TestBodiesAreReadAsTheTableSays(t *testing.T) {
	s := start(t)
	reader, err := classify.New()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "misread.txt")
	known := misreadBefore(file)
	var misread []string
	read, right := 0, 0
	for i := range Cases {
		c := &Cases[i]
		if c.Succeeds() || c.Long || c.place != here {
			continue
		}
		seen := map[string]bool{}
		for _, p := range Protocols {
			path, body := request(p, false, 0)
			resp, answer, err := post(s.Base(c, "read"), path, body)
			if err != nil || resp.StatusCode < 400 || seen[answer] {
				continue
			}
			seen[answer] = true
			for form, e := range map[string]recovery.Evidence{
				"text": {Stage: "CODE", ExitCode: new(int), Stderr: fmt.Sprintf("Error: %s %s\n", resp.Status,
					answer)},
				"event": {
					Stage: "CODE", ExitCode: new(int), HTTPStatus: resp.StatusCode,
					Stdout: encode(object{"type": "error", "status": resp.StatusCode, "message": answer}) + "\n",
				},
			} {
				*e.ExitCode = 1
				read++
				if f := reader.Classify(e); c.Right(f.Reason) {
					right++
				} else {
					name := fmt.Sprintf("%s %s %s", c.Name, p, form)
					misread = append(misread, fmt.Sprintf("%s\t%s, want %s: %.120q", name, f.Reason, c.Reason, answer))
					if !known[name] && !*update {
						t.Errorf("misread: %s", misread[len(misread)-1])
					}
				}
			}
		}
	}
	slices.Sort(misread)
	t.Logf("%d of %d bodies match the table", right, read)
	if len(misread) < len(known) {
		t.Logf("%s lists %d, and only %d of them are still misread: shorten it with -update", file, len(known),
			len(misread))
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(append(misread, ""), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
