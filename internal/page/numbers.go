package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/timeline"
)

// spans lists the periods that the page can show.
var spans = []struct {
	Name   string
	span   time.Duration
	bucket time.Duration
}{
	{"day", 24 * time.Hour, time.Hour},
	{"week", 7 * 24 * time.Hour, 6 * time.Hour},
	{"month", 30 * 24 * time.Hour, 24 * time.Hour},
}

// numbersPart is the data of the numbers page.
type numbersPart struct {
	Span    string
	Spans   []string
	Reasons chart
	Costs   chart
	timeline.Numbers
	Human humanPart
	Cost  float64
	Spent spentPart
}

// spentPart is the period's cost per issue, merged pull request and day.
type spentPart struct {
	Issues, Days                int // number of issues and days with spending
	PerIssue, PerMerged, PerDay float64
}

// spent divides a cost by issues, merged pull requests and days.
func spent(n timeline.Numbers, cost float64) (p spentPart) {
	issues, days := map[fsm.IssueKey]bool{}, map[string]bool{}
	for _, c := range n.Costs {
		issues[projection.Fold(c.Issue)] = true
		days[c.At.UTC().Format(time.DateOnly)] = true
	}
	p.Issues, p.Days = len(issues), len(days)
	p.PerIssue, p.PerDay = cost/float64(max(p.Issues, 1)), cost/float64(max(p.Days, 1))
	p.PerMerged = cost / float64(max(len(n.Merged), 1))
	return p
}

// humanPart summarizes the questions put to people.
type humanPart struct {
	Asked, Open, Again, Alone int
	Median, Longest           time.Duration // time until the answer
}

// chart is a chart of stacked bars.
type chart struct {
	Series []series
	Bars   []bar
	Top    string // value of the highest bar
	About  string // text for screen readers
}

type series struct {
	Name  string
	Class string
}

type bar struct {
	X, Width float64
	Label    string // below the bar; usually empty
	Parts    []part
}

type part struct {
	Y, Height float64
	Class     string
	About     string
}

// Sizes of a chart, in units of the SVG.
const (
	chartWidth  = 720.0
	chartHeight = 160.0
	maxSeries   = 6
)

// stacked draws values by time bucket and series. Series beyond maxSeries are combined.
func stacked(now time.Time, span, bucket time.Duration, names []string,
	values func(add func(at time.Time, name string, n float64)), unit string,
) chart {
	if len(names) > maxSeries {
		names = append(slices.Clone(names[:maxSeries-1]), "others")
	}
	n := int(span / bucket)
	from := now.Add(-span)
	sums := make([][]float64, n)
	for i := range sums {
		sums[i] = make([]float64, len(names))
	}
	values(func(at time.Time, name string, v float64) {
		i, s := int(at.Sub(from)/bucket), slices.Index(names, name)
		if s < 0 {
			s = len(names) - 1
		}
		if i >= 0 && i < n && s >= 0 {
			sums[i][s] += v
		}
	})
	top := 0.0
	for _, b := range sums {
		top = max(top, sum(b))
	}
	c := chart{
		About: fmt.Sprintf("%s over time; the highest bar is %s", unit, amount(top, unit)), Top: amount(top, unit),
	}
	for i, name := range names {
		c.Series = append(c.Series, series{name, fmt.Sprintf("s%d", i)})
	}
	width := chartWidth / float64(n)
	for i, b := range sums {
		at := from.Add(time.Duration(i) * bucket)
		x := bar{X: float64(i) * width, Width: max(width-2, 1)}
		if i%max(n/6, 1) == 0 {
			x.Label = at.UTC().Format(map[bool]string{true: "15:04", false: "2 Jan"}[span <= 24*time.Hour])
		}
		y := chartHeight
		for s, v := range b {
			if v == 0 {
				continue
			}
			h := v / top * chartHeight
			y -= h
			x.Parts = append(x.Parts, part{
				y, h, fmt.Sprintf("s%d", s),
				fmt.Sprintf("%s, %s: %s", at.UTC().Format("2 Jan 15:04"), names[s], amount(v, unit)),
			})
		}
		c.Bars = append(c.Bars, x)
	}
	return c
}

func sum(all []float64) (total float64) {
	for _, v := range all {
		total += v
	}
	return total
}

func amount(v float64, unit string) string {
	if unit == "USD" {
		return fmt.Sprintf("%.2f USD", v)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

func (p *Page) showNumbers(w http.ResponseWriter, r *http.Request) {
	chosen := spans[0]
	part := numbersPart{}
	for _, s := range spans {
		part.Spans = append(part.Spans, s.Name)
		if s.Name == r.URL.Query().Get("span") {
			chosen = s
		}
	}
	part.Span = chosen.Name
	p.show(w, r, "numbers", "Numbers", func(ctx context.Context, s Source) (any, error) {
		now := time.Now()
		n, err := s.Numbers(ctx, now.Add(-chosen.span))
		if err != nil {
			return nil, err
		}
		part.Numbers = n
		var reasons []string
		for _, r := range n.Reasons {
			reasons = append(reasons, string(r.Reason))
		}
		part.Reasons = stacked(now, chosen.span, chosen.bucket, reasons, func(add func(time.Time, string, float64)) {
			for _, f := range n.Failures {
				add(f.At, string(f.Reason), 1)
			}
		}, "failures")
		part.Costs = stacked(now, chosen.span, chosen.bucket, []string{"cost"},
			func(add func(time.Time, string, float64)) {
				for _, c := range n.Costs {
					add(c.At, "cost", c.Usage.CostUSD)
					part.Cost += c.Usage.CostUSD
				}
			}, "USD")
		part.Human, part.Spent = human(n.Asked), spent(n, part.Cost)
		return part, nil
	})
}

// human summarizes questions and the time until they were answered.
func human(asked []timeline.Asked) (h humanPart) {
	var took []time.Duration
	for _, a := range asked {
		h.Asked++
		switch {
		case !a.Answered.IsZero():
			took = append(took, a.Answered.Sub(a.At))
		case !a.Alone:
			h.Open++
		}
		if a.Alone {
			h.Alone++
		}
		if a.Again {
			h.Again++
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		h.Median, h.Longest = took[len(took)/2], took[len(took)-1]
	}
	return h
}
