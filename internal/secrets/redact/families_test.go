package redact

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

// family is one kind of planted secret. The test draws values from a pattern, so that scanners do not report this file
// as a leak.
type family struct {
	name    string
	pattern string // matches a value, as its vendor describes it
	// in is the only context that distinguishes the secret from other text, with %s for the value. Empty means all
	// contexts.
	in     string
	secret string // the group of the pattern with the secret; empty for the whole match
}

// pem matches the content of a key.
const pem = `(?:[A-Za-z0-9+/]{64}\n){4}[A-Za-z0-9+/]{30}==`

// families lists the planted secrets. They follow the vendors' descriptions instead of our rules.
var families = []family{
	{name: "GitHub token", pattern: `gh[posu]_[A-Za-z0-9]{36}`},
	{name: "GitHub fine-grained token", pattern: `github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}`},
	{name: "GitLab token", pattern: `glpat-[A-Za-z0-9_-]{20}`},
	{name: "GitLab runner token", pattern: `glrt-[A-Za-z0-9_]{20}`},
	{name: "Bitbucket app password", pattern: `ATBB[A-Za-z0-9]{32}`},
	{name: "Atlassian token", pattern: `ATATT3xFfGF0[A-Za-z0-9_-]{170}=[A-F0-9]{8}`},
	{name: "Anthropic key", pattern: `sk-ant-api03-[A-Za-z0-9_-]{93}AA`},
	{name: "OpenAI project key", pattern: `sk-proj-[A-Za-z0-9_-]{74}T3BlbkFJ[A-Za-z0-9_-]{74}`},
	{name: "OpenAI old key", pattern: `sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}`},
	{name: "OpenRouter key", pattern: `sk-or-v1-[0-9a-f]{64}`},
	{name: "Groq key", pattern: `gsk_[A-Za-z0-9]{52}`},
	{name: "xAI key", pattern: `xai-[A-Za-z0-9]{80}`},
	{name: "Perplexity key", pattern: `pplx-[A-Za-z0-9]{48}`},
	{name: "Replicate token", pattern: `r8_[A-Za-z0-9]{37}`},
	{name: "NVIDIA key", pattern: `nvapi-[A-Za-z0-9_-]{64}`},
	{name: "Hugging Face token", pattern: `hf_[A-Za-z]{34}`},
	{name: "AWS key id", pattern: `(?:AKIA|ASIA)[A-Z2-7]{16}`},
	{name: "AWS secret key", pattern: `[A-Za-z0-9/+]{40}`, in: "AWS_SECRET_ACCESS_KEY=%s"},
	{name: "AWS secret key in a file", pattern: `[A-Za-z0-9/+]{40}`, in: "aws_secret_access_key = %s"},
	{name: "Google API key", pattern: `AIza[A-Za-z0-9_-]{35}`},
	{name: "Google OAuth token", pattern: `ya29\.a0[A-Za-z0-9_-]{120}`},
	{name: "Google client secret", pattern: `GOCSPX-[A-Za-z0-9_-]{28}`},
	{
		name: "Azure storage key", pattern: `[A-Za-z0-9+/]{86}==`,
		in: "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=%s;EndpointSuffix=core.windows.net",
	},
	{
		name: "Azure shared access signature", pattern: `[A-Za-z0-9]{40}%2B[A-Za-z0-9]{2}%3D`,
		in: "https://shop.blob.core.windows.net/c?sv=2022-11-02&sr=c&sig=%s&se=2027-01-01",
	},
	{
		name: "Azure service bus key", pattern: `[A-Za-z0-9+/]{43}=`,
		in: "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=%s",
	},
	{name: "Azure client secret", pattern: `[A-Za-z0-9_]{3}8Q~[A-Za-z0-9_.~-]{31}[A-Za-z0-9]{3}`},
	{name: "DigitalOcean token", pattern: `do[opr]_v1_[0-9a-f]{64}`},
	{
		name: "Heroku key", pattern: `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`,
		in: "HEROKU_API_KEY=%s",
	},
	{name: "Cloudflare token", pattern: `[A-Za-z0-9_-]{40}`, in: "cloudflare_api_token: %s"},
	{name: "Vercel token", pattern: `[A-Za-z0-9]{24}`, in: "vercel deploy --token %s --prod"},
	{name: "Netlify token", pattern: `nfp_[A-Za-z0-9]{36}`},
	{name: "Fly.io token", pattern: `fm2_[A-Za-z0-9+/]{120}=`},
	{name: "Supabase token", pattern: `sbp_[0-9a-f]{40}`},
	{name: "PlanetScale token", pattern: `pscale_tkn_[A-Za-z0-9_-]{43}`},
	{name: "Tailscale key", pattern: `tskey-auth-k[A-Za-z0-9]{10}CNTRL-[A-Za-z0-9]{32}`},
	{name: "Terraform Cloud token", pattern: `[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{67}`},
	{name: "Pulumi token", pattern: `pul-[0-9a-f]{40}`},
	{name: "Vault service token", pattern: `hvs\.[A-Za-z0-9_-]{95}`},
	{name: "Vault root token of a test", pattern: `hvs\.[A-Za-z0-9]{24}`},
	{name: "Vault batch token", pattern: `hvb\.[A-Za-z0-9_-]{160}`},
	{name: "Vault old token", pattern: `s\.[A-Za-z0-9]{24}`},
	{name: "age key", pattern: `AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}`},
	{name: "Doppler token", pattern: `dp\.pt\.[A-Za-z0-9]{43}`},
	{name: "1Password secret key", pattern: `A3-[A-Z0-9]{6}-[A-Z0-9]{11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}`},
	{name: "SendGrid key", pattern: `SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`},
	{name: "Mailgun key", pattern: `key-[0-9a-f]{32}`},
	{name: "Mailchimp key", pattern: `[0-9a-f]{32}-us1[0-9]`},
	{name: "Brevo key", pattern: `xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}`},
	{name: "Twilio key", pattern: `SK[0-9a-f]{32}`},
	{name: "Twilio auth token", pattern: `[0-9a-f]{32}`, in: "TWILIO_AUTH_TOKEN=%s"},
	{name: "Slack token", pattern: `xox[bp]-[0-9]{12}-[0-9]{12}-[A-Za-z0-9]{24}`},
	{
		name: "Slack webhook URL", pattern: `https://hooks\.slack\.com/services/T[A-Z0-9]{8}/B[A-Z0-9]{8}/([A-Za-z0-9]{24})`,
		secret: "1",
	},
	{name: "Discord bot token", pattern: `MT[A-Za-z0-9]{24}\.G[A-Za-z0-9_-]{5}\.[A-Za-z0-9_-]{38}`},
	{name: "Discord webhook URL", pattern: `https://discord\.com/api/webhooks/[0-9]{18}/([A-Za-z0-9_-]{68})`, secret: "1"},
	{name: "Telegram bot token", pattern: `[1-9][0-9]{9}:AA[A-Za-z0-9_-]{33}`},
	{name: "Stripe key", pattern: `[rs]k_(?:live|test)_[A-Za-z0-9]{24}`},
	{name: "Stripe webhook secret", pattern: `whsec_[A-Za-z0-9]{32}`},
	{name: "Square token", pattern: `sq0csp-[A-Za-z0-9_-]{43}`},
	{name: "Shopify token", pattern: `shpat_[0-9a-f]{32}`},
	{name: "npm token", pattern: `npm_[A-Za-z0-9]{36}`},
	{
		name: "npm token in .npmrc", pattern: `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`,
		in: "//registry.npmjs.org/:_authToken=%s",
	},
	{name: "PyPI token", pattern: `pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{150}`},
	{name: "RubyGems key", pattern: `rubygems_[0-9a-f]{48}`},
	{name: "crates.io token", pattern: `cio[A-Za-z0-9]{32}`},
	{name: "NuGet key", pattern: `oy2[a-z0-9]{43}`},
	{name: "Docker Hub token", pattern: `dckr_pat_[A-Za-z0-9_-]{27}`},
	{
		name: "Docker's config file", pattern: `[A-Za-z0-9]{30}Zm9v`,
		in: `{"auths": {"https://index.docker.io/v1/": {"auth": "%s"}}}`,
	},
	{name: "Artifactory key", pattern: `AKCp8[A-Za-z0-9]{68}`},
	{name: "Databricks token", pattern: `dapi[0-9a-f]{32}`},
	{name: "Datadog key", pattern: `[0-9a-f]{32}`, in: "DD_API_KEY: %s"},
	{name: "New Relic key", pattern: `NRAK-[A-Z0-9]{27}`},
	{name: "Grafana token", pattern: `glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}`},
	{name: "Sentry token", pattern: `sntryu_[0-9a-f]{64}`},
	{name: "Linear key", pattern: `lin_api_[A-Za-z0-9]{40}`},
	{name: "Notion token", pattern: `ntn_[0-9]{11}[A-Za-z0-9]{35}`},
	{name: "Figma token", pattern: `figd_[A-Za-z0-9_-]{40}`},
	{name: "Postman key", pattern: `PMAK-[0-9a-f]{24}-[0-9a-f]{34}`},
	{name: "Contentful token", pattern: `CFPAT-[A-Za-z0-9_-]{43}`},
	{name: "JSON web token", pattern: `eyJhbGciOiJIUzI1NiJ9\.eyJ[A-Za-z0-9_-]{60}\.[A-Za-z0-9_-]{43}`},
	{name: "NATS seed", pattern: `SU[A-Z2-7]{56}`},
	{name: "WireGuard key", pattern: `[A-Za-z0-9+/]{43}=`, in: "PrivateKey = %s"},
	{name: "RSA key", pattern: "-----BEGIN RSA " + "PRIVATE KEY-----\n" + pem + "\n-----END RSA " + "PRIVATE KEY-----"},
	{name: "OpenSSH key", pattern: "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + pem + "\n-----END OPENSSH " +
		"PRIVATE KEY-----"},
	{name: "PGP key", pattern: "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\n" + pem + "\n=Ab1d\n-----END PGP " +
		"PRIVATE KEY BLOCK-----"},
	{name: "password hash", pattern: `\$2b\$12\$[A-Za-z0-9./]{53}`},
	{name: "DB_PASS=", pattern: `[A-Za-z]{6}[0-9]{2}`, in: "DB_PASS=%s"},
	{name: "MYSQL_PWD=", pattern: `[A-Za-z]{6}[0-9]{2}[!#@%]`, in: "export MYSQL_PWD=%s"},
	{name: "password in capitals", pattern: `[A-Za-z0-9]{12}`, in: "POSTGRES_PASSWORD=%s"},
	{name: "password in YAML", pattern: `[A-Za-z]{6}[0-9]{2}[A-Za-z]{3}`, in: "    password: %s"},
	{name: "password in JSON", pattern: `[a-z]{8}[0-9]{2}`, in: `{"user": "app", "password": "%s"}`},
	{
		name: "password in JSON in JSON", pattern: `[a-z]{8}[0-9]{2}`,
		in: `{"body": "{\"user\": \"app\", \"password\": \"%s\"}"}`,
	},
	{name: "password in XML", pattern: `[a-z]{8}[0-9]{2}`, in: `<server><id>x</id><password>%s</password></server>`},
	{name: "password of a flag", pattern: `[a-z]{8}[0-9]{2}`, in: "login --username app --password %s https://x"},
	{name: "password in a container's list", pattern: `[a-z]{8}[0-9]{2}`, in: `{"name": "DB_PASSWORD", "value": "%s"}`},
	{
		name: "password of ADO.NET", pattern: `[A-Za-z]{8}[0-9]{2}`,
		in: "Server=db;Database=shop;User Id=app;Password=%s;Encrypt=true",
	},
	{
		name: "password in a URL", pattern: `[A-Za-z0-9]{12}`,
		in: "postgres://app:%s@db.example.com:5432/shop?sslmode=require",
	},
	{name: "password of redis", pattern: `[A-Za-z0-9]{12}`, in: "redis://:%s@cache:6379/0"},
	{
		name: "password of curl", pattern: `[A-Za-z0-9]{12}`,
		in: "+ curl -s -u deploy:%s https://registry.example.com/v2/",
	},
	{name: "password of netrc", pattern: `[A-Za-z0-9]{12}`, in: "machine github.com login bot password %s"},
	{name: "bearer header", pattern: `[A-Za-z0-9_-]{32}`, in: "> Authorization: Bearer %s"},
	{name: "basic header", pattern: `[A-Za-z0-9]{22}==`, in: `-H "Authorization: Basic %s"`},
	{name: "key in a header", pattern: `[A-Za-z0-9]{32}`, in: "X-Api-Key: %s"},
	{name: "token in another header", pattern: `[A-Za-z0-9]{32}`, in: "X-Registry-Auth-Token: %s"},
	{name: "cookie", pattern: `[A-Za-z0-9]{26}`, in: "Set-Cookie: connect.sid=%s; Path=/; HttpOnly"},
	{name: "token in a query", pattern: `[A-Za-z0-9]{20}`, in: "GET /v1/me?access_token=%s&fields=id HTTP/1.1"},
	{name: "camel case", pattern: `[A-Za-z0-9]{24}`, in: `clientSecret: "%s",`},
	{name: "Java properties", pattern: `[A-Za-z0-9]{16}`, in: "spring.datasource.password=%s"},
	{name: "Terraform", pattern: `[A-Za-z0-9]{16}`, in: `+ master_password = "%s"`},
	{name: "shell trace", pattern: `[A-Za-z0-9]{16}`, in: "++ export SIGNING_SECRET='%s'"},
}

// contexts are places in output for credentials with a distinctive form.
var contexts = []struct{ name, text string }{
	{"alone", "%s"},
	{"in a sentence", "the key is %s and that is all"},
	{"end of a sentence", "use %s."},
	{"in a list", "keys: [%s, other]"},
	{"quoted", `key "%s" is wrong`},
	{"in JSON", `{"level":"info","value":"%s","n":1}`},
	{"in JSON in JSON", `{"msg":"{\"value\":\"%s\"}"}`},
	{"behind an escape", `{"msg":"first line\n%s\tmore"}`},
	{"environment", "DEPLOY_VALUE=%s"},
	{"YAML", "  value: %s"},
	{"in a query", "GET https://api.example.com/x?value=%s&page=2"},
	{"in brackets", "refused (%s)"},
	{"in a tag", "<code>%s</code>"},
	{"coloured", "\x1b[31m%s\x1b[0m is red"},
	{"in back quotes", "set `%s` first"},
	{"prefixed", "2026-11-21T10:00:00Z app[1]: %s"},
}

// planted returns the texts of a family, and the secret in each.
func (f family) planted() (texts, secrets, where []string) {
	const values = 12
	expr := regexp.MustCompile("^(?:" + f.pattern + ")$")
	parsed, _ := syntax.Parse(f.pattern, syntax.Perl) // MustCompile has read it
	for i := range values {
		var b strings.Builder
		draw(&b, newDice(uint64(i)), parsed)
		v := b.String()
		secret := v
		if f.secret != "" {
			secret = expr.FindStringSubmatch(v)[1]
		}
		if f.in != "" {
			texts, secrets, where = append(texts, fmt.Sprintf(f.in, v)), append(secrets, secret), append(where, f.in)
			continue
		}
		for _, c := range contexts {
			written := v
			if strings.Contains(c.text, "{") {
				written = strings.ReplaceAll(v, "\n", `\n`)
			}
			texts, secrets, where = append(texts, fmt.Sprintf(c.text, written)), append(secrets, secret),
				append(where, c.name)
		}
	}
	return texts, secrets, where
}

// draw writes a text that matches a pattern, with equal odds for each character.
func draw(b *strings.Builder, d dice, p *syntax.Regexp) {
	switch p.Op {
	case syntax.OpLiteral:
		b.WriteString(string(p.Rune))
	case syntax.OpCharClass:
		var all []rune
		for i := 0; i < len(p.Rune); i += 2 {
			for r := p.Rune[i]; r <= p.Rune[i+1]; r++ {
				all = append(all, r)
			}
		}
		b.WriteRune(all[d.IntN(len(all))])
	case syntax.OpRepeat:
		for range p.Min {
			draw(b, d, p.Sub[0])
		}
	case syntax.OpAlternate:
		draw(b, d, p.Sub[d.IntN(len(p.Sub))])
	default:
		for _, sub := range p.Sub {
			draw(b, d, sub)
		}
	}
}

// leaked reports whether eight characters of the secret remain, or all of a shorter secret.
func leaked(text, secret string) bool {
	const piece = 8
	for line := range strings.SplitSeq(secret, "\n") {
		if strings.HasPrefix(line, "-----") {
			continue
		}
		// Fewer characters may remain, because the first letters only identify the vendor.
		for at := 0; at+min(piece, len(line)) <= len(line); at++ {
			if len(line) >= 4 && strings.Contains(text, line[at:at+min(piece, len(line))]) {
				return true
			}
			if len(line) <= piece {
				break
			}
		}
	}
	return false
}

// TestPlantedAreWhatTheySay checks that the planted secrets are fake, and that every family has a separate form.
func TestPlantedAreWhatTheySay(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range families {
		texts, secrets, _ := f.planted()
		if seen[f.name] || len(texts) < 12 || len(texts) != len(secrets) {
			t.Errorf("%s: %d texts, %d secrets", f.name, len(texts), len(secrets))
		}
		seen[f.name] = true
		for i := range texts {
			if !leaked(texts[i], secrets[i]) {
				t.Errorf("%s: %q is not in %q", f.name, secrets[i], texts[i])
			}
		}
	}
	if len(families) < 40 {
		t.Errorf("%d families, want 40 or more", len(families))
	}
}
