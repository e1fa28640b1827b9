// Package ask writes to people: questions, replies to their commands, reactions, reminders, and issues about outages.
package ask
