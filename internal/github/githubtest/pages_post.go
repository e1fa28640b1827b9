package githubtest

import (
	"net/http"
	"strings"
)

func (s *site) postIssue(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	title := strings.TrimSpace(r.PostFormValue("title"))
	s.mu.Lock()
	p, _ := s.locate(r)
	if p == nil || title == "" {
		s.mu.Unlock()
		s.missing(w, "An issue needs a repository and a title.")
		return
	}
	i := s.newIssue(p, s.user(s.opts.Person), title, unixLines(r.PostFormValue("body")), labelsOf(r))
	to := links{}.page(p, i)
	s.unlock()
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// labelsOf returns the checked labels of a form, and the label in its text field.
func labelsOf(r *http.Request) (names []string) {
	for _, name := range r.PostForm["label"] {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// postToIssue handles the buttons of an issue's page. The form field "do" is comment, edit, close, reopen, label or
// unlabel, and for a pull request also approve, changes, merge, squash or ready.
func (s *site) postToIssue(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	do, body, name := r.PostFormValue("do"), unixLines(r.PostFormValue("body")),
		strings.TrimSpace(r.PostFormValue("label"))
	s.mu.Lock()
	p, i := s.locate(r)
	if i == nil {
		s.mu.Unlock()
		s.missing(w, "There is no such issue.")
		return
	}
	u := s.user(s.opts.Person)
	if i.Pull != nil {
		if problem := s.actOnPull(p, i, u, do, body); problem != "" {
			s.unlock()
			s.show(w, http.StatusUnprocessableEntity, "missing.html",
				pageData{Title: "This action failed", Repo: p.fullName(), Body: problem})
			return
		}
	} else if title := strings.TrimSpace(r.PostFormValue("title")); do == "edit" {
		if title != "" && p.mayEdit(i, u) {
			s.editIssue(p, i, u, title, body)
		}
	} else if strings.TrimSpace(body) != "" {
		s.comment(p, i, u, body)
	}
	switch do {
	case "close":
		s.setState(p, i, u, "closed")
	case "reopen":
		s.setState(p, i, u, "open")
	case "label":
		if name != "" {
			s.addLabel(p, i, u, name)
		}
	case "unlabel":
		s.dropLabel(p, i, u, name)
	}
	to := links{}.page(p, i)
	s.unlock()
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func unixLines(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// actOnPull handles the buttons of a pull request's page. If the action is not possible, it returns an explanation for
// the user. s.mu is held.
func (s *site) actOnPull(r *repo, i *issue, u *user, do, body string) string {
	said := strings.TrimSpace(body) != ""
	switch {
	case do == "approve", do == "changes":
		switch {
		case u == i.Author:
			return "You cannot approve or request changes on your own pull request."
		case do == "approve":
			s.addReview(r, i, u, stateApproved, body, nil)
		case !said:
			return "Describe the changes that you want. This is the text of your review."
		default:
			s.addReview(r, i, u, stateChanges, body, nil)
		}
		return ""
	case said:
		s.comment(r, i, u, body)
	}
	switch do {
	case "ready":
		s.setDraft(r, i, u, false)
	case "reopen":
		if _, there := s.tip(r, i.Head); !there || !i.Pull.MergedAt.IsZero() {
			return "This pull request cannot be reopened: it was merged, or its branch was deleted."
		}
	case "merge", "squash":
		if _, err := s.mergePull(r, i, u, mergeRequest{squash: do == "squash"}); err != nil {
			return "This pull request cannot be merged: reload its page to see why. (" + err.Error() + ")"
		}
	}
	return ""
}
