// Package pages renders the comments and pull request texts that people read on GitHub. It redacts and escapes all text
// from agents and people, so that this text does not reveal secrets, affect the rest of the page, or forge a marker.
package pages
