package worker

import (
	"sync"

	"retake/internal/recovery"
)

// classifier is built when the first failure needs it: most attempts have none.
var classifier = sync.OnceValues(func() (*recovery.Classifier, error) { return recovery.NewClassifier() })

// classify names what a program's failure means. The built-in rules are checked by their own tests; should they not
// load, the director still has the evidence.
func classify(e recovery.Evidence) recovery.Finding {
	c, err := classifier()
	if err != nil {
		return recovery.Finding{Reason: recovery.Unknown}
	}
	return c.Classify(e)
}
