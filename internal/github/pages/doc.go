// Package pages renders the comments and pull request texts that people read on GitHub. All text from agents and people
// passes through a redactor. The result contains no secrets, cannot affect the rest of the page, and cannot forge a
// marker.
package pages
