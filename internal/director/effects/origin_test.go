package effects

import "testing"

func TestRemoteStandsBesideTheAPI(t *testing.T) {
	for api, want := range map[string]string{
		"https://api.github.com/":         "https://github.com/acme/widgets.git",
		"https://ghe.example.com/api/v3/": "https://ghe.example.com/acme/widgets.git",
		"http://127.0.0.1:8900/api/v3/":   "http://127.0.0.1:8900/acme/widgets.git",
	} {
		if got := (Origin{APIURL: api}).Remote("acme/widgets"); got != want {
			t.Errorf("%s: got %s, want %s", api, got, want)
		}
	}
}
