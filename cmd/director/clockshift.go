//go:build clockshift

package main

import _ "retake/internal/sys/clockshift" // lets tests run directors with different clocks
