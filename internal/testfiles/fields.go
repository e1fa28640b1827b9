package testfiles

// fieldsFile lists the fields of the project's own vectors by kind; go test ./internal/testfiles -update writes it.
const fieldsFile = "fields.txt"

// alsoRead lists fields that the tests understand, although the project's own vectors do not contain them.
var alsoRead = map[string][]string{
	"000 classify": {"input.type string", "input.force_code string"},
	"000 protocol": {"input.code string"},
	"000 backoff_delay_ms": {
		"expected.min_ms number", "expected.max_ms number", "expected.min number", "expected.max number",
		"expected.gte number",
		"expected.lte number",
	},
	"001 circuit_breaker": breakerFields,
	"001 health_breaker":  breakerFields,
	"002 config_default":  {"expected.value boolean", "expected.value array", "expected.value[] string"},
	"002 container_exit":  {"input.stage string"},
	"002 state_file":      {"input.malformed boolean", "input.valid_json boolean", "input.valid boolean"},
	"003 classify": {
		"input.error_code string", "input.raw_string string", "input.response_status number",
		"input.status_code number",
	},
	"003 is_fatal": {"input.status number"},
}

var breakerFields = []string{
	"input.failures number", "input.consecutive_failures number", "input.threshold number",
	"input.recovery_timeout number",
	"input.open_for_s number", "input.half_open_successes number", "input.half_open_failures number",
	"input.half_open string",
	"input.half_open_probe string", "input.half_open_result string", "input.probe string", "input.probe_result string",
	"expected.state string", "expected.available boolean", "expected.wait_s number", "expected.probes number",
}
