package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// openTheBoard waits for the director, and opens its page.
func (w *walk) openTheBoard() {
	w.Helper()
	deadline := time.Now().Add(walkTime)
	for tick := time.NewTicker(askEvery); ; <-tick.C {
		r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+w.address+"/readyz", http.NoBody)
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
			w.Fatal("the page never appeared")
		}
	}
	w.do("open the board", window(1280, 800, "light"), chromedp.Navigate("http://"+w.address+"/"))
}

// place returns the column in which the page shows an issue.
func place(number int) string {
	return fmt.Sprintf(`document.querySelector('[data-issue="demo/widgets#%d"]')?.closest(".column").dataset.column`,
		number)
}

// seeItMove watches a task move from column to column without a reload of the page.
func (w *walk) seeItMove() {
	w.until("#3 is on the board before a question", place(3)+` && `+place(3)+` !== "Needs you"`)
	w.until("#3 needs somebody", place(3)+` === "Needs you"`)
	w.until("the first line has it", `/ needs? you/.test(document.querySelector(".lead").innerText)`)
	w.until("another one is being worked at, or waits",
		`document.querySelectorAll('[data-column="Working"] .card, [data-column="Waiting"] .card, [data-column="Queued"] .card').length > 0 && window.opened`)
	w.picture("page-board")
}

// useTheKeyboard moves between cards with j and k and through the page with Tab, and opens a card.
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
	w.until("the first card has the focus again", focused(0))
	w.do("press Tab", chromedp.KeyEvent("\t"))
	w.until("the next card has it, and one sees that", focused(1)+
		` && getComputedStyle(document.activeElement).outlineStyle !== "none" && parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2`)
	w.do("press Enter", chromedp.KeyEvent("\r"))
	w.until("a task is open",
		`location.pathname.startsWith("/tasks/demo/widgets/") && document.querySelector(".task h1")`)
}

const task = "/tasks/demo/widgets/3"

// readTheStory opens the task that needs a person, and reads the reason.
func (w *walk) readTheStory() {
	w.do("go back", chromedp.Navigate("http://"+w.address+"/"),
		chromedp.Click(chromedp.CSS(`[data-issue="demo/widgets#3"]`)))
	w.until("the task is open", `location.pathname === "`+task+`" && document.querySelector(".task .badge.blocked")`)
	for part, words := range map[string]string{
		".asked":    "three widgets cost $4, want $3.75",
		".decision": "tests_failed", ".can": "director retry demo/widgets#3", ".timeline": "Retake asked a person",
	} {
		w.until(part+" says why", fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", part, words))
	}
	w.until("it has the output", `document.querySelector("#output").innerText.includes("three widgets cost $4")`)
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

// signIn signs in on the form to which the browser was redirected, and waits for the page at path.
func (w *walk) signIn(path string) {
	w.until("the form is there", `document.querySelector("input[name=token]")?.checkVisibility()`)
	w.picture("page-signin")
	w.do("sign in", chromedp.SendKeys(chromedp.CSS("input[name=name]"), "alice"),
		chromedp.SendKeys(chromedp.CSS("input[name=token]"), pageToken+"\r"))
	w.until("the page is there", `location.pathname === "`+path+
		`" && document.querySelector("#live") && document.querySelector(".who").innerText.includes("alice")`)
	value[bool](w, "window.opened = true")
}

// beUselessElsewhere opens another port of the same host, where an agent could listen. The browser sends the session's
// cookie to that port, but the cookie alone must not permit reading the page.
func (w *walk) beUselessElsewhere() {
	cookies := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cookies <- r.Header.Get("Cookie")
	}))
	defer other.Close()
	w.mu.Lock()
	w.other = other.Listener.Addr().String()
	w.mu.Unlock()
	w.do("open another port", chromedp.Navigate(other.URL))
	cookie := <-cookies
	if !strings.Contains(cookie, "retake_session=") {
		w.Errorf("the browser sent %q: the attack was not made", cookie)
	}
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+w.address+"/live", http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		w.Errorf("the cookie alone reads the page: %d, want 401", resp.StatusCode)
	}
	w.do("go back", chromedp.Navigate("http://"+w.address+task))
	w.until("the person continues", `location.pathname === "`+task+`" && document.querySelector("button[name=command]")`)
}

// act starts another attempt and watches its output on the open page.
func (w *walk) act() {
	w.until("the output is there", `document.querySelector("#output").childElementCount > 3`)
	w.picture("page-signed-in")
	w.do("answer", chromedp.SendKeys(chromedp.CSS("#text"), "prices keep their cents"),
		chromedp.Click(chromedp.CSS("button[value=retry]")))
	w.until("it is said", `document.querySelector(".said")?.innerText.includes("retry: recorded in the journal")`)
	value[bool](w, "window.opened = true")
	w.until("without an action the page does not ask for a text",
		`document.querySelector("#words").hidden && document.querySelector("button[value=stop]") && window.opened`)
	w.until("a second attempt is there", `document.querySelectorAll(".attempt").length === 2 && window.opened`)
	w.until("it prints", `window.opened && document.querySelector("#output").innerText.includes("attempt 2")`)
}

// seeEveryPage opens each page on a desktop and on a phone, light and dark.
func (w *walk) seeEveryPage() {
	for name, path := range map[string]string{
		"board": "/", "task": task, "done": "/tasks/demo/widgets/4",
		"numbers": "/numbers", "machine": "/machine", "tables": "/tables",
	} {
		background := `getComputedStyle(document.body).backgroundColor`
		w.do(name, window(1280, 800, "light"), chromedp.Navigate("http://"+w.address+path))
		w.until(name+" is there", `!document.querySelector(".signin")`)
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
var inDocs = map[string]bool{"page-board": true, "page-task": true}

// maxPicture bounds the size of a picture in the repository, in bytes.
const maxPicture = 250_000

// picture saves a screenshot, for the documentation with -update, and as an artifact with -artifacts.
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
		files = append(files, filepath.Join("..", "..", "docs", "images", name+".png"))
	}
	for _, file := range files {
		if err := os.WriteFile(file, png, 0o644); err != nil {
			w.Error(err)
		}
	}
}
