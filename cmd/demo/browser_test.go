package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"retake/internal/demo"
)

var update = flag.Bool("update", false, "write docs/images anew")

// Time limits of the walk.
const (
	walkTime = 5 * time.Minute // the whole walk, which takes a minute on a quiet machine
	stepTime = 90 * time.Second
	askEvery = 100 * time.Millisecond
)

const pageToken = "the-token-of-the-walk"

// TestPageInABrowser walks the director's page in Chromium while a demo runs without an engine. It checks that the
// board moves, that a task shows its history, and that a person can sign in, run a command and watch its output
// grow. The page must work without access to other servers, by keyboard, on a phone, and in light and dark mode.
// -update writes docs/images.
func TestPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it runs a demo in front of a browser, which takes a minute or more")
	}
	w := openBrowser(t)
	t.Setenv("RETAKE_PAGE_TOKEN", pageToken)
	kept := w.runDemo()

	w.openTheBoard()
	w.signIn("/")
	w.seeItMove()
	w.do("leave, since the demo restarts its director at the end", chromedp.Navigate("about:blank"))
	w.await("the demo to end", kept)
	w.openTheBoard()
	w.signIn("/") // the first session ended with its director
	w.useTheKeyboard()
	w.readTheStory()
	w.act()
	w.beUselessElsewhere()
	w.seeEveryPage()
	w.nothingElse()
}

// walk is a browser in front of a demo's director.
type walk struct {
	*testing.T
	browser context.Context
	address string // base URL of the director
	ended   chan error

	mu       sync.Mutex
	other    string   // address of a server that the walk itself visits
	requests []string // requests to servers other than the director
	wrong    []string // messages of the console and violations of the content security policy
}

// openBrowser starts Chromium, or skips the test.
func openBrowser(t *testing.T) *walk {
	t.Helper()
	var found string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			found = path
			break
		}
	}
	if found == "" {
		t.Skip("no chromium in PATH: the page is not tested (apt install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found),
		chromedp.WSURLReadTimeout(stepTime), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), walkTime)
	t.Cleanup(cancel)
	ctx, closeBrowser := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(closeBrowser)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	w := &walk{T: t, browser: ctx, address: freeAddress(t), ended: make(chan error, 1)}
	if err := errors.Join(chromedp.Do(ctx), chromedp.Listen(ctx, w.listen)); err != nil {
		t.Fatalf("%s does not start: %v", found, err)
	}
	w.do("hear of requests", called(network.Enable, network.EnableParams{}))
	return w
}

// freeAddress returns a free address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listen records forbidden events.
func (w *walk) listen(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil ||
			u.Scheme == "http" && u.Host != w.address && u.Host != w.other ||
			u.Scheme != "http" && u.Scheme != "data" && u.Scheme != "about" {
			w.requests = append(w.requests, e.Request.URL)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Source == cdplog.EntrySourceSecurity {
			w.wrong = append(w.wrong, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			w.wrong = append(w.wrong, fmt.Sprintf("console: %v", e.Args))
		}
	case *runtime.EventExceptionThrown:
		w.wrong = append(w.wrong, "exception: "+e.ExceptionDetails.Text)
	}
}

// nothingElse checks the recorded events at the end.
func (w *walk) nothingElse() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) > 0 {
		w.Errorf("the page sent requests to other servers: %q", w.requests)
	}
	if len(w.wrong) > 0 {
		w.Errorf("the browser complains: %q", w.wrong)
	}
}

// runDemo starts a demo, and returns a channel that is closed when all scenarios have ended as promised.
func (w *walk) runDemo() (kept chan struct{}) {
	kept = make(chan struct{})
	ctx, cancel := context.WithCancel(w.Context())
	out := &watched{words: "the director runs until", seen: sync.OnceFunc(func() { close(kept) })}
	go func() {
		ok, err := demo.Run(ctx, demo.Options{
			Out: out, Runtime: "process", Only: []int{1, 2, 3, 4, 9, 11}, Keep: true,
			HTTPListen: w.address,
		})
		if !ok && err == nil {
			err = errors.New("a scenario did not end as promised")
		}
		w.ended <- err
	}()
	w.Cleanup(func() {
		cancel()
		if err := <-w.ended; err != nil && !errors.Is(err, context.Canceled) {
			w.Errorf("demo: %v\n%s", err, out)
		}
	})
	return kept
}

// watched is a writer that waits for a text.
type watched struct {
	words string
	seen  func()
	mu    sync.Mutex
	text  strings.Builder
}

func (o *watched) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(b)
	if strings.Contains(o.text.String(), o.words) {
		o.seen()
	}
	return n, err
}

func (o *watched) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// do runs one step.
func (w *walk) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.browser, stepTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// called returns a step that sends a command of the DevTools protocol.
func called[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// value returns the value of an expression in the page.
func value[T any](w *walk, expression string) T {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.browser, stepTime)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		w.Fatalf("%s: %v", expression, err)
	}
	return v
}

// window sets the window's size and its colour scheme, light or dark.
func window(width, height int64, scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		called(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width:  width,
			Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
		}),
		called(emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{
				Name:  "prefers-color-scheme",
				Value: scheme,
			}}}),
	)
}

// until waits until an expression is true in the page. chromedp.Poll would need unsafe-eval, which the content
// security policy forbids.
func (w *walk) until(what, expression string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.browser, stepTime)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && is {
			return
		}
		select {
		case <-tick.C:
		case err := <-w.ended:
			w.ended <- err
			w.Fatalf("%s: the demo has ended: %v", what, err)
		case <-ctx.Done():
			w.Fatalf("never happened: %s (%v)\n%s", what, err,
				value[string](w, "location.href + '\\n' + document.body.innerText"))
		}
	}
}

func (w *walk) await(what string, done <-chan struct{}) {
	w.Helper()
	select {
	case <-done:
	case err := <-w.ended:
		w.ended <- err
		w.Fatalf("%s: %v", what, err)
	case <-w.browser.Done():
		w.Fatalf("%s: %v", what, context.Cause(w.browser))
	}
}
