package chaos

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestWeather checks the effect of each fault of the proxy on a request, and whether the request was carried out.
func TestWeather(t *testing.T) {
	post := func(web *httptest.Server, path, body string) (status int, text string, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/api/v3/repos/"+repository+
			"/issues/1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer token")
		resp, err := web.Client().Do(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data), err
	}
	for _, c := range []struct {
		name    string
		weather weather
		status  int // 0 without a complete answer
		happens bool
	}{
		{"server errors", weather{share: 1, does: serverError(http.StatusBadGateway)}, http.StatusBadGateway, false},
		{"an answer is lost", weather{share: 1, does: cut, also: isWrite}, 0, true},
		{"half an answer", weather{share: 1, does: half}, 0, true},
		{"false success", weather{share: 1, does: lie, also: isWrite}, http.StatusOK, false},
		{
			"one 404",
			weather{share: 1, most: 1, does: refuse(http.StatusNotFound, "Not Found"), also: isIssue},
			http.StatusNotFound, false,
		},
		{"git only", weather{share: 1, does: cut, also: isGit}, http.StatusOK, true},
		{"none", weather{share: 0, does: cut}, http.StatusOK, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJudged(t)
			i := j.open(rand.New(rand.NewPCG(1, 1)))
			j.proxy = &proxy{to: j.github}
			web := httptest.NewServer(j.proxy)
			t.Cleanup(web.Close)
			j.proxy.set(&c.weather, 1)
			status, text, err := post(web, "labels", `["seen"]`)
			if c.status == 0 && err == nil || c.status != 0 && (err != nil || status != c.status) {
				t.Errorf("%d %q, %v, want %d", status, text, err, c.status)
			}
			if got := slices.Contains(j.github.Issue(i.key).Labels, "seen"); got != c.happens {
				t.Errorf("the label is there: %v, want %v", got, c.happens)
			}
			if c.weather.most > 0 {
				if status, _, err := post(web, "labels", `["seen"]`); err != nil || status != http.StatusOK {
					t.Errorf("the next one: %d, %v", status, err)
				}
			}
		})
	}
}

func TestEveryFaultHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults {
		if f.name == "" || seen[f.name] || f.weight < 1 || len(f.name) > 33 {
			t.Errorf("%q: want a unique short name, and a weight", f.name)
		}
		seen[f.name] = true
	}
}
