package redact

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// This file assembles the output of tools from typical lines, with random digests, versions and numbers.

// dice is a deterministic source of random choices.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 7))} }

func (d dice) of(alphabet string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[d.IntN(len(alphabet))])
	}
	return b.String()
}

func (d dice) hex(n int) string { return d.of("0123456789abcdef", n) }
func (d dice) base64(n int) string {
	return d.of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", n)
}

func (d dice) uuid() string {
	return d.hex(8) + "-" + d.hex(4) + "-4" + d.hex(3) + "-a" + d.hex(3) + "-" + d.hex(12)
}

func (d dice) version() string {
	return fmt.Sprintf("%d.%d.%d", d.IntN(12), d.IntN(30), d.IntN(20))
}
func (d dice) pick(list ...string) string { return list[d.IntN(len(list))] }

// names of packages and tests, including some with words for secrets
var packageNames = strings.Fields(
	`js-tokens css-tokenizer cookie cookie-signature keyv tiktoken tokenizers google-auth secretstorage keyring cryptography jsonwebtoken passport
	passport-local authlib pyjwt bcrypt eslint-visitor-keys object-keys own-keys token-types basic-auth tough-cookie http-auth-agent react lodash webpack serde serde_json tokio
	secrecy zeroize rustls ring hmac sha2 password-hash spring-security-oauth2 jackson-core credential-provider-node signature-v4 sk-spinner-circle-fade-in`)

func goTestJSON() string {
	d := newDice(1)
	var b strings.Builder
	for i := range 6000 {
		test := "Test" + d.pick("TokenRefresh", "PasswordReset", "SecretsAreHidden", "KeyRotation", "AuthHeader",
			"Parse", "Session", "Cache") + "/" + d.pick("api_key", "token=none", "empty_password", "case_7")
		fmt.Fprintf(&b,
			`{"Time":"2026-11-21T10:%02d:%02d.%09dZ","Action":"output","Package":"example.com/shop/internal/auth","Test":"%s","Output":"%s\n"}`+"\n",
			i/60%60, i%60, d.IntN(1e9), test, d.pick(
				"    --- PASS: "+test+" (0.00s)", "=== RUN   "+test,
				"    auth_test.go:31: token: got nil, want *Token{Kind: 3}",
				"    lexer_test.go:12: unexpected token: IDENT, want token.EOF", "    cache_test.go:9: cache key "+
					d.hex(64)+" is new",
				"    tokens: 1532 in, 210 out; max_tokens=4096",
				"ok  \texample.com/shop/auth\\t0.214s\\tcoverage: 81.2% of statements",
				"    x_test.go:4: commit "+d.hex(40)+" of branch refs/heads/secret-rotation", "    key = "+d.uuid(),
				"    primaryKey: order_"+fmt.Sprint(d.IntN(9999)),
			))
	}
	return b.String()
}

func npmLog() string {
	d := newDice(2)
	var b strings.Builder
	for range 3000 {
		p := d.pick(packageNames...)
		b.WriteString(d.pick(
			fmt.Sprintf("npm http fetch GET 200 https://registry.npmjs.org/%s/-/%s-%s.tgz %dms (cache miss)\n", p, p,
				d.version(), d.IntN(900)),
			fmt.Sprintf("npm sill fetch manifest %s@^%s\n", p, d.version()),
			fmt.Sprintf("npm warn deprecated %s@%s: use %s instead\n", p, d.version(), d.pick(packageNames...)),
			fmt.Sprintf("  asset main.%s.js %d KiB [emitted] [immutable] [minimized] (name: main)\n", d.hex(20),
				d.IntN(900)),
			fmt.Sprintf("PASS src/%s.test.ts (%d.%d s)\n", p, d.IntN(9), d.IntN(9)),
			fmt.Sprintf("Cache restored from key: node-cache-Linux-x64-npm-%s\n", d.hex(64)),
			fmt.Sprintf("webpack %s compiled successfully in %d ms\n", d.version(), d.IntN(9999)),
			fmt.Sprintf("etag: W/\"%s-%s\"\n", d.hex(3), d.base64(27)),
		))
	}
	return b.String()
}

func npmLock() string {
	d := newDice(3)
	var b strings.Builder
	for range 1500 {
		p := d.pick(packageNames...)
		fmt.Fprintf(&b, "    \"node_modules/%s\": {\n      \"version\": \"%s\",\n      \"resolved\": "+
			"\"https://registry.npmjs.org/%s/-/%s-%s.tgz\",\n      \"integrity\": \"sha512-%s==\",\n"+
			"      \"dependencies\": {\n        \"%s\": \"^%s\"\n      }\n    },\n", p, d.version(), p, p, d.version(),
			d.base64(86), d.pick(packageNames...), d.version())
	}
	return b.String()
}

func pipLog() string {
	d := newDice(4)
	var b strings.Builder
	for range 3000 {
		p := d.pick(packageNames...)
		b.WriteString(d.pick(
			fmt.Sprintf("Collecting %s==%s\n", p, d.version()),
			fmt.Sprintf("  Downloading %s-%s-py3-none-any.whl.metadata (%d.%d kB)\n", p, d.version(), d.IntN(90),
				d.IntN(9)),
			fmt.Sprintf("%s==%s --hash=sha256:%s\n", p, d.version(), d.hex(64)),
			fmt.Sprintf("  Downloading https://files.pythonhosted.org/packages/%s/%s/%s/%s-%s.tar.gz#sha256=%s\n",
				d.hex(2), d.hex(2), d.hex(60), p, d.version(), d.hex(64)),
			fmt.Sprintf("tests/test_tokens.py::test_password_is_hashed[argon2-%d] PASSED [ %d%%]\n", d.IntN(9),
				d.IntN(99)),
			fmt.Sprintf("E       AssertionError: assert 'token' == 'tokens'\nE         token_count=%d, "+
				"key='order-%d'\n", d.IntN(9999), d.IntN(99)),
			fmt.Sprintf("Successfully installed %s-%s %s-%s\n", p, d.version(), d.pick(packageNames...), d.version()),
		))
	}
	return b.String()
}

func cargoLog() string {
	d := newDice(5)
	var b strings.Builder
	for range 3000 {
		p := d.pick(packageNames...)
		b.WriteString(d.pick(
			fmt.Sprintf("   Compiling %s v%s\n", p, d.version()),
			fmt.Sprintf("[[package]]\nname = \"%s\"\nversion = \"%s\"\nsource = "+
				"\"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"%s\"\n", p, d.version(),
				d.hex(64)),
			fmt.Sprintf("test auth::tests::secret_key_is_zeroized ... ok\ntest token::parse_%d ... ok\n", d.IntN(99)),
			fmt.Sprintf("     Running unittests src/lib.rs (target/debug/deps/%s-%s)\n", p, d.hex(16)),
			"error[E0308]: mismatched types\n  --> src/token.rs:41:18\n   |\n41 |     let token = "+
				"self.next_token()?;\n   |                 ^^^^ expected `&str`, found `String`\n",
			fmt.Sprintf("warning: unused variable: `api_key`\n  --> src/client.rs:%d:9\n   |\n   = note: "+
				"`#[warn(unused_variables)]` on by default\n", d.IntN(300)),
		))
	}
	return b.String()
}

func mavenLog() string {
	d := newDice(6)
	var b strings.Builder
	for range 3000 {
		p := d.pick(packageNames...)
		b.WriteString(d.pick(
			fmt.Sprintf("[INFO] Downloading from central: "+
				"https://repo.maven.apache.org/maven2/org/%s/%s/%s/%s-%s.pom\n", p, p, d.version(), p, d.version()),
			fmt.Sprintf("[INFO] Tests run: %d, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.%d s -- in "+
				"com.acme.TokenServiceTest\n", d.IntN(60), d.IntN(99)),
			fmt.Sprintf("10:31:%02d.%03d [main] DEBUG o.s.s.w.FilterChainProxy - Securing GET /login?error=%d\n",
				d.IntN(60), d.IntN(999), d.IntN(9)),
			fmt.Sprintf("\tat com.acme.auth.PasswordEncoder.encode(PasswordEncoder.java:%d) ~[classes/:na]\n",
				d.IntN(300)),
			fmt.Sprintf("2026-11-21 10:00:00.000  INFO %d --- [main] c.a.Application : Bean 'secretManager' of type "+
				"[com.acme.SecretManager] traceId=%s spanId=%s requestId=%s\n", d.IntN(9999), d.hex(32), d.hex(16),
				d.uuid()),
			fmt.Sprintf("Authorization failed for user %d: missing scope read:org; see "+
				"https://docs.example.com/auth?topic=tokens\n", d.IntN(99)),
		))
	}
	return b.String()
}

func dockerLog() string {
	d := newDice(7)
	var b strings.Builder
	for i := range 2000 {
		b.WriteString(d.pick(
			fmt.Sprintf("#%d sha256:%s 3.62MB / 3.62MB 0.4s done\n", i, d.hex(64)),
			fmt.Sprintf("#%d [%d/9] RUN --mount=type=secret,id=npm_token npm ci\n", i, d.IntN(9)),
			fmt.Sprintf("#%d CACHED\n#%d exporting manifest list sha256:%s done\n", i, i, d.hex(64)),
			fmt.Sprintf("%s: Pulling from library/golang\n%s: Pull complete\nDigest: sha256:%s\n", d.version(),
				d.hex(12), d.hex(64)),
			fmt.Sprintf("(%d/90) Installing libsecret (0.21.%d-r0)\n", d.IntN(90), d.IntN(9)),
			fmt.Sprintf("To https://github.com/acme/widgets.git\n   %s..%s  main -> main\n * [new branch]      "+
				"token-refresh -> token-refresh\n", d.hex(7), d.hex(7)),
			fmt.Sprintf("diff --git a/auth/token.go b/auth/token.go\nindex %s..%s 100644\n", d.hex(40), d.hex(40)),
			"SHA256:"+d.base64(43)+" deploy@build (ED25519)\n",
		))
	}
	return b.String()
}
