//go:build clockshift

package main

import _ "retake/internal/sys/clockshift" // imported so that tests can run directors whose clocks differ
