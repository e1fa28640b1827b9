package redact

import (
	"regexp"
	"strings"
)

// shapes are the rules for credentials with a distinctive form, in addition to the rules in library. They follow the
// vendors' documentation.
var shapes = []rule{
	{
		name: "private key", keys: []string{"-----begin "}, lines: true,
		expr: `-----BEGIN [A-Z0-9 ]*PRIVATE KEY[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`,
	},
	{name: keyTail, keys: []string{"-----end "}},
	{
		name: "PuTTY key", keys: []string{"private-lines:"}, lines: true,
		expr: `(?i)private-lines:[ \t]*\d+\r?\n((?:[A-Za-z0-9+/=]+\r?\n?)+)`,
	},
	{
		name: "GitHub", keys: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, at: true, exact: true,
		expr: `gh[pousr]_[A-Za-z0-9]{16,}`,
	},
	{
		name: "GitHub, fine-grained", keys: []string{"github_pat_"}, at: true, exact: true,
		expr: `github_pat_[A-Za-z0-9_]{16,}`,
	},
	{name: "GitHub, old", keys: []string{"v1."}, at: true, exact: true, edge: true, expr: `v1\.[0-9a-f]{40}`},
	{name: "Anthropic", keys: []string{"sk-ant-"}, at: true, exact: true, edge: true, expr: `sk-ant-[A-Za-z0-9_-]{8,}`},
	{
		name: "OpenAI and others", keys: []string{"sk-"}, at: true, exact: true, edge: true, digit: true,
		expr: `sk-(?:(?:proj|svcacct|admin|service|or|lf|litellm)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9_]{16,}[A-Za-z0-9_-]*|[a-z0-9]{2,10}-[A-Za-z0-9]{16,}[A-Za-z0-9_-]*)`,
	},
	{
		name: "models", keys: []string{
			"gsk_", "xai-", "r8_", "nvapi-", "pplx-", "fw_", "tvly-", "jina_", "lsv2_pt_",
			"lsv2_sk_", "sk_car_",
		}, at: true, exact: true, edge: true, digit: true,
		expr: `(?:gsk_|xai-|r8_|nvapi-|pplx-|fw_|tvly-|jina_|lsv2_(?:pt|sk)_|sk_car_)[A-Za-z0-9_-]{20,}`,
	},
	{
		name: "AWS", keys: []string{"AKIA", "ASIA", "ABIA", "ACCA"}, at: true, exact: true, edge: true,
		expr: `A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}\b`,
	},
	{name: "AWS Marketplace", keys: []string{"amzn.mws."}, at: true, exact: true, expr: `amzn\.mws\.[0-9a-f-]{36}`},
	{
		name: "Slack", keys: []string{"xox", "xapp-"}, at: true, exact: true, edge: true,
		expr: `(?:xox[a-z]-|xox[a-z]\.xox[a-z]-|xapp-)[A-Za-z0-9-]{10,}`,
	},
	{
		name: "Slack webhook URL", keys: []string{"hooks.slack.com/"}, at: true,
		expr: `(?i)hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]+`,
	},
	{
		name: "Discord webhook URL", keys: []string{"/api/webhooks/"}, at: true, exact: true,
		expr: `/api/webhooks/\d{10,}/([\w-]{30,})`,
	},
	{
		name: "Discord", keys: []string{"MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT", "Oj", "Oz"},
		at: true, exact: true, edge: true, digit: true, expr: `[MNO][\w-]{23,27}\.[\w-]{6,7}\.[\w-]{27,40}` + end,
	},
	{name: "Telegram", keys: []string{":AA"}, exact: true, expr: `\d{8,10}:AA[\w-]{33}` + end},
	{
		name: "Teams webhook URL", keys: []string{"webhook.office.com/", "outlook.office.com/webhook"}, at: true,
		expr: `(?i)(?:webhook|outlook)\.office\.com/webhook[\w/@-]{30,}`,
	},
	{
		name: "Google", keys: []string{"AIza", "ya29.", "GOCSPX-", "1//0"}, at: true, exact: true, edge: true,
		expr: `AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}`,
	},
	{
		name: "Firebase", keys: []string{"AAAA"}, at: true, exact: true, edge: true,
		expr: `AAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{130,}`,
	},
	{name: "GitLab", keys: []string{"glpat-"}, at: true, exact: true, expr: `glpat-[A-Za-z0-9_-]{16,}`},
	{
		name: "registries", keys: []string{"npm_", "pypi-", "hf_", "dckr_pat_", "dckr_oat_", "cio", "oy2"}, at: true,
		exact: true, edge: true, digit: true,
		expr: `npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{30,}|dckr_[po]at_[A-Za-z0-9_-]{20,}|cio[A-Za-z0-9]{32}` + end + `|oy2[a-z0-9]{43}` + end,
	},
	{
		name: "Stripe", keys: []string{"sk_", "rk_", "whsec_"}, at: true, exact: true, edge: true,
		expr: `(?:[rs]k_(?:live|test|prod)_|whsec_)[A-Za-z0-9+/=]{10,}`,
	},
	{
		name: "Square", keys: []string{"sq0csp-", "sq0atp-"}, at: true, exact: true, edge: true,
		expr: `sq0(?:csp|atp)-[\w-]{20,}`,
	},
	{
		name: "SendGrid", keys: []string{"SG."}, at: true, exact: true, edge: true,
		expr: `SG\.[\w-]{16,32}\.[\w-]{16,64}`,
	},
	{
		name: "Mailgun", keys: []string{"key-", "pubkey-"}, at: true, exact: true, edge: true,
		expr: `(?:pub)?key-[a-f0-9]{32}` + end,
	},
	{name: "Mailchimp", keys: []string{"-us"}, exact: true, expr: `[0-9a-f]{32}-us\d{1,2}\b`},
	{
		name: "Mapbox", keys: []string{"sk.eyJ", "pk.eyJ"}, at: true, exact: true, edge: true,
		expr: `[sp]k\.eyJ[\w-]{20,}\.[\w-]{16,}`,
	},
	{
		name: "Vault", keys: []string{"hvs.", "hvb.", "hvr."}, at: true, exact: true, edge: true,
		expr: `hv[sbr]\.[\w-]{20,}`,
	},
	{
		name: "Atlassian", keys: []string{"ATATT3", "ATCTT3", "ATBB", "ATOA"}, at: true, exact: true, edge: true,
		digit: true,
		expr:  `AT(?:ATT3|CTT3|BB|OA)[A-Za-z0-9_=-]{24,}`,
	},
	{
		name: "services", keys: []string{
			"sbp_", "sb_secret_", "tskey-", "figd_", "NRAK-", "CFPAT-", "phx_", "nfp_", "vcp_", "lin_oauth_", "secret_",
			"rnd_", "FlyV1", "glsa_", "dop_v1_", "doo_v1_",
			"napi_", "PMAT-", "dt0s", "CLOJARS_", "bkua_", "sl.", "wpat_", "tr_dev_", "tr_prod_", "ddog", "AzFu",
		}, at: true, exact: true, edge: true, digit: true,
		expr: `(?:sbp_|sb_secret_|figd_|CFPAT-|phx_|nfp_|vcp_|lin_oauth_|secret_|rnd_|glsa_|do[op]_v1_|napi_|CLOJARS_|bkua_|wpat_|tr_(?:dev|prod)_)[A-Za-z0-9_-]{20,}|` +
			`tskey-[a-z]+-[A-Za-z0-9-]{16,}|NRAK-[A-Z0-9]{20,}|PMAT-[A-Z0-9]{20,}|FlyV1 fm\d[\w,+/=]{20,}|dt0s\d\d\.[A-Z0-9]{8,24}\.[A-Z0-9]{40,}|sl\.[\w-]{60,}|ddog[\w-]{30,}`,
	},
	{
		name: "age", keys: []string{"age-secret-key-", "age-plugin-"}, at: true,
		expr: `(?i)age-(?:secret-key|plugin-[a-z0-9]+)-1[a-z0-9]{30,}`,
	},
	{
		name: "Azure Functions", keys: []string{"AzFu"}, exact: true,
		expr: `[A-Za-z0-9_-]{40,}AzFu[A-Za-z0-9_-]{4,}={0,2}`,
	},
	{
		name: "Azure", keys: []string{
			"+AStA", "+ACDb", "+ARm", "AZDO", "APIM", "+ABa", "AzSe", "AzCa", "+AMC", "+ASb",
			"+AIoT", "+AEh",
		}, exact: true,
		expr: `[A-Za-z0-9+/]{32,76}(?:\+(?:AStA|ACDb|ARm|ABa|AMC|ASb|AIoT|AEh)|AZDO|APIM|AzSe|AzCa)[A-Za-z0-9+/]{4,6}={0,2}`,
	},
	{
		name: "JSON web token", keys: []string{"eyJ"}, at: true, exact: true, edge: true,
		expr: `eyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_.-]*)?|[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]*|\.[A-Za-z0-9_.-]{16,})`,
	},
	{
		name: "NATS seed", keys: []string{"SA", "SC", "SN", "SO", "SU", "SX"}, at: true, exact: true,
		expr: `S[ACNOUX][A-Z2-7]{54,60}\b`,
	},
	{name: "password in a URL", keys: []string{"://"}, at: true, then: "@", expr: `://[^\s/:@"'` + "`" + `]*:([^\s/"'` +
		"`" + `]+)@`, check: isNoPlaceholder},
	{
		name: "user name in a URL", keys: []string{"://"}, at: true, then: "@", expr: `://([^\s/:@"'` + "`" + `]+)@`,
		check: func(user string) bool { return user != "git" && isNoPlaceholder(user) },
	},
	{
		name: "password hash", keys: []string{"$2a$", "$2b$", "$2y$"}, at: true,
		expr: `\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}`,
	},
	{
		name: "password hash", keys: []string{"$1$", "$5$", "$6$", "$apr1$"}, at: true,
		expr: `\$(?:[156]|apr1)\$(?:rounds=\d+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{22,86}`,
	},
	{
		name: "password hash", keys: []string{"$argon2"}, at: true,
		expr: `\$argon2(?:id|i|d)\$v=\d+\$[a-z0-9=,]+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+`,
	},
}

// guesses are the rules that use the text in front of a value. For names of variables, fields and flags, see names.go.
var guesses = []rule{
	{
		name: "query", keys: []string{
			"?key=", "&key=", "?sig=", "&sig=", "?signature=", "&signature=", "?code=",
			"&code=", "?auth=", "&auth=",
		}, at: true,
		expr: `(?i)[?&](?:key|sig|signature|code|auth)=([^&\s"'<>\\]+)`, check: isNoPlaceholder,
	},
	{
		name: "header", keys: []string{"authorization", "x-api-key", "x-auth-token", "private-token"}, at: true,
		edge: true,
		expr: `(?i)(?:authorization|x-api-key|x-auth-token|private-token)\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic|token)[ \t]+)?([^"'\n\\]+)`, check: isNoScheme,
	},
	{
		name: "cookie", keys: []string{"cookie"}, at: true, edge: true,
		expr: `(?i)cookie2?\\?["']?[ \t]*[:=][ \t]*\\?["']?([\w.!#$%&*+^|~-]+=[^"'\n\\]+)`,
	},
	{
		name: "bearer", keys: []string{"bearer"}, at: true, edge: true,
		expr:  `(?i)bearer[ \t]+([A-Za-z0-9._~+/=-]{12,})`,
		check: func(v string) bool { return len(v) >= 16 || isMixed(v) },
	},
	{
		name: "basic", keys: []string{"basic"}, at: true, edge: true, expr: `(?i)basic[ \t]+([A-Za-z0-9+/=]{12,})`,
		check: isMixed,
	},
	{name: "netrc", keys: []string{"password"}, expr: `(?i)\blogin[ \t]+\S+[ \t]+password[ \t]+(\S+)`},
	{
		name: "command", keys: []string{"sshpass", "mysql", "docker login", "redis-cli", "ldapsearch"}, at: true,
		expr:  `(?:sshpass[ \t]+-p[ \t]*|mysql(?:dump|admin)?[ \t][^\n|]*?[ \t]-p|docker login[ \t][^\n|]*?[ \t]-p[ =]|redis-cli[ \t][^\n|]*?[ \t]-a[ \t]+|ldapsearch[ \t][^\n|]*?[ \t]-w[ \t]+)["']?([^\s"'-][^\s"']+)`,
		check: isNoPlaceholder,
	},
}

// isNoScheme returns false for a header value that is only the name of an authentication scheme or a placeholder.
func isNoScheme(value string) bool {
	return isNoPlaceholder(value) && !schemes[lowerASCII(strings.TrimSpace(value))]
}

var schemes = words("bearer basic token digest negotiate none header headers required missing invalid")

// HasCredential reports whether the text contains a credential-shaped value under any name.
func HasCredential(text string) bool {
	has := false
	shaped().search(text, func(span) { has = true })
	return has
}

// variable matches a name with a word for a secret between underscores.
var variable = regexp.MustCompile(
	`(?i)(^|_)(token|secret|password|passwd|credentials?|apikey|(api|access|secret|private)_?key)(_|$)`)

// IsSecretVariable reports whether the name of a variable or configuration key denotes a secret. It is strict, because
// the configuration rejects every match. For example, MAX_TOKENS does not match.
func IsSecretVariable(name string) bool { return variable.MatchString(name) }
