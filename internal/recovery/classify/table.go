package classify

import "strings"

// Table lists the rules, those that decide first at the beginning: id, reason, what they match, and why that means so.
func (c *Classifier) Table() (rows [][]string) {
	for _, r := range c.rules {
		rows = append(rows, []string{r.ID, string(r.Reason), strings.Join(r.Any, "\n"), r.Why})
	}
	return rows
}
