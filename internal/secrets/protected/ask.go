package protected

import "slices"

// Ask lists the files that act on people's machines, or that steer agents, reviews and merges.
var Ask = slices.Concat(tools, agents, reviews)

// tools lists files that act on the machine of anyone who opens, enters or uses a checkout.
var tools = []Row{
	// development environments
	{
		"Dev Containers", "startup commands, host mounts",
		"https://containers.dev/implementors/json_reference/",
		[]string{"**/.devcontainer/", "**/.devcontainer.json"},
	},
	{
		"Gitpod, Ona", "startup tasks and automations", "https://ona.com/docs/ona/configuration/automations/overview",
		[]string{".gitpod.yml", ".gitpod.Dockerfile", ".gitpod/", ".ona/"},
	},
	{
		"Devfile", "startup commands", "https://devfile.io/docs/2.3.0/adding-event-bindings",
		[]string{"devfile.yaml", ".devfile.yaml"},
	},
	{
		"Firebase Studio", "startup hooks, agent rules",
		"https://firebase.google.com/docs/studio/customize-workspace",
		[]string{"**/.idx/"},
	},
	{
		"Replit", "the run command", "https://docs.replit.com/replit-app/configuration",
		[]string{".replit", "replit.nix", "replit.md"},
	},
	{
		"CodeSandbox", "startup tasks", "https://codesandbox.io/docs/learn/environment/tasks",
		[]string{".codesandbox/"},
	},
	{
		"StackBlitz", "the start command", "https://developer.stackblitz.com/platform/webcontainers/project-config",
		[]string{".stackblitzrc"},
	},

	// editors
	{
		"VS Code", "tasks, debuggers, program paths, MCP servers",
		"https://code.visualstudio.com/docs/debugtest/tasks",
		[]string{"**/.vscode/", "**/*.code-workspace"},
	},
	{
		"Visual Studio", "tasks and debuggers",
		"https://learn.microsoft.com/en-us/visualstudio/ide/customize-build-and-debug-tasks-in-visual-studio",
		[]string{"**/.vs/", "**/tasks.vs.json", "**/launch.vs.json"},
	},
	{
		"JetBrains IDEs", "run configurations, watchers, assistant rules",
		"https://www.jetbrains.com/help/idea/run-debug-configuration.html",
		[]string{"**/.idea/", "**/.run/", "**/.fleet/", "**/.aiassistant/"},
	},
	{
		"Zed", "tasks, debuggers, language servers", "https://zed.dev/docs/tasks", []string{"**/.zed/", "**/.rules"},
	},
	{
		"Vim, Neovim", "commands, if the option exrc is set", "https://neovim.io/doc/user/options.html#'exrc'",
		[]string{"**/.nvim.lua", "**/.nvimrc", "**/.exrc", "**/.vimrc", "**/_vimrc"},
	},
	{
		"Emacs", "per-directory variables and code",
		"https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
		[]string{"**/.dir-locals.el", "**/.dir-locals-2.el"},
	},
	{
		"Sublime Text", "build systems", "https://www.sublimetext.com/docs/projects.html",
		[]string{"**/*.sublime-project", "**/*.sublime-build"},
	},
	{
		"Helix", "language servers", "https://docs.helix-editor.com/languages.html", []string{"**/.helix/"},
	},
	{
		"GDB, LLDB", "startup commands",
		"https://sourceware.org/gdb/current/onlinedocs/gdb.html/Init-File-in-the-Current-Directory.html",
		[]string{"**/.gdbinit", "**/.lldbinit"},
	},

	// hooks of git
	{
		"Git hooks", "hooks in core.hooksPath", "https://git-scm.com/docs/githooks",
		[]string{".githooks/", ".git-hooks/", ".hooks/"},
	},
	{
		"Husky", "git hooks after npm install", "https://typicode.github.io/husky/",
		[]string{"**/.husky/", "**/.huskyrc*", "**/husky.config.*"},
	},
	{
		"pre-commit", "git hooks, and fixes by pre-commit.ci", "https://pre-commit.com/",
		[]string{".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "**/prek.toml"},
	},
	{
		"Lefthook", "git hooks", "https://lefthook.dev/configuration/",
		[]string{"{.,}lefthook{-local,}.{yml,yaml,toml,json}", ".config/lefthook*", ".lefthook/", ".lefthook-local/"},
	},
	{
		"Overcommit", "git hooks", "https://github.com/sds/overcommit#configuration", []string{".overcommit.yml"},
	},
	{
		"CaptainHook", "git hooks", "https://captainhook.info/configure.html", []string{"captainhook.json"},
	},
	{
		"simple-git-hooks", "git hooks", "https://github.com/toplenboren/simple-git-hooks",
		[]string{"**/.simple-git-hooks.*", "**/simple-git-hooks.*"},
	},
	{
		"lint-staged", "commands run on commit", "https://github.com/lint-staged/lint-staged#configuration",
		[]string{"**/.lintstagedrc*", "**/lint-staged.config.*"},
	},
	{
		"hk", "git hooks", "https://hk.jdx.dev/configuration.html", []string{"hk.pkl", ".config/hk.pkl"},
	},

	// shells and package managers
	{
		"direnv", "a script that runs on entering a directory", "https://direnv.net/", []string{"**/.envrc"},
	},
	{
		"mise", "variables, hooks and tools activated on entering a directory",
		"https://mise.jdx.dev/configuration.html",
		[]string{
			"**/{.,}mise{.*,}.toml", "**/.mise/", "**/mise/config.toml", "**/.config/mise/", "**/.config/mise.toml",
		},
	},
	{
		"devenv", "a shell that starts on entering a directory", "https://devenv.sh/automatic-shell-activation/",
		[]string{"**/devenv.nix", "**/devenv.yaml"},
	},
	{
		"Devbox", "shell hooks", "https://www.jetify.com/docs/devbox/configuration/", []string{"**/devbox.json"},
	},
	{
		"Flox", "shell hooks", "https://flox.dev/docs/reference/command-reference/manifest.toml/",
		[]string{"**/.flox/"},
	},
	{
		"npm, pnpm", "registries, the shell for scripts, resolution hooks",
		"https://docs.npmjs.com/cli/configuring-npm/npmrc",
		[]string{"**/.npmrc", "**/.pnpmfile.{cjs,mjs}"},
	},
	{
		"Yarn", "the yarn program itself, plugins", "https://yarnpkg.com/configuration/yarnrc",
		[]string{"**/.yarnrc.yml", "**/.yarnrc", "**/.yarn/releases/", "**/.yarn/plugins/"},
	},
	{
		"Bun", "preloaded scripts, registries", "https://bun.sh/docs/runtime/bunfig",
		[]string{"**/bunfig.toml", "**/.bunfig.toml"},
	},
	{
		"Cargo", "runners, linkers, registries", "https://doc.rust-lang.org/cargo/reference/config.html",
		[]string{"**/.cargo/config.toml", "**/.cargo/config"},
	},
	{
		"Maven", "extensions, JVM options, the wrapper", "https://maven.apache.org/configure.html",
		[]string{"**/.mvn/"},
	},
	{
		"Gradle", "the wrapper's program", "https://docs.gradle.org/current/userguide/gradle_wrapper.html",
		[]string{"**/gradle/wrapper/"},
	},
	{
		"NuGet", "package sources", "https://learn.microsoft.com/en-us/nuget/reference/nuget-config-file",
		[]string{"**/nuget.config"},
	},
	{
		"Bazel", "options, the wrapper", "https://bazel.build/run/bazelrc", []string{"**/.bazelrc", "tools/bazel"},
	},
	{
		"Heroku review apps, Expo", "post-deployment scripts",
		"https://devcenter.heroku.com/articles/app-json-schema",
		[]string{"app.json"},
	},
}

// reviews lists files that steer reviews, merges and the repository settings, usually once the files are merged.
var reviews = []Row{
	{
		"Code owners", "required reviewers",
		"https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/" +
			"customizing-your-repository/about-code-owners",
		[]string{"CODEOWNERS", "{.github,.gitlab,.gitea,.forgejo,docs}/CODEOWNERS"},
	},
	{
		"Prow", "approvers", "https://www.kubernetes.dev/docs/guide/owners/",
		[]string{"**/OWNERS", "OWNERS_ALIASES"},
	},
	{
		"policy-bot", "required approvals", "https://github.com/palantir/policy-bot#configuration",
		[]string{".policy.yml"},
	},
	{
		"Repository Settings", "labels, collaborators, protected branches",
		"https://github.com/repository-settings/app",
		[]string{".github/settings.yml"},
	},
	{
		"Dependabot", "updates, registries",
		"https://docs.github.com/en/code-security/reference/supply-chain-security/dependabot-options-reference",
		[]string{".github/dependabot.yml", ".github/dependabot.yaml"},
	},
	{
		"Renovate", "updates and automatic merges", "https://docs.renovatebot.com/configuration-options/",
		[]string{"{.github/,.gitlab/,}renovate.{json,json5,jsonc}", ".renovaterc*"},
	},
	{
		"Mergify", "merges", "https://docs.mergify.com/configuration/file-format/",
		[]string{".mergify.yml", ".mergify/", ".github/mergify.yml"},
	},
	{
		"Kodiak", "merges", "https://kodiakhq.com/docs/config-reference",
		[]string{".kodiak.toml", ".github/.kodiak.toml"},
	},
	{
		"CodeRabbit", "the reviewer's instructions", "https://docs.coderabbit.ai/reference/configuration",
		[]string{".coderabbit.yaml", ".coderabbit.yml"},
	},
	{
		"PR-Agent", "the reviewer's instructions",
		"https://qodo-merge-docs.qodo.ai/usage-guide/configuration_options/",
		[]string{".pr_agent.toml"},
	},
	{
		"Greptile", "the reviewer's instructions", "https://www.greptile.com/docs/code-review/greptile-json-reference",
		[]string{"**/greptile.json", "**/.greptile/"},
	},
}
