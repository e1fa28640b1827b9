package agenttest

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// openAI returns an OpenAI error: https://platform.openai.com/docs/guides/error-codes
func openAI(status int, kind, code, message string) wireError {
	e := object{"message": message, "type": kind, "param": nil, "code": nil}
	if code != "" {
		e["code"] = code
	}
	return wireError{status: status, body: encode(object{"error": e})}
}

// anthropic returns an Anthropic error: https://docs.anthropic.com/en/api/errors
func anthropic(status int, kind, message string) wireError {
	return wireError{status: status, body: encode(object{
		"type": "error", "error": object{"type": kind, "message": message},
		"request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
	})}
}

// statuses are Google's names for HTTP statuses: https://cloud.google.com/apis/design/errors#handling_errors
var statuses = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
	408: "DEADLINE_EXCEEDED", 409: "ABORTED",
	413: "INVALID_ARGUMENT", 422: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
	504: "DEADLINE_EXCEEDED",
}

// google returns a Gemini error: https://ai.google.dev/gemini-api/docs/troubleshooting
func google(status int, message string, details ...object) wireError {
	e := object{"code": status, "message": message, "status": statuses[status]}
	if len(details) > 0 {
		e["details"] = details
	}
	return wireError{status: status, body: encode(object{"error": e})}
}

// as replaces the body with a Google error that has an unusual name for the HTTP status.
func (e wireError) as(status int, name, message string) wireError {
	e.body = encode(object{"error": object{"code": status, "message": message, "status": name}})
	return e
}

// with adds headers.
func (e wireError) with(header ...string) wireError {
	if e.header == nil {
		e.header = http.Header{}
	}
	for name, values := range headers(header) {
		e.header[name] = values
	}
	return e
}

// Details of Google's errors: https://cloud.google.com/apis/design/errors#error_details
func retryInfo(wait time.Duration) object {
	return object{
		"@type":      "type.googleapis.com/google.rpc.RetryInfo",
		"retryDelay": fmt.Sprintf("%.0fs", wait.Seconds()),
	}
}

func quotaFailure(id string) object {
	return object{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []object{{
		"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": id,
		"quotaDimensions": object{"location": "global", "model": "gemini-2.5-pro"}, "quotaValue": "50",
	}}}
}

func errorInfo(reason string) object {
	return object{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
		"metadata": object{"service": "generativelanguage.googleapis.com"},
	}
}

// perMinute returns the error for an exceeded per-minute limit. It asks the client to retry after wait.
func perMinute(wait time.Duration) perProvider {
	s := strconv.Itoa(int(wait.Seconds()))
	return perProvider{
		openAI(429, "requests", "rate_limit_exceeded", "Rate limit reached for gpt-4.1 in organization org-standin "+
			"on requests per min (RPM): Limit 500, Used 500, Requested 1. Please try again in "+s+
			"s. Visit https://platform.openai.com/account/rate-limits to learn more.").
			with("Retry-After", s, "x-ratelimit-limit-requests", "500", "x-ratelimit-remaining-requests", "0",
				"x-ratelimit-reset-requests", s+"s"),
		anthropic(429, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests "+
			"per minute. For details, refer to: https://docs.anthropic.com/en/api/rate-limits; see the response "+
			"headers for current usage. Please reduce the prompt length or the maximum tokens requested, or try "+
			"again later.").
			with("Retry-After", s, "anthropic-ratelimit-requests-limit", "50", "anthropic-ratelimit-requests-remaining",
				"0"),
		google(429, "You exceeded your current quota, please check your plan and billing details. Please retry in "+s+
			"s.", quotaFailure("GenerateRequestsPerMinutePerProjectPerModel"), retryInfo(wait)).
			with("Retry-After", s),
	}
}

// Answers shared by several cases.
var (
	overloadedNow = perProvider{
		openAI(503, "service_unavailable_error", "", "The engine is currently overloaded, please try again later"),
		anthropic(529, "overloaded_error", "Overloaded"),
		google(503, "The model is overloaded. Please try again later."),
	}
	serverFault = perProvider{
		openAI(500, "server_error", "", "The server had an error while processing your request. Sorry about that! "+
			"You can retry your request, or contact us through our help center at help.openai.com if the "+
			"error persists."),
		anthropic(500, "api_error", "Internal server error"),
		google(500, "An internal error has occurred. Please retry or report in "+
			"https://developers.generativeai.google/guide/troubleshooting"),
	}
	promptTooLong = perProvider{
		openAI(400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is "+
			"128000 tokens. However, your messages resulted in 151234 tokens. Please reduce the length of "+
			"the messages."),
		anthropic(400, "invalid_request_error", "prompt is too long: 210054 tokens > 200000 maximum"),
		google(400, "The input token count (1189334) exceeds the maximum number of tokens allowed (1048576)."),
	}
	malformedRequest = perProvider{
		openAI(400, "invalid_request_error", "", "We could not parse the JSON body of your request."),
		anthropic(400, "invalid_request_error", "The request body is not valid JSON"),
		google(400, "Invalid JSON payload received."),
	}
)

// cloudflare answers with a Cloudflare error page:
// https://developers.cloudflare.com/support/troubleshooting/http-status-codes/
func cloudflare(status int, code, title, what string) answer {
	body := fmt.Sprintf(`<!DOCTYPE html>
<html lang="en-US">
<head>
<title>api.example.com | %[1]s: %[2]s</title>
<meta charset="UTF-8" />
</head>
<body>
<div id="cf-wrapper"><div id="cf-error-details">
<h1><span>%[2]s</span> <span>Error code %[1]s</span></h1>
<div>Visit <a href="https://www.cloudflare.com/5xx-error-landing">cloudflare.com</a> for more information.</div>
<h2>What happened?</h2>
<p>%[3]s</p>
<p>Cloudflare Ray ID: <strong>8f1a2b3c4d5e6f70</strong> &bull; Performance &amp; security by Cloudflare</p>
</div></div>
</body>
</html>
`, code, title, what)
	return page(status, "text/html; charset=UTF-8", body, "Server", "cloudflare", "CF-RAY", "8f1a2b3c4d5e6f70-FRA")
}

// nginx returns one of nginx's own pages:
// https://github.com/nginx/nginx/blob/master/src/http/ngx_http_special_response.c
func nginx(title string) string {
	return "<html>\r\n<head><title>" + title + "</title></head>\r\n<body>\r\n<center><h1>" + title +
		"</h1></center>\r\n<hr><center>nginx/1.27.3</center>\r\n</body>\r\n</html>\r\n"
}
