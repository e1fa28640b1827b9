package loglines

import "testing"

func TestLists(t *testing.T) {
	for line, want := range map[string]bool{
		"--- PASS: TestRateLimit (0.00s)":                                      true,
		"tests/test_a.py::test_rate_limit_exceeded PASSED           [ 50%]":    true,
		"[gw0] [ 50%] PASSED tests/test_a.py::test_timed_out":                  true,
		"test client::timeout_is_reported ... ok":                              true,
		"plugins: timeout-2.1.0, xdist-3.1.0":                                  true,
		"   Compiling rate-limit v0.1.0 (/src/rate-limit)":                     true,
		"timeout (default: 0.2.0)":                                             true,
		"ratelimit         2.2.1":                                              true,
		"├── rate-limiter@1.0.0":                                               true,
		"ok 3 - answers 429 Too Many Requests":                                 true,
		"[INFO] Running com.acme.RateLimitExceededTest":                        true,
		" internal/ratelimit/limit.go | 12 ++++++------":                       true,
		"src/errors/timed_out.py":                                              true,
		"":                                                                     false,
		"--- FAIL: TestRateLimit (0.00s)":                                      false,
		"tests/test_a.py::test_rate_limit FAILED                    [ 50%]":    false,
		"not ok 3 - answers 429 Too Many Requests":                             false,
		"test client::timeout_is_reported ... FAILED":                          false,
		"[INFO] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0":              false,
		"Connecting to 127.0.0.1:9... failed: Connection refused.":             false,
		"Downloading acme 1.2.0 failed: 429 Too Many Requests":                 false,
		"Checking connectivity... timed out":                                   false,
		"Error: rate limit exceeded (429)":                                     false,
		"https://api.example.com/rate_limit answers 429":                       false,
		"error: package `rate-limit v0.1.0` cannot be built with rustc 1.70.0": false,
	} {
		if got := Lists(line); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}
