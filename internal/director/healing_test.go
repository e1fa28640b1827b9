package director

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/config"
)

// TestTheBusIsNotOpenedOnADiskThatHangs: it would hang, too.
func TestTheBusIsNotOpenedOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		d := &daemon{config: config.Default(), log: zap.New(core)}
		d.config.Director.DataDir, d.config.Director.DiskWatermark = t.TempDir(), 0
		must(t, d.lock.Take(t.Context(), d.config.Director.DataDir))
		t.Cleanup(func() { _ = d.lock.Close() })
		d.disk = d.newDiskGuard(leadsOnBadDisk)
		hangs := make(chan struct{})
		d.disk.Probe = func(string) error { <-hangs; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		must(t, os.WriteFile(filepath.Join(d.config.Director.DataDir, "bus"), nil, 0o600)) // opening it fails at once
		go func() { done <- d.reopenBus(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, e := range logs.FilterMessage("the bus cannot be opened").All() {
			if text := e.ContextMap()["error"].(string); !strings.Contains(text, "has not answered") &&
				!strings.Contains(text, "context canceled") {
				t.Errorf("it was opened: %s", text)
			}
		}
		close(hangs)
	})
}
