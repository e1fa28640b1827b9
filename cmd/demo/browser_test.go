package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
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

// The walk's bounds.
const (
	walkTime = 5 * time.Minute // all of it; a quiet machine takes one
	stepTime = 90 * time.Second
	askEvery = 100 * time.Millisecond
)

const pageToken = "the-token-of-the-walk"

// TestPageInABrowser walks the director's page in Chromium while a demo runs without an engine: the board moves
// by itself, a task tells its story, somebody signs in and carries out a command whose output grows. The page
// is whole without network, with a keyboard, on a phone, light and dark. -update writes docs/images.
func TestPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it runs a demo in front of a browser, which takes a minute or more")
	}
	w := openBrowser(t)
	t.Setenv("RETAKE_PAGE_TOKEN", pageToken)
	kept := w.runDemo()

	w.openTheBoard()
	w.seeItMove()
	w.do("leave, since the demo starts its director anew when all has ended", chromedp.Navigate("about:blank"))
	w.await("the demo to end", kept)
	w.openTheBoard()
	w.useTheKeyboard()
	w.readTheStory()
	w.signIn()
	w.act()
	w.seeEveryPage()
	w.nothingElse()
}

// walk is a browser in front of a demo's director.
type walk struct {
	*testing.T
	browser context.Context
	address string // of the director
	ended   chan error

	mu       sync.Mutex
	requests []string // that were not the director's
	wrong    []string // that the console or the content security policy said
}

// openBrowser begins a Chromium, or skips the test.
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
		t.Skip("no chromium in PATH: the page is not walked (apt install chromium)")
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

// freeAddress is one on loopback at which nobody listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listen notes what must not happen.
func (w *walk) listen(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme == "http" && u.Host != w.address ||
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

// nothingElse checks what was noted all the while.
func (w *walk) nothingElse() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) > 0 {
		w.Errorf("the page asked somebody other than the director: %q", w.requests)
	}
	if len(w.wrong) > 0 {
		w.Errorf("the browser complains: %q", w.wrong)
	}
}

// runDemo begins a demo, and returns what is closed once all has ended as promised and the director goes on.
func (w *walk) runDemo() (kept chan struct{}) {
	kept = make(chan struct{})
	ctx, cancel := context.WithCancel(w.Context())
	out := &watched{words: "the director goes on until", seen: sync.OnceFunc(func() { close(kept) })}
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

// watched is a writer that tells when some words were written.
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

// do carries out one step.
func (w *walk) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.browser, stepTime)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// called is a command of the protocol as a step.
func called[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// value is that of an expression in the page.
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

// window makes the window of a size, and prefer light or dark.
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

// until waits until an expression is true in the page. chromedp.Poll would need what the content security
// policy forbids.
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

// openTheBoard waits for the director, and opens its page.
func (w *walk) openTheBoard() {
	w.Helper()
	deadline := time.Now().Add(walkTime)
	for tick := time.NewTicker(askEvery); ; <-tick.C {
		r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+w.address+"/", http.NoBody)
		if err != nil {
			w.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			break
		}
		select {
		case err := <-w.ended:
			w.ended <- err
			w.Fatalf("the demo has ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			w.Fatal("the page is never there")
		}
	}
	w.do("open the board", window(1280, 800, "light"), chromedp.Navigate("http://"+w.address+"/"))
	value[bool](w, "window.opened = true")
}

// place is the column in which the page has an issue.
func place(number int) string {
	return fmt.Sprintf(`document.querySelector('[data-issue="demo/widgets#%d"]')?.closest(".column").dataset.column`,
		number)
}

// seeItMove sees a task go from column to column, on a page that is not loaded again.
func (w *walk) seeItMove() {
	w.until("#3 is on the board, and nobody is asked yet", place(3)+` && `+place(3)+` !== "Needs you"`)
	w.until("#3 needs somebody", place(3)+` === "Needs you"`)
	w.until("the first line says so", `/ needs? you/.test(document.querySelector(".lead").innerText)`)
	w.until("another one is being worked at, or waits",
		`document.querySelectorAll('[data-column="Working"] .card, [data-column="Waiting"] .card, [data-column="Queued"] .card').length > 0 && window.opened`)
	w.picture("page-board")
}

// useTheKeyboard goes through the cards with j and k, and through the page with Tab, and opens a card.
func (w *walk) useTheKeyboard() {
	w.until("all of them are there", `document.querySelectorAll(".card").length === 6`)
	focused := func(i int) string {
		return fmt.Sprintf(`document.activeElement === document.querySelectorAll(".card")[%d]`, i)
	}
	w.do("press j", chromedp.KeyEvent("j"))
	w.until("the first card has the focus", focused(0))
	w.do("press j", chromedp.KeyEvent("j"))
	w.until("the second card has the focus", focused(1))
	w.do("press k", chromedp.KeyEvent("k"))
	w.until("the first card has it again", focused(0))
	w.do("press Tab", chromedp.KeyEvent("\t"))
	w.until("the next card has it, and one sees that", focused(1)+
		` && getComputedStyle(document.activeElement).outlineStyle !== "none" && parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2`)
	w.do("press Enter", chromedp.KeyEvent("\r"))
	w.until("a task is open",
		`location.pathname.startsWith("/tasks/demo/widgets/") && document.querySelector(".task h1")`)
}

const task = "/tasks/demo/widgets/3"

// readTheStory opens the task that needs somebody, and reads why.
func (w *walk) readTheStory() {
	w.do("go back", chromedp.Navigate("http://"+w.address+"/"),
		chromedp.Click(chromedp.CSS(`[data-issue="demo/widgets#3"]`)))
	w.until("the task is open", `location.pathname === "`+task+`" && document.querySelector(".task .badge.blocked")`)
	for part, words := range map[string]string{
		".asked":    "three widgets cost $4, want $3.75",
		".decision": "tests_failed", ".can": "director retry demo/widgets#3", ".timeline": "A person is asked",
	} {
		w.until(part+" says why", fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", part, words))
	}
	w.until("it has what was printed", `document.querySelector("#output").innerText.includes("three widgets cost $4")`)
	w.until("nobody can act",
		`!document.querySelector("button[name=command]") && document.querySelector("main a[href^='/signin']")`)
	form := strings.NewReader(url.Values{"command": {"retry"}}.Encode())
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.address+task+"/commands", form)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		w.Errorf("an action without a session: %d, want 403", resp.StatusCode)
	}
	w.picture("page-task")
}

// signIn goes from the task to the form and back.
func (w *walk) signIn() {
	w.do("ask to sign in", chromedp.Click(chromedp.CSS("main a[href^='/signin']")))
	w.until("the form is there", `document.querySelector("input[name=token]")`)
	w.picture("page-signin")
	w.do("sign in", chromedp.SendKeys(chromedp.CSS("input[name=name]"), "alice"),
		chromedp.SendKeys(chromedp.CSS("input[name=token]"), pageToken+"\r"))
	w.until("the task is back, with buttons", `location.pathname === "`+task+
		`" && document.querySelector("button[value=retry]") && document.querySelector(".who").innerText.includes("alice")`)
	w.picture("page-signed-in")
}

// act has another attempt begin, and sees it print on the page that is open.
func (w *walk) act() {
	w.until("what was printed is there", `document.querySelector("#output").childElementCount > 3`)
	w.do("answer", chromedp.SendKeys(chromedp.CSS("#text"), "prices keep their cents"),
		chromedp.Click(chromedp.CSS("button[value=retry]")))
	w.until("it is said", `document.querySelector(".said")?.innerText.includes("retry: it is in the journal")`)
	value[bool](w, "window.opened = true")
	w.until("no words are asked for while there is nothing to do with them",
		`document.querySelector("#words").hidden && document.querySelector("button[value=stop]") && window.opened`)
	w.until("a second attempt is there", `document.querySelectorAll(".attempt").length === 2 && window.opened`)
	w.until("it prints", `window.opened && document.querySelector("#output").innerText.includes("attempt 2")`)
}

// seeEveryPage looks at each one on a desk and on a phone, light and dark.
func (w *walk) seeEveryPage() {
	for name, path := range map[string]string{
		"board": "/", "task": task, "done": "/tasks/demo/widgets/4",
		"numbers": "/numbers", "machine": "/machine", "tables": "/tables", "signin": "/signin",
	} {
		background := `getComputedStyle(document.body).backgroundColor`
		w.do(name, window(1280, 800, "light"), chromedp.Navigate("http://"+w.address+path))
		light := value[string](w, background)
		w.fits(name)
		w.picture("desk-" + name)
		w.do(name+", dark", window(1280, 800, "dark"))
		if dark := value[string](w, background); light == dark {
			w.Errorf("%s: the background is %s, light and dark", name, light)
		}
		w.picture("dark-" + name)
		w.do(name+" on a phone", window(390, 844, "light"))
		w.fits(name + " on a phone")
		w.picture("phone-" + name)
	}
}

// fits checks that the page is not wider than its window.
func (w *walk) fits(name string) {
	w.Helper()
	widths := value[[]int](w, `[document.documentElement.scrollWidth, innerWidth]`)
	if widths[0] > widths[1] || widths[0] == 0 {
		w.Errorf("%s is %d wide, its window %d", name, widths[0], widths[1])
	}
}

// inDocs are the pictures that the documentation shows.
var inDocs = map[string]bool{"page-board": true, "page-task": true, "desk-machine": true, "desk-numbers": true}

// maxPicture bounds what the repository has to carry, in bytes.
const maxPicture = 250_000

// picture keeps what is seen: for the documentation with -update, for who looks at it with -artifacts.
func (w *walk) picture(name string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.browser, stepTime)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		w.Fatalf("a picture of %s: %v", name, err)
	}
	if len(png) > maxPicture {
		w.Errorf("%s: the picture has %d bytes, want at most %d", name, len(png), maxPicture)
	}
	files := []string{filepath.Join(w.ArtifactDir(), name+".png")}
	if *update && inDocs[name] {
		files = append(files, filepath.Join("..", "..", "docs", "images", strings.Replace(name, "desk-", "page-", 1)+
			".png"))
	}
	for _, file := range files {
		if err := os.WriteFile(file, png, 0o644); err != nil {
			w.Error(err)
		}
	}
}
