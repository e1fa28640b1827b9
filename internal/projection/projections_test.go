package projection_test

import (
	"retake/internal/metrics"
	"retake/internal/projection"
	"retake/internal/timeline"
	"retake/internal/trace"
	"retake/internal/whatif"
)

var (
	_ projection.Restorer   = (*timeline.Book)(nil)
	_ projection.Restorer   = (*trace.Book)(nil)
	_ projection.Restorer   = (*metrics.Metrics)(nil)
	_ projection.Projection = (*whatif.Follower)(nil)
)
