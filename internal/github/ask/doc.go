// Package ask writes texts for people on GitHub: questions, replies to commands, reactions, reminders, and outage
// issues.
package ask
