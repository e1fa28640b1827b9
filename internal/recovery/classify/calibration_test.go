package classify

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// firstReadings has the results of the first classification of five lists, before the misclassified rows were read:
// testdata/hosting.jsonl, limits.jsonl, locales.jsonl, trackers.jsonl, and 143 outputs of autumn 2026 that are not in
// this repository. A reading is right if its reason is acceptable.
var firstReadings = map[string]score{
	"check and runner":  {right: 91, of: 106},
	"failure and event": {right: 326, of: 355},
	"status":            {right: 32, of: 35},
	"exit code":         {right: 18, of: 18},
	"prose":             {right: 14, of: 24},
	"command failed":    {right: 22, of: 88},
	"guess":             {right: 10, of: 22},
}

// claims returns the confidence that the classifier states for each of these kinds of readings.
func claims() map[string]float64 {
	return map[string]float64{
		"check and runner":  max(tierOf(tierCheck).confidence, tierOf(tierRunner).confidence),
		"failure and event": tierOf(tierFailure).confidence, "status": tierOf(tierStatus).confidence,
		"exit code": confidenceOfExit, "prose": tierOf(tierProse).confidence,
		"command failed": confidenceOfCheck, "guess": tierOf(tierGuess).confidence,
	}
}

// tolerance is the amount by which a confidence may exceed the share of right first readings.
const tolerance = 0.05

// TestCalibration compares the stated confidence with the share of right first readings. Of all readings at 0.9 or
// above, nine of ten must have been right.
func TestCalibration(t *testing.T) {
	var sure score
	of := claims()
	for _, kind := range slices.Sorted(maps.Keys(firstReadings)) {
		first, claim := firstReadings[kind], of[kind]
		t.Logf("%-18s confidence %.2f: %s", kind, claim, &first)
		if claim > first.share()+tolerance {
			t.Errorf("%s: confidence %.2f, but %s of the first readings were right", kind, claim, &first)
		}
		if claim >= 0.9 {
			sure.right, sure.of = sure.right+first.right, sure.of+first.of
		}
	}
	t.Logf("at 0.9 or above: %s", &sure)
	if sure.share() < 0.9 {
		t.Errorf("at 0.9 or above, %s were right", &sure)
	}
}

// TestCalibrationOfLists prints the share of right readings for each confidence in the labelled lists, or in the list
// that RETAKE_CORPUS names. In each list, nine of ten readings at 0.9 or above must be right.
func TestCalibrationOfLists(t *testing.T) {
	c := newClassifier(t)
	files := slices.Sorted(maps.Keys(labelledLists))
	if file := os.Getenv("RETAKE_CORPUS"); file != "" {
		files = []string{file}
	}
	for _, file := range files {
		by, sure := map[float64]*score{}, score{}
		for _, row := range readLabelled(t, file) {
			e := evidenceOf(row.Line)
			e.Stage, e.At = row.Stage, row.At
			f := c.Classify(e)
			right := slices.Contains(row.Accept, f.Reason)
			if by[f.Confidence] == nil {
				by[f.Confidence] = &score{}
			}
			by[f.Confidence].count(right)
			if f.Confidence >= 0.9 {
				sure.count(right)
			}
		}
		for _, confidence := range slices.Backward(slices.Sorted(maps.Keys(by))) {
			t.Logf("%s: confidence %.2f: %s", file, confidence, by[confidence])
		}
		if sure.share() < 0.9 {
			t.Errorf("%s: at 0.9 or above, %s are right", file, &sure)
		}
	}
}
