package agenttest

import (
	"time"

	"retake/internal/recovery"
)

// limitCases are rate-limit errors, caused by too many requests, tokens or connections.
var limitCases = []Case{
	{
		Name: "rate-limit", About: "429 with a two-second Retry-After, every time", Source: limitDocs,
		Reason: recovery.RateLimited, Wait: 2 * time.Second, answers: always(fails(perMinute(2 * time.Second))),
	},
	{
		Name: "rate-limit-hour", About: "429 with a one-hour Retry-After", Source: limitDocs,
		Reason: recovery.RateLimited,
		Or:     []recovery.Reason{recovery.QuotaExhausted}, Wait: time.Hour,
		answers: always(fails(perMinute(time.Hour))),
	},
	{
		Name: "rate-limit-bare", About: "429 without a header that gives the wait time", Source: limitDocs,
		Reason: recovery.RateLimited,
		answers: always(fails(perProvider{
			openAI(429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
			anthropic(429, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit "+
				"(https://docs.anthropic.com/en/api/rate-limits)"),
			google(429, "Resource has been exhausted (e.g. check quota)."),
		})),
	},
	{
		Name: "rate-limit-text", About: "429 with the wait only in the text", Source: limitDocs,
		Reason: recovery.RateLimited, Wait: 6600 * time.Millisecond,
		answers: always(fails(perProvider{
			openAI(429, "tokens", "rate_limit_exceeded", "Rate limit reached for gpt-4.1 in organization org-standin "+
				"on tokens per min (TPM): Limit 30000, Used 28300, Requested 5000. Please try again in 6.6s. Visit "+
				"https://platform.openai.com/account/rate-limits to learn more."),
			anthropic(429, "rate_limit_error", "This request would exceed your organization's rate limit of 30,000 "+
				"input tokens per minute. Please try again in 6.6s."),
			google(429, "You exceeded your current quota. Please retry in 6.6s.",
				quotaFailure("GenerateContentInputTokensPerModelPerMinute")),
		})),
	},
	{
		Name: "concurrency", About: "429: too many connections at once", Source: limitDocs +
			"; docs.mistral.ai (rate_limited, 1300)", Reason: recovery.RateLimited,
		answers: always(fails(perProvider{
			wireError{status: 429, body: `{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}`},
			anthropic(429, "rate_limit_error", "Number of concurrent connections has exceeded your rate limit. "+
				"Please try again later or contact sales at https://www.anthropic.com/contact-sales to discuss your "+
				"options for a rate limit increase."),
			google(429, "Resource exhausted. Please try again later. Please refer to "+
				"https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details."),
		})),
	},
	{
		Name: "edge-1015", About: "429: Cloudflare's rate limit page", Source: edgeDocs +
			"/cloudflare-1xxx-errors/error-1015", Reason: recovery.RateLimited,
		answers: always(cloudflare(429, "1015", "You are being rate limited",
			"The owner of this website (api.example.com) has banned you temporarily from accessing this website.")),
	},
	{
		Name: "envoy-limit", About: "429: Envoy's local rate limit", Source: "envoyproxy.io/docs: local rate limit",
		Reason: recovery.RateLimited,
		answers: always(page(429, "text/plain", "local_rate_limited", "x-local-rate-limit", "true", "Server",
			"envoy")),
	},
}

// providerCases are errors on the provider's side.
var providerCases = []Case{
	{
		Name: "server-error", About: "500", Source: docs, Reason: recovery.Overloaded,
		answers: always(fails(serverFault)),
	},
	{
		Name: "unavailable", About: "503", Source: docs, Reason: recovery.Overloaded,
		answers: always(fails(perProvider{
			openAI(503, "service_unavailable_error", "", "Service temporarily unavailable. Please try again later."),
			anthropic(503, "api_error", "Service temporarily unavailable"),
			google(503, "The service is currently unavailable."),
		})),
	},
	{
		Name: "overloaded", About: "overloaded: 529 from Anthropic, 503 from other providers", Source: docs,
		Reason: recovery.Overloaded, answers: always(fails(overloadedNow)),
	},
	{
		Name: "request-timeout", About: "408", Source: docs, Reason: recovery.Timeout,
		answers: always(fails(perProvider{
			openAI(408, "timeout", "", "Request timed out. Please try again."),
			anthropic(408, "timeout_error", "Request timed out"),
			google(408, "The request took too long."),
		})),
	},
	{
		Name: "gateway-timeout", About: "504 from the provider", Source: docs, Reason: recovery.Timeout,
		answers: always(fails(perProvider{
			// the answer from an Envoy proxy in front of the provider
			wireError{status: 504, body: "upstream request timeout"}.with("Content-Type", "text/plain"),
			anthropic(504, "timeout_error", "Request timed out. Consider streaming, or the Message Batches API, for "+
				"long-running requests."),
			google(504, "Deadline expired before operation could complete."),
		})),
	},
	{
		Name: "bad-gateway", About: "502: nginx's error page", Source: nginxSource, Reason: recovery.NetworkTransient,
		answers: always(page(502, "text/html", nginx("502 Bad Gateway"))),
	},
	{
		Name: "unavailable-page", About: "503: nginx's error page, with Retry-After", Source: nginxSource,
		Reason: recovery.Overloaded, Wait: 5 * time.Second,
		answers: always(page(503, "text/html", nginx("503 Service Temporarily Unavailable"), "Retry-After", "5")),
	},
	{
		Name: "gateway-timeout-page", About: "504: nginx's error page", Source: nginxSource, Reason: recovery.Timeout,
		answers: always(page(504, "text/html", nginx("504 Gateway Time-out"))),
	},
	{
		Name: "too-large-page", About: "413: nginx's error page", Source: nginxSource, Reason: recovery.ContextOverflow,
		answers: always(page(413, "text/html", nginx("413 Request Entity Too Large"))),
	},
	{
		Name: "envoy-503", About: "503: Envoy cannot reach its upstream", Source: "envoyproxy.io/docs: response " +
			"flags UF, UC", Reason: recovery.Overloaded, Or: []recovery.Reason{recovery.NetworkTransient},
		answers: always(page(503, "text/plain", "upstream connect error or disconnect/reset before headers. reset "+
			"reason: connection timeout", "Server", "envoy")),
	},
	{
		Name: "edge-520", About: "Cloudflare: the server's response is invalid", Source: edgeDocs,
		Reason: recovery.NetworkTransient, Or: []recovery.Reason{recovery.Overloaded},
		answers: always(cloudflare(520, "520", "Web server is returning an unknown error",
			"There is an unknown connection issue between Cloudflare and the origin web server. As a result, the web "+
				"page can not be displayed.")),
	},
	{
		Name: "edge-521", About: "Cloudflare: the server is down", Source: edgeDocs, Reason: recovery.NetworkTransient,
		Or: []recovery.Reason{recovery.Overloaded},
		answers: always(cloudflare(521, "521", "Web server is down",
			"The web server is not returning a connection. As a result, the web page is not displaying.")),
	},
	{
		Name: "edge-522", About: "Cloudflare: connecting to the server timed out", Source: edgeDocs,
		Reason: recovery.NetworkTransient,
		Or:     []recovery.Reason{recovery.Timeout, recovery.Overloaded},
		answers: always(cloudflare(522, "522", "Connection timed out", "The initial connection between Cloudflare's "+
			"network and the origin web server timed out. As a result, the web page can not be displayed.")),
	},
	{
		Name: "edge-523", About: "Cloudflare: the server is unreachable", Source: edgeDocs,
		Reason:  recovery.NetworkTransient,
		Or:      []recovery.Reason{recovery.Overloaded},
		answers: always(cloudflare(523, "523", "Origin is unreachable", "The origin web server is not reachable.")),
	},
	{
		Name: "edge-524", About: "Cloudflare: the server's response timed out", Source: edgeDocs,
		Reason: recovery.Timeout,
		Or:     []recovery.Reason{recovery.NetworkTransient, recovery.Overloaded},
		answers: always(cloudflare(524, "524", "A timeout occurred",
			"The origin web server timed out responding to this request.")),
	},
	{
		Name: "edge-525", About: "Cloudflare: the TLS handshake with the server failed", Source: edgeDocs,
		Reason: recovery.NetworkTransient,
		Or:     []recovery.Reason{recovery.NetworkPermanent, recovery.Overloaded},
		answers: always(cloudflare(525, "525", "SSL handshake failed",
			"Cloudflare is unable to establish an SSL connection to the origin server.")),
	},
	{
		Name: "edge-1020", About: "403: Cloudflare's firewall", Source: edgeDocs + "/cloudflare-1xxx-errors/error-1020",
		Reason: recovery.PermissionDenied,
		answers: always(cloudflare(403, "1020", "Access denied", "This website is using a security service to "+
			"protect itself from online attacks. The owner of this website has blocked your request.")),
	},
}

// streamCases are streams that begin well and then fail.
var streamCases = []Case{
	{
		Name: "stream-error", About: "a server error after the first tokens", Source: streamDocs,
		Reason: recovery.Overloaded, answers: always(errs(serverFault)),
	},
	{
		Name: "stream-overloaded", About: "overloaded after the first tokens", Source: streamDocs,
		Reason: recovery.Overloaded, answers: always(errs(overloadedNow)),
	},
	{
		Name: "stream-rate-limit", About: "a rate limit after the first tokens", Source: streamDocs,
		Reason: recovery.RateLimited, answers: always(errs(perMinute(2 * time.Second))),
	},
	{
		Name: "stream-overflow", About: "a context overflow after the first tokens", Source: streamDocs,
		Reason: recovery.ContextOverflow, answers: always(errs(promptTooLong)),
	},
	{
		Name: "stream-cut", About: "the connection ends after the first tokens", Source: transport,
		Reason: recovery.NetworkTransient, answers: always(begins(cut)),
	},
	{
		Name: "stream-stall", About: "silence after the first tokens", Source: transport,
		Reason: recovery.Timeout, Or: []recovery.Reason{recovery.NetworkTransient}, Long: true,
		answers: always(begins(stall)),
	},
	{
		Name: "stream-garbage", About: "a truncated document in the stream", Source: "observed with truncating proxies",
		Reason: recovery.NetworkTransient, Or: []recovery.Reason{recovery.ContractViolation, recovery.NoProgress},
		answers: always(begins(garbage)),
	},
}

// oddCases are unusable answers, and answers in which the model does not do the task.
var oddCases = []Case{
	{
		Name: "empty-200", About: "200 with an empty body", Source: "observed with proxies",
		Reason:  recovery.NetworkTransient,
		Or:      []recovery.Reason{recovery.NoProgress, recovery.ContractViolation},
		answers: always(page(200, "application/json", "")),
	},
	{
		Name: "malformed-200", About: "200 with a truncated document", Source: "observed with truncating proxies",
		Reason: recovery.NetworkTransient, Or: []recovery.Reason{recovery.NoProgress, recovery.ContractViolation},
		answers: always(page(200, "application/json",
			`{"id":"standin","choices":[{"index":0,"message":{"role":"assist`)),
	},
	{
		Name: "wrong-type", About: "a valid response with the content type text/plain", Source: "observed with proxies",
		Or: []recovery.Reason{
			recovery.NetworkTransient, recovery.InvalidConfig, recovery.NoProgress,
			recovery.ContractViolation,
		}, answers: always(mislabelled("text/plain")),
	},
	{
		Name: "content-filter", About: "the provider's filter cuts off the answer",
		Source: "platform.openai.com/docs/api-reference/chat/object (content_filter); " +
			"docs.anthropic.com/en/docs/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals; " +
			"ai.google.dev/gemini-api/docs/safety-settings", Reason: recovery.PolicyViolation,
		answers: always(ends("", finishFilter)),
	},
	{
		Name: "refusal", About: "the model refuses to do the task", Source: "observed with every model",
		Reason: recovery.PolicyViolation, Or: []recovery.Reason{recovery.NoProgress, recovery.NeedsHuman},
		answers: always(ends("I'm sorry, but I can't help with that request.", finishStop)),
	},
	{
		Name: "policy-block", About: "400: the request is blocked by the usage policy", Source: docs,
		Reason: recovery.PolicyViolation,
		answers: always(fails(perProvider{
			openAI(400, "invalid_request_error", "content_policy_violation", "Your request was rejected as a result "+
				"of our safety system. Your prompt may contain text that is not allowed by our safety system."),
			anthropic(400, "invalid_request_error", "Output blocked by content filtering policy"),
			google(400, "The prompt could not be submitted. This prompt contains sensitive words that violate "+
				"Google's Responsible AI practices."),
		})),
	},
	{
		Name: "endless-tools", About: "the model calls the same tool endlessly", Source: "observed with every model",
		Reason: recovery.NeedsHuman, Or: []recovery.Reason{recovery.NoProgress, recovery.Timeout}, Long: true,
		answers: always(repeats()),
	},
}

// networkCases are failures to reach the provider.
var networkCases = []Case{
	{
		Name: "refused", About: "a closed port", Source: transport, Reason: recovery.NetworkTransient,
		place: nobody, answers: always(works),
	},
	{
		Name: "reset", About: "the connection is reset before any answer", Source: transport,
		Reason: recovery.NetworkTransient, answers: always(hangsUp(true)),
	},
	{
		Name: "closed", About: "the connection is closed before any answer", Source: transport,
		Reason: recovery.NetworkTransient, answers: always(hangsUp(false)),
	},
	{
		Name: "no-such-host", About: "a host that does not exist", Source: "RFC 6761 (.invalid)",
		Reason: recovery.NetworkPermanent, Or: []recovery.Reason{recovery.NetworkTransient}, place: nowhere,
		answers: always(works),
	},
	{
		Name: "tls-to-plain", About: "https to a port that speaks http", Source: "RFC 8446",
		Reason: recovery.NetworkPermanent, Or: []recovery.Reason{recovery.NetworkTransient}, place: tlsToPlain,
		answers: always(works),
	},
	{
		Name: "self-signed", About: "an untrusted certificate", Source: "RFC 5280",
		Reason: recovery.NetworkPermanent, place: selfSigned, answers: always(works),
	},
	{
		Name: "no-answer", About: "a request that is never answered", Source: transport, Reason: recovery.Timeout,
		Or: []recovery.Reason{recovery.NetworkTransient}, Long: true, answers: always(never()),
	},
}
