package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const secondaryLimit = `{"message":"You have exceeded a secondary rate limit."}`

// limitCases are answers of GitHub. In a header, +1200 stands for the Unix time in 1,200 seconds and @90 for a date.
var limitCases = map[string]struct {
	status                       int
	retryAfter, remaining, reset string
	body                         string
	want                         time.Duration // 0 if GitHub states no time
	why                          string        // "": no limit
}{
	"429 with seconds":                {429, "30", "", "", secondaryLimit, 30 * time.Second, "secondary"},
	"403 with seconds":                {403, "30", "", "", secondaryLimit, 30 * time.Second, "secondary"},
	"a date":                          {429, "@90", "", "", secondaryLimit, 90 * time.Second, "secondary"},
	"429 without requests left":       {429, "", "0", "+1200", "", 20 * time.Minute, "primary"},
	"Retry-After before the reset":    {403, "45", "0", "+1200", secondaryLimit, 45 * time.Second, "secondary"},
	"secondary without requests left": {403, "", "0", "+1200", secondaryLimit, 20 * time.Minute, "secondary"},
	"a reset that does not count":     {403, "", "4000", "+1200", secondaryLimit, 0, "secondary"},
	"secondary without any header":    {403, "", "", "", secondaryLimit, 0, "secondary"},
	"429 without anything":            {429, "", "", "", "", 0, "secondary"},
	"an unreadable Retry-After":       {429, "soon", "", "", secondaryLimit, 0, "secondary"},
	"a negative Retry-After":          {429, "-5", "", "", secondaryLimit, 0, "secondary"},
	"a Retry-After of zero":           {429, "0", "", "", secondaryLimit, time.Second, "secondary"},
	"a reset that has just passed":    {403, "", "0", "+-60", "", time.Second, "primary"},
	"an absurd Retry-After":           {429, "1e300", "", "", secondaryLimit, 24 * time.Hour, "secondary"},
	"403 without requests left": {
		403, "", "0", "+1200", `{"message":"API rate limit exceeded for user ID 1."}`, 20 * time.Minute, "primary",
	},
	"abuse detection, the older text": {
		403, "", "", "", `{"message":"You have triggered an abuse detection mechanism."}`, 0, "secondary",
	},
	"known only by its documentation": {
		403, "", "", "", `{"message":"Slow down.","documentation_url":"https://docs.github.com/en/rest/overview/` +
			`rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, 0, "secondary",
	},
	"403 that is a missing permission": {
		403, "", "4000", "", `{"message":"Resource not accessible by integration"}`, 0, "",
	},
	"503 with a Retry-After is not a limit": {503, "30", "", "", "", 0, ""},
}

func TestReadLimit(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, tc := range limitCases {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for field, value := range map[string]string{
				"Retry-After": tc.retryAfter, "X-Ratelimit-Remaining": tc.remaining, "X-Ratelimit-Reset": tc.reset,
			} {
				var seconds int64
				if n, _ := fmt.Sscanf(value, "+%d", &seconds); n == 1 && field == "X-Ratelimit-Reset" {
					value = fmt.Sprint(now.Unix() + seconds)
				} else if n, _ := fmt.Sscanf(value, "@%d", &seconds); n == 1 {
					value = now.Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
				}
				if value != "" {
					h.Set(field, value)
				}
			}
			l, limited := readLimit(tc.status, h, []byte(tc.body), now)
			if limited != (tc.why != "") || l.Wait != tc.want || l.Stated != (tc.want != 0) ||
				!strings.HasPrefix(l.Why, tc.why) {
				t.Errorf("got %+v, %t", l, limited)
			}
		})
	}
}
