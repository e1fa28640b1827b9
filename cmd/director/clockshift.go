//go:build clockshift

package main

import _ "retake/internal/clockshift" // for tests of directors whose clocks differ
