//go:build clockshift

package main

import _ "retake/internal/sys/clockshift" // for tests of directors whose clocks differ
