package serve

import (
	"context"
	"sync"
	"testing"
	"time"

	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// Health distinguishes a closed GitHub from a silent GitHub.
func TestHealthSaysWhatHasClosedGitHub(t *testing.T) {
	client, err := github.New(github.Options{
		Options: api.Options{
			BaseURL: "https://github.test/",
			Token: func(context.Context) (string, error) {
				return "",
					nil
			},
			OnCooldown: func(gate.Cooldown) {},
		},
		Fleet: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	client.API.Gate.Prime(gate.Cooldown{Resource: gate.API, Until: until, Why: "three tasks failed alike"})
	if want, got := "Retake does not send requests to GitHub until "+until.UTC().Format(time.RFC3339)+
		": three tasks failed alike", Degraded(&sync.Map{}, "", client); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
