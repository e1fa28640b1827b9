package main

import "testing"

func TestSkipped(t *testing.T) {
	for printed, want := range map[string]string{
		"=== RUN   TestBenchTakes\n    bench_takes_test.go:3: docker: no engine\n--- SKIP: TestBenchTakes " +
			"(0.02s)\nPASS\n": "bench_takes_test.go:3: docker: no engine",
		"=== RUN   TestBenchTakes\n--- PASS: TestBenchTakes " +
			"(0.02s)\nPASS\n": "",
	} {
		if why, is := skipped(printed); why != want || is != (want != "") {
			t.Errorf("%q: got %q, %v", printed, why, is)
		}
	}
}
