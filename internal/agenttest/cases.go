package agenttest

import (
	"slices"
	"time"

	"retake/internal/recovery"
)

// Case is one behaviour of a provider.
type Case struct {
	Name    string
	About   string            // description of the behaviour
	Source  string            // documentation of the bodies, or where they were observed
	Reason  recovery.Reason   // expected classification; empty if the agent should succeed
	Or      []recovery.Reason // other correct classifications, since clients report the failure differently
	Wait    time.Duration     // wait that the provider asks for, or 0
	Long    bool              // set if an agent may run forever, so that tests must stop it
	place   place
	answers []answer // used in turn; the last one is repeated
}

// Succeeds reports whether a good agent recovers from the case.
func (c *Case) Succeeds() bool { return c.Reason == "" }

// Answers reports whether requests reach the fake provider at all.
func (c *Case) Answers() bool { return c.place == here }

// Right reports whether a classification is one of the expected reasons.
func (c *Case) Right(r recovery.Reason) bool { return r == c.Reason || slices.Contains(c.Or, r) }

// Find returns a case by name, or nil.
func Find(name string) *Case {
	for i := range Cases {
		if Cases[i].Name == name {
			return &Cases[i]
		}
	}
	return nil
}

// Sources of the bodies.
const (
	docs = "platform.openai.com/docs/guides/error-codes; docs.anthropic.com/en/api/errors; " +
		"ai.google.dev/gemini-api/docs/troubleshooting"
	limitDocs = "platform.openai.com/docs/guides/rate-limits; docs.anthropic.com/en/api/rate-limits; " +
		"ai.google.dev/gemini-api/docs/rate-limits"
	streamDocs = "docs.anthropic.com/en/docs/build-with-claude/streaming#error-events; " +
		"platform.openai.com/docs/api-reference/responses-streaming"
	edgeDocs    = "developers.cloudflare.com/support/troubleshooting/http-status-codes"
	nginxSource = "github.com/nginx/nginx: src/http/ngx_http_special_response.c"
	transport   = "RFC 9293, RFC 9112: network failures"
)

// once gives each answer once and then lets the model work.
func once(list ...answer) []answer { return append(list, works) }

// always repeats the same answer.
func always(a answer) []answer { return []answer{a} }

// Cases is the table of cases.
var Cases = slices.Concat(
	passedCases, requestCases, accountCases, addressCases, quotaCases,
	limitCases, providerCases, streamCases, oddCases, networkCases,
)

// passedCases are failures from which a good agent recovers.
var passedCases = []Case{
	{
		Name: "ok", About: "everything works", Source: "the providers' endpoint references",
		answers: always(works),
	},
	{
		Name: "slow-first-byte", About: "three seconds of silence before the first byte of the first answer",
		Source: transport, answers: once(later(3*time.Second, works)),
	},
	{
		Name: "redirect", About: "307 to the right address", Source: "RFC 9110, 15.4.8",
		answers: always(redirects(307, "ok")),
	},
	{
		Name: "unknown-tool", About: "the model calls an unknown tool, then continues",
		Source: "observed with small models", answers: once(callsUnknown()),
	},
	{
		Name: "rate-limit-twice", About: "429 with a one-second Retry-After, twice", Source: limitDocs,
		answers: once(fails(perMinute(time.Second)), fails(perMinute(time.Second))),
	},
	{Name: "overloaded-once", About: "overloaded, once", Source: docs, answers: once(fails(overloadedNow))},
	{Name: "server-error-once", About: "500, once", Source: docs, answers: once(fails(serverFault))},
	{
		Name: "overflow-once", About: "the prompt is too long until it is shortened", Source: docs,
		Or: []recovery.Reason{recovery.ContextOverflow}, answers: []answer{works, works, tooLong(promptTooLong)},
	},
	{Name: "reset-once", About: "the connection is reset, once", Source: transport, answers: once(hangsUp(true))},
	{
		Name: "stream-cut-once", About: "a stream is cut, once", Source: transport,
		Or: []recovery.Reason{recovery.NetworkTransient}, answers: once(begins(cut)),
	},
	{
		Name: "stream-overloaded-once", About: "overloaded in the middle of a stream, once", Source: streamDocs,
		Or: []recovery.Reason{recovery.Overloaded}, answers: once(errs(overloadedNow)),
	},
	{
		Name: "three-failures", About: "429 with Retry-After, then an answer, an overload, another answer, and a " +
			"prompt that is too long until it is shortened", Source: docs,
		Or: []recovery.Reason{recovery.ContextOverflow}, answers: []answer{
			fails(perMinute(time.Second)), works,
			fails(overloadedNow), works, tooLong(promptTooLong),
		},
	},
}

// requestCases are errors in the request.
var requestCases = []Case{
	{
		Name: "bad-request", About: "400: the conversation is malformed", Source: docs,
		Reason: recovery.AgentCrash, // because a fresh session helps
		Or:     []recovery.Reason{recovery.Validation},
		answers: always(fails(perProvider{
			openAI(400, "invalid_request_error", "", "An assistant message with 'tool_calls' must be followed by "+
				"tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response "+
				"messages: call_01"),
			anthropic(400, "invalid_request_error", "messages.3: `tool_use` ids were found without `tool_result` "+
				"blocks immediately after: toolu_01. Each `tool_use` block must have a corresponding `tool_result` "+
				"block in the next message."),
			google(400, "Please ensure that the number of function response parts is equal to the number of function "+
				"call parts of the function call turn."),
		})),
	},
	{
		Name: "bad-parameter", About: "400: a parameter that the model does not support", Source: docs,
		Reason: recovery.Validation, Or: []recovery.Reason{recovery.InvalidConfig},
		answers: always(fails(perProvider{
			openAI(400, "invalid_request_error", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is "+
				"not supported with this model. Use 'max_completion_tokens' instead."),
			anthropic(400, "invalid_request_error", "max_tokens: 128000 > 64000, which is the maximum allowed number "+
				"of output tokens for claude-sonnet-4-5"),
			google(400, "Unable to submit request because it has a maxOutputTokens value of 128000 but the supported "+
				"range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again."),
		})),
	},
	{
		Name: "unprocessable", About: "422: a field has the wrong type",
		Source: "fastapi.tiangolo.com/tutorial/handling-errors, as used by vLLM and LiteLLM; docs.mistral.ai/api",
		Reason: recovery.Validation,
		answers: always(fails(perProvider{
			wireError{status: 422, body: `{"detail":[{"type":"float_type","loc":["body","temperature"],"msg":"Input should be a valid number","input":"warm"}]}`},
			anthropic(422, "invalid_request_error", "temperature: Input should be a valid number"),
			google(422, "Invalid value at 'generation_config.temperature' (TYPE_FLOAT), \"warm\""),
		})),
	},
	{
		Name: "conflict", About: "409", Source: docs, Reason: recovery.Overloaded,
		Or: []recovery.Reason{recovery.NetworkTransient, recovery.RateLimited},
		answers: always(fails(perProvider{
			openAI(409, "conflict_error", "", "The resource was updated by another request. Please try again."),
			anthropic(409, "conflict_error", "The resource is being modified by another request. Please retry."),
			google(409, "The operation was aborted because of a concurrency issue. Please try again."),
		})),
	},
	{
		Name: "too-large", About: "413 from the provider", Source: docs, Reason: recovery.ContextOverflow,
		answers: always(fails(perProvider{
			openAI(413, "invalid_request_error", "request_too_large",
				"Request too large. The request body exceeds the maximum allowed size."),
			anthropic(413, "request_too_large", "Request exceeds the maximum allowed number of bytes. The maximum "+
				"request size is 32 MB."),
			google(413, "Request payload size exceeds the limit: 20971520 bytes."),
		})),
	},
	{
		Name: "context-overflow", About: "every prompt is rejected as too long", Source: docs,
		Reason:  recovery.ContextOverflow,
		answers: always(fails(promptTooLong)),
	},
	{
		Name: "output-limit", About: "the answer hits the output token limit",
		Source: "platform.openai.com/docs/api-reference/chat/object (finish_reason); " +
			"docs.anthropic.com/en/api/handling-stop-reasons",
		Reason: recovery.ContextOverflow, Or: []recovery.Reason{recovery.NoProgress},
		answers: always(ends("I shall now write the whole file: package", finishLength)),
	},
}

// accountCases are errors caused by the account or its permissions.
var accountCases = []Case{
	{
		Name: "invalid-key", About: "401: the key is wrong", Source: docs, Reason: recovery.AuthError,
		answers: always(fails(perProvider{
			openAI(401, "invalid_request_error", "invalid_api_key",
				"Incorrect API key provided: sk-stand***********0000. You can find your API key at "+
					"https://platform.openai.com/account/api-keys."),
			anthropic(401, "authentication_error", "invalid x-api-key"),
			google(400, "API key not valid. Please pass a valid API key.", errorInfo("API_KEY_INVALID")),
		})),
	},
	{
		Name: "expired-token", About: "401: the login has expired", Source: docs, Reason: recovery.AuthError,
		answers: always(fails(perProvider{
			openAI(401, "invalid_request_error", "token_expired",
				"Provided authentication token is expired. Please try signing in again."),
			anthropic(401, "authentication_error", "OAuth token has expired. Please obtain a new token or refresh "+
				"your existing token."),
			google(401, "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "+
				"or other valid authentication credential. See "+
				"https://developers.google.com/identity/sign-in/web/devconsole-project.",
				errorInfo("ACCESS_TOKEN_EXPIRED")),
		})),
	},
	{
		Name: "missing-key", About: "401: no key at all", Source: docs, Reason: recovery.AuthError,
		answers: always(fails(perProvider{
			openAI(401, "invalid_request_error", "", "You didn't provide an API key. You need to provide your API "+
				"key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."),
			anthropic(401, "authentication_error", "x-api-key header is required"),
			google(403, "Method doesn't allow unregistered callers (callers without established identity). Please "+
				"use API Key or other form of API consumer identity to call this API."),
		})),
		Or: []recovery.Reason{recovery.PermissionDenied},
	},
	{
		Name: "account-disabled", About: "the organisation or account is disabled", Source: docs +
			"; github.com/anthropics/claude-code issues", Reason: recovery.AuthError,
		Or: []recovery.Reason{recovery.PermissionDenied},
		answers: always(fails(perProvider{
			openAI(401, "invalid_request_error", "account_deactivated", "The OpenAI account associated with this API "+
				"key has been deactivated. Please check your email for more information."),
			anthropic(400, "invalid_request_error", "This organization has been disabled."),
			google(403, "Permission denied: Consumer 'api_key:AIza...' has been suspended.",
				errorInfo("CONSUMER_SUSPENDED")),
		})),
	},
	{
		Name: "forbidden-scope", About: "403: a scope is missing from the key", Source: docs,
		Reason: recovery.PermissionDenied,
		answers: always(fails(perProvider{
			openAI(403, "invalid_request_error", "missing_scope",
				"You have insufficient permissions for this operation. Missing scopes: model.request. Check that you "+
					"have the correct role in your organization (Reader, Writer, Owner) and project (Member, Owner)."),
			anthropic(403, "permission_error", "Your API key does not have permission to use the specified resource."),
			google(403, "Generative Language API has not been used in project 123456789 before or it is disabled. "+
				"Enable it by visiting "+
				"https://console.developers.google.com/apis/api/generativelanguage.googleapis.com/overview"+
				"?project=123456789 then retry.", errorInfo("SERVICE_DISABLED")),
		})),
	},
	{
		Name: "forbidden-region", About: "the region is not supported", Source: docs, Reason: recovery.PermissionDenied,
		answers: always(fails(perProvider{
			openAI(403, "request_forbidden", "unsupported_country_region_territory",
				"Country, region, or territory not supported"),
			anthropic(403, "forbidden", "Request not allowed"),
			google(400, "").as(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
		})),
	},
	{
		Name: "model-access", About: "the project has no access to the model", Source: docs,
		Reason: recovery.PermissionDenied, Or: []recovery.Reason{recovery.InvalidConfig},
		answers: always(fails(perProvider{
			openAI(403, "invalid_request_error", "model_not_found",
				"Project `proj_standin` does not have access to model `gpt-4.1`"),
			anthropic(403, "permission_error", "Your account does not have access to claude-sonnet-4-5. Please "+
				"contact Anthropic support."),
			google(403, "You do not have permission to access the model gemini-2.5-pro or it may not exist."),
		})),
	},
}

// addressCases are errors caused by a wrong address or model name.
var addressCases = []Case{
	{
		Name: "model-not-found", About: "404: no such model", Source: docs, Reason: recovery.InvalidConfig,
		answers: always(fails(perProvider{
			openAI(404, "invalid_request_error", "model_not_found",
				"The model `gpt-9-ultra` does not exist or you do not have access to it."),
			anthropic(404, "not_found_error", "model: claude-9-opus"),
			google(404, "models/gemini-9-pro is not found for API version v1beta, or is not supported for "+
				"generateContent. Call ListModels to see the list of available models and their supported methods."),
		})),
	},
	{
		Name: "wrong-path-html", About: "404: a web server's page instead of an API", Source: nginxSource,
		Reason:  recovery.InvalidConfig,
		answers: always(page(404, "text/html", nginx("404 Not Found"))),
	},
	{
		Name: "wrong-path-json", About: "404: a gateway that does not know the path",
		Source:  "fastapi.tiangolo.com/tutorial/handling-errors, as used by vLLM and LiteLLM",
		Reason:  recovery.InvalidConfig,
		answers: always(page(404, "application/json", `{"detail":"Not Found"}`)),
	},
	{
		Name: "redirect-loop", About: "307 to itself", Source: "RFC 9110, 15.4.8", Reason: recovery.InvalidConfig,
		Or:      []recovery.Reason{recovery.NetworkPermanent, recovery.NetworkTransient},
		answers: always(redirects(307, "redirect-loop")),
	},
	{
		Name: "portal", About: "200 with a captive portal page", Source: "networks with a login page",
		Reason: recovery.NetworkPermanent,
		Or: []recovery.Reason{
			recovery.InvalidConfig, recovery.NoProgress, recovery.NetworkTransient,
			recovery.ContractViolation,
		},
		answers: always(page(200, "text/html",
			"<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head><body><form "+
				"action=\"/login\">Please accept the terms of use to get online.</form></body></html>\n")),
	},
}

// quotaCases are errors about quotas and payment.
var quotaCases = []Case{
	{
		Name: "payment-required", About: "402", Source: "docs.anthropic.com/en/api/errors (billing_error); " +
			"openrouter.ai/docs/api-reference/errors; api-docs.deepseek.com/quick_start/error_codes",
		Reason: recovery.QuotaExhausted,
		answers: always(fails(perProvider{
			wireError{status: 402, body: `{"error":{"message":"Insufficient credits. Add more using https://openrouter.ai/settings/credits","code":402}}`},
			anthropic(402, "billing_error", "There is an issue with your billing or payment information. Please "+
				"check your payment details in the Console."),
			wireError{status: 402, body: `{"error":{"code":402,"message":"This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 1178.","status":"PAYMENT_REQUIRED"}}`},
		})),
	},
	{
		Name: "low-credit", About: "400: the credit is used up", Source: docs +
			"; github.com/anthropics/claude-code issues", Reason: recovery.QuotaExhausted,
		answers: always(fails(perProvider{
			openAI(400, "invalid_request_error", "billing_hard_limit_reached", "Billing hard limit has been reached"),
			anthropic(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. "+
				"Please go to Plans & Billing to upgrade or purchase credits."),
			google(429, "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects "+
				"to manage your project and billing."),
		})),
	},
	{
		Name: "insufficient-quota", About: "429: the account's quota is used up", Source: docs,
		Reason: recovery.QuotaExhausted,
		answers: always(fails(perProvider{
			openAI(429, "insufficient_quota", "insufficient_quota",
				"You exceeded your current quota, please check your plan and billing details. For more information "+
					"on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."),
			anthropic(429, "rate_limit_error", "Your organization has reached its monthly usage limit. Please "+
				"contact your administrator, or wait until the limit resets."),
			google(429, "You exceeded your current quota, please check your plan and billing details. For more "+
				"information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
				quotaFailure("GenerateRequestsPerDayPerProjectPerModel-FreeTier")),
		})),
	},
	{
		Name: "daily-limit", About: "429: the daily limit is reached", Source: limitDocs +
			"; github.com/google-gemini/gemini-cli/issues/10925", Reason: recovery.QuotaExhausted,
		answers: always(fails(perProvider{
			openAI(429, "requests", "rate_limit_exceeded",
				"Rate limit reached for gpt-4.1 in organization org-standin on requests per day (RPD): Limit 10000, "+
					"Used 10000, Requested 1. Please try again in 2h24m. Visit "+
					"https://platform.openai.com/account/rate-limits to learn more.").
				with("x-ratelimit-limit-requests", "10000", "x-ratelimit-remaining-requests", "0",
					"x-ratelimit-reset-requests", "2h24m0s"),
			anthropic(429, "rate_limit_error", "This request would exceed your organization's daily rate limit of "+
				"1000000 tokens. Please try again tomorrow, or contact sales to increase your limit.").
				with("anthropic-ratelimit-tokens-remaining", "0"),
			google(429, "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro "+
				"Requests per day per user per tier' of service 'cloudcode-pa.googleapis.com' for consumer "+
				"'project_number:681255809395'.", errorInfo("RATE_LIMIT_EXCEEDED"),
				quotaFailure("GenerateRequestsPerDayPerProjectPerModel")),
		})),
	},
	{
		Name: "plan-limit", About: "429: the plan's weekly limit is reached, and the response gives its reset time",
		Source: "github.com/earendil-works/pi/issues/4172 (usage_limit_reached); " +
			"github.com/anthropics/claude-code/issues/19673", Reason: recovery.QuotaExhausted,
		Wait: 13872 * time.Second,
		answers: always(fails(perProvider{
			wireError{status: 429, body: `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":13872}}`},
			anthropic(429, "rate_limit_error", "You have reached your weekly usage limit for this plan.").
				with("Retry-After", "13872", "anthropic-ratelimit-unified-status", "rejected"),
			google(429, "You have exhausted your capacity on this model. Your quota will reset after 3h51m12s.",
				errorInfo("QUOTA_EXHAUSTED"), retryInfo(13872*time.Second)),
		})),
	},
	{
		Name: "spend-cap", About: "400: the organisation has reached its spending cap, which resets on a given date",
		Source: "github.com/anthropics/claude-code/issues/38035; platform.openai.com/docs/guides/rate-limits " +
			"(project limits)", Reason: recovery.QuotaExhausted,
		answers: always(fails(perProvider{
			openAI(429, "insufficient_quota", "project_spend_limit_exceeded",
				"Project has exceeded its monthly spend limit. The limit resets on 2030-01-01."),
			anthropic(400, "invalid_request_error", "You have reached your specified API usage limits. You will "+
				"regain access on 2030-01-01 at 00:00 UTC."),
			google(429, "The project has exceeded its monthly spending cap. Please raise the cap or wait "+
				"until it resets.", errorInfo("SPEND_CAP_EXCEEDED")),
		})),
	},
}
