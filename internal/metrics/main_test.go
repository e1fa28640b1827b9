package metrics

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite docs/specs/metrics.md and deploy/grafana.json")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
