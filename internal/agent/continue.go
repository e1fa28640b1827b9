package agent

// cn reads continue-cli 1.5, which says one thing, at the end. An answer that is JSON itself it prints as it is.
func cn(r *Reader, o object) {
	switch o.text("status") {
	case "error":
		message := o.texts("message", "error")
		r.failed(Failed{Message: message, Status: statusIn(message), RetryAfter: waitIn(message)})
		r.final(false, "")
	case "success":
		r.final(true, o.text("response"))
	default:
		r.final(true, "an object")
	}
}
