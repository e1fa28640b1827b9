package gitwords

import "strings"

// Meaning is the cause of a failure, as stated by git's message.
type Meaning string

// Meanings of messages. Rows assigns a reason to each of them except Unknown.
const (
	BadName      Meaning = "bad_name"      // the server refuses an object, such as a directory named GIT~1
	Damaged      Meaning = "damaged"       // a local repository is damaged
	OtherFormat  Meaning = "other_format"  // client and server use different object formats
	NoCommit     Meaning = "no_commit"     // the server does not have a commit, or refuses to serve it
	Limited      Meaning = "limited"       // the server asks for a pause
	ServerFails  Meaning = "server_fails"  // the server answers with an error status
	NoScope      Meaning = "no_scope"      // the token lacks a permission for this change
	Refused      Meaning = "refused"       // a server rule refuses the push
	Credentials  Meaning = "credentials"   // the credentials are wrong or missing
	Moved        Meaning = "moved"         // the repository has moved
	NoBranch     Meaning = "no_branch"     // the branch does not exist on the server
	NoRepository Meaning = "no_repository" // the repository does not exist on the server
	Certificate  Meaning = "certificate"   // the server's certificate is not valid
	Conflict     Meaning = "conflict"      // the push conflicts with other commits or branches on the server
	NoHost       Meaning = "no_host"       // the server's name does not resolve
	Network      Meaning = "network"       // the connection or the server failed
	Unexplained  Meaning = "unexplained"   // the server refused without a known reason
	Unknown      Meaning = "unknown"       // the message matches no row
)

// Row lists the texts that identify one meaning.
type Row struct {
	Meaning Meaning
	// Reason is the recovery.Reason of a failure with this meaning.
	Reason string
	// Local makes the row ignore lines sent by the server.
	Local bool
	// DirectorOnly restricts the reason to the director's git commands, which use configured branches and a host that
	// the director has reached before. An agent's command can have any argument, and the host might not be reachable
	// from the agent's network.
	DirectorOnly bool
	// A message has this meaning if it contains one of the texts, which are in lower case. The texts in Plain are
	// specific enough for the output of any program. The texts in Texts apply only to git's output.
	Plain, Texts []string
	Examples     []string
}

// Rows is the table. The first row that matches a message wins, so specific rows come before general ones. Matching
// ignores case.
var Rows = []Row{
	{
		Meaning: BadName, Reason: "policy_violation",
		Plain: []string{"fsck error in packed object", "hasdotgit"},
		Texts: []string{"remote: fatal: fsck error", "remote: error: object "},
		Examples: []string{
			"remote: error: object 58a1a2b: hasDotgit: contains '.git'\nremote: fatal: fsck error in packed object",
		},
	},
	// This row precedes Network, because a push that finds a damaged object also ends with "the remote end hung up".
	{
		Meaning: Damaged, Reason: "corrupt_state", Local: true,
		Texts: []string{
			"fatal: not a git repository", "loose object", "error: object file ", "is corrupt", "bad object",
			"missing blob", "missing tree", "missing commit", "missing object", "unable to read tree",
			"unable to read sha1", "failed to read object", "could not read object", "cannot read existing object",
			"invalid sha1 pointer", "invalid object", "not a tree object", "not a valid object name",
			"could not parse commit", "could not parse object", "bad signature", "index file corrupt",
			"index file smaller", "packfile ", ".idx is too small", "inflate: ", "unable to unpack",
			"reference broken", "broken ref", "bad ref ", "unable to normalize alternate", "bad config line",
			"did not send all necessary objects",
		},
		Examples: []string{
			"error: object file .git/objects/78/98 is empty",
			"error: inflate: data stream error (incorrect data check)",
			"fatal: loose object da2a5b8 (stored in .git/objects/da/2a5b8) is corrupt",
			"fatal: bad config line 6 in file .git/config", "fatal: bad object HEAD",
			"error: packfile .git/objects/pack/pack-b1.pack does not match index",
		},
	},
	{
		Meaning: OtherFormat, Reason: "invalid_config",
		Plain:    []string{"mismatched algorithms", "unknown object format"},
		Examples: []string{"fatal: mismatched algorithms: client sha1; server sha256"},
	},
	// If git fetches a branch, this message means that the branch moved between two responses from the server.
	{
		Meaning: NoCommit, Reason: "network_transient",
		Plain:    []string{"upload-pack: not our ref"},
		Texts:    []string{"not our ref", "unadvertised object"},
		Examples: []string{"fatal: remote error: upload-pack: not our ref 2222222222222222222222222222222222222222"},
	},
	// This row precedes Credentials, because GitHub also sends these messages with status 403.
	{
		Meaning: Limited, Reason: "rate_limited",
		Texts: []string{
			"rate limit", "abuse detection", "requested url returned error: 429", "http 429",
			"too many requests",
		},
		Examples: []string{
			"remote: You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
			"fatal: unable to access 'https://github.com/acme/app.git/': The requested URL returned error: 429",
		},
	},
	{
		Meaning: ServerFails, Reason: "network_transient",
		Texts: []string{"requested url returned error: 5", "requested url returned error: 408", "http 5"},
		Examples: []string{
			"fatal: unable to access 'https://github.com/acme/app.git/': The requested URL returned error: 500",
			"fatal: unable to access 'https://github.com/acme/app.git/': The requested URL returned error: 502",
		},
	},
	{
		Meaning: NoScope, Reason: "permission_denied",
		Texts: []string{"without `workflow` scope", "without `workflows` permission"},
		Examples: []string{
			" ! [remote rejected] x -> x (refusing to allow a GitHub App to create or update workflow " +
				"`.github/workflows/ci.yml` without `workflows` permission)",
			" ! [remote rejected] x -> x (refusing to allow a Personal Access Token to create or update workflow " +
				"`.github/workflows/ci.yml` without `workflow` scope)",
		},
	},
	{
		Meaning: Refused, Reason: "policy_violation",
		Plain: []string{
			"hook declined", "gh001", "gh003", "gh006", "gh007", "gh009", "gh013", "push declined due to",
			"deletion prohibited", "denying non-fast-forward", "denying ref deletion", "push protection",
			"repository rule violations", "exceeds github", "you are not allowed to push code to protected",
			"refusing to update checked out",
		},
		Texts: []string{
			"protected branch", "push declined", "refusing to allow", "refusing to update", "refusing to create",
			"refusing to delete", "denying ", "you are not allowed to push",
		},
		Examples: []string{
			" ! [remote rejected] main -> main (pre-receive hook declined)",
			"remote: error: GH006: Protected branch update failed for refs/heads/main.",
			"remote: error: GH013: Repository rule violations found for refs/heads/main.",
			"remote: error: GH001: Large files detected. You may want to try Git Large File Storage.",
			" ! [remote rejected] x -> x (push declined due to repository rule violations)",
			" ! [remote rejected] x (deletion prohibited)",
			"remote: error: denying non-fast-forward refs/heads/main (you should pull first)",
			"remote: error: refusing to update checked out branch: refs/heads/main",
		},
	},
	{
		Meaning: Credentials, Reason: "auth_error",
		Texts: []string{
			"authentication failed", "could not read username", "could not read password", "invalid username or",
			"returned error: 401", "returned error: 403", "http basic: access denied", "terminal prompts disabled",
			"permission to ",
		},
		Examples: []string{"fatal: Authentication failed for 'https://github.com/acme/app.git/'"},
	},
	{
		Meaning: Moved, Reason: "invalid_config",
		Plain: []string{".git/': the requested url returned error: 30"},
		Texts: []string{
			"returned error: 301", "returned error: 302", "returned error: 307", "returned error: 308", "redirect",
		},
		Examples: []string{
			"fatal: unable to access 'https://github.com/acme/app.git/': The requested URL returned error: 301",
		},
	},
	{
		Meaning: NoBranch, Reason: "invalid_config", DirectorOnly: true,
		Texts:    []string{"couldn't find remote ref"},
		Examples: []string{"fatal: couldn't find remote ref main"},
	},
	{
		Meaning: NoRepository, Reason: "invalid_config",
		Texts: []string{
			"repository not found", "does not appear to be a git repository", "returned error: 404", "not found",
			"no such file or directory",
		},
		Examples: []string{
			"fatal: 'origin' does not appear to be a git repository",
			"remote: Repository not found.\nfatal: repository 'https://github.com/acme/none.git/' not found",
		},
	},
	{
		Meaning: Certificate, Reason: "network_permanent",
		Texts: []string{"certificate"},
		Examples: []string{
			"fatal: unable to access 'https://github.com/': SSL certificate problem: certificate has expired",
		},
	},
	{
		Meaning: Conflict, Reason: "git_conflict",
		Texts: []string{
			"[rejected]", "stale info", "non-fast-forward", "fetch first", "directory file conflict",
			"exists; cannot create",
		},
		Examples: []string{
			" ! [rejected]        main -> main (fetch first)", " ! [rejected]        main -> main (non-fast-forward)",
			" ! [rejected]        main -> main (stale info)",
		},
	},
	{
		Meaning: NoHost, Reason: "network_transient", DirectorOnly: true,
		Texts: []string{"could not resolve"},
		Examples: []string{
			"fatal: unable to access 'https://github.com/acme/app.git/': Could not resolve host: github.com",
		},
	},
	{
		Meaning: Network, Reason: "network_transient",
		Plain: []string{"git-http-push failed", "remote failed to report status"},
		Texts: []string{
			"connection refused", "connection reset", "timed out", "timeout", "hung up",
			"early eof", "rpc failed", "network is unreachable", "no route to host", "unexpected disconnect",
			"failed to connect", "couldn't connect", "connection closed", "broken pipe", "gnutls", "ssl_error", "tls",
			"ssl routines", "empty reply", "operation too slow", "transfer closed", "not closed cleanly",
			"bad line length character", "expected flush", ".lock': file exists",
			"failed to write new configuration file", "resource temporarily unavailable", "cannot allocate memory",
			"failed to update ref", "cannot lock ref", "failed to report status", "info/refs not valid",
			"invalid server response", "<html", "<!doctype",
		},
		Examples: []string{
			"fatal: unable to access 'https://github.com/acme/app.git/': Recv failure: Connection reset by peer",
			"fatal: unable to access 'https://github.com/acme/app.git/': Empty reply from server",
			"error: RPC failed; curl 18 transfer closed with outstanding read data remaining",
			"fatal: git-http-push failed", " ! [remote failure] main -> main (remote failed to report status)",
		},
	},
	// The reason is transient, because a server also sends these messages after an internal failure.
	{
		Meaning: Unexplained, Reason: "network_transient",
		Texts:    []string{"[remote rejected]", "[remote failure]", "remote unpack failed"},
		Examples: []string{" ! [remote rejected] main -> main (Internal Server Error)"},
	},
}

// ReasonOf returns the reason that Rows assigns to a meaning, or "unknown".
func ReasonOf(m Meaning) string {
	for i := range Rows {
		if Rows[i].Meaning == m {
			return Rows[i].Reason
		}
	}
	return string(Unknown)
}

// Read returns the meaning of a failed git command's output.
func Read(said string) Meaning {
	said = strings.ToLower(said)
	local := Local(said)
	for _, row := range Rows {
		from := said
		if row.Local {
			from = local
		}
		for _, texts := range [][]string{row.Plain, row.Texts} {
			for _, text := range texts {
				if strings.Contains(from, text) {
					return row.Meaning
				}
			}
		}
	}
	return Unknown
}

// Local returns git's output without the lines sent by the server.
func Local(said string) string {
	var local []string
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "remote: ") {
			local = append(local, line)
		}
	}
	return strings.Join(local, "")
}
