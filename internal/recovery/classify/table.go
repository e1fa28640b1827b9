package classify

import "strings"

// Table returns a row for each rule, in order of precedence: id, reason, patterns and explanation.
func (c *Classifier) Table() (rows [][]string) {
	for _, r := range c.rules {
		rows = append(rows, []string{r.ID, string(r.Reason), strings.Join(r.Any, "\n"), r.Why})
	}
	return rows
}
